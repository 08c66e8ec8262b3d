"""Differences of neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch import TensorLike, handle_of, wrap
from ..errors import ArgumentError, ShapeError
from ._guarding import guarded
from ._rules import as_int, normalize_axis
from .comparison import not_equal
from .joining import concat
from .slicing import slice_axis

if TYPE_CHECKING:
    from ..tensor import Tensor


@guarded
def diff(
    x: TensorLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The difference of each element and the one before it along an axis, `n` times over.

    Args:
        x: a tensor of at least one axis; of bools the result is whether neighbours differ.
        axis: along which.
        n: how often; each time the axis gets shorter by one.
        prepend, append: tensors to join before and after `x` along the axis first.

    >>> import ingle.tensor as it
    >>> it.diff(it.asarray([1, 4, 9, 16])).tolist()
    [3, 5, 7]
    >>> it.diff(it.asarray([1, 4, 9, 16]), n=2).tolist()
    [2, 2]
    """
    handle = handle_of(x, "diff")
    if not handle.shape:
        raise ShapeError("diff: needs at least one axis, got a 0-d tensor")
    place = normalize_axis(axis, len(handle.shape), "diff")
    times = as_int(n, "diff", "n")
    if times < 0:
        raise ArgumentError(f"diff: n must not be negative, got {times}")
    joined: list[TensorLike] = [wrap(handle)]
    if prepend is not None:
        handle_of(prepend, "diff", "prepend")
        joined.insert(0, prepend)
    if append is not None:
        handle_of(append, "diff", "append")
        joined.append(append)
    out = concat(joined, axis=place) if len(joined) > 1 else wrap(handle)
    for _ in range(min(times, out.shape[place])):
        size = out.shape[place] - 1
        after, before = slice_axis(out, place, 1, size), slice_axis(out, place, 0, size)
        out = not_equal(after, before) if out.dtype.kind == "bool" else after - before
    return out
