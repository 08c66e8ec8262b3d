"""Differences of neighbours, and what is made of them: slopes and integrals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch import TensorLike, as_floating, handle_of, wrap
from ...errors import ArgumentError, ShapeError
from .._guarding import guarded, shown
from .._rules import as_int, normalize_axes, normalize_axis
from ..elementwise.comparison import not_equal
from ..movement.joining import concat
from ..movement.shapes import reshape
from ..movement.slicing import slice_axis
from .basic import Axis
from .basic import sum as sum_of

if TYPE_CHECKING:
    from ...tensor import Tensor


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
        n: how often; each time the axis gets shorter by one. 0 gives `x` as it is.
        prepend, append: tensors to join before and after `x` along the axis first.

    Raises:
        ShapeError: `x` has no axes.
        ArgumentError: `n` is negative.

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
    out = concat(joined, axis=place) if times and len(joined) > 1 else wrap(handle)
    for _ in range(min(times, out.shape[place])):
        size = out.shape[place] - 1
        after, before = slice_axis(out, place, 1, size), slice_axis(out, place, 0, size)
        out = not_equal(after, before) if out.dtype.kind == "bool" else after - before
    return out


@guarded
def trapezoid(
    y: TensorLike, /, x: TensorLike | None = None, *, dx: float = 1.0, axis: int = -1
) -> Tensor:
    """The integral along an axis of what runs straight from each value to the next.

    Args:
        y: values; integers are cast to the default float dtype.
        x: where they are, of one axis or of the shape of `y`; `dx` apart if not given.
        dx: their distance.
        axis: along which.

    Raises:
        ShapeError: points that do not fit the values.

    >>> import ingle.tensor as it
    >>> it.trapezoid(it.asarray([1.0, 2.0, 3.0]), dx=2.0).item()
    8.0
    """
    values = wrap(as_floating(y, "trapezoid", "y"))
    place = _axis_of("trapezoid", values, axis)
    before, after = _neighbours(values, place)
    pairs = (before + after) * 0.5
    if x is None:
        return sum_of(pairs, axis=place) * dx
    points = wrap(as_floating(x, "trapezoid", "x"))
    size = values.shape[place]
    if points.ndim == 1 and points.shape[0] == size:
        points = _along_axis(points, values.ndim, place)
    elif points.shape != values.shape:
        raise ShapeError(
            f"trapezoid: x must have {size} elements along one axis, or the shape {values.shape} "
            f"of y, got shape {points.shape}"
        )
    left, right = _neighbours(points, points.ndim - values.ndim + place)
    return sum_of(pairs * (right - left), axis=place)


@guarded
def gradient(
    x: TensorLike,
    /,
    *,
    spacing: float | Sequence[Any] | TensorLike = 1.0,
    axis: Axis = None,
    edge_order: int = 1,
) -> list[Tensor]:
    """Slopes of a function along axes, estimated from its values at points of a grid.

    Inside by central differences of second order, at the two edges by one-sided ones. This is
    about sampled functions; gradients of programs are `ingle.autodiff.grad`.

    Args:
        x: values of the function; integers are cast to the default float dtype.
        spacing: the distance of the points along every axis; or a sequence with one entry for each
            axis: a distance, or the coordinates of the points as a tensor of one axis.
        axis: an axis, several, or None for all.
        edge_order: 1 or 2, the order of the estimates at the edges.

    Returns:
        A tensor like `x` for each axis.

    Raises:
        ArgumentError: `edge_order` is neither 1 nor 2.
        ShapeError: an axis with too few elements.

    >>> import ingle.tensor as it
    >>> [g.tolist() for g in it.gradient(it.asarray([1.0, 4.0, 9.0, 16.0]))]
    [[3.0, 4.0, 6.0, 7.0]]
    """
    name = "gradient"
    values = wrap(as_floating(x, name))
    axes = normalize_axes(axis, values.ndim, name)
    if edge_order not in (1, 2):
        raise ArgumentError(f"{name}: edge_order must be 1 or 2, got {edge_order}")
    for a in axes:
        if values.shape[a] <= edge_order:
            raise ShapeError(
                f"{name}: edge_order={edge_order} needs at least {edge_order + 1} elements along "
                f"axis {a}, got shape {values.shape}"
            )
    gaps = [
        _gaps(values, a, s) for a, s in zip(axes, _spacings(spacing, axes, values), strict=True)
    ]
    return [_slopes(values, a, gap, edge_order) for a, gap in zip(axes, gaps, strict=True)]


def _axis_of(name: str, x: Tensor, axis: int) -> int:
    if not x.ndim:
        raise ShapeError(f"{name}: needs at least one axis, got a 0-d tensor")
    return normalize_axis(axis, x.ndim, name)


def _neighbours(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """All elements along an axis but the last one, and all but the first."""
    size = max(x.shape[axis] - 1, 0)
    return slice_axis(x, axis, 0, size), slice_axis(x, axis, min(1, x.shape[axis]), size)


def _along_axis(x: Tensor, ndim: int, axis: int) -> Tensor:
    """A tensor of one axis as one of several, which runs along one of them."""
    return reshape(x, tuple(-1 if i == axis else 1 for i in range(ndim)))


def _spacings(spacing: Any, axes: tuple[int, ...], x: Tensor) -> list[Any]:
    if isinstance(spacing, (int, float)) and not isinstance(spacing, bool):
        return [spacing] * len(axes)
    if _is_tensor(spacing):
        spacing = [spacing]
    if not isinstance(spacing, (list, tuple)) or len(spacing) != len(axes):
        raise ArgumentError(
            f"gradient: spacing must be a number, or have one entry for each of the axes {axes}, "
            f"got {shown(spacing)} for x of shape {x.shape}"
        )
    return list(spacing)


def _is_tensor(value: object) -> bool:
    return hasattr(value, "_handle") or hasattr(type(value), "__ingle_tensor__")


def _gaps(x: Tensor, axis: int, spacing: Any) -> Any:
    """The distance of the points along an axis: a number, or a tensor of all of them."""
    if not _is_tensor(spacing):
        if isinstance(spacing, bool) or not isinstance(spacing, (int, float)):
            raise ArgumentError(
                f"gradient: spacing must be numbers or tensors of coordinates, got {spacing!r:.60}"
            )
        return float(spacing)
    points = wrap(handle_of(spacing, "gradient", "spacing"))
    if points.shape != (x.shape[axis],):
        raise ShapeError(
            f"gradient: the coordinates of axis {axis} must have shape ({x.shape[axis]},), got "
            f"{points.shape}"
        )
    left, right = _neighbours(points.astype(x.dtype), 0)
    return _along_axis(right - left, x.ndim, axis)


def _slopes(x: Tensor, axis: int, gaps: Any, edge_order: int) -> Tensor:
    """The derivatives of the parabolas through three neighbours, of lines at edges of order 1."""
    size = x.shape[axis]

    def at(start: int, count: int) -> Tensor:
        return slice_axis(x, axis, start, count)

    def gap(start: int, count: int) -> Any:
        return gaps if isinstance(gaps, float) else slice_axis(gaps, axis, start, count)

    inner = size - 2
    if isinstance(gaps, float):
        middle = (at(2, inner) - at(0, inner)) / (2 * gaps)
    else:
        a, b = gap(0, inner), gap(1, inner)
        rise, further = at(1, inner) - at(0, inner), at(2, inner) - at(1, inner)
        middle = (rise * (b / a) + further * (a / b)) / (a + b)
    first = (at(1, 1) - at(0, 1)) / gap(0, 1)
    last = (at(size - 1, 1) - at(size - 2, 1)) / gap(size - 2, 1)
    if edge_order == 2:
        second = (at(2, 1) - at(1, 1)) / gap(1, 1)
        before = (at(size - 2, 1) - at(size - 3, 1)) / gap(size - 3, 1)
        a, b = gap(0, 1), gap(1, 1)
        c, d = gap(size - 3, 1), gap(size - 2, 1)
        first = first + (first - second) * (a / (a + b))
        last = last + (last - before) * (d / (c + d))
    return concat([first, middle, last], axis=axis)
