"""Operations whose sizes are new at each call: kernels without a plan for each size.

A program that meets a new length at each step would plan each operation anew for each length. But
from the third length on the plans of an operation are one for all lengths, in which sizes are
symbols. So there is no other plan: what it comes to for the sizes at hand is computed and run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ingle.fusion.device import (
    EXAMPLES,
    Fusion,
    Graph,
    GraphPlans,
    Layout,
    SizedCall,
    SizedCalls,
    any_size_plan,
    as_in_memory,
    is_exact,
    laid_out,
    layout_of,
    registrations,
    without_sizes,
)
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

OF_A_LAYER = 2
"""Sizes from which on those of the data are known to vary, where those of the layer are known."""


def form_of(op: Op, inputs: Sequence[Handle | Scalar]) -> Any:
    """The operation and its operands without their sizes, but for those of a layer."""
    ranks = [(len(x.shape), x.dtype, type(x) is Scalar) for x in inputs]
    place = op.operation.traits.layer
    layer = None if place is None else [*inputs, *infer(op, inputs)][place].shape
    return (without_sizes(op)[0], layer, *ranks, is_exact(), registrations())


def alone(op: Op, avals: Sequence[Aval], numbers: Sequence[bool]) -> Graph:
    """The graph of an operation by itself, on operands of which some are numbers."""
    graph = Graph()
    args = [
        graph.scalar(aval.dtype) if number else graph.input(aval)
        for aval, number in zip(avals, numbers, strict=True)
    ]
    graph.outputs = graph.node(op, args)
    return graph


class OperationCalls:
    """How an operation on operands of some ranks and dtypes runs, whatever their sizes.

    Args:
        device: the backend.
        fusion: the decorator over it.
    """

    def __init__(self, device: Any, fusion: Fusion) -> None:
        self._device = device
        self._fusion = fusion
        self._products: tuple[int, ...] = ()
        self._layouts: dict[Layout, SizedCalls] = {}

    def note(
        self, executable: GraphPlans, graph: Graph, handles: Sequence[Handle],
        numbers: Sequence[Any],
    ) -> None:  # fmt: skip
        """Takes notice of a run by a plan, for sizes that it does not serve.

        Args:
            executable: which ran.
            graph: its graph: the operation alone.
            handles, numbers: what it ran on.
        """
        self._products = executable.products or ()
        layout = layout_of(self._device, handles, self._products)
        calls = self._layouts.get(layout)
        if calls is None:
            least = EXAMPLES if graph.nodes[-1].op.operation.traits.layer is None else OF_A_LAYER
            calls = self._layouts[layout] = SizedCalls(least)
        self._note(calls, graph, numbers, layout)

    def _note(
        self, calls: SizedCalls, graph: Graph, numbers: Sequence[Any], layout: Layout
    ) -> None:
        make = partial(any_size_plan, self._device, self._fusion)
        calls.note(laid_out(graph, layout) if layout else graph, numbers, make)

    def operation(self) -> SizedOperation | None:
        """The operation on operands of certain sizes; None if it is not known that these vary."""
        varies = any(calls.varies for calls in self._layouts.values())
        return SizedOperation(self, self._device) if varies else None

    def layout(self, inputs: Sequence[Handle | Scalar]) -> Layout:
        """Which of some inputs do not lie in C order, where that decides bits."""
        if not self._products:
            return ()
        given: list[Any] = [x for x in inputs if type(x) is not Scalar]
        return layout_of(self._device, given, self._products)

    def call(
        self, op: Op, inputs: Sequence[Handle | Scalar], layout: Layout
    ) -> SizedCall | None:  # fmt: skip
        """How it runs on operands like these; None if there has to be a plan.

        Sizes that no plan for all of them serves become an example of the next one at once: a plan
        of their own beforehand would serve this run only.
        """
        calls = self._layouts.get(layout)
        if calls is None or not calls.varies:
            return None
        axes, position = dict(layout), 0
        numbers: list[int] = []
        for x in inputs:
            if type(x) is not Scalar:
                order = axes.get(position)
                if order is not None:
                    numbers += [x.shape[axis] for axis in order]
                position += 1
            numbers += x.shape
        for aval in infer(op, inputs):
            numbers += aval.shape
        numbers += without_sizes(op)[1]
        found = calls.call(numbers, op.operation.name)
        if found is None:
            given = [x.value for x in inputs if type(x) is Scalar]
            avals = [Aval(x.shape, x.dtype) for x in inputs]
            graph = alone(op, avals, [type(x) is Scalar for x in inputs])
            self._note(calls, graph, given, layout)
            found = calls.call(numbers, op.operation.name)
        return found


class SizedOperation:
    """An operation on operands of certain sizes, wherever its operands lie."""

    def __init__(self, calls: OperationCalls, device: Any) -> None:
        self._calls = calls
        self._device = device
        self._found: dict[Layout, SizedCall | None] = {}

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> list[Handle] | None:
        """Runs it; None if it takes a plan."""
        layout = self._calls.layout(inputs)
        if layout in self._found:
            call = self._found[layout]
        else:
            call = self._found[layout] = self._calls.call(op, inputs, layout)
        if call is None:
            return None
        given: list[Any] = [x for x in inputs if type(x) is not Scalar]
        if layout:
            given = as_in_memory(self._device, given, layout)
        return call(given, [x.value for x in inputs if type(x) is Scalar])
