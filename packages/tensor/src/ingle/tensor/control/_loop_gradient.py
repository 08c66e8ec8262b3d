"""The gradient of a while_loop that has no values: as a program it may run any number of times.

What a backward pass needs of each step cannot be kept then. So the loop counts its steps, and the
backward loop computes the carry of each step again from the first one: as many steps as the square
of their number, in the memory of one. The derivative along a direction needs none of this: the
loop carries the tangent beside the carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..dispatch import TensorLike, handle_of, wrap
from ..dtypes import int64
from ..errors import GradientError
from ..operation import OPERATIONS, Op, Operation, Traits
from ..ops import full, sin
from ..plugins import require_transform
from ..programs import Program
from ..sample import Draw, Sample
from ..tensor import Tensor
from ._programs import carried_needs, remembered
from ._rules import (
    Linear,
    linear_of,
    or_zeros,
    program_of,
    spread,
    take_step,
    with_constants,
)

NAME = "while_loop"
COUNT = Aval((), int64)


def loop_training(
    op: Op, needs: tuple[bool, ...], device: Device
) -> tuple[Op, Sequence[Handle | Scalar]]:
    """The loop as it is: nothing of its steps is kept."""
    return op, ()


def loop_vjp(
    g: tuple[Tensor | None, ...],
    operands: tuple[Any, ...],
    needs: tuple[bool, ...],
    condition: Program,
    body: Program,
) -> tuple[Tensor | None, ...]:
    """Cotangents of a loop's operands."""
    device = next(x for x in g if x is not None).device
    wanted = _wanted(body, needs)
    carries = [i for i in wanted if i < len(body.outputs)]
    cotangents = [or_zeros(g[i], body.inputs[i], device) for i in carries]
    op = LOOP_PULLED.op(condition=condition, body=body, wanted=wanted)
    avals = [*[body.inputs[i] for i in carries], *body.inputs]
    found = spread(take_step(op, [*cotangents, *operands], avals), wanted, len(operands))
    return tuple(x if need else None for x, need in zip(found, needs, strict=True))


def _wanted(body: Program, needs: Sequence[bool]) -> tuple[int, ...]:
    flags = carried_needs(body, len(body.outputs), needs)
    pairs = enumerate(zip(flags, body.inputs, strict=True))
    return tuple([i for i, (flag, a) in pairs if flag and a.dtype.is_inexact])


def _pulled_rule(
    *avals: Aval, condition: Program, body: Program, wanted: tuple[int, ...]
) -> tuple[Aval, ...]:
    return tuple([body.inputs[i] for i in wanted])


@dataclass(frozen=True, slots=True)
class _Backward:
    """Programs of a backward pass: how often the loop runs, and the backward loop's."""

    counting: tuple[Program, Program]
    backward: tuple[Program, Program]
    constants: tuple[Handle | Scalar, ...]


