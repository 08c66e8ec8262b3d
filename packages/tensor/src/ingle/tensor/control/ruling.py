"""A region that brings its own gradient: what `custom_gradient` is where it is traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..dispatch import TensorLike, handle_of, wrap
from ..operation import Op, Operation, Traits
from ..ops._batching import repeated
from ..programs import Program
from ..sample import Draw, Sample
from ..tensor import Tensor
from ._rules import (
    Linear,
    batched,
    check_operands,
    or_zeros,
    program_of,
    pulled_again,
    spread,
    take_step,
    with_constants,
)
from .calling import CALL


def call_with_rule(
    name: str, linear: Linear, visible: int, operands: Sequence[Any]
) -> tuple[Tensor, ...]:
    """Runs a program that has a backward program of its own.

    Args:
        name: of the region.
        linear: the program, its backward program, and what that needs.
        visible: how many of its outputs are results, of which the backward program is the rule; the
            others have the gradients of what computes them.
        operands: what it takes, without its constants.
    """
    op = CALL_WITH_RULE.op(
        forward=linear.forward, backward=linear.backward, ruled=visible, shown=visible,
        wanted=linear.wanted, active=linear.active, sources=linear.sources, name=name,
    )  # fmt: skip
    return take_step(op, with_constants(operands, linear.constants), linear.forward.inputs)


def _rule(*avals: Aval, forward: Program, shown: int, name: str, **_: Any) -> tuple[Aval, ...]:
    check_operands(name, avals, forward)
    return forward.results[:shown]


def _body(*operands: Any, forward: Program, shown: int, **_: Any) -> tuple[Tensor, ...]:
    return forward.run(*operands)[:shown]


def _training(
    op: Op, needs: tuple[bool, ...], device: Device
) -> tuple[Op, Sequence[Handle | Scalar]]:
    count = len(op.attributes["forward"].outputs)
    return CALL_WITH_RULE.op(**{**op.attributes, "shown": count}), ()


def _vjp(
    g: tuple[Tensor | None, ...],
    operands: tuple[Any, ...],
    out: tuple[Tensor, ...],
    needs: tuple[bool, ...],
    forward: Program,
    backward: Program,
    ruled: int,
    shown: int,
    wanted: tuple[int, ...],
    active: tuple[int, ...],
    sources: tuple[int, ...],
    name: str,
) -> tuple[Tensor | None, ...]:
    device = next(x for x in g if x is not None).device
    values = [*operands, *out]
    cotangents = [or_zeros(g[i], forward.results[i], device) for i in active]
    op = CALL.op(body=backward, name=f"{name} (backward)", recompute=False)
    found = take_step(op, [*cotangents, *[values[i] for i in sources]], backward.inputs)
    by_rule = spread(found, wanted, len(operands))
    if all(x is None for x in g[ruled:]):
        return by_rule
    # The rule itself is differentiated: what it kept depends on the operands as computed.
    kept = [None if i < ruled else x for i, x in enumerate(g)]
    op = CALL.op(body=forward, name=name, recompute=False)
    through = pulled_again(op, operands, forward.inputs, kept, needs)
    return tuple(
        a if b is None else b if a is None else a + b for a, b in zip(by_rule, through, strict=True)
    )


def _batch(
    flags: tuple[bool, ...],
    *operands: Any,
    forward: Program,
    backward: Program,
    sources: tuple[int, ...],
    **attributes: Any,
) -> tuple[Tensor, ...]:
    """The same of whole batches, with whole batches of all that the backward program needs."""
    first = next(x for x, flag in zip(operands, flags, strict=True) if flag)
    size, device = first.shape[0], first.device
    front, of_front = _whole(forward, size, device)
    back, of_back = _whole(backward, size, device)
    arity, ends = len(operands), len(of_front)
    moved = [i if i < arity else i + ends + len(of_back) for i in sources]
    places = [*moved, *range(arity + ends, arity + ends + len(of_back))]
    given = [
        x if flag else repeated(x, size) for x, flag in zip(operands, flags, strict=True)
    ]  # fmt: skip
    inputs = with_constants(given, (*of_front, *of_back))
    extra = [Aval(x.shape, x.dtype) for x in of_back]
    taking = front.taking([*front.inputs, *extra], range(front.arity))
    op = CALL_WITH_RULE.op(forward=taking, backward=back, sources=tuple(places), **attributes)
    return take_step(op, inputs, taking.inputs)


def _whole(
    program: Program, size: int, device: Device
) -> tuple[Program, tuple[Handle | Scalar, ...]]:
    """The program for batches of all inputs, whose outputs all are batches."""
    every = [True] * program.arity
    whole, constants = batched("custom_gradient", program, every, size, device)
    have = program.reached(every)
    if all(have):
        return whole, constants

    def run(*inputs: Tensor) -> list[Tensor]:
        results = whole.run(*inputs)
        return [y if has else repeated(y, size) for y, has in zip(results, have, strict=True)]

    return program_of(run, whole.inputs, device), constants


def _cubed(x: TensorLike) -> Tensor:
    """A sample: the cube, with a rule that keeps the square."""
    given = handle_of(x, "ruled_call")
    aval, device = Aval(given.shape, given.dtype), given.backend.device
    forward = program_of(lambda x: [x * x * x, x * x], [aval], device)
    backward = program_of(lambda g, square: [g * square * 3], [aval, aval], device)
    op = CALL_WITH_RULE.op(
        forward=forward, backward=backward, ruled=1, shown=1, wanted=(0,), active=(0,),
        sources=(2,), name="cubed",
    )  # fmt: skip
    return take_step(op, [wrap(given)], [aval])[0]


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "float":
        for shape in ((3, 5), (0,), ()):
            yield Sample((draw.array(shape),), condition=4)


def _reference(x: Any) -> Any:
    return x * x * x


CALL_WITH_RULE = Operation(
    "ruled_call",
    tensors=("operands",),
    variadic=True,
    many_outputs=True,
    statics=("forward", "backward", "ruled", "shown", "wanted", "active", "sources", "name"),
    rule=_rule,
    traits=Traits("opaque", bound="compute", storage=True),
    vjp={"operands": _vjp},
    training=_training,
    body=_body,
    batch=_batch,
    public=_cubed,
    samples=_samples,
    reference=_reference,
)
