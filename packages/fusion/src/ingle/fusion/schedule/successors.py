"""Which outputs of a graph are new values of which inputs: state and what a step makes of it.

Any output of the same shape may lie where an input was. New state that lies where its old value was
is found there by the next run, which has the addresses of this one then: of a plan that is kept as
launches with addresses in them, such as a graph of CUDA's, one serves all runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from operator import itemgetter

from ingle.tensor.contract import Shape

from ..ir.graph import Graph

_MOST = 8
"""Inputs that are followed from one value to the next, the nearest ones."""
_NONE: Mapping[int, int] = {}


class Successors:
    """Finds new values of inputs in a graph.

    Args:
        graph: what a plan is made of.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _steps(self) -> list[tuple[Shape, int, tuple[int, ...]]]:
        """What is computed element by element: its shape, it, and of what."""
        values = self._graph.values
        return [
            (values[node.results[0]].aval.shape, node.results[0], node.args)
            for node in self._graph.nodes
            if node.op.operation.traits.kind == "elementwise" and len(node.results) == 1
        ]

    def of(self, inputs: Sequence[int], outputs: Collection[int]) -> dict[int, int]:
        """For inputs the output that is computed from each element by element, which is no other
        one's: those of the fewest operations first.

        Args:
            inputs, outputs: values of the graph, all of one shape and dtype.
        """
        if not inputs or not outputs:
            return {}
        shape = self._graph.values[inputs[0]].aval.shape
        near = {value: {value: 0} for value in inputs}
        for own, result, args in self._steps:
            found: dict[int, int] = {}
            for arg in args if own == shape else ():
                for value, steps in near.get(arg, _NONE).items():
                    found[value] = min(found.get(value, steps + 1), steps + 1)
            if found:
                if len(found) > _MOST:
                    found = dict(nsmallest(_MOST, found.items(), key=itemgetter(1)))
                near[result] = found
        return _nearest(near, outputs)


def _nearest(near: Mapping[int, Mapping[int, int]], outputs: Collection[int]) -> dict[int, int]:
    ways = [
        (steps, number, value, output)
        for number, output in enumerate(outputs)
        for value, steps in near.get(output, _NONE).items()
        if steps
    ]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, value, output in sorted(ways):
        if value not in pairs and output not in taken:
            pairs[value] = output
            taken.add(output)
    return pairs