@remembered
def _backward(
    condition: Program, body: Program, wanted: tuple[int, ...], device: Device
) -> _Backward:
    count, arity = len(body.outputs), body.arity
    flags = [i in wanted for i in range(arity)]
    step = linear_of(NAME, body, flags, device)

    def goes_on(n: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        return condition.run(*rest)

    def counted(n: Tensor, *rest: Tensor) -> list[Tensor]:
        return [n + 1, *body.run(*rest)]

    def before(i: Tensor, *rest: Tensor) -> list[Tensor]:
        return [i < rest[count]]

    def advanced(i: Tensor, *rest: Tensor) -> list[Tensor]:
        return [i + 1, *body.run(*rest[:count], *rest[count + 1 :])]

    inner = [*body.inputs[:count], COUNT, *body.inputs[count:]]
    again = OPERATIONS[NAME].op(
        condition=program_of(before, [COUNT, *inner], device),
        body=program_of(advanced, [COUNT, *inner], device),
    )

    def left(k: Tensor, *rest: Tensor) -> list[Tensor]:
        return [k > 0]

    def pulled(k: Tensor, *rest: Tensor) -> list[Tensor]:
        sums, operands = rest[: len(wanted)], rest[len(wanted) :]
        init, constants = operands[:count], operands[count:]
        k = k - 1
        start = full((), 0, dtype=int64, device=device)
        carry = take_step(again, [start, *init, k, *constants[: arity - count]], [COUNT, *inner])
        return [k, *_pull_step(step, [*carry[1:], *constants], sums, count)]

    outer = [COUNT, *[body.inputs[i] for i in wanted], *step.forward.inputs]
    return _Backward(
        (program_of(goes_on, [COUNT, *body.inputs], device),
         program_of(counted, [COUNT, *body.inputs], device)),
        (program_of(left, outer, device), program_of(pulled, outer, device)),
        step.constants,
    )  # fmt: skip


def _pull_step(
    step: Linear, given: Sequence[Tensor], sums: Sequence[Tensor], count: int
) -> list[Tensor]:
    """Cotangents of the carry before a step, and sums of those of the constants."""
    values = [*given, *step.forward.run(*given)]
    known = dict(zip(step.wanted, sums, strict=True))
    found = step.backward.run(*[known[i] for i in step.active], *[values[i] for i in step.sources])
    return [
        new if i < count else old + new
        for i, old, new in zip(step.wanted, sums, found, strict=True)
    ]


def _pulled_body(
    *operands: Any, condition: Program, body: Program, wanted: tuple[int, ...]
) -> tuple[Tensor, ...]:
    count = len(body.outputs)
    carries = [i for i in wanted if i < count]
    cotangents, given = operands[: len(carries)], operands[len(carries) :]
    device = next(x.device for x in operands if isinstance(x, Tensor))
    programs = _backward(condition, body, wanted, device)
    loop = OPERATIONS[NAME]
    zero = full((), 0, dtype=int64, device=device)
    op = loop.op(condition=programs.counting[0], body=programs.counting[1])
    steps = take_step(op, [zero, *given], [COUNT, *body.inputs])[0]
    sums = [or_zeros(None, body.inputs[i], device) for i in wanted if i >= count]
    op = loop.op(condition=programs.backward[0], body=programs.backward[1])
    inputs = [steps, *cotangents, *sums, *with_constants(given, programs.constants)]
    found = take_step(op, inputs, programs.backward[1].inputs)
    return found[1 : 1 + len(wanted)]


def _pulled_training(
    op: Op, needs: tuple[bool, ...], device: Device
) -> tuple[Op, Sequence[Handle | Scalar]]:
    if any(needs[len(needs) - op.attributes["body"].arity :]):
        raise GradientError(
            "while_loop: a second derivative is asked for where the loop is one step of a program "
            "that may run any number of times; use scan with a fixed length and where, or "
            "stop_gradient on what it starts from"
        )
    return op, ()


def _pulled_vjp(
    g: tuple[Tensor | None, ...],
    operands: tuple[Any, ...],
    condition: Program,
    body: Program,
    wanted: tuple[int, ...],
) -> tuple[Tensor | None, ...]:
    """The transpose of the transpose: the loop on tangents, forward."""
    device = next(x for x in g if x is not None).device
    count = len(body.outputs)
    carries = [i for i in wanted if i < count]
    given = operands[len(carries) :]
    tangents = {i: or_zeros(t, body.inputs[i], device) for i, t in zip(wanted, g, strict=True)}
    programs = _forward(condition, body, wanted, device)
    moved = [tangents[i] for i in wanted if i >= count]
    inputs = [
        *given[:count], *[tangents[i] for i in carries], *given[count:], *moved,
        *with_constants((), programs.constants),
    ]  # fmt: skip
    op = OPERATIONS[NAME].op(condition=programs.condition, body=programs.body)
    found = take_step(op, inputs, programs.body.inputs)
    return (*found[count : count + len(carries)], *[None] * len(given))


@dataclass(frozen=True, slots=True)
class _Forward:
    """A loop that carries tangents: first the carry, then those of its wanted parts."""

    condition: Program
    body: Program
    constants: tuple[Handle | Scalar, ...]


@remembered
def _forward(
    condition: Program, body: Program, wanted: tuple[int, ...], device: Device
) -> _Forward:
    count = len(body.outputs)
    carries = [i for i in wanted if i < count]
    pushed, constants = require_transform("pushed_program", NAME)(body, wanted, device)
    reached = body.reached([i in wanted for i in range(body.arity)])
    tangents = [body.inputs[i] for i in carries]
    avals = [
        *body.inputs[:count], *tangents, *body.inputs[count:],
        *[body.inputs[i] for i in wanted if i >= count],
        *[Aval(c.shape, c.dtype) for c in constants],
    ]  # fmt: skip
    ends = count + len(carries)

    def goes_on(*inputs: Tensor) -> tuple[Tensor, ...]:
        rest = inputs[ends : ends + body.arity - count]
        return condition.run(*inputs[:count], *rest)

    def advanced(*inputs: Tensor) -> list[Tensor]:
        carry, moving = inputs[:count], inputs[count:ends]
        constant = inputs[ends : ends + body.arity - count]
        rest = inputs[ends + body.arity - count :]
        results = list(pushed.run(*carry, *constant, *moving, *rest))
        after = iter(results[count:])
        given = [next(after) if reached[i] and body.results[i].dtype.is_inexact else None
                 for i in range(count)]  # fmt: skip
        return [*results[:count], *[or_zeros(given[i], body.inputs[i], device) for i in carries]]

    return _Forward(
        program_of(goes_on, avals, device), program_of(advanced, avals, device), constants
    )


def _sine_pulled(g: TensorLike, x: TensorLike) -> Tensor:
    """A sample: the cotangent of `x` where the sine of it is taken three times."""
    given = handle_of(x, "while_loop_pulled", "x")
    aval, device = Aval(given.shape, given.dtype), given.backend.device
    condition = program_of(lambda n, x: [n < 3], [COUNT, aval], device)
    body = program_of(lambda n, x: [n + 1, sin(x)], [COUNT, aval], device)
    op = LOOP_PULLED.op(condition=condition, body=body, wanted=(1,))
    zero = full((), 0, dtype=int64, device=device)
    cotangent = wrap(handle_of(g, "while_loop_pulled", "g"))
    return take_step(op, [cotangent, zero, wrap(given)], [aval, COUNT, aval])[0]


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "float":
        yield Sample((draw.array((3,)), draw.array((3,))), gradient=(0,))
        yield Sample((draw.array(()), draw.array(())), gradient=(0,))


def _reference(g: Any, x: Any) -> Any:
    return g * np.cos(x) * np.cos(np.sin(x)) * np.cos(np.sin(np.sin(x)))


LOOP_PULLED = Operation(
    "while_loop_pulled",
    tensors=("operands",),
    variadic=True,
    many_outputs=True,
    statics=("condition", "body", "wanted"),
    rule=_pulled_rule,
    traits=Traits("opaque", bound="compute", storage=True),
    vjp={"operands": _pulled_vjp},
    training=_pulled_training,
    body=_pulled_body,
    public=_sine_pulled,
    samples=_samples,
    reference=_reference,
)
