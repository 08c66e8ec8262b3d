"""Operations that an offer computes within executables, beside kernels.

A step that the backend runs itself allocates its results, and ends an executable: a step of
training becomes a dozen pieces, with Python in between. An offer that can say beforehand what it
will do with operands at known offsets, and does it at given addresses, is a call like a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.operation import Op

from ..ir.views import strides_of
from ..lowering.operands import Argument

if TYPE_CHECKING:
    from .schedule import KernelSequence


class WholeCall(NamedTuple):
    """An operation that the device computes whole.

    Attributes:
        op: the operation.
        nodes: its position.
        arguments: tensors that it reads, with the strides of their axes, and its results.
        avals: of the operands, numbers among them.
        numbers: the operands that are numbers, None for each tensor; of one that each run is
            given, its position among `scalars`.
        results: shapes and dtypes of the results.
        sizes: nothing; there are no loops.
        scalars: the numbers that each run is given.
    """

    op: Op
    nodes: tuple[int, ...]
    arguments: tuple[Argument, ...]
    avals: tuple[Aval, ...]
    numbers: tuple[Scalar | int | None, ...]
    results: tuple[Aval, ...]
    sizes: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()

    @property
    def operands(self) -> tuple[Argument, ...]:
        """The tensors that it reads."""
        return tuple([a for a in self.arguments if not a.output])

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Its results, each of which may lie in a part of another value."""
        return tuple([a for a in self.arguments if a.output])

    @property
    def strides(self) -> tuple[tuple[int, ...], ...]:
        """Of the tensors that it reads."""
        return tuple([a.strides for a in self.operands])

    @property
    def named_numbers(self) -> dict[str, Scalar | int | None]:
        """The numbers, by the operation's names of its operands."""
        return dict(zip(self.op.operation.tensors, self.numbers, strict=True))

    @property
    def named_strides(self) -> dict[str, tuple[int, ...]]:
        """The strides of the tensors that it reads, by their names."""
        tensors = [name for name, number in self.named_numbers.items() if number is None]
        return dict(zip(tensors, self.strides, strict=True))


def whole_calls(sequence: KernelSequence) -> dict[int, WholeCall]:
    """The device's own operations as calls, by their position.

    Args:
        sequence: whose sizes are numbers.
    """
    return {position: _whole_call(sequence, position) for position in sequence.host_steps()}


def _whole_call(sequence: KernelSequence, position: int) -> WholeCall:
    """A node as such a call."""
    graph, views = sequence.graph, sequence.views
    node = graph.nodes[position]
    arguments: list[Argument] = []
    numbers: list[Scalar | int | None] = []
    scalars: list[int] = []
    for value in node.args:
        view = views.of(value)
        root = graph.values[view.root]
        if root.kind == "constant" and value == view.root:
            numbers.append(Scalar(root.data, root.aval.dtype))
        elif root.kind == "scalar":
            numbers.append(len(scalars))
            scalars.append(view.root)
        else:
            numbers.append(None)
            strides = strides_of(view.shape) if view.contiguous else tuple(view.strides)
            arguments.append(Argument(view.root, strides, view.offset))
    avals = [graph.values[r].aval for r in node.results]
    arguments += [
        Argument(r, strides_of(aval.shape), 0, True)
        for r, aval in zip(node.results, avals, strict=True)
    ]
    given = tuple([graph.values[a].aval for a in node.args])
    return WholeCall(
        node.op, (position,), tuple(arguments), given, tuple(numbers), tuple(avals),
        scalars=tuple(scalars),
    )  # fmt: skip
