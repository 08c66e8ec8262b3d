"""The gradient of a scan: another one, in the other direction.

The forward scan also stacks what the derivative of a step needs of that step, unless it is stacked
already or is the same in every step. The backward scan carries the cotangent of the carry and the
sums of those of the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..operation import OPERATIONS, Op
from ..ops import concat, reshape
from ..ops.movement.slicing import slice_axis
from ..programs import Program
from ..tensor import Tensor
from ._programs import carried_needs, remembered
from ._rules import (
    Linear,
    linear_of,
    or_zeros,
    program_of,
    pulled_again,
    spread,
    take_step,
    with_constants,
)


class _Source(NamedTuple):
    """Where the backward scan finds a value of each step.

    Attributes:
        kind: an operand that is the same in each step, an operand that is sliced, an output that
            is stacked, or the carry before each step, where an output stacks that after it.
        place: of the operand or the output.
        carry: which carry it is.
    """

    kind: Literal["constant", "slice", "stacked", "before"]
    place: int
    carry: int = 0


@dataclass(frozen=True, slots=True)
class _LinearBody:
    """A body's derivative as a scan uses it.

    Attributes:
        step: the derivative of the body.
        forward: the body with what the backward scan needs as further results.
        sources: where that finds the values that the derivative needs, in order.
        constants: operands to append.
    """

    step: Linear
    forward: Program
    sources: tuple[_Source, ...]
    constants: tuple[Handle | Scalar, ...]


@remembered
def _linear(
    body: Program, carries: int, sequences: int, needs: tuple[bool, ...], device: Device
) -> _LinearBody:
    step = linear_of("scan", body, carried_needs(body, carries, needs), device)
    numbers = list(step.forward.outputs)
    sources = [_source(step, i, carries, sequences, numbers) for i in step.sources]
    forward = Program.of(step.forward.inputs, step.forward.steps, numbers)
    return _LinearBody(step, forward, tuple(sources), step.constants)


def _source(step: Linear, i: int, carries: int, sequences: int, numbers: list[int]) -> _Source:
    """Where to find a value; it is stacked by one more output if nothing else has it."""
    arity = step.forward.arity
    if carries <= i < carries + sequences:
        return _Source("slice", i)
    if carries + sequences <= i < arity:
        return _Source("constant", i)
    if i < carries and numbers[i] in numbers[carries:]:
        return _Source("before", numbers.index(numbers[i], carries), i)
    number = i if i < carries else numbers[i - arity]
    if number not in numbers[carries:]:
        numbers.append(number)
    return _Source("stacked", numbers.index(number, carries))


@lru_cache(maxsize=1024)
def _backward(
    step: Linear, sources: tuple[_Source, ...], carries: int, sequences: int,
    present: tuple[bool, ...], device: Device,
) -> Program:  # fmt: skip
    """A step of the backward scan.

    It takes and returns the cotangents of the wanted carries and the sums of those of the wanted
    constants; it takes the cotangents of those outputs that have one, then what the derivative
    needs; it returns the cotangents of the wanted slices.
    """
    inputs = step.forward.inputs
    of_carry = [i for i in step.wanted if i < carries]
    of_constants = [i for i in step.wanted if i >= carries + sequences]
    stacked = [i for i in step.active if i >= carries and present[i]]
    results = step.forward.results
    summed = [inputs[i] for i in (*of_carry, *of_constants)]
    needed = [i for i, s in enumerate(sources) if s.kind != "constant"]
    needed += [i for i, s in enumerate(sources) if s.kind == "constant"]
    values = step.backward.inputs[len(step.active) :]

    def run(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        cotangent = {i: next(rest) for i in of_carry}
        sums = [next(rest) for _ in of_constants]
        cotangent |= {i: next(rest) for i in stacked}
        found = {i: next(rest) for i in needed}
        got = step.backward.run(
            *[or_zeros(cotangent.get(i), results[i], device) for i in step.active],
            *[found[i] for i in range(len(sources))],
        )
        by = dict(zip(step.wanted, got, strict=True))
        added = [s + by[i] for s, i in zip(sums, of_constants, strict=True)]
        slices = [by[i] for i in step.wanted if carries <= i < carries + sequences]
        return [*[by[i] for i in of_carry], *added, *slices]

    avals = [*summed, *[results[i] for i in stacked], *[values[i] for i in needed]]
    return program_of(run, avals, device)


def scan_training(
    op: Op, needs: tuple[bool, ...], device: Device
) -> tuple[Op, Sequence[Handle | Scalar]]:
    """The scan that also returns what its gradient needs."""
    have = op.attributes
    linear = _linear(have["body"], have["carries"], have["sequences"], needs, device)
    return op.operation.op(**{**have, "body": linear.forward}), linear.constants


def scan_vjp(
    g: tuple[Tensor | None, ...],
    operands: tuple[Any, ...],
    out: tuple[Tensor, ...],
    needs: tuple[bool, ...],
    body: Program,
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
) -> tuple[Tensor | None, ...]:
    """Cotangents of a scan's operands, by a scan the other way."""
    device = next(x for x in g if x is not None).device
    linear = _linear(body, carries, sequences, needs, device)
    given = with_constants(operands, linear.constants)
    operation = OPERATIONS["scan"]
    shape = {"length": length, "reverse": reverse}
    if any(x is not None for x in g[len(body.outputs) :]):
        op = operation.op(body=linear.forward, carries=carries, sequences=sequences, **shape)
        avals = _stacked(linear.forward.inputs, carries, sequences, length)
        return pulled_again(op, given, avals, g, needs)
    step = linear.step
    present = tuple([x is not None for x in g])
    back = _backward(step, linear.sources, carries, sequences, present, device)
    of_carry = [i for i in step.wanted if i < carries]
    of_constants = [i for i in step.wanted if i >= carries + sequences]
    first = [or_zeros(g[i], body.inputs[i], device) for i in of_carry]
    first += [or_zeros(None, step.forward.inputs[i], device) for i in of_constants]
    rows = [g[i] for i in step.active if i >= carries and present[i]]
    find = _Finder(given, out, length, reverse)
    rows += [find(s) for s in linear.sources if s.kind != "constant"]
    same = [given[s.place] for s in linear.sources if s.kind == "constant"]
    op = operation.op(
        body=back, carries=len(first), sequences=len(rows), length=length, reverse=not reverse
    )
    avals = _stacked(back.inputs, len(first), len(rows), length)
    found = take_step(op, [*first, *rows, *same], avals)
    of_slices = [i for i in step.wanted if carries <= i < carries + sequences]
    places = [*of_carry, *of_constants, *of_slices]
    results = spread(found, places, len(given))
    return tuple(r if n else None for r, n in zip(results, needs, strict=False))


def _stacked(avals: Sequence[Aval], carries: int, sequences: int, length: int) -> list[Aval]:
    return [
        Aval((length, *a.shape), a.dtype) if carries <= i < carries + sequences else a
        for i, a in enumerate(avals)
    ]


class _Finder:
    """Stacks of values of each step, from the operands and outputs of the forward scan."""

    def __init__(
        self, operands: Sequence[Any], out: Sequence[Tensor], length: int, reverse: bool
    ) -> None:
        self.operands = operands
        self.out = out
        self.length = length
        self.reverse = reverse

    def __call__(self, source: _Source) -> Tensor:
        if source.kind == "slice":
            return self.operands[source.place]  # type: ignore[no-any-return]
        after = self.out[source.place]
        if source.kind == "stacked":
            return after
        init = self.operands[source.carry]
        start = reshape(init, (1, *init.shape))
        joined = concat([after, start] if self.reverse else [start, after])
        return slice_axis(joined, 0, 1 if self.reverse else 0, self.length)
