"""Elements in another order or several times: flip, roll, tile, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike, handle_of
from ...errors import ArgumentError, ShapeError
from .._guarding import guarded
from .._rules import as_int, as_ints, as_shape, normalize_axes, normalize_axis
from ..indexing.gathering import take
from .joining import concat
from .shapes import broadcast_to, reshape
from .slicing import slice, slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor

Axes = int | Sequence[int] | None


@guarded
def flip(x: TensorLike, /, *, axis: Axes = None) -> Tensor:
    """The elements in reversed order along some axes; along all if none are given.

    Args:
        x: a tensor.
        axis: one axis or several; all if None.

    >>> import ingle.tensor as it
    >>> it.flip(it.asarray([[1, 2], [3, 4]]), axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    shape = handle_of(x, "flip").shape
    # An axis without elements has no last one to start from.
    back = [a for a in normalize_axes(axis, len(shape), "flip") if shape[a]]
    starts = [n - 1 if i in back else 0 for i, n in enumerate(shape)]
    steps = [-1 if i in back else 1 for i in range(len(shape))]
    return slice(x, starts, shape, steps)


@guarded
def roll(x: TensorLike, /, shift: int | Sequence[int], *, axis: Axes = None) -> Tensor:
    """The elements moved along axes; those that leave at the end come in at the start.

    Args:
        x: a tensor.
        shift: by how many places, for each axis; negative ones move backwards.
        axis: the axes, as many as there are shifts (one shift serves all); None rolls the
            flattened tensor.

    Raises:
        ArgumentError: not as many shifts as axes.

    >>> import ingle.tensor as it
    >>> it.roll(it.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    shape = handle_of(x, "roll").shape
    shifts = as_ints(shift, "roll", "shift")
    if axis is None:
        flat = reshape(x, (-1,))
        return reshape(_rolled(flat, 0, sum(shifts)), shape)
    axes = [normalize_axis(a, len(shape), "roll") for a in as_ints(axis, "roll", "axis")]
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"roll: shift={shifts} and axis={tuple(axes)} must have the same length"
        )
    out = reshape(x, shape)
    for by, along in zip(shifts, axes, strict=True):
        out = _rolled(out, along, by)
    return out


def _rolled(x: Tensor, axis: int, shift: int) -> Tensor:
    size = x.shape[axis]
    by = shift % size if size else 0
    if not by:
        return x
    return concat(
        [slice_axis(x, axis, size - by, by), slice_axis(x, axis, 0, size - by)], axis=axis
    )


@guarded
def tile(x: TensorLike, repetitions: int | Sequence[int], /) -> Tensor:
    """The whole tensor several times along each axis.

    Args:
        x: a tensor.
        repetitions: how often, for each axis; of fewer numbers than axes the last axes get them,
            of more the tensor gets new leading axes.

    >>> import ingle.tensor as it
    >>> it.tile(it.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    shape = handle_of(x, "tile").shape
    times = as_shape(repetitions, "tile", "repetitions")
    ndim = max(len(shape), len(times))
    shape = (1,) * (ndim - len(shape)) + shape
    times = (1,) * (ndim - len(times)) + times
    apart = [m for n in shape for m in (1, n)]
    spread = [m for n, t in zip(shape, times, strict=True) for m in (t, n)]
    joined = [n * t for n, t in zip(shape, times, strict=True)]
    return reshape(broadcast_to(reshape(x, apart), spread), joined)


@guarded
def repeat(
    x: TensorLike, repeats: int | Sequence[int] | TensorLike, /, *, axis: int | None = None
) -> Tensor:
    """Each element several times, one after another.

    Args:
        x: a tensor.
        repeats: how often: a number, or one for each element of the axis. A tensor of numbers
            is read, since the result's shape depends on them.
        axis: along which to repeat; None flattens the tensor first.

    >>> import ingle.tensor as it
    >>> it.repeat(it.asarray([1, 2]), 2).tolist(), it.repeat(it.asarray([1, 2]), [0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    shape = handle_of(x, "repeat").shape
    if axis is None:
        x, place = reshape(x, (-1,)), 0
    else:
        place = normalize_axis(axis, len(shape), "repeat")
        x = reshape(x, shape)
    if hasattr(repeats, "__index__") and not hasattr(repeats, "shape"):
        return _repeated(x, as_int(repeats, "repeat", "repeats"), place)
    counts = _counts(repeats, x.shape[place])
    return take(x, np.repeat(np.arange(x.shape[place]), counts), axis=place)


def _repeated(x: Tensor, times: int, axis: int) -> Tensor:
    if times < 0:
        raise ArgumentError(f"repeat: repeats must not be negative, got {times}")
    head, size, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    spread = broadcast_to(reshape(x, (*head, size, 1, *tail)), (*head, size, times, *tail))
    return reshape(spread, (*head, size * times, *tail))


def _counts(repeats: Any, size: int) -> np.ndarray:
    if hasattr(type(repeats), "__ingle_tensor__"):
        repeats = repeats.__ingle_tensor__()
    try:
        counts = repeats.numpy() if hasattr(repeats, "_handle") else np.asarray(repeats)
    except ValueError:  # rows of different lengths
        raise ArgumentError(f"repeat: repeats must be numbers, got {repeats!r:.60}") from None
    if not counts.size and not hasattr(repeats, "shape"):
        counts = counts.astype(np.int64)
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts < 0).any():
        raise ArgumentError(
            f"repeat: repeats must be integers of at least 0, a number or one axis of them, got "
            f"{repeats!r:.60}"
        )
    if counts.size not in (1, size):
        raise ShapeError(
            f"repeat: repeats has {counts.size} numbers for an axis of size {size}; give one "
            "number or one for each element"
        )
    return np.broadcast_to(counts, (size,))
