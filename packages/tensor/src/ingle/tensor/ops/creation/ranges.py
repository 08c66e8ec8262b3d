"""Regular numbers: arange, linspace, meshgrid."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Scalar
from ...device import Device
from ...dispatch import Number, TensorLike, create, handle_of
from ...dtypes import (
    DType,
    complex128,
    default_complex,
    default_float,
    default_int,
    float64,
    int64,
    uint64,
)
from ...errors import ArgumentError, DTypeError, OperandError, ShapeError
from ...operation import Op, Operation, Traits
from ...sample import Draw, Sample
from ...static_values import SymbolicInt
from .._guarding import guarded
from .._rules import LARGEST, as_int, dtype_argument
from ..movement.axes import broadcast_arrays
from ..movement.shapes import reshape
from ..movement.slicing import slice_update

if TYPE_CHECKING:
    from ...tensor import Tensor


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

    There are `ceil((stop - start) / step)` of them, which rounding decides where the numbers are
    no integers; `linspace` takes the count instead.

    Args:
        start, stop, step: numbers; the step is not 0.
        dtype: the dtype; the default integer dtype if all are integers, else the default float.
        device: where to put them; the default device if not given.

    Raises:
        ArgumentError: `step` is 0, or there are more elements than memory can address.
        DTypeError: the dtype is bool or one that only stores values.

    >>> import ingle.tensor as it
    >>> it.arange(2, 8, 3).tolist(), it.arange(3).tolist()
    ([2, 5], [0, 1, 2])
    """
    if stop is None:
        # What masks and positions ask for.
        by_one = dtype is None and type(step) is int and step == 1
        if by_one and type(start) is int and 0 <= start <= LARGEST:
            return _iota(0, 1, start, default_int(), device)
        start, stop = 0, start
    first, end, by = (
        _real("arange", v, n) for n, v in (("start", start), ("stop", stop), ("step", step))
    )
    if by == 0:
        raise ArgumentError("arange: step must not be 0")
    whole = all(isinstance(v, (int, SymbolicInt)) for v in (first, end, by))
    to = dtype_argument(dtype, "arange", default_int if whole else default_float)
    if to.kind == "bool" or to.is_storage:
        cure = "cast them" if to.is_storage else "compare them"
        raise DTypeError(f"arange: {to} has no ranges; make integers and {cure}")
    count = builtins.max(0, _count(first, end, by))
    if count > LARGEST:
        raise ArgumentError(
            "arange: start, stop and step must not make more elements than memory can address, got "
            f"{first}, {end} and {by}"
        )
    return _iota(first, by, count, to, device)


