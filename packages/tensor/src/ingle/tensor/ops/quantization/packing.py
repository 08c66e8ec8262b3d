"""Several narrow integers in one byte: pack and unpack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, wrap
from ...dtypes import DType, int8, uint8
from ...errors import DTypeError, ShapeError
from .._guarding import guarded
from .._rules import as_int, dtype_argument
from ..elementwise.arithmetic import subtract
from ..elementwise.cast import astype
from ..elementwise.logical import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from ..movement.joining import stack
from ..movement.padding import pad
from ..movement.shapes import reshape
from ..movement.slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def pack(x: TensorLike, /, *, dtype: object = None) -> Tensor:
    """The bits of int4, uint4, int2 or uint2 numbers side by side in uint8, along the last axis.

    The first number takes the lowest bits of the first byte. Where the last axis does not fill
    whole bytes, zeros follow.

    Args:
        x: a tensor of shape `(..., n)`; the result has shape `(..., ceil(n / k))` for k numbers in
            a byte, 2 or 4.
        dtype: of the numbers, where `x` has a dtype that holds them, such as int8 or uint8; of
            larger ones the lowest bits are taken. That of `x` if not given.

    Raises:
        DTypeError: the dtype has 8 bits or more, or `x` is of one that does not hold its numbers.

    >>> import ingle.tensor as it
    >>> it.pack(it.asarray([1, 2, -1], dtype="int4")).tolist()
    [33, 15]
    >>> it.pack(it.asarray([1, 2, -1], dtype="int8"), dtype="int4").tolist()
    [33, 15]
    """
    handle = handle_of(x, "pack")
    to = handle.dtype if dtype is None else dtype_argument(dtype, "pack")
    count = _in_a_byte("pack", to)
    if handle.dtype is not to and not (handle.dtype.is_integer and handle.dtype.bits >= 8):
        raise DTypeError(
            f"pack: numbers of {to} must be of {to} or of integers of 8 bits and more, got "
            f"{handle.dtype}; cast them with astype('int8')"
        )
    if not handle.shape:
        raise ShapeError("pack: needs at least one axis, got a 0-d tensor; reshape it to (1,)")
    *lead, n = handle.shape
    whole = astype(astype(wrap(handle), int8 if handle.dtype.is_signed else uint8), uint8)
    bits = bitwise_and(whole, (1 << to.bits) - 1)
    places = reshape(_filled(bits, -n % count), (*lead, -(-n // count), count))
    out = places[..., 0]
    for i in range(1, count):
        out = bitwise_or(out, bitwise_left_shift(places[..., i], i * to.bits))
    return out


@guarded
def unpack(
    x: TensorLike, dtype: object, /, *, size: int | None = None, into: object = None
) -> Tensor:
    """What `pack` has put into bytes: the numbers along the last axis.

    Nothing is computed in dtypes of less than 8 bits. Who goes on with the numbers takes them as
    int8 or uint8, which kernels make of the bytes as they read them.

    Args:
        x: a uint8 tensor of shape `(..., m)`.
        dtype: int4, uint4, int2 or uint2.
        size: how many numbers there are along the last axis; all that fit into m bytes if not
            given.
        into: the result's dtype, which holds all of `dtype`'s numbers; `dtype` if not given.

    Raises:
        DTypeError: `x` is not uint8, the dtype has 8 bits or more, or `into` is neither `dtype`
            nor an integer dtype that holds its numbers.
        ShapeError: `m` bytes are not what `size` numbers take.

    >>> import ingle.tensor as it
    >>> it.unpack(it.asarray([33, 15], dtype="uint8"), "int4", size=3).tolist()
    [1, 2, -1]
    >>> it.unpack(it.asarray([33, 15], dtype="uint8"), "int4", into="int8").tolist()
    [1, 2, -1, 0]
    """
    handle, to = handle_of(x, "unpack"), dtype_argument(dtype, "unpack")
    count = _in_a_byte("unpack", to)
    if handle.dtype is not uint8 or not handle.shape:
        raise DTypeError(
            f"unpack: x must be uint8 with at least one axis, got {handle.dtype}"
            f"{list(handle.shape)}; pack makes such a tensor"
        )
    *lead, m = handle.shape
    n = m * count if size is None else as_int(size, "unpack", "size")
    if n < 0 or -(-n // count) != m:
        raise ShapeError(
            f"unpack: size={n} numbers of {to.bits} bits take {-(-n // count)} bytes, but the last "
            f"axis of x has {m}"
        )
    given = to if into is None else holding("unpack", to, dtype_argument(into, "unpack"))
    bits = wrap(handle)
    parts = [
        bitwise_and(bitwise_right_shift(bits, i * to.bits), (1 << to.bits) - 1)
        for i in range(count)
    ]
    if given is not to:
        parts = [astype(_signed(part, to.bits) if to.is_signed else part, given) for part in parts]
    every = reshape(stack(parts, axis=-1), (*lead, m * count))
    return astype(slice_axis(every, -1, 0, n), given)


def holding(name: str, of: DType, dtype: DType) -> DType:
    """The dtype of a result that holds the numbers of another one."""
    whole = of.holds in ("signed", "unsigned") and dtype.is_integer
    spare = dtype.is_signed and not of.is_signed  # a bit for the sign
    if dtype is of or (
        whole and dtype.bits >= of.bits + spare and (dtype.is_signed or not of.is_signed)
    ):
        return dtype
    raise DTypeError(
        f"{name}: into must be {of} or an integer dtype that holds its numbers, got {dtype}; "
        f"'int8' does"
    )


def _signed(bits: Tensor, count: int) -> Tensor:
    """So many bits, in uint8, as the number in two's complement."""
    sign = 1 << (count - 1)
    return subtract(astype(bitwise_xor(bits, sign), int8), sign)


def _in_a_byte(name: str, dtype: DType) -> int:
    if dtype.bits not in (2, 4):
        raise DTypeError(
            f"{name}: packs int4, uint4, int2 and uint2, got {dtype}, which has {dtype.bits} bits"
        )
    return 8 // dtype.bits


def _filled(x: Tensor, missing: int) -> Tensor:
    return pad(x, (*((0, 0),) * (x.ndim - 1), (0, missing))) if missing else x
