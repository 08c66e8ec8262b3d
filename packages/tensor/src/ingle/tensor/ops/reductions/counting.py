"""How often values occur: bincount and histogram."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...dispatch import TensorLike, handle_of, refuse_storage, wrap
from ...dtypes import default_float, float64, int64
from ...errors import ArgumentError, DTypeError, ShapeError, TraceError
from .._checks_at_run import is_unread, required
from .._guarding import guarded
from .._rules import MOST, as_int, as_number, as_size, widened
from ..creation.filled import zeros
from ..creation.ranges import arange, linspace
from ..elementwise.cast import astype
from ..elementwise.comparison import isfinite
from ..elementwise.where import where
from ..indexing.occurrences import occurrences
from ..indexing.scattering import scatter_add
from ..movement.joining import concat
from ..movement.shapes import reshape
from ..sorting.intervals import are_even, interval_of
from ..sorting.searchsorted import searchsorted
from .basic import accumulator
from .basic import all as all_of
from .basic import max as reduce_max
from .basic import min as reduce_min
from .basic import sum as reduce_sum
from .differences import diff

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def bincount(x: TensorLike, /, weights: TensorLike | None = None, *, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest one occurs.

    The size of the result depends on the values, so this waits for them. Where there are none yet,
    as inside of `compile`, numbers below a known `n` are counted by
    `scatter_add(zeros(n, dtype="int64"), x, ones_like(x))`.

    Args:
        x: integers of one axis, none negative.
        weights: of the same shape: what each occurrence counts; 1 if not given.
        minlength: the least size of the result.

    Returns:
        Counts in int64, or sums in the dtype of the weights; like `sum`, in int64 or uint64 of
        smaller integers.

    Raises:
        ArgumentError: a number is negative.
        TraceError: there are no values yet.

    >>> import ingle.tensor as it
    >>> it.bincount(it.asarray([1, 3, 1])).tolist()
    [0, 2, 0, 1]
    """
    handle, least = handle_of(x, "bincount"), as_int(minlength, "bincount", "minlength")
    if len(handle.shape) != 1 or not handle.dtype.is_integer:
        raise DTypeError(
            f"bincount: x must be integers of one axis, got {handle.dtype} of {handle.shape}"
        )
    if least < 0:
        raise ArgumentError(f"bincount: minlength must not be negative, got {least}")
    numbers = wrap(handle)
    size = max(_largest(numbers) + 1, least) if numbers.size else least
    places = astype(numbers, int64)
    if weights is None:
        return occurrences(places, size=size)
    sums = _added(_counted("bincount", weights, numbers), places, size)
    return astype(sums, accumulator(handle_of(weights, "bincount").dtype))


def _largest(numbers: Tensor) -> int:
    """The largest of some numbers, of which none is negative."""
    least, most = reduce_min(numbers), reduce_max(numbers)  # of one pass
    if is_unread(least._handle):
        raise TraceError(
            "bincount: the size of the result is the largest number plus one, which is not known "
            "inside of compile or vmap, whatever minlength is; count numbers below n by "
            'it.scatter_add(it.zeros(n, dtype="int64"), x, it.ones_like(x))'
        )
    if int(least) < 0:
        raise ArgumentError(f"bincount: x must not be negative, got {int(least)}")
    return int(most)


