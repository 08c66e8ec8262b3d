"""call: a named region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..operation import Op, Operation, Traits
from ..ops._batching import repeated
from ..plugins import transform
from ..programs import Program, TracedMoveError, recorded, trace, writing_down
from ..sample import Draw, Sample
from ..tensor import Tensor
from ._cells import write_back
from ._leaves import avals_of, checked_function, device_of, filled, operands, tensors_of
from ._rules import (
    batched,
    check_operands,
    linear_of,
    or_zeros,
    pulled_again,
    spread,
    take_step,
    with_constants,
)


def call(
    function: Callable[..., Any], /, *args: Any, name: str | None = None, recompute: bool = False
) -> Any:
    """`function(*args)`, which stays one step with a name where it is traced.

    A region is shown, planned and repeated as a whole: equal layers are one program. Where
    nothing is traced it is an ordinary call.

    Args:
        function: takes and returns nested tuples, lists and dicts of tensors, and whatever else.
        *args: its arguments.
        name: of the region; the function's own if not given.
        recompute: whether the backward pass runs the region again instead of keeping what is
            computed inside; see `ingle.autodiff.checkpoint`.

    >>> import ingle.tensor as it
    >>> it.call(lambda x: x * x, it.asarray(3.0), name="square").item()
    9.0
    """
    checked_function("call", "function", function)
    if not writing_down():
        again = transform("checkpoint") if recompute else None
        return function(*args) if again is None else again(function)(*args)
    given = tensors_of(args)
    try:
        traced = trace(
            lambda *tensors: function(*filled(args, tensors)), avals_of(given), device_of(args)
        )
    except TracedMoveError:
        if recompute:  # whoever asks for that knows another way
            raise
        return function(*args)  # of several devices: no region, but the same values
    label = getattr(function, "__name__", type(function).__name__) if name is None else name
    op = CALL.op(body=traced.program, name=label, recompute=bool(recompute))
    outputs = take_step(op, [*given, *operands(traced.closed)], traced.program.inputs)
    count = len(tensors_of(traced.result))
    write_back(traced.cells, outputs[count:], traced.numbers)
    return traced.filled(outputs[:count])


def _rule(*avals: Aval, body: Program, **_: Any) -> tuple[Aval, ...]:
    check_operands("call", avals, body)
    return body.results


def _body(*operands: Any, body: Program, **_: Any) -> tuple[Tensor, ...]:
    return body.run(*operands)


def _training(
    op: Op, needs: tuple[bool, ...], device: Device
) -> tuple[Op, Sequence[Handle | Scalar]]:
    if op.attributes["recompute"]:
        return op, ()
    linear = linear_of("call", op.attributes["body"], needs, device)
    return CALL.op(**{**op.attributes, "body": linear.forward}), linear.constants


def _vjp(
    g: tuple[Tensor | None, ...],
    operands: tuple[Any, ...],
    out: tuple[Tensor, ...],
    needs: tuple[bool, ...],
    body: Program,
    name: str,
    recompute: bool,
) -> tuple[Tensor | None, ...]:
    if recompute:
        op = CALL.op(body=body, name=name, recompute=False)
        return pulled_again(op, operands, body.inputs, g, needs)
    device = next(x for x in g if x is not None).device
    linear = linear_of("call", body, needs, device)
    forward, backward = linear.forward, linear.backward
    given = with_constants(operands, linear.constants)
    if any(x is not None for x in g[len(body.outputs) :]):
        op = CALL.op(body=forward, name=name, recompute=False)
        return pulled_again(op, given, forward.inputs, g, needs)
    values = [*given, *out]
    cotangents = [or_zeros(g[i], body.results[i], device) for i in linear.active]
    inputs = [*cotangents, *[values[i] for i in linear.sources]]
    op = CALL.op(body=backward, name=f"{name} (backward)", recompute=False)
    return spread(take_step(op, inputs, backward.inputs), linear.wanted, len(operands))


def _batch(
    flags: tuple[bool, ...], *operands: Any, body: Program, **attributes: Any
) -> tuple[Tensor, ...]:
    first = next(x for x, flag in zip(operands, flags, strict=True) if flag)
    size = first.shape[0]
    whole, constants = batched("call", body, flags, size, first.device)
    op = CALL.op(body=whole, **attributes)
    found = take_step(op, with_constants(operands, constants), whole.inputs)
    have = body.reached(flags)
    return tuple(y if flag else repeated(y, size) for y, flag in zip(found, have, strict=True))


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((_product, draw.array((3, 5)), draw.array((5,))))
    yield Sample((_product, draw.array((0,)), draw.array((1,))))
    yield Sample((_several, draw.array((2, 3)), 2), {"name": "several"})
    yield Sample((_several, draw.array((2, 3)), 2), {"recompute": True})


def _product(x: Any, y: Any) -> Any:
    return x * y + x


def _several(x: Any, number: Any) -> Any:
    return x * number, (x + x, x)


def _reference(function: Callable[..., Any], *args: Any, **_: Any) -> Any:
    return function(*args)


CALL = Operation(
    "call_program",
    tensors=("operands",),
    variadic=True,
    many_outputs=True,
    statics=("body", "name", "recompute"),
    rule=_rule,
    traits=Traits("opaque", bound="compute", storage=True, inlined=True),
    vjp={"operands": _vjp},
    training=_training,
    body=_body,
    batch=_batch,
    public=recorded(call),
    samples=_samples,
    reference=_reference,
)


def region(program: Program, name: str) -> Op:
    """A program as one operation on its inputs, which returns its outputs."""
    return CALL.op(body=program, name=name, recompute=False)
