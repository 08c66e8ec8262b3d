"""Products by a weight that is kept as codes of few bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar
from ...dispatch import Operand, TensorLike, handle_of, promote, run
from ...dtypes import DType, as_dtype, int32, uint8
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import broadcast_shapes, dtype_argument
from ..elementwise.cast import astype
from ..movement.shapes import reshape
from ..neural.linear import linear
from ..reductions.basic import sum as reduce_sum
from ._blocks import check_blocks
from ._reference import dequantize_reference, unpack_reference
from .codes import dequantize
from .decoding import decode_weight

if TYPE_CHECKING:
    from ...tensor import Tensor

NAME = "quantized_linear"


@guarded
def quantized_linear(
    x: TensorLike, codes: TensorLike, scale: TensorLike, zero_point: Operand | None = None, /,
    *, dtype: object = "int4",
) -> Tensor:  # fmt: skip
    """`linear` by a weight of codes: `x @ dequantize(codes, scale, zero_point).T`.

    A device may decode them while it multiplies (`cpu` and `cuda` do), so that no more than the
    codes are read. Elsewhere the weight is made of its codes first. ONNX Runtime calls this
    MatMulNBits. Gradients flow to `x` and `scale`.

    Args:
        x: (..., in), floats.
        codes: (out, in) of an int8 or uint8 weight; of a narrower one what `pack` makes of it,
            uint8 of shape (out, ceil(in / k)) for k codes in a byte.
        scale: as for `dequantize`, for a weight of shape (out, in).
        zero_point: the code of 0.0, of the shape of `scale`; 0 if not given.
        dtype: of the codes: int8, uint8, int4, uint4, int2, uint2.

    Returns:
        (..., out), in the dtype that `x` and `scale` promote to.

    Raises:
        DTypeError: `x` or `scale` is not float, or `codes` are not what `dtype` is kept as.
        ShapeError: the sizes do not fit.

    >>> import ingle.tensor as it
    >>> codes = it.pack(it.asarray([[1, -2], [3, 4]], dtype="int4"))
    >>> it.quantized_linear(it.asarray([1.0, 10.0]), codes, it.asarray([[0.5], [1.0]])).tolist()
    [-9.5, 43.0]
    """
    to = dtype_argument(dtype, NAME)
    if to.holds not in ("signed", "unsigned") or to.bits > 8:
        raise DTypeError(
            f"{NAME}: dtype must be an integer dtype of at most 8 bits, got {to}; use 'int8' or "
            "'int4'"
        )
    for argument, part in (("x", x), ("scale", scale)):
        handle_of(part, NAME, argument)  # Numbers beside a tensor would stay numbers.
    given, factor = promote(NAME, ("x", x), ("scale", scale))
    kept = handle_of(codes, NAME, "codes")
    zero: Handle | Scalar = Scalar(0, int32)
    if isinstance(zero_point, int):
        zero = Scalar(int(zero_point), int32)
    elif zero_point is not None:
        zero = handle_of(zero_point, NAME, "zero_point")
    return run(QUANTIZED_LINEAR.op(dtype=to), (given, kept, factor, zero))[0]


def _rule(x: Aval, codes: Aval, scale: Aval, zero_point: Aval, *, dtype: DType) -> Aval:
    for name, aval in (("x", x), ("scale", scale)):
        if not aval.dtype.is_floating:
            raise DTypeError(
                f"{NAME}: {name} must be floats, got {aval.dtype}; cast it with astype('float32')"
            )
    held = dtype if dtype.bits == 8 else uint8
    if codes.dtype is not held:
        how = "quantize makes them" if dtype.bits == 8 else "pack makes such bytes of them"
        raise DTypeError(
            f"{NAME}: codes of dtype={dtype.name!r} must be {held}, got {codes.dtype}; {how}"
        )
    if not x.shape or len(codes.shape) != 2:
        raise ShapeError(
            f"{NAME}: x must be (..., in) and codes (out, bytes of in codes), got {x.shape} and "
            f"{codes.shape}"
        )
    outs, taken = codes.shape
    width = x.shape[-1]
    if taken != -(-width // (8 // dtype.bits)):
        raise ShapeError(
            f"{NAME}: {width} numbers of x {x.shape} need {-(-width // (8 // dtype.bits))} bytes "
            f"of {dtype} codes in each row, got codes of shape {codes.shape}"
        )
    check_blocks(NAME, "scale", scale.shape, (outs, width))
    check_blocks(NAME, "zero_point", zero_point.shape, (outs, width))
    broadcast_shapes(NAME, scale.shape, zero_point.shape, arguments=("scale", "zero_point"))
    if not zero_point.dtype.is_integer:
        raise DTypeError(
            f"{NAME}: zero_point must be integers, got {zero_point.dtype}; cast it first"
        )
    return Aval((*x.shape[:-1], outs), x.dtype)


def _body(x: Tensor, codes: Tensor, scale: Tensor, zero_point: Any, *, dtype: DType) -> Tensor:
    outs, width = codes.shape[0], x.shape[-1]
    by_row = dtype.bits == 8 and scale.shape == (outs, 1) and not hasattr(zero_point, "shape")
    if by_row and zero_point == 0 and math.prod(x.shape[:-1]) == 1:
        # For a single row a product has to make the weight first; a sum reads the bytes.
        row = reshape(x, (1, width)) * astype(codes, x.dtype)
        sums = reduce_sum(row, axis=1) * reshape(scale, (outs,))
        return reshape(sums, (*x.shape[:-1], outs))
    if dtype.bits == 8:
        return linear(x, dequantize(codes, scale, zero_point))
    return linear(x, decode_weight(codes, scale, zero_point, dtype=dtype, size=width))


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating or draw.dtype.is_storage or draw.dtype.bits < 32:
        return
    rng = draw.rng
    for name, lead, outs, width, blocks in (
        ("int4", (), 5, 64, (5, 2)), ("uint4", (3,), 5, 64, (5, 1)),
        ("int4", (2, 2), 9, 33, (9, 1)), ("int8", (1,), 5, 17, (5, 1)),
        ("uint8", (5,), 3, 64, (1, 2)), ("int2", (2,), 3, 9, (1, 1)),
        ("int4", (0,), 3, 8, (3, 1)), ("int8", (6,), 4, 40, ()),
    ):  # fmt: skip
        to = as_dtype(name)
        held = uint8 if to.bits < 8 else to
        low, high = (-128, 128) if name == "int8" else (0, 256)
        taken = -(-width // (8 // to.bits))
        codes = rng.integers(low, high, (outs, taken)).astype(held.dtype)
        x = rng.uniform(-2, 2, (*lead, width)).astype(draw.dtype.dtype)
        scale = rng.uniform(0.25, 1, blocks).astype(draw.dtype.dtype)
        yield Sample((x, codes, scale), {"dtype": to}, gradient=(0, 2), condition=width)
        zero = rng.integers(-3, 4, blocks).astype(np.int32)
        yield Sample((x, codes, scale, zero), {"dtype": to}, gradient=(0, 2), condition=width)


def _reference(x: Any, codes: Any, scale: Any, zero_point: Any = None, *, dtype: DType) -> Any:
    width = x.shape[-1]
    each = codes if dtype.bits == 8 else unpack_reference(codes, dtype, width)
    return x @ dequantize_reference(each, scale, zero_point).T


QUANTIZED_LINEAR = Operation(
    NAME,
    tensors=("x", "codes", "scale", "zero_point"),
    statics=("dtype",),
    rule=_rule,
    traits=Traits("opaque", precision="low", bound="compute"),
    body=_body,
    public=quantized_linear,
    samples=_samples,
    reference=_reference,
)
