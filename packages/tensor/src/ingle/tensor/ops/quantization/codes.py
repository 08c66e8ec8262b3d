"""Numbers as codes of few bits and the scale of these: quantize, dequantize, fake_quantize.

A number is `(code - zero_point) * scale`. A scale, and a zero point if there is one, belongs to the
whole tensor, to each index of an axis, or to each block: along every axis it has as many entries as
there are blocks, so that its shape says it all. It is a number or 0-d; or it has as many axes as
the tensor, and each of its sizes divides the tensor's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...dispatch import Operand, TensorLike, handle_of, promote, run
from ...dtype_functions import finfo
from ...dtypes import DType, default_float, float32, int8, int32, integer_range, uint8
from ...errors import ArgumentError, DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._batching import Batched
from .._guarding import guarded
from .._rules import as_int, broadcast_shapes, dtype_argument, widened
from ..elementwise.cast import astype
from ..elementwise.comparison import greater_equal, isnan, less_equal
from ..elementwise.extrema import clip
from ..elementwise.rounding import round as nearest
from ..elementwise.where import where
from ..movement.shapes import reshape
from ._blocks import along_axis, check_blocks, gathered, of_batch, split
from ._reference import dequantize_reference, fake_quantize_reference, quantize_reference
from .packing import holding

if TYPE_CHECKING:
    from ...tensor import Tensor

Limits = tuple[float, float]


@guarded
def quantize(
    x: TensorLike, scale: Operand, zero_point: Operand | None = None, /,
    *, dtype: object = "int8", into: object = None,
) -> Tensor:  # fmt: skip
    """Codes: `round(x / scale) + zero_point`, with ties to even, cut off at the dtype's limits.

    Without a zero point, codes are symmetric: int8 goes from -127, int2 from -1. NaN becomes 0. In
    float8 the code of a number is `x / scale` rounded to float8; it is cut off at the largest
    finite number, and NaN stays. ONNX calls this QuantizeLinear. Codes are constants for gradients;
    see `fake_quantize`.

    Args:
        x: a float tensor.
        scale: a positive number, or a tensor of them: 0-d, or with as many axes as `x` and along
            each of them one entry for each of as many blocks of equal size.
        zero_point: the code of 0.0: an integer, or an integer tensor of the shape of `scale`.
        dtype: int8, uint8, int4, uint4, int2, uint2, int16, uint16, int32, or a float8.
        into: the result's dtype, which holds all of `dtype`'s codes; `dtype` if not given. Nothing
            is computed in dtypes of less than 8 bits: `pack` takes such codes from int8 and uint8.

    Raises:
        DTypeError: `x` or `scale` is not float, `zero_point` not an integer, the dtype has no zero
            points, or `into` is neither `dtype` nor an integer dtype that holds its codes.
        ShapeError: `scale` does not divide `x` into blocks.

    >>> import ingle.tensor as it
    >>> it.quantize(it.asarray([-1.0, 0.26, 9.0]), 0.5, 0).tolist()
    [-2, 1, 18]
    >>> it.quantize(it.asarray([[1.0, 2.0], [3.0, 4.0]]), it.asarray([[1.0], [2.0]])).tolist()
    [[1, 2], [2, 2]]
    """
    to = dtype_argument(dtype, "quantize")
    low, high = code_limits("quantize", to, symmetric=zero_point is None)
    inputs = _operands("quantize", x, scale, zero_point)
    if into is not None:
        to = holding("quantize", to, dtype_argument(into, "quantize"))
    return run(_QUANTIZE.op(dtype=to, low=low, high=high), inputs)[0]


def _rule(x: Aval, scale: Aval, zero_point: Aval, *, dtype: DType, low: float, high: float) -> Aval:
    return Aval(x.shape, dtype)


def _quantize(
    x: Tensor, scale: Any, zero_point: Any, *, dtype: DType, low: float, high: float
) -> Tensor:
    shape, (factor, zero) = split(x.shape, scale, zero_point)
    wide = widened(reshape(x, shape))
    ratio = wide / _number(factor, wide)
    codes = clip(ratio, low, high) if dtype.holds == "float" else _codes(ratio, zero, low, high)
    return reshape(astype(codes, dtype), x.shape)


def _samples(draw: Draw) -> Iterator[Sample]:
    # Half types cannot tell the 90th step from one beside it.
    if draw.dtype.is_floating and draw.dtype.bits > 16:
        for x, scale, zero in _cases(draw):
            yield Sample((x, scale, zero), {"dtype": int8}, gradient=False, exact=True)
            yield Sample((x, scale), gradient=False, exact=True)
        yield Sample((np.abs(x), 0.5, 3), {"dtype": uint8}, gradient=False, exact=True)


_QUANTIZE = Operation(
    "quantize",
    tensors=("x", "scale", "zero_point"),
    statics=("dtype", "low", "high"),
    rule=_rule,
    traits=Traits("opaque"),
    vjp={},
    body=_quantize,
    public=quantize,
    samples=_samples,
    reference=quantize_reference,
)


@guarded
def dequantize(values: TensorLike, scale: Operand, zero_point: Operand | None = None, /) -> Tensor:
    """Numbers from their codes: `(values - zero_point) * scale`, in the dtype of the scale.

    ONNX calls this DequantizeLinear. Gradients flow to the scale.

    Args:
        values: the codes, of an integer dtype or a float8.
        scale, zero_point: as for `quantize`.

    Raises:
        DTypeError: `values` are neither integers nor float8.

    >>> import ingle.tensor as it
    >>> it.dequantize(it.asarray([-2, 1, 18], dtype="int8"), it.asarray(0.5), 0).tolist()
    [-1.0, 0.5, 9.0]
    """
    codes = handle_of(values, "dequantize", "values")
    if not (codes.dtype.is_integer or codes.dtype.is_storage):
        raise DTypeError(f"dequantize: values must be integers or float8, got {codes.dtype}")
    factor = _scale("dequantize", scale, codes)
    zero = _zero_point("dequantize", zero_point, codes.shape)
    broadcast_shapes("dequantize", factor.shape, zero.shape, arguments=("scale", "zero_point"))
    return run(_DEQUANTIZE, (codes, factor, zero))[0]


def _dequantize(values: Tensor, scale: Any, zero_point: Any) -> Tensor:
    to = scale.dtype if hasattr(scale, "dtype") else default_float()
    shape, (factor, zero) = split(values.shape, scale, zero_point)
    wide = float32 if to.bits < 32 else to
    codes = astype(reshape(values, shape), wide)
    moved = codes - _number(zero, codes)
    return reshape(astype(moved * _number(factor, moved), to), values.shape)


def _dequantize_rule(values: Aval, scale: Aval, zero_point: Aval) -> Aval:
    return Aval(values.shape, scale.dtype)


def _dequantize_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for x, scale, zero in _cases(draw):
            codes = np.asarray(draw.rng.integers(-90, 90, x.shape), np.int8)
            yield Sample((codes, scale, zero), gradient=(1,))
            yield Sample((codes, scale), gradient=(1,))


_DEQUANTIZE = Operation(
    "dequantize",
    tensors=("values", "scale", "zero_point"),
    rule=_dequantize_rule,
    traits=Traits("opaque", storage=True),
    body=_dequantize,
    public=dequantize,
    samples=_dequantize_samples,
    reference=dequantize_reference,
).op()


@guarded
def fake_quantize(
    x: TensorLike, scale: Operand, zero_point: Operand | None = None, /, *, dtype: object = "int8"
) -> Tensor:
    """`x` as it is after `quantize` and `dequantize`, with a gradient, for training.

    The gradient passes straight through the rounding, and is 0 by `x` where codes were cut off
    (Bengio et al., Estimating or propagating gradients through stochastic neurons, 2013). That by
    the scale is that of learned step sizes (Esser et al., ICLR 2020), not divided by anything.

    Args:
        x: a float tensor.
        scale, zero_point: as for `quantize`; a zero point may be of floats here, to be learned.
        dtype: of the codes, as for `quantize`.

    >>> import ingle.tensor as it
    >>> x = it.asarray([0.3, 40.0]).require_grad()
    >>> y = it.fake_quantize(x, 0.25, 0, dtype="int8")
    >>> y.tolist(), y.sum().backward()[x].tolist()
    ([0.25, 31.75], [1.0, 0.0])
    """
    to = dtype_argument(dtype, "fake_quantize")
    limits = code_limits("fake_quantize", to, symmetric=zero_point is None)
    inputs = _operands("fake_quantize", x, scale, zero_point, learned=True)
    return _faked(inputs, limits, to if to.holds == "float" else None)


def _fake_rule(
    x: Aval, scale: Aval, zero_point: Aval, *, dtype: DType | None, low: float, high: float
) -> Aval:
    return x


def _parts(
    x: Tensor, scale: Any, zero_point: Any, dtype: DType | None, low: float, high: float
) -> _Faked:
    shape, (factor, zero) = split(x.shape, scale, zero_point)
    wide = widened(reshape(x, shape))
    factor, zero = _number(factor, wide), _number(zero, wide)
    ratio = wide / factor
    if dtype is None:
        moved = nearest(ratio) + zero
        inside = greater_equal(moved, low) & less_equal(moved, high)
        return _Faked(_codes(ratio, zero, low, high) - zero, ratio, inside, factor)
    inside = greater_equal(ratio, low) & less_equal(ratio, high)
    codes = astype(astype(clip(ratio, low, high), dtype), wide.dtype)
    return _Faked(codes, ratio, inside, factor)


def _fake_quantize(
    x: Tensor, scale: Any, zero_point: Any, *, dtype: DType | None, low: float, high: float
) -> Tensor:
    found = _parts(x, scale, zero_point, dtype, low, high)
    return astype(reshape(found.codes * found.scale, x.shape), x.dtype)


def _fake_vjp(
    g: Tensor, x: Tensor, scale: Any, zero_point: Any, dtype: DType | None, low: float,
    high: float, needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    codes, ratio, inside, factor = _parts(x, scale, zero_point, dtype, low, high)
    wide = astype(reshape(g, ratio.shape), ratio.dtype)
    by_x = astype(reshape(where(inside, wide, 0), x.shape), x.dtype)
    by_scale = by_zero = None
    if needs[1]:
        by_scale = gathered(wide * (codes - where(inside, ratio, 0)), scale)
    if needs[2]:
        by_zero = gathered(where(inside, 0, -wide * factor), zero_point)
    return by_x, by_scale, by_zero


def _fake_batch(
    batched: Batched, x: Tensor, *parameters: Any, dtype: DType | None, low: float, high: float
) -> Tensor:
    inputs = _operands("fake_quantize", *of_batch(batched, x, *parameters), learned=True)
    return _faked(inputs, (low, high), dtype)


def _fake_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating and draw.dtype.bits > 16:
        for x, scale, zero in _cases(draw):
            yield Sample((x, scale, zero), gradient=False)
            yield Sample((x, scale), gradient=False)
        yield Sample((x, 0.5), gradient=False)


_FAKE_QUANTIZE = Operation(
    "fake_quantize",
    tensors=("x", "scale", "zero_point"),
    statics=("dtype", "low", "high"),
    rule=_fake_rule,
    traits=Traits("opaque"),
    vjp={("x", "scale", "zero_point"): _fake_vjp},
    body=_fake_quantize,
    batch=_fake_batch,
    public=fake_quantize,
    samples=_fake_samples,
    reference=fake_quantize_reference,
)


@guarded
def fake_quantize_per_tensor_affine(
    x: TensorLike, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int, /
) -> Tensor:
    """`fake_quantize` with one scale and codes in any range of integers, as PyTorch calls it.

    Args:
        x: a float tensor.
        scale: a positive number or a 0-d tensor of one.
        zero_point: the code of 0.0, a number or 0-d tensor.
        quant_min, quant_max: the smallest and the largest code.

    >>> import ingle.tensor as it
    >>> it.fake_quantize_per_tensor_affine(it.asarray([0.3, 9.0]), 0.5, 1, 0, 15).tolist()
    [0.5, 7.0]
    """
    name = "fake_quantize_per_tensor_affine"
    inputs = _operands(name, x, scale, zero_point, learned=True)
    return _faked(inputs, _integers(name, quant_min, quant_max), None)


@guarded
def fake_quantize_per_channel_affine(
    x: TensorLike, scale: TensorLike, zero_point: TensorLike, axis: int, quant_min: int,
    quant_max: int, /,
) -> Tensor:  # fmt: skip
    """`fake_quantize` with a scale for each index of an axis, as PyTorch calls it.

    Args:
        x: a float tensor.
        scale, zero_point: 1-d tensors with one entry for each index of the axis.
        axis: the axis.
        quant_min, quant_max: the smallest and the largest code.

    >>> import ingle.tensor as it
    >>> x, scale = it.asarray([[0.3, 9.0], [0.3, 9.0]]), it.asarray([0.5, 2.0])
    >>> it.fake_quantize_per_channel_affine(x, scale, it.asarray([0, 0]), 0, -8, 7).tolist()
    [[0.5, 3.5], [0.0, 8.0]]
    """
    name = "fake_quantize_per_channel_affine"
    factor = along_axis(name, "scale", scale, x, axis)
    zero = along_axis(name, "zero_point", zero_point, x, axis)
    inputs = _operands(name, x, factor, zero, learned=True)
    return _faked(inputs, _integers(name, quant_min, quant_max), None)


def code_limits(name: str, dtype: DType, *, symmetric: bool) -> Limits:
    """The smallest and the largest code of a dtype."""
    if dtype.holds == "float" and dtype.is_storage:
        if not symmetric:
            raise DTypeError(f"{name}: {dtype} has no zero points; leave zero_point out")
        return finfo(dtype).min, finfo(dtype).max
    if dtype.holds not in ("signed", "unsigned"):
        raise DTypeError(
            f"{name}: dtype must be an integer dtype or a float8, got {dtype}; use 'int8'"
        )
    low, high = integer_range(dtype)
    return (-high if symmetric and dtype.holds == "signed" else low), high


def _integers(name: str, low: int, high: int) -> Limits:
    low, high = as_int(low, name, "quant_min"), as_int(high, name, "quant_max")
    if low >= high:
        raise ArgumentError(f"{name}: quant_min={low} must be less than quant_max={high}")
    return low, high


def _operands(
    name: str, x: TensorLike, scale: Operand, zero_point: Operand | None, *, learned: bool = False
) -> tuple[Handle, Handle | Scalar, Handle | Scalar]:
    given = handle_of(x, name)
    if not given.dtype.is_floating:
        raise DTypeError(f"{name}: x must be floats, got {given.dtype}; cast it with x.astype(...)")
    _scale(name, scale, given)
    a, factor = promote(name, ("x", x), ("scale", scale))
    assert isinstance(a, Handle)
    zero = _zero_point(name, zero_point, a.shape, learned=learned)
    broadcast_shapes(name, factor.shape, zero.shape, arguments=("scale", "zero_point"))
    return a, factor, zero


def _scale(name: str, scale: object, x: Handle) -> Handle | Scalar:
    if isinstance(scale, (int, float)) and not isinstance(scale, bool):
        if not scale > 0:
            raise ArgumentError(f"{name}: scale={scale} must be positive")
        return Scalar(float(scale), x.dtype if x.dtype.is_floating else default_float())
    handle = handle_of(scale, name, "scale")
    if not handle.dtype.is_floating:
        raise DTypeError(f"{name}: scale must be floats, got {handle.dtype}; cast it first")
    check_blocks(name, "scale", handle.shape, x.shape)
    return handle


def _zero_point(
    name: str, value: object, shape: Shape, *, learned: bool = False
) -> Handle | Scalar:
    if value is None:
        return Scalar(0, int32)
    if isinstance(value, int):
        return Scalar(int(value), int32)
    handle = handle_of(value, name, "zero_point")
    if not (handle.dtype.is_integer or (learned and handle.dtype.is_floating)):
        raise DTypeError(f"{name}: zero_point must be integers, got {handle.dtype}; cast it first")
    check_blocks(name, "zero_point", handle.shape, shape)
    return handle


def _codes(ratio: Tensor, zero_point: Any, low: float, high: float) -> Tensor:
    """Integers as floats: rounded, moved, cut off."""
    whole = where(isnan(ratio), 0, nearest(ratio))
    return clip(whole + _number(zero_point, ratio), low, high)


def _number(value: Any, like: Tensor) -> Any:
    return astype(value, like.dtype) if hasattr(value, "shape") else value


def _faked(inputs: tuple[Handle | Scalar, ...], limits: Limits, dtype: DType | None) -> Tensor:
    return run(_FAKE_QUANTIZE.op(dtype=dtype, low=limits[0], high=limits[1]), inputs)[0]


class _Faked(NamedTuple):
    """What is known inside of `fake_quantize`, in the shapes in which blocks broadcast."""

    codes: Tensor
    """Without their zero point."""
    ratio: Tensor
    inside: Tensor
    """Where nothing was cut off."""
    scale: Any


def _cases(draw: Draw) -> Iterator[tuple[Any, Any, Any]]:
    """Numbers off the ties, with a scale for all, an axis, blocks of two axes."""
    for shape, scales in (
        ((5,), ()), ((3, 5), (3, 1)), ((2, 8), (2, 4)), ((4, 3, 2), (2, 1, 2)), ((0, 3), (0, 1)),
    ):  # fmt: skip
        steps = draw.rng.integers(-90, 90, shape) + draw.rng.uniform(-0.4, 0.4, shape)
        x = np.asarray(steps / 4, draw.dtype.dtype)
        scale = np.asarray(0.25 * 2.0 ** draw.rng.integers(0, 2, scales), draw.dtype.dtype)
        yield x, scale, np.asarray(draw.rng.integers(-3, 4, scales), np.int32)
