"""The gradient of a scan: another one, in the other direction.

The forward scan also stacks what the derivative of a step needs of that step, unless it is stacked
already or is the same in every step. The backward scan carries the cotangent of the carry and the
sums of those of the constants, but for those sums that are better taken behind it.
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
from ._scan_sums import Sum, sums_behind, taken


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


class _BackwardStep(NamedTuple):
    """A step of the backward scan.

    It takes and returns the cotangents of the wanted carries and the sums of those of some wanted
    constants; it takes the cotangents of those outputs that have one, then what the derivative
    needs; it returns the cotangents of the wanted slices, and what else is stacked.

    Attributes:
        program: the step.
        added: which constants' sums it carries.
        behind: for the other wanted constants their sums, of numbers of `step.backward`.
        needed: places among the sources of what it takes; what is the same in each step comes last.
        stacked: numbers of `step.backward` that it stacks for the sums.
    """

    program: Program
    added: tuple[int, ...]
    behind: dict[int, Sum]
    needed: tuple[int, ...]
    stacked: tuple[int, ...]


@lru_cache(maxsize=1024)
def _backward(
    step: Linear, sources: tuple[_Source, ...], carries: int, sequences: int,
    present: tuple[bool, ...], device: Device,
) -> _BackwardStep:  # fmt: skip
    whole, inputs, results = step.backward, step.forward.inputs, step.forward.results
    last, first_source = carries + sequences, len(step.active)
    number = dict(zip(step.wanted, whole.outputs, strict=True))
    of_carry = [i for i in step.wanted if i < carries]
    of_slices = [i for i in step.wanted if carries <= i < last]
    of_constants = [i for i in step.wanted if i >= last]
    given = [p for p, i in enumerate(step.active) if i >= carries and present[i]]
    rows = {p + first_source for p, s in enumerate(sources) if s.kind != "constant"}
    rows |= {*given, *[number[i] for i in of_slices]}
    same = [p + first_source for p, s in enumerate(sources) if s.kind == "constant"]
    sums = sums_behind(whole, [number[i] for i in of_constants], rows, same)
    added = [i for i in of_constants if number[i] not in sums]
    behind = {i: sums[number[i]] for i in of_constants if number[i] in sums}
    stacked = [n for s in sums.values() for n in s.numbers if n not in rows]
    stacked = list(dict.fromkeys(stacked))

    known = {i: i for i in range(whole.arity)}
    wanted = [number[i] for i in (*of_carry, *added, *of_slices)]
    short = whole.rebuilt(whole.inputs, known, [*wanted, *stacked])
    used = short.used()
    needed = [p for p, s in enumerate(sources) if s.kind != "constant" and p + first_source in used]
    needed += [p for p in range(len(sources)) if p + first_source in used and p not in needed]
    kept = [*range(first_source), *[p + first_source for p in needed]]
    places = {old: new for new, old in enumerate(kept)}
    short = short.rebuilt([short.inputs[i] for i in kept], places, short.outputs)

    def run(*values: Tensor) -> list[Tensor]:
        rest = iter(values)
        cotangent = {i: next(rest) for i in of_carry}
        before = [next(rest) for _ in added]
        cotangent |= {step.active[p]: next(rest) for p in given}
        cotangents = [or_zeros(cotangent.get(i), results[i], device) for i in step.active]
        got = list(short.run(*cotangents, *rest))
        for at, total in enumerate(before, len(of_carry)):
            got[at] = total + got[at]
        return got

    avals = [inputs[i] for i in (*of_carry, *added)]
    avals += [results[step.active[p]] for p in given]
    avals += [whole.inputs[p + first_source] for p in needed]
    program = program_of(run, avals, device)
    return _BackwardStep(program, tuple(added), behind, tuple(needed), tuple(stacked))


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
    first = [or_zeros(g[i], body.inputs[i], device) for i in of_carry]
    first += [or_zeros(None, step.forward.inputs[i], device) for i in back.added]
    rows = {p: g[i] for p, i in enumerate(step.active) if i >= carries and present[i]}
    given_rows = list(rows.values())
    find = _Finder(given, out, length, reverse)
    asked = [n - len(step.active) for s in back.behind.values() for n in s.numbers]
    for place, source in enumerate(linear.sources):
        if source.kind != "constant" and (place in back.needed or place in asked):
            rows[place + len(step.active)] = find(source)
    same = [p for p in back.needed if linear.sources[p].kind == "constant"]
    given_rows += [rows[p + len(step.active)] for p in back.needed if p not in same]
    op = operation.op(
        body=back.program, carries=len(first), sequences=len(given_rows), length=length,
        reverse=not reverse,
    )  # fmt: skip
    avals = _stacked(back.program.inputs, len(first), len(given_rows), length)
    constants = [given[linear.sources[p].place] for p in same]
    found = take_step(op, [*first, *given_rows, *constants], avals)
    of_slices = [i for i in step.wanted if carries <= i < carries + sequences]
    places = [*of_carry, *back.added, *of_slices]
    results = list(spread(found[: len(places)], places, len(given)))
    numbers = dict(zip(step.wanted, step.backward.outputs, strict=True))
    rows |= {numbers[i]: results[i] for i in of_slices}
    rows |= dict(zip(back.stacked, found[len(places) :], strict=True))
    for i, total in back.behind.items():
        results[i] = taken(total, {n: x for n, x in rows.items() if x is not None})
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
