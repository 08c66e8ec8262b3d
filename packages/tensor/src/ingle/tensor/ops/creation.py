"""Tensors from values: asarray, full, zeros, ones, arange and their kin."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import Aval, Scalar, Shape
from ..device import Device, backend_of
from ..dispatch import Number, TensorLike, create, handle_of, wrap
from ..dtypes import (
    DType,
    as_dtype,
    bool_,
    default_complex,
    default_float,
    default_int,
    from_numpy_dtype,
)
from ..errors import ArgumentError, OperandError
from ..operation import Operation, Traits
from ..sample import Draw, Sample
from ._rules import as_shape

if TYPE_CHECKING:
    from ..tensor import Tensor


def asarray(
    obj: Any,
    /,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of a number, nested lists, a NumPy array, or another tensor.

    Python floats get the default float dtype and integers the default integer dtype; arrays keep
    theirs. The values are copied to the device.

    Args:
        obj: what to make a tensor of.
        dtype: the dtype to cast to.
        device: where to put it; the default device, or where `obj` is, if not given.
        copy: False asks for no copy and raises `ArgumentError` where one is needed.

    Raises:
        OperandError: `obj` is ragged or holds something that is no number.

    >>> import ingle.tensor as it
    >>> it.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    from .cast import astype

    to = None if dtype is None else as_dtype(dtype)
    if hasattr(type(obj), "__ingle_tensor__") or hasattr(obj, "_handle"):
        x = wrap(handle_of(obj, "asarray", "obj"))
        if device is not None:
            x = x.to_device(device)
        return x if to is None else astype(x, to)
    if copy is False:
        raise ArgumentError("asarray: copy=False, but values from the host have to be copied")
    values = _host_array(obj)
    if to is not None:
        values = values.astype(to.dtype)
    return wrap(backend_of(device).upload(values))


def _host_array(obj: Any) -> np.ndarray:
    if isinstance(obj, np.ndarray | np.generic):
        values = np.asarray(obj)
    else:
        try:
            values = np.asarray(obj)
        except ValueError as error:
            raise OperandError(f"asarray: cannot make a tensor of this: {error}") from None
        if values.dtype.kind == "O":
            raise OperandError(
                f"asarray: cannot make a tensor of {type(obj).__name__}: "
                "its elements are no numbers, or too large for int64"
            )
        if not hasattr(obj, "__array__") and not hasattr(obj, "__array_interface__"):
            kind = values.dtype.kind
            if kind == "f" or not values.size:
                values = values.astype(default_float().dtype)
            elif kind == "i":
                values = values.astype(default_int().dtype)
            elif kind == "c":
                values = values.astype(default_complex().dtype)
    native = from_numpy_dtype(values.dtype).dtype
    return values if values.dtype == native else values.astype(native)


def _dtype_of(value: Number) -> DType:
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return default_int()
    return default_complex() if isinstance(value, complex) else default_float()


def full(
    shape: int | Sequence[int],
    fill_value: Number,
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value.

    >>> import ingle.tensor as it
    >>> it.full((2,), 7).tolist()
    [7, 7]
    """
    if not isinstance(fill_value, (bool, int, float, complex)):
        raise OperandError(f"full: fill_value must be a number, got {type(fill_value).__name__}")
    to = _dtype_of(fill_value) if dtype is None else as_dtype(dtype)
    op = FULL.op(shape=as_shape(shape, "full"), dtype=to)
    return create(op, device, (Scalar(fill_value, to),))


def zeros(
    shape: int | Sequence[int], *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of zeros, of the default float dtype if none is given.

    >>> import ingle.tensor as it
    >>> it.zeros((2, 1)).tolist()
    [[0.0], [0.0]]
    """
    return full(shape, 0.0 if dtype is None else 0, dtype=dtype, device=device)


def ones(
    shape: int | Sequence[int], *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of ones, of the default float dtype if none is given.

    >>> import ingle.tensor as it
    >>> it.ones(2).tolist()
    [1.0, 1.0]
    """
    return full(shape, 1.0 if dtype is None else 1, dtype=dtype, device=device)


def full_like(
    x: TensorLike,
    /,
    fill_value: Number,
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value with the shape, and unless given the dtype and device, of `x`.

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


def zeros_like(
    x: TensorLike, /, *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """Zeros with the shape, and unless given the dtype and device, of `x`.

    >>> import ingle.tensor as it
    >>> it.zeros_like(it.asarray([1, 2])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(
    x: TensorLike, /, *, dtype: object = None, device: Device | str | None = None
) -> Tensor:
    """Ones with the shape, and unless given the dtype and device, of `x`.

    >>> import ingle.tensor as it
    >>> it.ones_like(it.asarray([1.5, 2.5])).tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1, dtype=dtype, device=device)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """Numbers from `start` (0 if only one number is given) up to but without `stop`.

    >>> import ingle.tensor as it
    >>> it.arange(2, 8, 3).tolist()
    [2, 5]
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("arange: step must not be 0")
    count = builtins.max(0, math.ceil((stop - start) / step))
    whole = all(isinstance(v, int) for v in (start, stop, step))
    to = as_dtype(dtype) if dtype is not None else default_int() if whole else default_float()
    op = IOTA.op(size=as_shape(count, "arange")[0], dtype=to)
    return create(op, device, (Scalar(start, to), Scalar(step, to)))


def _full_rule(fill_value: Aval, *, shape: Shape, dtype: DType) -> Aval:
    return Aval(shape, dtype)


def _iota_rule(start: Aval, step: Aval, *, size: int, dtype: DType) -> Aval:
    return Aval((size,), dtype)


def _full_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample(((3, 5), 2), {"dtype": draw.dtype}, gradient=False)
    yield Sample(((0,), 1), {"dtype": draw.dtype}, gradient=False)


def _iota_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind != "bool" and not draw.dtype.is_complex:
        yield Sample((0, 17, 2), {"dtype": draw.dtype}, gradient=False)
        yield Sample((5, 5), {"dtype": draw.dtype}, gradient=False)


FULL = Operation(
    "full",
    tensors=("fill_value",),
    statics=("shape", "dtype"),
    rule=_full_rule,
    traits=Traits("creation", family="full"),
    public=full,
    samples=_full_samples,
    reference=lambda shape, value, dtype: np.full(shape, value, dtype.dtype),
)
IOTA = Operation(
    "iota",
    tensors=("start", "step"),
    statics=("size", "dtype"),
    rule=_iota_rule,
    traits=Traits("creation", family="iota"),
    public=arange,
    samples=_iota_samples,
    reference=lambda *args, dtype: np.arange(*args).astype(dtype.dtype),
)