@guarded
def histogram(
    x: TensorLike,
    /,
    bins: int | TensorLike = 10,
    *,
    range: tuple[float, float] | None = None,
    weight: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many elements fall into each of some intervals, and the edges of these.

    An interval contains its left edge and not its right one; the last contains both. Elements
    outside of all do not count.

    Args:
        x: a real tensor; integers are cast to the default float dtype.
        bins: how many intervals of equal width; or their edges, ascending, along one axis.
        range: from where to where, if `bins` is a number; the smallest and largest element if
            not given. Where these are equal, half is added on each side.
        weight: of the shape of `x`: what each element counts; 1 if not given.
        density: divide by the sum and by the widths, so that the integral is 1.

    Returns:
        The counts, in the dtype of `x` or, as from `sum`, of the weight, and the edges, one more.

    Raises:
        DTypeError: `x` is complex.

    >>> import ingle.tensor as it
    >>> counts, edges = it.histogram(it.asarray([1.0, 2.0, 1.0, 4.0]), 3)
    >>> counts.tolist(), edges.tolist()
    ([2.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0])
    """
    name = "histogram"
    handle = handle_of(x, name)
    refuse_storage(name, "x", handle.dtype)
    if handle.dtype.is_complex:
        raise DTypeError(f"{name}: x must be ordered, got {handle.dtype}; count real(x) or abs(x)")
    dtype = handle.dtype if handle.dtype.is_floating else default_float()
    values = astype(reshape(wrap(handle), (math.prod(handle.shape),)), dtype)
    edges, even = _edges(name, values, bins, range)
    counts = None if weight is None else _counted(name, weight, wrap(handle))
    if weight is not None:
        dtype = accumulator(handle_of(weight, name).dtype)
    size = edges.shape[0] - 1
    # What lies outside goes to one more place, which is cut off again.
    place = interval_of(values, edges) if even else _found(values, edges)
    if counts is None:
        sums = occurrences(place, size=size + 1)
    else:
        sums = _added(reshape(counts, values.shape), place, size + 1)
    found = astype(sums[:size], dtype)
    return (found / diff(edges) / reduce_sum(found) if density else found), edges


def _found(values: Tensor, edges: Tensor) -> Tensor:
    """The interval of each value, or the one after the last."""
    size = edges.shape[0] - 1
    place = searchsorted(edges, values, side="right") - 1
    place = where(values == edges[-1], size - 1, place)
    return where((place < 0) | (place >= size), size, place)


def _added(counts: Tensor, places: Tensor, size: int) -> Tensor:
    """The sum of what is counted at each place."""
    return scatter_add(zeros((size,), dtype=counts.dtype, device=counts.device), places, counts)


def _counted(name: str, weights: TensorLike, x: Tensor) -> Tensor:
    """What each element counts, in a dtype whose sums neither wrap nor stop at 2048."""
    argument = "weight" if name == "histogram" else "weights"
    handle = handle_of(weights, name, argument)
    if handle.shape != x.shape:
        raise ShapeError(
            f"{name}: {argument} must have the shape {x.shape} of x, got {handle.shape}"
        )
    return widened(astype(wrap(handle), accumulator(handle.dtype)))


def _edges(
    name: str, x: Tensor, bins: int | TensorLike, limits: tuple[float, float] | None
) -> tuple[Tensor, bool]:
    """The edges, and whether they are known to be in equal steps."""
    if hasattr(bins, "_handle") or hasattr(type(bins), "__ingle_tensor__"):
        edges = astype(wrap(handle_of(bins, name, "bins")), x.dtype)
        if edges.ndim != 1 or edges.shape[0] < 2 or limits is not None:
            raise ShapeError(
                f"{name}: bins must be a number or at least 2 edges along one axis, without a "
                f"range, got edges of shape {edges.shape} and range={limits}"
            )
        ascend = all_of(edges[1:] >= edges[:-1])
        if is_unread(ascend._handle):
            return required(edges, ascend, f"{name}: the edges in bins must ascend"), False
        if not bool(ascend):
            raise ArgumentError(f"{name}: the edges in bins must ascend, got {edges.tolist()}")
        return edges, False
    count = as_size(bins, name, "bins", 1, MOST)
    if limits is None and x.size:
        return _between_ends(name, x, count)
    limits = (0.0, 1.0) if limits is None else limits
    if not isinstance(limits, (list, tuple)) or len(limits) != 2:
        raise ArgumentError(f"{name}: range must be a pair of numbers, got {limits!r:.60}")
    low, high = (as_number(n, name, "range") for n in limits)
    if not low <= high or math.inf in (abs(low), abs(high)):
        raise ArgumentError(f"{name}: range must be finite and ascend, got {(low, high)}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = linspace(low, high, count + 1, dtype=x.dtype, device=x.device)
    return edges, are_even(low, high, count, x.dtype)


def _between_ends(name: str, x: Tensor, count: int) -> tuple[Tensor, bool]:
    """Edges from the least to the largest element, and whether their steps are known as equal."""
    low, high = astype(reduce_min(x), float64), astype(reduce_max(x), float64)
    good = isfinite(low) & isfinite(high)
    message = f"{name}: range must be finite and ascend"
    even = False
    if is_unread(good._handle):
        low = required(low, good, message)
    elif not bool(good):
        raise ArgumentError(f"{message}, got {(low.item(), high.item())}")
    else:
        even = are_even(low.item(), high.item(), count, x.dtype)
    half = where(low == high, 0.5, 0.0)
    low, high = low - half, high + half
    places = arange(count, dtype=float64, device=x.device)
    inner = places * ((high - low) / count) + low
    # Rounding of the step must not show at the end.
    return astype(concat([inner, reshape(high, (1,))]), x.dtype), even
