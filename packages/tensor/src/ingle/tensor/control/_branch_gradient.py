"""The gradient of a branch: a branch on the same predicate.

Each branch returns what its derivative needs as further outputs, in places that both share as far
as shapes and dtypes agree, and zeros in those that only the other needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..operation import OPERATIONS, Op
from ..programs import Program
from ..tensor import Tensor
from ._programs import remembered
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


@dataclass(frozen=True, slots=True)
class _LinearBranches:
    """Both branches' derivatives, made to fit each other.

    Attributes:
        forward: the branches with what their derivatives need as further outputs; each has zeros
            in place of what only the other needs.
        backward: from cotangents of the `active` outputs, and the `used` ones of the operands,
            constants and outputs, to cotangents of the `wanted` operands.
        constants: operands to append.
    """

    forward: tuple[Program, Program]
    backward: tuple[Program, Program]
    active: tuple[int, ...]
    wanted: tuple[int, ...]
    used: tuple[int, ...]
    constants: tuple[Handle | Scalar, ...]


@remembered
def _linear(
    then: Program, otherwise: Program, needs: tuple[bool, ...], device: Device
) -> _LinearBranches:
    parts = [linear_of("cond", p, needs, device) for p in (then, otherwise)]
    avals = [*then.inputs, *[Aval(c.shape, c.dtype) for p in parts for c in p.constants]]
    places = [
        [*range(then.arity), *range(start, start + len(p.constants))]
        for p, start in zip(parts, (then.arity, then.arity + len(parts[0].constants)), strict=True)
    ]
    slots: list[Aval] = []
    shared = [_slots(p, len(then.outputs), slots) for p in parts]
    forward = [
        program_of(_with_slots(p, place, own, slots, len(then.outputs), device), avals, device)
        for p, place, own in zip(parts, places, shared, strict=True)
    ]
    first_output = len(avals)
    sources = [
        [
            place[i] if i < p.forward.arity else first_output + own.get(i - p.forward.arity, 0)
            for i in p.sources
        ]
        for p, place, own in zip(parts, places, shared, strict=True)
    ]
    used = tuple(sorted({i for own in sources for i in own}))
    active = tuple(sorted({i for p in parts for i in p.active}))
    values = [*avals, *forward[0].results]
    inputs = [*[then.results[i] for i in active], *[values[i] for i in used]]
    backward = [
        program_of(_pulling(p, own, active, used), inputs, device)
        for p, own in zip(parts, sources, strict=True)
    ]
    constants = tuple([c for p in parts for c in p.constants])
    return _LinearBranches(
        (forward[0], forward[1]), (backward[0], backward[1]), active, parts[0].wanted, used,
        constants,
    )  # fmt: skip


def _slots(linear: Linear, visible: int, slots: list[Aval]) -> dict[int, int]:
    """For each output of a branch its place among those of both; branches share what they can."""
    place = {i: i for i in range(visible)}
    free = list(range(len(slots)))
    for i, aval in enumerate(linear.forward.results[visible:], visible):
        slot = next((s for s in free if slots[s] == aval), None)
        if slot is None:
            slot = len(slots)
            slots.append(aval)
        else:
            free.remove(slot)
        place[i] = visible + slot
    return place


def _with_slots(
    linear: Linear,
    places: Sequence[int],
    own: dict[int, int],
    slots: Sequence[Aval],
    visible: int,
    device: Device,
) -> Callable[..., Any]:
    def run(*inputs: Tensor) -> list[Tensor]:
        outputs = linear.forward.run(*[inputs[i] for i in places])
        found = {own[i]: y for i, y in enumerate(outputs)}
        rest = [or_zeros(found.get(visible + i), a, device) for i, a in enumerate(slots)]
        return [*outputs[:visible], *rest]

    return run


def _pulling(
    linear: Linear, sources: Sequence[int], active: Sequence[int], used: Sequence[int]
) -> Callable[..., Any]:
    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        cotangents = dict(zip(active, inputs, strict=False))
        values = dict(zip(used, inputs[len(active) :], strict=True))
        return linear.backward.run(
            *[cotangents[i] for i in linear.active], *[values[i] for i in sources]
        )

    return run


def cond_training(
    op: Op, needs: tuple[bool, ...], device: Device
) -> tuple[Op, Sequence[Handle | Scalar]]:
    """The branch that also returns what its gradient needs."""
    branches = op.attributes["then"], op.attributes["otherwise"]
    linear = _linear(*branches, needs[1:], device)
    return op.operation.op(then=linear.forward[0], otherwise=linear.forward[1]), linear.constants


def cond_vjp(
    g: tuple[Tensor | None, ...],
    predicate: Tensor,
    operands: tuple[Any, ...],
    out: tuple[Tensor, ...],
    needs: tuple[bool, ...],
    then: Program,
    otherwise: Program,
) -> tuple[Tensor | None, ...]:
    """Cotangents of the operands of a branch, by a branch."""
    device, operation = predicate.device, OPERATIONS["cond"]
    linear = _linear(then, otherwise, needs, device)
    given = with_constants(operands, linear.constants)
    of_predicate = Aval((), predicate.dtype)
    if any(x is not None for x in g[len(then.outputs) :]):
        op = operation.op(then=linear.forward[0], otherwise=linear.forward[1])
        avals = [of_predicate, *linear.forward[0].inputs]
        return pulled_again(op, [predicate, *given], avals, g, (False, *needs))[1:]
    values = [*given, *out]
    cotangents = [or_zeros(g[i], then.results[i], device) for i in linear.active]
    op = operation.op(then=linear.backward[0], otherwise=linear.backward[1])
    inputs = [predicate, *cotangents, *[values[i] for i in linear.used]]
    found = take_step(op, inputs, [of_predicate, *linear.backward[0].inputs])
    return spread(found, linear.wanted, len(operands))
