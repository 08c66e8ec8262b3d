"""Checks of given indices, computed for themselves: a device finds out early whether it may go on.

A plan writes over its inputs behind its last check alone, for which whoever started it waits. What
a check computes of an index, such as its place counted from the front, what is selected there needs
as well, so they would be one kernel: that of the loss, behind all others of the forward pass. A
check that follows from inputs by a few operations on elements has its own ones here, and depends on
nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import bool_

from ..ir.graph import Graph

_MOST = 24
"""Operations of a check that is computed for itself."""
_KINDS = frozenset({"elementwise", "movement", "creation"})
_FOLDS = "reduction"
_FLAG = Aval((), bool_)


def with_checks_apart(graph: Graph) -> Graph:
    """The graph with operations of their own for such checks, in front of all others.

    Args:
        graph: in which a node's results are nothing that is there already.
    """
    makers = {result: n for n, node in enumerate(graph.nodes) for result in node.results}
    users = graph.users()
    chosen = [
        positions
        for flag in dict.fromkeys(graph.outputs)
        if (positions := _of_check(graph, makers, flag)) and _shares(graph, users, positions)
    ]
    if not chosen:
        return graph
    new, place = graph.emptied()
    own: dict[int, int] = {}
    for positions in chosen:
        here = dict(place)
        _copy(graph, new, positions, here)
        (flag,) = graph.nodes[positions[-1]].results
        own[flag] = here[flag]
    wanted = {output for output in graph.outputs if output not in own}
    kept: list[int] = []
    for position in reversed(range(len(graph.nodes))):
        node = graph.nodes[position]
        if wanted.intersection(node.results):
            kept.append(position)
            wanted.update(node.args)
    _copy(graph, new, kept[::-1], place)
    new.outputs = tuple([own[o] if o in own else place[o] for o in graph.outputs])
    return new


def _of_check(graph: Graph, makers: dict[int, int], flag: int) -> list[int] | None:
    """The positions of the operations that make a flag of inputs; None if these are other ones, or
    many."""
    last = makers.get(flag)
    if last is None or graph.values[flag].aval != _FLAG:
        return None
    if graph.nodes[last].op.operation.traits.kind != _FOLDS:
        return None
    found, waiting = {last}, [*graph.nodes[last].args]
    while waiting:
        position = makers.get(waiting.pop())
        if position is None or position in found:
            continue
        node = graph.nodes[position]
        if node.op.operation.traits.kind not in _KINDS or len(node.results) > 1:
            return None
        found.add(position)
        if len(found) > _MOST:
            return None
        waiting += node.args
    return sorted(found)


def _shares(graph: Graph, users: dict[int, list[int]], positions: Sequence[int]) -> bool:
    """Whether something else takes what these operations compute."""
    inside = {*positions}
    return any(
        not inside.issuperset(users.get(result, ()))
        for position in positions
        for result in graph.nodes[position].results
    )


def _copy(graph: Graph, new: Graph, positions: Sequence[int], place: dict[int, int]) -> None:
    """Appends operations to another graph, and notes where their results are."""
    for position in positions:
        node = graph.nodes[position]
        avals = [graph.values[r].aval for r in node.results]
        results = new.append(node.op, [place[a] for a in node.args], avals)
        place.update(zip(node.results, results, strict=True))
