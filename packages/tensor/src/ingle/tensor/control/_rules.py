"""What the rules of operations that carry programs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ..contract import Aval, Handle, Scalar
from ..device import Device, default_device
from ..dispatch import execute_body, run, wrap
from ..errors import DTypeError, ShapeError
from ..operation import Op
from ..ops import zeros
from ..plugins import require_transform
from ..programs import Program, tracing
from ..tensor import Tensor
from ._leaves import NUMBERS


class Linear(Protocol):
    """A program's derivative, as `ingle.autodiff` makes it.

    Attributes:
        forward: the program with more outputs, which the backward program needs. Its inputs have
            `constants` appended.
        backward: from cotangents of the `active` outputs, and what it needs, to those of the
            `wanted` inputs.
        wanted, active: places among the inputs and outputs of the program.
        sources: for each value that `backward` needs its place among the inputs of `forward`,
            followed by the outputs of `forward`.
    """

    @property
    def forward(self) -> Program: ...
    @property
    def backward(self) -> Program: ...
    @property
    def wanted(self) -> tuple[int, ...]: ...
    @property
    def active(self) -> tuple[int, ...]: ...
    @property
    def sources(self) -> tuple[int, ...]: ...
    @property
    def constants(self) -> tuple[Handle | Scalar, ...]: ...
    def __hash__(self) -> int: ...


def linear_of(name: str, program: Program, needs: Sequence[bool], device: Device) -> Linear:
    """The derivative of a program by those of its inputs that need it."""
    made = require_transform("linear_program", name)(program, tuple(needs), device)
    return cast("Linear", made)


def batched(
    name: str, program: Program, flags: Sequence[bool], size: int, device: Device
) -> tuple[Program, tuple[Handle | Scalar, ...]]:
    """The program for a batch of those inputs that are flagged, and inputs to append.

    The batch is the first axis; the outputs that depend on one of them have it too.
    """
    made = require_transform("batched_program", name)(program, tuple(flags), size, device)
    return cast("tuple[Program, tuple[Handle | Scalar, ...]]", made)


def check_operands(name: str, avals: Sequence[Aval], program: Program) -> None:
    """Raises unless a program takes just these operands."""
    if len(avals) != program.arity:
        raise ShapeError(f"{name}: the program takes {program.arity} operands, got {len(avals)}")
    for place, (got, expected) in enumerate(zip(avals, program.inputs, strict=True)):
        if got != expected:
            error = DTypeError if got.shape == expected.shape else ShapeError
            raise error(f"{name}: operand {place} must be {expected}, got {got}")


def take_step(op: Op, values: Sequence[Any], avals: Sequence[Aval]) -> tuple[Tensor, ...]:
    """Runs an operation on tensors, and on numbers of the dtypes that are expected."""
    inputs = [
        Scalar(x, a.dtype) if isinstance(x, NUMBERS) else x._handle
        for x, a in zip(values, avals, strict=True)
    ]
    if any(isinstance(x, Handle) for x in inputs):
        return run(op, inputs)
    return tuple(map(wrap, execute_body(op, inputs, default_device())))


def with_constants(operands: Sequence[Any], constants: Sequence[Handle | Scalar]) -> list[Any]:
    """Operands and the inputs to append to them."""
    return [*operands, *[x.value if isinstance(x, Scalar) else wrap(x) for x in constants]]


def or_zeros(g: Tensor | None, aval: Aval, device: Device) -> Tensor:
    """A cotangent, zeros where there is none."""
    return zeros(aval.shape, dtype=aval.dtype, device=device) if g is None else g


def spread(found: Sequence[Tensor], places: Sequence[int], count: int) -> tuple[Tensor | None, ...]:
    """Values at some of `count` places, None at the others."""
    results: list[Tensor | None] = [None] * count
    for place, value in zip(places, found, strict=True):
        results[place] = value
    return tuple(results)


def pulled_again(
    op: Op,
    values: Sequence[Any],
    avals: Sequence[Aval],
    g: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Cotangents of the inputs of an operation with more outputs than its rule knows.

    That is asked for where a gradient that was itself recorded is differentiated: the operation
    runs once more, one level up.
    """
    wanted = [i for i, need in enumerate(needs) if need]

    def of_wanted(*some: Tensor) -> tuple[Tensor, ...]:
        given = list(values)
        for place, x in zip(wanted, some, strict=True):
            given[place] = x
        return take_step(op, given, avals)

    _, pull = require_transform("vjp", op.operation.name)(of_wanted, *[values[i] for i in wanted])
    return spread(pull(tuple(g)), wanted, len(needs))


def program_of(function: Callable[..., Any], avals: Sequence[Aval], device: Device) -> Program:
    """A function of tensors as a program, with whatever it creates."""
    with tracing(device, making=True) as tracer:
        results = function(*[tracer.input(a) for a in avals])
        program, closed = tracer.program(results)
    assert not closed, "what rules are made of must come from their arguments"
    return program
