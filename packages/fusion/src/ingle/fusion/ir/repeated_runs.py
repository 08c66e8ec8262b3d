"""Stretches of a graph in which the same operations come again and again.

A network of equal layers is recorded layer by layer, its gradient likewise in the other
direction, and so are the updates of its parameters. Each of these is a run: a number of nodes that
comes several times in a row, on other values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .graph import Graph

FEWEST = 4
"""Repetitions that make a run."""
CANDIDATES, SHORT, MOST_RUNS, FURTHEST = 48, 4, 8, 8
"""How many periods are tried, and all up to which; how many runs are looked for, and how many
occurrences ahead."""

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class Likeness(NamedTuple):
    """When nodes are alike.

    Attributes:
        near: up to how many nodes back it counts which of them an operand comes from.
        gram: how many in a row have to be alike before anything is taken for a repetition.
        anywhere: whether pieces are alike that begin at different places.
    """

    near: int
    gram: int
    anywhere: bool

    @property
    def shortest(self) -> int:
        """Graphs of fewer nodes have no runs."""
        return FEWEST * self.gram


OF_LAYERS = Likeness(48, 12, anywhere=False)
OF_TURNS = Likeness(8, 4, anywhere=True)
"""Of the turns of a loop, each of which takes another piece: what one loop has made is taken by the
next one, of which a turn may be an operation or two, so that none is equally far back."""


class Run(NamedTuple):
    """Blocks of nodes that follow each other and are alike.

    Attributes:
        first: the position of the first node.
        period: nodes in a block.
        blocks: how many there are.
    """

    first: int
    period: int
    blocks: int


def runs_of(graph: Graph, likeness: Likeness = OF_LAYERS) -> list[Run]:
    """The runs of a graph's nodes, none of which overlap; the longest first."""
    kinds, gram = _kinds(graph, likeness), likeness.gram
    if len(kinds) < likeness.shortest:
        return []
    grams = _grams(kinds, gram)
    periods = _periods(grams)
    free = np.ones(len(grams), bool)
    found: list[Run] = []
    while len(found) < MOST_RUNS:
        best = max(_stretches(grams, gram, free, periods), default=None)
        if best is None:
            break
        length, less, first = best
        run = Run(first, -less, length // -less)
        found.append(run)
        free[max(first - gram + 1, 0) : first + length] = False
    return found


def _kinds(graph: Graph, likeness: Likeness) -> Array:
    """A number for each node; equal ones do the same, on operands of which those that are near
    lie equally far back."""
    maker: dict[int, tuple[int, int]] = {}
    known: dict[Any, int] = {}
    found: list[int] = []
    values, (near, _, anywhere) = graph.values, likeness
    for position, node in enumerate(graph.nodes):
        parts: list[Any] = [node.op]
        first = node.op.operation.traits.starts if anywhere else None
        for number, argument in enumerate(node.args):
            made = maker.get(argument)
            if made is not None and position - made[0] <= near:
                parts.append((position - made[0], made[1]))
            else:
                value = values[argument]
                is_number = value.kind == "constant" and (first is None or number < first)
                parts.append(argument if is_number else value.aval)
        for place, result in enumerate(node.results):
            maker[result] = position, place
            parts.append(values[result].aval)
        found.append(known.setdefault(tuple(parts), len(known)))
    return np.array(found, np.uint64)


def _grams(kinds: Array, gram: int) -> Array:
    """A number for the nodes from each position on; equal ones are alike."""
    count = len(kinds) - gram + 1
    found = np.zeros(count, np.uint64)
    for ahead in range(gram):
        found = found * np.uint64(0x9E3779B97F4A7C15) + kinds[ahead : ahead + count] + np.uint64(1)
    return found


def _periods(grams: Array) -> list[int]:
    """Distances at which alike stretches are found most often."""
    order = np.argsort(grams, kind="stable")
    counts = np.zeros(len(grams), np.int64)
    for ahead in range(1, FURTHEST + 1):
        first, other = order[:-ahead], order[ahead:]
        alike = grams[first] == grams[other]
        counts += np.bincount((other - first)[alike], minlength=len(grams))
    most = np.argsort(-counts, kind="stable")[:CANDIDATES]
    return [p for p in {*range(1, SHORT + 1), *most.tolist()} if counts[p : p + 1] >= FEWEST]


def _stretches(
    grams: Array, gram: int, free: Array, periods: list[int]
) -> Iterator[tuple[int, int, int]]:
    """For each period the longest stretch: its nodes, the period below zero, its first node."""
    for period in periods:
        alike = (grams[:-period] == grams[period:]) & free[:-period] & free[period:]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False])).astype(np.int8)))
        if not len(edges):
            continue
        lengths = edges[1::2] - edges[::2]
        longest = int(np.argmax(lengths))
        nodes = int(lengths[longest]) + gram - 1 + period
        if nodes >= FEWEST * period:
            yield nodes, -period, int(edges[2 * longest])
