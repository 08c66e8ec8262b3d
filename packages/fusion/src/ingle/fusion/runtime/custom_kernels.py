"""Kernels that people write themselves for their own operations, or for Ingle's.

- `register_lowering` says what an elementwise operation computes at one place. It then fuses like
  any other, on every backend with generated kernels.
- `register_kernel` gives an operation a kernel of its own on backends of one language: source code,
  or a `Nest`, which every such backend can render. It runs as it is, between fused kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakSet

from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, Operation

from ..ir.views import strides_of
from ..kernel import lowering
from ..kernel.expression import Expression
from ..kernel.nest import Nest, units

Rule: TypeAlias = Callable[..., Expression]


class CustomKernel(NamedTuple):
    """A kernel for operands of certain shapes and dtypes.

    It has the signature of every kernel (see `ingle.fusion.kernel.nest`). Its pointers are those of
    the operation's tensors, in C order, and then of its results; its `args` are those given here
    and then the numbers among the operands, as bits.

    Attributes:
        source: a nest, or source code with a function `name`.
        args: sizes, strides or whatever else it wants to know; 64-bit integers.
        units: how many units of work there are; they may run side by side.
        name: of the function in source code.
    """

    source: Nest | str
    args: tuple[int, ...]
    units: int
    name: str = "kernel"


Writer: TypeAlias = Callable[[Op, Sequence[Aval]], CustomKernel | None]


class Forgetful(Protocol):
    """What remembers how operations run."""

    def forget(self) -> None:
        """Finds out anew from now on."""


_writers: dict[tuple[str, str], Writer] = {}
_registered = [0]
_operations: dict[str, Operation] = {}
_forgetful: WeakSet[Forgetful] = WeakSet()


def registrations() -> int:
    """How often somebody has registered something: plans from before may do without it."""
    return _registered[0]


def forget_at_registrations(cache: Forgetful) -> None:
    """Has a cache forget whenever somebody registers something, for as long as it lives: where one
    operation runs by itself, `registrations` would take too long to compare each time."""
    _forgetful.add(cache)


def registered() -> Collection[Operation]:
    """The operations that somebody has registered something for."""
    return tuple(_operations.values())


def register_kernel(operation: Operation, language: str, writer: Writer) -> None:
    """Gives an operation a kernel on backends that compile a language.

    Args:
        operation: one's own, or one of Ingle's.
        language: of the source, as `KernelBackend.language` names it; `"nest"` for any.
        writer: from an op and what is known of its operands to the kernel, or None where there is
            none for these shapes and dtypes.
    """
    _writers[operation.name, language] = writer
    _note(operation)


def custom_kernel_of(op: Op, avals: Sequence[Aval], language: str) -> CustomKernel | None:
    """The kernel that somebody registered, in this language or as a nest."""
    for known in (language, "nest"):
        writer = _writers.get((op.operation.name, known))
        found = None if writer is None else writer(op, avals)
        if found is not None:
            return found
    return None


def has_custom_kernel(op: Op, avals: Sequence[Aval], language: str) -> bool:
    """Whether somebody registered a kernel; quick where nobody did."""
    if (op.operation.name, language) in _writers or (op.operation.name, "nest") in _writers:
        return custom_kernel_of(op, avals, language) is not None
    return False


def register_lowering(operation: Operation, rule: Rule) -> None:
    """Says what an elementwise operation computes at one place, so that it fuses.

    Args:
        operation: of kind `"elementwise"`, with one output.
        rule: from expressions of the operands, which are of one dtype, to one of the result. Half
            types arrive as float32, and the result is rounded.
    """

    def widened(op: Op, values: Sequence[Expression], out: str) -> Expression:
        return rule(*[v.widen() for v in values], **op.attributes)

    lowering.RULES[operation.name] = widened
    _note(operation)


def _note(operation: Operation) -> None:
    _operations[operation.name] = operation
    _registered[0] += 1
    for cache in tuple(_forgetful):
        cache.forget()


def nest_kernel(nest: Nest, shape: Sequence[int], *operands: Sequence[int]) -> CustomKernel:
    """A nest over axes that its operands share.

    Args:
        nest: without scalars of its own.
        shape: the sizes of the outer axes and of the inner axis.
        operands: the shape of each operand; an axis of size 1 repeats.
    """
    args: list[Any] = [*shape]
    for own in operands:
        args += [0 if n == 1 else s for n, s in zip(own, strides_of(own), strict=True)]
    return CustomKernel(nest, tuple(args), units(nest, shape))
