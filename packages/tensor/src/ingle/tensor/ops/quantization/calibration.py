"""Scales and zero points for `quantize`, from the numbers that are to be quantized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...contract import Shape
from ...device import Device
from ...dispatch import Operand, TensorLike, handle_of, wrap
from ...dtype_functions import finfo
from ...dtypes import DType, int32
from ...errors import ArgumentError, DTypeError, ShapeError
from ...pytree import Node
from .._guarding import guarded
from .._rules import as_ints, dtype_argument, normalize_axes
from ..creation.conversion import asarray
from ..elementwise.arithmetic import abs as absolute
from ..elementwise.cast import astype
from ..elementwise.extrema import clip, maximum, minimum
from ..elementwise.rounding import round as nearest
from ..movement.shapes import reshape
from ..reductions.basic import max as reduce_max
from ..reductions.basic import min as reduce_min
from ..reductions.statistics import mean
from ._blocks import along_axis
from .codes import code_limits, dequantize, quantize

if TYPE_CHECKING:
    from ...tensor import Tensor

Method = Literal["minmax", "absmean"]
Scheme = Literal["symmetric", "affine"]


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor(Node):
    """Codes with what turns them into numbers: `(values - zero_point) * scale`.

    A tree of its parts: transforms and `compile` take it, and `ingle.nn.save` stores it.

    Attributes:
        values: the codes.
        scale: one for all, or one for each block; see `quantize`.
        zero_point: the codes of 0.0, of the shape of `scale`; None if that is 0.

    >>> import ingle.tensor as it
    >>> q = it.quantize_dynamic(it.asarray([[1.0, -2.0], [0.5, 0.1]]), axis=0)
    >>> q
    QuantizedTensor(shape=(2, 2), dtype=int8, blocks=(2, 1))
    >>> [round(v, 2) for v in q.dequantize()[1].tolist()]
    [0.5, 0.1]
    """

    values: Tensor
    scale: Tensor
    zero_point: Tensor | None = None

    @property
    def shape(self) -> Shape:
        """The shape of the codes, and of the numbers."""
        return self.values.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the codes."""
        return self.values.dtype

    @property
    def device(self) -> Device:
        """Where they live."""
        return self.values.device

    def dequantize(self) -> Tensor:
        """The numbers, in the dtype of the scale."""
        return dequantize(self.values, self.scale, self.zero_point)

    def state_dict(self) -> dict[str, Tensor]:
        """The parts by name, for checkpoints."""
        parts = {"values": self.values, "scale": self.scale}
        return parts if self.zero_point is None else {**parts, "zero_point": self.zero_point}

    def children(self) -> tuple[Any, ...]:
        return self.values, self.scale, self.zero_point

    def with_children(self, children: tuple[Any, ...]) -> QuantizedTensor:
        return QuantizedTensor(*children)

    def __repr__(self) -> str:
        blocks = self.scale.shape or "one"
        return f"QuantizedTensor(shape={self.shape}, dtype={self.dtype}, blocks={blocks})"


