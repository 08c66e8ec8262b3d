"""Weights from the bytes that their codes are packed into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Scalar
from ...dispatch import Operand, TensorLike, handle_of, run
from ...dtypes import DType, as_dtype, int8, int32, uint8
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_int, dtype_argument
from ._blocks import check_blocks
from ._reference import dequantize_reference, unpack_reference
from .codes import dequantize
from .packing import unpack

if TYPE_CHECKING:
    from ...tensor import Tensor

NAME = "decode_weight"


@guarded
def decode_weight(
    codes: TensorLike, scale: TensorLike, zero_point: Operand | None = None, /,
    *, dtype: object, size: int,
) -> Tensor:  # fmt: skip
    """`dequantize(unpack(codes, dtype, size=size), scale, zero_point)` as one operation.

    Args:
        codes: uint8 of shape (out, ceil(size / k)) for k codes in a byte, as `pack` makes them.
        scale: floats, as for `dequantize`, for a weight of shape (out, size).
        zero_point: the code of 0.0: an integer, or integers of the shape of `scale`; 0 if not
            given.
        dtype: of the codes: int4, uint4, int2, uint2.
        size: numbers in a row.

    Returns:
        (out, size), in the dtype of `scale`.

    Raises:
        DTypeError: `codes` are not uint8, or a dtype has no such codes.
        ShapeError: the sizes do not fit.

    >>> import ingle.tensor as it
    >>> codes = it.pack(it.asarray([[1, -2, 3]], dtype="int4"))
    >>> decode_weight(codes, it.asarray([[0.5]]), dtype="int4", size=3).tolist()
    [[0.5, -1.0, 1.5]]
    """
    to = dtype_argument(dtype, NAME)
    if to.bits not in (2, 4):
        raise DTypeError(f"{NAME}: dtype must be int4, uint4, int2 or uint2, got {to}")
    zero: Handle | Scalar = Scalar(0, int32)
    if isinstance(zero_point, int):
        zero = Scalar(int(zero_point), int32)
    elif zero_point is not None:
        zero = handle_of(zero_point, NAME, "zero_point")
    inputs = handle_of(codes, NAME, "codes"), handle_of(scale, NAME, "scale"), zero
    return run(DECODE_WEIGHT.op(dtype=to, size=as_int(size, NAME, "size")), inputs)[0]


def _rule(codes: Aval, scale: Aval, zero_point: Aval, *, dtype: DType, size: int) -> Aval:
    taken = -(-size // (8 // dtype.bits))
    if codes.dtype is not uint8 or not scale.dtype.is_floating or not zero_point.dtype.is_integer:
        raise DTypeError(
            f"{NAME}: codes must be uint8, scale floats and zero_point integers, got "
            f"{codes.dtype}, {scale.dtype} and {zero_point.dtype}; pack makes such codes"
        )
    if len(codes.shape) != 2 or codes.shape[1] != taken:
        raise ShapeError(
            f"{NAME}: {size} numbers need {taken} bytes of {dtype} codes in each row, got codes of "
            f"shape {codes.shape}; pack makes such rows"
        )
    shape = codes.shape[0], size
    check_blocks(NAME, "scale", scale.shape, shape)
    check_blocks(NAME, "zero_point", zero_point.shape, shape)
    return Aval(shape, scale.dtype)


def _body(codes: Tensor, scale: Tensor, zero_point: Any, *, dtype: DType, size: int) -> Tensor:
    whole = int8 if dtype.is_signed else uint8
    return dequantize(unpack(codes, dtype, size=size, into=whole), scale, zero_point)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating or draw.dtype.is_storage:
        return
    rng = draw.rng
    for name, outs, size, blocks in (
        ("int4", 5, 64, (5, 2)), ("uint4", 3, 33, (3, 1)), ("int2", 9, 48, (1, 3)),
        ("uint2", 4, 5, ()), ("int4", 0, 8, (0, 1)),
    ):  # fmt: skip
        to = as_dtype(name)
        codes = rng.integers(0, 256, (outs, -(-size // (8 // to.bits)))).astype(np.uint8)
        scale = rng.uniform(0.25, 1, blocks).astype(draw.dtype.dtype)
        options = {"dtype": to, "size": size}
        yield Sample((codes, scale), options, gradient=(1,))
        zero = rng.integers(-3, 4, blocks).astype(np.int32)
        yield Sample((codes, scale, zero), options, gradient=(1,))


def _reference(codes: Any, scale: Any, zero_point: Any = None, *, dtype: DType, size: int) -> Any:
    return dequantize_reference(unpack_reference(codes, dtype, size), scale, zero_point)


DECODE_WEIGHT = Operation(
    NAME,
    tensors=("codes", "scale", "zero_point"),
    statics=("dtype", "size"),
    rule=_rule,
    traits=Traits("opaque"),
    body=_body,
    public=decode_weight,
    samples=_samples,
    reference=_reference,
)
