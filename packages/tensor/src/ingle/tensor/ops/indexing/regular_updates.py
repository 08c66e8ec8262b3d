"""Regular pieces of a small tensor that are replaced: each way is worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dispatch
from ...call_steps import CallStep, CallSteps, same_steps
from ...contract import Handle, Scalar, Shape
from ...dtypes import LARGEST_EXPONENT, bool_, int64
from ...operation import Op
from ...prepared import prepared_calls
from ..creation.filled import FULL
from ..movement.shapes import BROADCAST_TO, RESHAPE
from ..movement.slicing import SLICE_UPDATE, scalar_start


def piece_set(
    handle: Handle, value: Any, starts: Sequence[int], sizes: Shape, steps: Shape, shape: Shape
) -> Handle | None:
    """A tensor with a piece replaced; None where that has to be worked out, or is refused.

    Args:
        handle: the tensor.
        value: a number or a tensor.
        starts, sizes, steps: where the piece lies, which is inside.
        shape: that of the piece, without axes of size 1, say.
    """
    calls, given = prepared_calls(handle.backend), _operand(handle, value)
    if calls is None or given is None:
        return None
    of = None if type(given) is Scalar else given.shape
    key = (piece_set, handle.shape, handle.dtype, sizes, steps, shape, of)
    known = calls.known.get(key) or calls.former(key)
    if known is None:
        known = _steps(handle, given, sizes, steps, shape)
        if known is None:
            return None
        calls.keep(key, known)
    found: Any = known.run(handle.backend, [handle, given, *map(scalar_start, starts)])
    return found._handle  # type: ignore[no-any-return]


def _operand(handle: Handle, value: Any) -> Handle | Scalar | None:
    """The value, of a dtype that is the tensor's by itself."""
    dtype, kind = handle.dtype, type(value)
    if kind is dispatch.tensor_type:
        own: Handle = value._handle
        return own if own.backend is handle.backend and own.dtype is dtype else None
    fits = (
        (kind is float and dtype.is_inexact)
        or (kind is int and dtype.is_inexact and value.bit_length() < LARGEST_EXPONENT)
        or (kind is int and dtype is int64 and value.bit_length() < 64)
        or (kind is bool and dtype is bool_)
    )
    return Scalar(value, dtype) if fits else None


def _steps(
    handle: Handle, given: Handle | Scalar, sizes: Shape, steps: Shape, shape: Shape
) -> CallSteps | None:
    """The operations on the tensor, the value and the starts; None where the value's shape does
    not fit."""
    first = count = 2 + len(sizes)
    ops: list[Op] = []
    if isinstance(given, Scalar):
        ops.append(FULL.op(shape=sizes, dtype=handle.dtype))
    else:
        of = short = given.shape
        while len(short) > len(shape) and short[0] == 1:
            short = short[1:]
        lead = len(shape) - len(short)
        if lead < 0 or any(n not in (1, m) for n, m in zip(short, shape[lead:], strict=True)):
            return None
        if short != of:
            ops.append(RESHAPE.op(shape=short))
        if short != shape:
            ops.append(BROADCAST_TO.op(shape=shape))
        if shape != sizes:
            ops.append(RESHAPE.op(shape=sizes))
    taken, value = [], 1
    for op in ops:
        taken.append(CallStep(op, (value,)))
        value, count = count, count + 1
    taken.append(CallStep(SLICE_UPDATE.op(steps=steps), (0, value, *range(2, first))))
    return same_steps(handle.backend, [handle, given], [], [], taken, [count], True)