def _rule(start: Aval, step: Aval, *, size: int, dtype: DType) -> Aval:
    return Aval((size,), dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind != "bool" and not draw.dtype.is_complex:
        yield Sample((0, 17, 2), {"dtype": draw.dtype}, gradient=False)
        yield Sample((5, 5), {"dtype": draw.dtype}, gradient=False)
        yield Sample((33, 0, -8), {"dtype": draw.dtype}, gradient=False)


def _reference(*args: Any, dtype: DType) -> Any:
    return np.arange(*args).astype(dtype.dtype)


IOTA = Operation(
    "iota",
    tensors=("start", "step"),
    statics=("size", "dtype"),
    rule=_rule,
    traits=Traits("creation", family="iota", exactly_rounded=True),
    public=arange,
    samples=_samples,
    reference=_reference,
)


@guarded
def linspace(
    start: Number,
    stop: Number,
    /,
    num: int,
    *,
    dtype: object = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Evenly spaced numbers from `start` to `stop`.

    Args:
        start, stop: the first and the last number.
        num: how many.
        dtype: a float or complex dtype; the default one if not given.
        device: where to put them; the default device if not given.
        endpoint: whether `stop` itself is the last one; else the numbers stop one step before.

    Raises:
        ArgumentError: `num` is negative.
        DTypeError: a dtype that cannot hold the numbers.
        OperandError: `start` or `stop` is no number.

    >>> import ingle.tensor as it
    >>> it.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    for argument, value in (("start", start), ("stop", stop)):
        if isinstance(value, bool) or not isinstance(value, (int, float, complex)):
            raise OperandError(f"linspace: {argument} must be a number, got {value!r}")
    count = as_int(num, "linspace", "num")
    if count < 0:
        raise ArgumentError(f"linspace: num must not be negative, got {count}")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    to = dtype_argument(dtype, "linspace", default_complex if is_complex else default_float)
    if not to.is_inexact or (is_complex and not to.is_complex):
        raise DTypeError(
            f"linspace: dtype must be {'complex' if is_complex else 'float or complex'} for start "
            f"{start} and stop {stop}, got {to}"
        )
    gaps = count - 1 if endpoint else count
    step = (stop - start) / gaps if gaps > 0 else 0.0
    out = _iota(start, step, count, to, device)
    if not endpoint or count < 2:
        return out
    from .filled import full

    # Rounding of the step must not show at the end.
    return slice_update(out, full((1,), stop, dtype=to, device=out.device), (count - 1,))


@guarded
def logspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    base: float = 10.0,
    dtype: object = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Numbers from `base ** start` to `base ** stop`, each the same multiple of the one before.

    Args:
        start, stop: the first and the last exponent.
        num: how many.
        base: of the powers.
        dtype: a float dtype; the default one if not given. Computed in float64.
        device: where to put them; the default device if not given.
        endpoint: whether `stop` itself is the last exponent.

    Raises:
        DTypeError: `dtype` is not a float dtype.

    >>> import ingle.tensor as it
    >>> it.logspace(0, 3, 4).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    from ..elementwise.cast import astype
    from ..elementwise.powers import pow

    to = dtype_argument(dtype, "logspace", default_float)
    if not to.is_floating:
        raise DTypeError(f"logspace: dtype must be float, got {to}")
    exponents = linspace(start, stop, num, dtype=float64, device=device, endpoint=endpoint)
    return astype(pow(float(base), exponents), to)


@guarded
def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid from those of its axes: each tensor repeated along the others' axes.

    Args:
        arrays: 1-d tensors of one dtype.
        indexing: `"ij"`: axis i of the results belongs to tensor i; `"xy"`: the first two axes are
            exchanged, as rows and columns of a picture.

    Raises:
        ArgumentError: another `indexing`.
        ShapeError: an array has another number of axes than one.
        DTypeError: arrays of several dtypes.

    >>> import ingle.tensor as it
    >>> x, y = it.meshgrid(it.arange(3), it.arange(2))
    >>> x.tolist(), y.tolist()
    ([[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    handles = [handle_of(x, "meshgrid", f"arrays[{i}]") for i, x in enumerate(arrays)]
    for i, h in enumerate(handles):
        if len(h.shape) != 1:
            raise ShapeError(f"meshgrid: arrays[{i}] must have one axis, got shape {h.shape}")
        if h.dtype is not handles[0].dtype:
            raise DTypeError(
                f"meshgrid: arrays must have one dtype, got {handles[0].dtype} and {h.dtype}"
            )
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[:2] = [1, 0]
    along = [
        reshape(x, tuple(h.shape[0] if j == p else 1 for j in range(len(arrays))))
        for x, h, p in zip(arrays, handles, places, strict=True)
    ]
    return broadcast_arrays(*along)


def _real(name: str, value: Any, argument: str) -> int | float:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, SymbolicInt):
        return value  # type: ignore[return-value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OperandError(f"{name}: {argument} must be a real number, got {value!r}")
    if not math.isfinite(value):
        raise ArgumentError(f"{name}: {argument} must be finite, got {value}")
    if isinstance(value, int) and abs(value) >= 1 << 64:
        raise ArgumentError(f"{name}: {argument} must be below 2**64, got {value}")
    return value


def _count(start: int | float, stop: int | float, step: int | float) -> int:
    if all(isinstance(n, (int, SymbolicInt)) for n in (start, stop, step)):
        return -((start - stop) // step)  # type: ignore[return-value]
    return math.ceil((stop - start) / step)


def _iota(
    start: Number, step: Number, size: int, dtype: DType, device: Device | str | None
) -> Tensor:
    # The numbers keep their precision: in float32 a step of 0.1 would drift.
    if dtype.is_complex:
        wide = complex128
    elif isinstance(start, int) and isinstance(step, int):
        step = step if size > 1 else 0  # it may be too large to be written down
        wide = int64 if start < 1 << 63 else uint64
    else:
        wide = float64
    by = int64 if wide is uint64 else wide
    op = _op(size, dtype) if type(size) is int else IOTA.op(size=size, dtype=dtype)
    return create(op, device, (Scalar(start, wide), Scalar(step, by)))


@lru_cache(maxsize=1024)
def _op(size: int, dtype: DType) -> Op:
    return IOTA.op(size=size, dtype=dtype)
