"""Tensors of one value: full, zeros, ones, empty and their kin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...device import Device
from ...dispatch import Number, Operand, TensorLike, create, handle_of, wrap
from ...dtypes import DType, bool_, default_complex, default_float, default_int, integer_range
from ...errors import DTypeError, OperandError
from ...followed import is_followed
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._batching import full_batch
from .._guarding import guarded
from .._rules import as_shape, dtype_argument
from ..elementwise.cast import astype
from ..movement.shapes import broadcast_to

if TYPE_CHECKING:
    from ...tensor import Tensor


def _dtype_of(value: Number) -> DType:
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return default_int()
    return default_complex() if isinstance(value, complex) else default_float()


def full(
    shape: int | Sequence[int],
    fill_value: Operand,
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value.

    Args:
        shape: its sizes.
        fill_value: the number, or a 0-d tensor.
        dtype: the dtype; that of the number if not given.
        device: where to put it; the default device, or the tensor's, if not given.

    Raises:
        DTypeError: the dtype cannot hold the number.

    >>> import ingle.tensor as it
    >>> it.full((2,), 7).tolist()
    [7, 7]
    """
    if isinstance(fill_value, np.generic):  # also one that is followed, and goes on to be
        fill_value = fill_value.item()
    if not isinstance(fill_value, (bool, int, float, complex)):
        return _spread(shape, handle_of(fill_value, "full", "fill_value"), dtype, device)
    to = _dtype_of(fill_value) if dtype is None else dtype_argument(dtype, "full")
    op = FULL.op(shape=as_shape(shape, "full"), dtype=to)
    return create(op, device, (Scalar(_fitting(fill_value, to), to),))


def _full_rule(fill_value: Aval, *, shape: Shape, dtype: DType) -> Aval:
    return Aval(shape, dtype)


def _full_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample(((3, 5), 2), {"dtype": draw.dtype}, gradient=False)
    yield Sample(((0,), 1), {"dtype": draw.dtype}, gradient=False)


FULL = Operation(
    "full",
    tensors=("fill_value",),
    statics=("shape", "dtype"),
    rule=_full_rule,
    traits=Traits("creation", family="full", storage=True, exactly_rounded=True),
    batch=full_batch,
    public=full,
    samples=_full_samples,
    reference=lambda shape, value, dtype: np.full(shape, value, dtype.dtype),
)


def _spread(
    shape: int | Sequence[int], value: Handle, dtype: object, device: Device | str | None
) -> Tensor:
    if value.shape:
        raise OperandError(
            f"full: fill_value must be a number or a 0-d tensor, got shape {value.shape}; "
            "use broadcast_to"
        )
    out = astype(wrap(value), value.dtype if dtype is None else dtype, device=device)
    return broadcast_to(out, as_shape(shape, "full"))


def _fitting(value: Number, dtype: DType) -> Number:
    """A number as one that the dtype can hold."""
    if dtype.is_complex or (dtype.holds == "float" and not isinstance(value, complex)):
        return value
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if whole and dtype.kind == "bool":
        return bool(value)
    if whole and dtype.holds in ("signed", "unsigned"):
        low, high = integer_range(dtype)
        # A number that is followed stays what it is.
        number = value if isinstance(value, int) and is_followed(value) else int(value.real)
        if low <= number <= high:
            return number
    raise DTypeError(
        f"full: fill_value={value!r} does not fit {dtype}; choose a dtype that holds it"
    )


@guarded
def zeros(
    shape: int | Sequence[int], *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of zeros, of the default float dtype if none is given.

    Args:
        shape: of the result: a size, or one for each axis.
        dtype: the dtype; the default float dtype if not given.
        device: where to put it; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.zeros((2, 1)).tolist()
    [[0.0], [0.0]]
    """
    return full(shape, 0.0 if dtype is None else 0, dtype=dtype, device=device)


@guarded
def ones(
    shape: int | Sequence[int], *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of ones, of the default float dtype if none is given.

    Args:
        shape: of the result: a size, or one for each axis.
        dtype: the dtype; the default float dtype if not given.
        device: where to put it; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.ones(2).tolist()
    [1.0, 1.0]
    """
    return full(shape, 1.0 if dtype is None else 1, dtype=dtype, device=device)


@guarded
def full_like(
    x: TensorLike,
    /,
    fill_value: Number,
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value with the shape, and unless given the dtype and device, of `x`.

    Args:
        x: a tensor.
        fill_value: a number.
        dtype: the dtype; that of `x` if not given.
        device: where to put it; the device of `x` if not given.

    >>> import ingle.tensor as it
    >>> it.full_like(it.zeros((1, 2)), 3.0).tolist()
    [[3.0, 3.0]]
    """
    handle = handle_of(x, "full_like")
    return full(
        handle.shape,
        fill_value,
        dtype=handle.dtype if dtype is None else dtype,
        device=handle.backend.device if device is None else device,
    )


@guarded
def zeros_like(
    x: TensorLike, /, *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """Zeros with the shape, and unless given the dtype and device, of `x`.

    Args:
        x: a tensor.
        dtype: the dtype; that of `x` if not given.
        device: where to put it; the device of `x` if not given.

    >>> import ingle.tensor as it
    >>> it.zeros_like(it.asarray([1, 2])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


@guarded
def ones_like(
    x: TensorLike, /, *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """Ones with the shape, and unless given the dtype and device, of `x`.

    Args:
        x: a tensor.
        dtype: the dtype; that of `x` if not given.
        device: where to put it; the device of `x` if not given.

    >>> import ingle.tensor as it
    >>> it.ones_like(it.asarray([1.5, 2.5])).tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1, dtype=dtype, device=device)


@guarded
def empty(
    shape: int | Sequence[int], *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """A tensor whose values do not matter: zeros, since values never depend on old memory.

    Args:
        shape: of the result: a size, or one for each axis.
        dtype: the dtype; the default float dtype if not given.
        device: where to put it; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype=dtype, device=device)


@guarded
def empty_like(
    x: TensorLike, /, *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """Like `empty`, with the shape, and unless given the dtype and device, of `x`.

    Args:
        x: a tensor.
        dtype: the dtype; that of `x` if not given.
        device: where to put it; the device of `x` if not given.

    >>> import ingle.tensor as it
    >>> it.empty_like(it.asarray([1, 2])).dtype
    int64
    """
    return zeros_like(x, dtype=dtype, device=device)
