"""Which outputs of a graph are new values of which inputs: state and what a step makes of it.

Any output of the same shape may lie where an input was. New state that lies where its old value was
is found there by the next run, which has the addresses of this one then: of a plan that is kept as
launches with addresses in them, such as a graph of CUDA's, one serves all runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nsmallest
from operator import itemgetter

from ..ir.graph import Graph

_MOST = 8
"""Inputs that are followed from one value to the next, the nearest ones."""


def successors(
    graph: Graph, inputs: Sequence[int], outputs: Collection[int]
) -> list[tuple[int, int]]:
    """Pairs of an input and an output that is computed from it element by element, each at most
    once: those of the fewest operations first.

    Args:
        graph: what a plan is made of.
        inputs, outputs: values of it, all of one shape and dtype.
    """
    if not inputs or not outputs:
        return []
    near = {value: {value: 0} for value in inputs}
    shape = graph.values[inputs[0]].aval.shape
    for node in graph.nodes:
        if node.op.operation.traits.kind != "elementwise" or len(node.results) != 1:
            continue
        if graph.values[node.results[0]].aval.shape != shape:
            continue
        found: dict[int, int] = {}
        for arg in node.args:
            for value, steps in near.get(arg, {}).items():
                found[value] = min(found.get(value, steps + 1), steps + 1)
        if found:
            if len(found) > _MOST:
                found = dict(nsmallest(_MOST, found.items(), key=itemgetter(1)))
            near[node.results[0]] = found
    ways = [
        (steps, number, value, output)
        for number, output in enumerate(outputs)
        for value, steps in near.get(output, {}).items()
        if steps
    ]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, value, output in sorted(ways):
        if value not in pairs and output not in taken:
            pairs[value] = output
            taken.add(output)
    return [*pairs.items()]