@guarded
def quantization_range(
    x: TensorLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    block_size: int | Sequence[int] | None = None,
    method: Method = "minmax",
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number that codes are to stand for, of all or of each block.

    Over several batches, take the `minimum` and `maximum` of their ranges.

    Args:
        x: a float tensor with at least one element.
        axis: each index of this axis, or of these axes, gets a range of its own.
        block_size: how many elements a block has along each axis; one number is that along the
            last axis, with blocks of 1 along the others. The sizes divide those of `x`.
        method: `"minmax"`: what occurs; `"absmean"`: the mean of the absolute values and its
            negative, which for int2 gives the ternary weights of BitNet b1.58 (Ma et al., 2024).

    Returns:
        Both ends: 0-d, or with as many axes as `x` and one entry for each block.

    Raises:
        DTypeError: `x` is not of floats.
        ArgumentError: another `method`, or both `axis` and `block_size`.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, -2.0, 3.0, 4.0], [0.0, 5.0, -6.0, 0.0]])
    >>> [v.tolist() for v in it.quantization_range(x, block_size=2)]
    [[[-2.0, 3.0], [0.0, -6.0]], [[1.0, 4.0], [5.0, 0.0]]]
    """
    name = "quantization_range"
    handle = handle_of(x, name)
    if not handle.dtype.is_floating:
        raise DTypeError(
            f"{name}: x must be floats, got {handle.dtype}; cast it with x.astype(...)"
        )
    if not isinstance(method, str) or method not in ("minmax", "absmean"):
        raise ArgumentError(f"{name}: method={method!r} must be 'minmax' or 'absmean'")
    if axis is not None and block_size is not None:
        raise ArgumentError(f"{name}: give axis={axis} or block_size={block_size}, not both")
    if axis is None and block_size is None:
        return _ends(wrap(handle), None, (), method)
    sizes = _block_sizes(name, handle.shape, axis, block_size)
    counts = tuple(n // b if b else 0 for n, b in zip(handle.shape, sizes, strict=True))
    apart = reshape(x, tuple(v for pair in zip(counts, sizes, strict=True) for v in pair))
    return _ends(apart, tuple(range(1, 2 * len(sizes), 2)), counts, method)


@guarded
def quantization_parameters(
    low: TensorLike, high: TensorLike, /, *, dtype: object = "int8", scheme: Scheme = "symmetric"
) -> tuple[Tensor, Tensor | None]:
    """The scale and zero point by which codes cover a range.

    Symmetric: the largest absolute value gets the largest code, and 0 the code 0. Affine: the ends
    of the range, which is widened to hold 0, get the smallest and the largest code, and 0 has one
    of its own (Jacob et al., CVPR 2018).

    Args:
        low, high: the ends, float tensors of one shape.
        dtype: of the codes.
        scheme: `"symmetric"`, for signed dtypes and float8; or `"affine"`, for integers.

    Returns:
        The scale, and the zero point in int32 or None.

    Raises:
        DTypeError: the dtype does not suit the scheme.

    >>> import ingle.tensor as it
    >>> low, high = it.asarray(-1.0), it.asarray(4.0)
    >>> scale, zero = it.quantization_parameters(low, high, dtype="uint4", scheme="affine")
    >>> round(scale.item(), 4), zero.item()
    (0.3333, 3)
    """
    name, to = "quantization_parameters", dtype_argument(dtype, "quantization_parameters")
    for argument, value in (("low", low), ("high", high)):
        given = handle_of(value, name, argument)
        if not given.dtype.is_floating:
            raise DTypeError(f"{name}: {argument} must be floats, got {given.dtype}; cast it first")
    if not isinstance(scheme, str):
        raise ArgumentError(f"{name}: scheme must be 'symmetric' or 'affine', got {scheme!r:.60}")
    if scheme == "symmetric":
        return _symmetric(name, low, high, to), None
    if scheme != "affine":
        raise ArgumentError(f"{name}: scheme={scheme!r} must be 'symmetric' or 'affine'")
    first, last = code_limits(name, to, symmetric=False)
    bottom, top = minimum(low, 0.0), maximum(high, 0.0)
    scale = _positive((top - bottom) / (last - first))
    return scale, astype(clip(first - nearest(bottom / scale), first, last), int32)


@guarded
def quantize_dynamic(
    x: TensorLike,
    /,
    *,
    dtype: object = "int8",
    scheme: Scheme = "symmetric",
    axis: int | Sequence[int] | None = None,
    block_size: int | Sequence[int] | None = None,
    method: Method = "minmax",
) -> QuantizedTensor:
    """Codes of numbers, with the scale and zero point that suit these very numbers.

    Args:
        x: a float tensor.
        dtype: of the codes: int8, int4, int2, their unsigned kin, a float8.
        scheme: `"symmetric"` or `"affine"`; see `quantization_parameters`.
        axis, block_size, method: what shares a scale; see `quantization_range`.

    >>> import ingle.tensor as it
    >>> q = it.quantize_dynamic(it.asarray([0.0, -0.7, 1.4]), dtype="int4")
    >>> q.values.tolist(), f"{q.scale.item():.4f}"
    ([0, -4, 7], '0.2000')
    """
    low, high = quantization_range(x, axis=axis, block_size=block_size, method=method)
    scale, zero_point = quantization_parameters(low, high, dtype=dtype, scheme=scheme)
    return QuantizedTensor(quantize(x, scale, zero_point, dtype=dtype), scale, zero_point)


@guarded
def quantize_per_tensor(
    x: TensorLike, scale: Operand, zero_point: Operand, dtype: object = "int8", /
) -> QuantizedTensor:
    """Codes with one scale and zero point for all, as PyTorch calls it.

    Args:
        x: a float tensor.
        scale: a positive number or 0-d tensor.
        zero_point: the code of 0.0, an integer or 0-d tensor.
        dtype: of the codes.

    >>> import ingle.tensor as it
    >>> it.quantize_per_tensor(it.asarray([0.0, 0.26]), 0.25, 10, "uint8").values.tolist()
    [10, 11]
    """
    handle = handle_of(x, "quantize_per_tensor")
    values = quantize(x, scale, zero_point, dtype=dtype)
    device = handle.backend.device
    return QuantizedTensor(
        values,
        asarray(scale, dtype=handle.dtype, device=device),
        asarray(zero_point, dtype=int32, device=device),
    )


@guarded
def quantize_per_channel(
    x: TensorLike,
    scales: TensorLike,
    zero_points: TensorLike,
    axis: int,
    dtype: object = "int8",
    /,
) -> QuantizedTensor:
    """Codes with a scale and zero point for each index of an axis, as PyTorch calls it.

    Args:
        x: a float tensor.
        scales, zero_points: 1-d tensors with one entry for each index of the axis.
        axis: the axis.
        dtype: of the codes.

    >>> import ingle.tensor as it
    >>> scales, zeros = it.asarray([0.5, 2.0]), it.asarray([0, 1])
    >>> it.quantize_per_channel(it.asarray([[1.0], [4.0]]), scales, zeros, 0).values.tolist()
    [[2], [3]]
    """
    name = "quantize_per_channel"
    scale = along_axis(name, "scales", scales, x, axis)
    zero_point = along_axis(name, "zero_points", zero_points, x, axis)
    return QuantizedTensor(quantize(x, scale, zero_point, dtype=dtype), scale, zero_point)


def _block_sizes(
    name: str, shape: Shape, axis: Any, block_size: int | Sequence[int] | None
) -> Shape:
    if block_size is None:
        own = normalize_axes(axis, len(shape), name)
        return tuple(1 if i in own else n for i, n in enumerate(shape))
    sizes = as_ints(block_size, name, "block_size")
    if not isinstance(block_size, Sequence):
        sizes = (*[1] * (len(shape) - 1), *sizes)
    if len(sizes) != len(shape) or any(b < 1 or n % b for b, n in zip(sizes, shape, strict=False)):
        raise ShapeError(
            f"{name}: block_size={block_size} must divide the shape {shape} of x, with one size "
            "for each axis or a number for the last; pad x first"
        )
    return sizes


def _ends(
    x: Tensor, axes: tuple[int, ...] | None, shape: Shape, method: Method
) -> tuple[Tensor, Tensor]:
    if method == "absmean":
        size = reshape(mean(absolute(x), axis=axes), shape)
        return -size, size
    return reshape(reduce_min(x, axis=axes), shape), reshape(reduce_max(x, axis=axes), shape)


def _symmetric(name: str, low: TensorLike, high: TensorLike, dtype: DType) -> Tensor:
    if dtype.holds == "unsigned":
        raise DTypeError(f"{name}: {dtype} has no symmetric codes; use scheme='affine'")
    largest = code_limits(name, dtype, symmetric=True)[1]
    return _positive(maximum(absolute(low), absolute(high)) / largest)


def _positive(scale: Tensor) -> Tensor:
    """All zeros have the code 0 in any scale, but in none of 0."""
    return maximum(scale, finfo(scale.dtype).smallest_normal)
