"""Cuts of a log before it is planned: dead entries go, and a long log is cut where it repeats, so
that a loop whose values nobody reads is planned once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval

from ..ir.graph import Graph, LogEntry, Node, constant_entry


class Part(NamedTuple):
    """Some entries of a log as a log of their own.

    Attributes:
        entries: they, with values counted anew.
        outputs: the numbers of those values that are wanted of it.
        inputs, scalars: which of the inputs and scalars of the whole it takes, in order.
    """

    entries: tuple[LogEntry, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]


def live_nodes(graph: Graph) -> list[bool]:
    """For each node whether an output needs what it computes."""
    wanted = set(graph.outputs)
    live = [False] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        if not wanted.isdisjoint(node.results):
            live[position] = True
            wanted.update(node.args)
    return live


def avals_of_live(graph: Graph) -> list[tuple[Aval, ...]]:
    """What the results of the operations are like that outputs need."""
    pairs = zip(graph.nodes, live_nodes(graph), strict=True)
    return graph.avals_of([node for node, lives in pairs if lives])


def trimmed(log: Sequence[LogEntry], graph: Graph) -> Part | None:
    """A log without what its outputs don't need; None if they need all of it.

    Args:
        graph: of the log.
    """
    outputs = graph.outputs
    live = live_nodes(graph)
    used = {a for node, lives in zip(graph.nodes, live, strict=True) if lives for a in node.args}
    used.update(outputs)
    given = [number for number, value in enumerate(graph.values) if value.kind != "result"]
    if all(live) and used.issuperset(given):
        return None
    kept: list[LogEntry] = []
    place: dict[int, int] = {}
    chosen: dict[str, list[int]] = {"input": [], "scalar": [], "constant": []}
    nodes = iter(zip(graph.nodes, live, strict=True))
    number = count = 0
    for entry in log:
        head = entry[0]
        if isinstance(head, str):
            if number in used:
                place[number] = count
                kept.append(entry)
                chosen[head].append(graph.values[number].data)
                count += 1
            number += 1
            continue
        node, lives = next(nodes)
        if lives:
            kept.append((head, *[place[a] for a in node.args]))
            for result in node.results:
                place[result] = count
                count += 1
        number += len(node.results)
    new = tuple([place[o] for o in outputs])
    return Part(tuple(kept), new, tuple(chosen["input"]), tuple(chosen["scalar"]))


def pick(values: Sequence[Any] | Mapping[int, Any], places: Sequence[int]) -> list[Any]:
    """Those at some places."""
    return [values[i] for i in places]


TARGET = 192
"""Operations from which on iterations of a loop are enough for a plan: fewer are put together."""
LEAST = 64
"""The same where iterations differ, as those on a growing sequence do: a plan in which sizes are
symbols serves pieces of one size, and hardly any that are made of several."""
LONGEST = 2048
"""Operations that are planned together at most."""
HELD = 4
"""A log of which somebody holds more than one of so many operations is no loop, but a step of
training: it stays whole up to twice `LONGEST`, since pieces write over none of what they are given,
which the state of a training is."""
_GRAM, _TRIES = 8, 8


class Repetition(NamedTuple):
    """Operations that repeat.

    Attributes:
        period: how many an iteration has.
        begin, end: where they stand; the first iteration and the last are whole.
    """

    period: int
    begin: int
    end: int


class LogPiece(NamedTuple):
    """A part of a graph as a log of its own, between others.

    Attributes:
        entries, outputs: as for `Part`.
        inputs: the graph's numbers of what it takes.
        results: the graph's numbers of its outputs.
        scalars: which of the graph's scalars it takes.
        dying: which of its inputs nothing takes after it.
        begin, end: where its operations stand among the graph's.
    """

    entries: tuple[LogEntry, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    scalars: tuple[int, ...]
    dying: tuple[int, ...]
    begin: int
    end: int


def loop_of(names: Sequence[object]) -> Repetition | None:
    """The longest loop among operations, by what they are; None if nothing comes three times.

    Shapes may differ from iteration to iteration. Of loops within loops it is the one that covers
    most.
    """
    last: dict[Any, int] = {}
    votes: Counter[int] = Counter()
    for i in range(len(names) - _GRAM + 1):
        gram = tuple(names[i : i + _GRAM])
        if gram in last:
            votes[i - last[gram]] += 1
        last[gram] = i
    found: list[Repetition] = []
    candidates = [d for d, _ in votes.most_common(_TRIES)]
    # An outer loop has fewer of its distances than what repeats inside of it.
    candidates += sorted((d for d, n in votes.items() if n >= _GRAM), reverse=True)[:_TRIES]
    for period in dict.fromkeys(candidates):
        begin = run = longest = 0
        for i in range(period, len(names)):
            run = run + 1 if names[i] == names[i - period] else 0
            if run > longest:
                longest, begin = run, i - run + 1 - period
        if longest >= 2 * period:
            found.append(Repetition(period, begin, begin + longest + period))
    if not found:
        return None
    most = max(loop.end - loop.begin for loop in found)
    return min([f for f in found if 10 * (f.end - f.begin) >= 9 * most], key=lambda f: f.period)


def crossing(graph: Graph) -> list[int]:
    """For each place between nodes the bytes of what is computed before it and used after it."""
    made = {r: p for p, node in enumerate(graph.nodes) for r in node.results}
    until = {a: p for p, node in enumerate(graph.nodes) for a in node.args if a in made}
    change = [0] * (len(graph.nodes) + 2)
    for value, last in until.items():
        shape, dtype = graph.values[value].aval
        nbytes = math.prod(shape) * dtype.itemsize
        change[made[value] + 1] += nbytes
        change[last + 1] -= nbytes
    return list(accumulate(change))


def cheapest_cut(loop: Repetition, bytes_at: Sequence[int]) -> int:
    """Where in the loop an iteration is best taken to begin: where least is carried over."""
    middle = range(loop.begin + loop.period, loop.begin + 2 * loop.period)
    return min(middle, key=lambda place: (bytes_at[place], place))


def places_to_cut(graph: Graph) -> list[int]:
    """Before which nodes to cut a graph, so that what repeats is planned once."""
    count = len(graph.nodes)
    is_held = HELD * len(graph.outputs) > count
    if count < 2 * TARGET or (is_held and count <= 2 * LONGEST):
        return []
    loop = loop_of([node.op.operation for node in graph.nodes])
    if loop is None and count <= 2 * LONGEST:
        return []
    bytes_at = crossing(graph)
    places: list[int] = []
    if loop is not None and (2 * (loop.end - loop.begin) > count or count > 2 * LONGEST):
        first_cut = cheapest_cut(loop, bytes_at) - loop.period
        least = LEAST if _varies(graph, loop) else TARGET
        step = loop.period * -(-least // loop.period)
        places = list(range(first_cut, loop.end + 1, step))
    cuts: list[int] = []
    for place in (*[p for p in places if 0 < p < count], count):
        while place - (cuts[-1] if cuts else 0) > LONGEST:
            first = (cuts[-1] if cuts else 0) + LONGEST // 2
            cuts.append(min(range(first, first + LONGEST // 2), key=lambda p: bytes_at[p]))
        cuts.append(place)
    return cuts[:-1]


def _varies(graph: Graph, loop: Repetition) -> bool:
    """Whether an iteration in the middle has other shapes, or other attributes, than the next."""
    middle = (loop.begin + loop.end) // 2
    first = min(middle, loop.end - 2 * loop.period)
    nodes = graph.nodes[first : first + 2 * loop.period]
    pairs = zip(nodes[: loop.period], nodes[loop.period :], strict=True)
    return any(_content(graph, one) != _content(graph, other) for one, other in pairs)


def _content(graph: Graph, node: Node) -> tuple[Any, ...]:
    return node.op, *[graph.values[v].aval for v in (*node.args, *node.results)]


class Cut(NamedTuple):
    """A log in pieces.

    Attributes:
        inputs: the numbers of its inputs.
        pieces: what runs, one after the other.
    """

    inputs: Sequence[int]
    pieces: Sequence[LogPiece]


def in_pieces(graph: Graph) -> Cut | None:
    """A long log in pieces, of which equal ones have equal logs; None if it stays whole."""
    cuts = places_to_cut(graph)
    if not cuts:
        return None
    last = {a: p for p, node in enumerate(graph.nodes) for a in node.args}
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    between = pairwise((0, *cuts, len(graph.nodes)))
    return Cut(graph.inputs, [_piece(graph, a, b, last) for a, b in between])


def avals_of_piece(graph: Graph, piece: LogPiece) -> list[tuple[Aval, ...]]:
    """What the results of a piece's operations are like."""
    return graph.avals_of(graph.nodes[piece.begin : piece.end])


def _piece(graph: Graph, begin: int, end: int, last: Mapping[int, int]) -> LogPiece:
    log: list[LogEntry] = []
    place: dict[int, int] = {}
    inputs: list[int] = []
    scalars: list[int] = []
    results: list[int] = []
    for node in graph.nodes[begin:end]:
        for arg in node.args:
            if arg in place:
                continue
            kind, aval, data = graph.values[arg]
            place[arg] = len(place)
            if kind == "scalar":
                scalars.append(data)
                log.append(("scalar", aval.dtype))
            elif kind == "constant":
                log.append(constant_entry(data, aval.dtype))
            else:
                inputs.append(arg)
                log.append(("input", *aval))
        log.append((node.op, *[place[a] for a in node.args]))
        for result in node.results:
            place[result] = len(place)
            if last.get(result, -1) >= end:
                results.append(result)
    dying = [v for v in inputs if last[v] < end]
    return LogPiece(
        tuple(log), tuple([place[r] for r in results]), tuple(inputs), tuple(results),
        tuple(scalars), tuple(dying), begin, end,
    )  # fmt: skip
