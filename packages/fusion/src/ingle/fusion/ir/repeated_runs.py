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

NEAR = 48
"""Up to how many nodes back it counts which of them an operand comes from."""
GRAM = 12
"""Nodes in a row that have to be alike before anything is taken for a repetition."""
FEWEST = 4
"""Repetitions that make a run."""
SHORTEST = FEWEST * GRAM
"""Graphs of fewer nodes have no runs."""
CANDIDATES, MOST_RUNS, FURTHEST = 48, 8, 8
"""How many periods are tried, how many runs are looked for, and how many occurrences ahead."""

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


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


def runs_of(graph: Graph) -> list[Run]:
    """The runs of a graph's nodes, none of which overlap; the longest first."""
    kinds = _kinds(graph)
    if len(kinds) < SHORTEST:
        return []
    grams = _grams(kinds)
    periods = _periods(grams)
    free = np.ones(len(grams), bool)
    found: list[Run] = []
    while len(found) < MOST_RUNS:
        best = max(_stretches(grams, free, periods), default=None)
        if best is None:
            break
        length, less, first = best
        run = Run(first, -less, length // -less)
        found.append(run)
        free[max(first - GRAM + 1, 0) : first + length] = False
    return found


def _kinds(graph: Graph) -> Array:
    """A number for each node; equal ones do the same, on operands of which those that are near
    lie equally far back."""
    maker: dict[int, tuple[int, int]] = {}
    known: dict[Any, int] = {}
    found: list[int] = []
    values = graph.values
    for position, node in enumerate(graph.nodes):
        parts: list[Any] = [node.op]
        for argument in node.args:
            made = maker.get(argument)
            if made is not None and position - made[0] <= NEAR:
                parts.append((position - made[0], made[1]))
            else:
                value = values[argument]
                parts.append(argument if value.kind == "constant" else value.aval)
        for place, result in enumerate(node.results):
            maker[result] = position, place
            parts.append(values[result].aval)
        found.append(known.setdefault(tuple(parts), len(known)))
    return np.array(found, np.uint64)


def _grams(kinds: Array) -> Array:
    """A number for the nodes from each position on; equal ones are alike."""
    count = len(kinds) - GRAM + 1
    found = np.zeros(count, np.uint64)
    for ahead in range(GRAM):
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
    return [int(p) for p in most if counts[p] >= FEWEST]


def _stretches(grams: Array, free: Array, periods: list[int]) -> Iterator[tuple[int, int, int]]:
    """For each period the longest stretch: its nodes, the period below zero, its first node."""
    for period in periods:
        alike = (grams[:-period] == grams[period:]) & free[:-period] & free[period:]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False])).astype(np.int8)))
        if not len(edges):
            continue
        lengths = edges[1::2] - edges[::2]
        longest = int(np.argmax(lengths))
        nodes = int(lengths[longest]) + GRAM - 1 + period
        if nodes >= FEWEST * period:
            yield nodes, -period, int(edges[2 * longest])
