"""Elements to indices, where several for one place are combined: scatter_reduce, put_along_axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import Operand, TensorLike, handle_of, run, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import NUMERIC, broadcast_shapes, conj, normalize_axis, widened
from ..creation.filled import full, ones
from ..elementwise.arithmetic import floor_divide, multiply
from ..elementwise.cast import astype
from ..elementwise.extrema import maximum, minimum
from ..elementwise.where import filled_like, where
from ..movement.shapes import broadcast_to, permute_dims, reshape
from ..reductions.basic import accumulator
from .gathering import Indices, index_handle, take
from .linear_index import flat_positions
from .products_beside import along, products_beside, running, sorted_updates
from .scattering import check_updates, scatter_add, scatter_set

if TYPE_CHECKING:
    from ...tensor import Tensor

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@guarded
def scatter_reduce(
    x: TensorLike,
    indices: Indices,
    updates: TensorLike,
    reduce: str,
    /,
    *,
    axis: int = 0,
    include_self: bool = True,
) -> Tensor:
    """`x` with updates combined at the indices of an axis: what `take` reads is written back.

    Args:
        x: a numeric tensor.
        indices: integers of any shape; negative ones count from the end.
        updates: of the dtype of `x` and the shape of `take(x, indices, axis=axis)`.
        reduce: `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`, as in PyTorch. The gradient of
            the last two is shared among ties. The mean of integers is rounded down.
        axis: the axis that is indexed.
        include_self: whether the element of `x` takes part where an index points; elsewhere it
            stays as it is.

    Raises:
        OutOfRangeError: an index points outside of the axis.

    >>> import ingle.tensor as it
    >>> x, i = it.zeros(3), it.asarray([0, 2, 0])
    >>> it.scatter_reduce(x, i, it.asarray([1.0, -2.0, 3.0]), "amax").tolist()
    [3.0, 0.0, 0.0]
    >>> it.scatter_reduce(x, i, it.asarray([1.0, -2.0, 3.0]), "mean", include_self=False).tolist()
    [2.0, 0.0, -2.0]
    """
    name = "scatter_reduce"
    if reduce not in REDUCTIONS:
        known = ", ".join(map(repr, REDUCTIONS))
        raise ArgumentError(f"{name}: reduce must be one of {known}, got {reduce!r}")
    a, u = handle_of(x, name), handle_of(updates, name, "updates")
    place = normalize_axis(axis, len(a.shape), name)
    i = index_handle(name, indices, a)
    _check(name, Aval(a.shape, a.dtype), Aval(i.shape, i.dtype), Aval(u.shape, u.dtype), place)
    if reduce in ("sum", "mean"):
        return _added(wrap(a), wrap(i), wrap(u), place, reduce == "mean", include_self)
    operation = SCATTER_PROD if reduce == "prod" else SCATTER_EXTREMUM
    largest = {} if reduce == "prod" else {"largest": reduce == "amax"}
    return run(operation.op(axis=place, include_self=bool(include_self), **largest), (a, i, u))[0]


def _check(name: str, x: Aval, indices: Aval, updates: Aval, axis: int) -> None:
    if x.dtype.kind not in NUMERIC or updates.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: x must be numeric and updates of its dtype, got {x.dtype} and "
            f"{updates.dtype}; cast with updates.astype(x.dtype)"
        )
    check_updates(name, x, indices, updates, axis)


def _counts(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """How many indices point to each place of the axis."""
    zero = full((x.shape[axis],), 0, dtype=int64, device=x.device)
    one = ones(indices.shape, dtype=int64, device=x.device)
    return along(scatter_add(zero, indices, one), axis, x.shape)


def _added(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int, mean: bool, include_self: bool
) -> Tensor:
    if not mean and include_self:
        return scatter_add(x, indices, updates, axis=axis)
    counts = _counts(x, indices, axis)
    start = x if include_self else where(counts > 0, 0, x)
    if not mean:
        return scatter_add(start, indices, updates, axis=axis)
    # A mean fits the dtype of its numbers, their sum need not.
    to = accumulator(x.dtype)
    start, updates = widened(astype(start, to)), widened(astype(updates, to))
    total = scatter_add(start, indices, updates, axis=axis)
    share = counts + (1 if include_self else 0)
    share = astype(where(share == 0, 1, share), total.dtype)
    return astype(total / share if x.dtype.is_inexact else floor_divide(total, share), x.dtype)


def _combined(
    combine: Callable[[Tensor, Tensor], Tensor], x: Tensor, indices: Tensor, updates: Tensor,
    *, axis: int, include_self: bool,
) -> Tensor:  # fmt: skip
    """Sorts the updates by their place, combines runs of equal places, and writes the last of each.

    After the step of distance d each update holds those of its place among the last 2d ones:
    Hillis and Steele, Data parallel algorithms (CACM 29, 1986), kept inside of the runs.
    """
    if not math.prod(indices.shape) or not x.size:
        return x
    _, keys, runs = sorted_updates(indices, updates, axis=axis, size=x.shape[axis])
    runs = running(combine, keys, runs)
    front = (axis, *range(axis), *range(axis + 1, len(x.shape)))
    base = permute_dims(x, front)
    if include_self:
        runs = combine(take(base, keys, axis=0), runs)
    back = tuple(sorted(range(len(front)), key=front.__getitem__))
    return permute_dims(scatter_set(base, keys, runs, axis=0), back)


def _extremum(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, largest: bool, include_self: bool
) -> Tensor:
    combine = maximum if largest else minimum
    return _combined(combine, x, indices, updates, axis=axis, include_self=include_self)


def _extremum_vjp(
    g: Tensor, x: Tensor, indices: Tensor, updates: Tensor, out: Tensor, axis: int,
    include_self: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The cotangent, shared equally by all that are equal to the result of their place."""
    touched = _counts(x, indices, axis) > 0
    own = astype((x == out) | ~touched if include_self else ~touched, g.dtype)
    own = broadcast_to(own, x.shape)
    hits = astype(updates == take(out, indices, axis=axis), g.dtype)
    number = scatter_add(own, indices, hits, axis=axis)
    share = g / where(number == 0, 1, number)
    return own * share, hits * take(share, indices, axis=axis)


def _rule(x: Aval, indices: Aval, updates: Aval, *, axis: int, **statics: Any) -> Aval:
    _check("scatter_reduce", x, indices, updates, axis)
    if statics.get("largest") is not None and x.dtype.is_complex:
        raise DTypeError(f"scatter_reduce: x must be ordered, got {x.dtype}; use real(x) or abs(x)")
    return x


def _samples(names: tuple[str, ...], draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind not in NUMERIC or (draw.dtype.is_complex and "prod" not in names):
        return
    a, b, c, rows = *draw.shape((2, 8, 3)), draw.size(5, least=1)
    make = draw.apart if "prod" not in names and draw.dtype.is_inexact else draw.array
    for name in names:
        for own in (True, False):
            options: dict[str, Any] = {"include_self": own}
            both = make((rows * c + a * b * c,))
            x, updates = both[: rows * c].reshape(rows, c), both[rows * c :].reshape(a, b, c)
            yield Sample((x, draw.integers((a, b), rows), updates, name), options, condition=8)
            both, places = make((a * rows * c + a * 3 * c,)), draw.integers((3,), rows) - rows
            stacks = both[: a * rows * c].reshape(a, rows, c)
            updates = both[a * rows * c :].reshape(a, 3, c)
            yield Sample((stacks, places, updates, name), {**options, "axis": 1}, condition=8)
        empty = (draw.array((rows,)), draw.integers((0,), rows), draw.array((0,)), name)
        yield Sample(empty)


def _reference(
    x: Any, indices: Any, updates: Any, reduce: str, axis: int = 0, include_self: bool = True
) -> Any:
    function: Any = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    out = np.moveaxis(np.array(x), axis, 0)
    lead = range(indices.ndim)
    moved = np.moveaxis(updates, range(axis, axis + indices.ndim), lead)
    rows = moved.reshape(indices.size, *out.shape[1:])
    seen: set[int] = set()
    for i, row in zip(np.ravel(indices) % len(out), rows, strict=True):
        out[i] = function(out[i], row) if include_self or i in seen else row
        seen.add(int(i))
    return np.moveaxis(out, 0, axis)


def _product_vjp(
    g: Tensor, x: Tensor, indices: Tensor, updates: Tensor, axis: int, include_self: bool,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """The cotangent times the product of all other factors, so that no zero divides."""
    others, own = conj(updates), ones(x.shape, dtype=x.dtype, device=x.device)
    by_x = by_updates = None
    if needs[0] and include_self:
        by_x = g * scatter_reduce(own, indices, others, "prod", axis=axis)
    elif needs[0]:
        by_x = where(_counts(x, indices, axis) > 0, 0, g)
    if needs[1]:
        factor = take(g * conj(x) if include_self else g, indices, axis=axis)
        beside = products_beside(indices, others, axis=axis, size=x.shape[axis])
        by_updates = factor * beside
    return by_x, by_updates


SCATTER_PROD = Operation(
    "scatter_prod",
    tensors=("x", "indices", "updates"),
    statics=("axis", "include_self"),
    rule=_rule,
    traits=Traits("opaque", access="scatter", updates="prod"),
    vjp={("x", "updates"): _product_vjp},
    body=partial(_combined, multiply),
    public=scatter_reduce,
    samples=partial(_samples, ("prod",)),
    reference=_reference,
)
SCATTER_EXTREMUM = Operation(
    "scatter_extremum",
    tensors=("x", "indices", "updates"),
    statics=("axis", "largest", "include_self"),
    rule=_rule,
    traits=Traits("opaque", access="scatter", updates="extremum"),
    vjp={("x", "updates"): _extremum_vjp},
    body=_extremum,
    public=scatter_reduce,
    samples=partial(_samples, ("amax", "amin")),
    reference=_reference,
)


@guarded
def put_along_axis(
    x: TensorLike,
    indices: Indices,
    values: Operand,
    /,
    *,
    axis: int = -1,
    reduce: str | None = None,
    include_self: bool = True,
) -> Tensor:
    """`x` with one element for each index replaced: what `take_along_axis` reads is written back.

    It is PyTorch's `scatter` and `scatter_reduce`, where indices and values have one shape.

    Args:
        x: a tensor.
        indices: integers with as many axes as `x`; negative ones count from the end. Along the
            other axes they may be shorter than `x`: the rest of it stays.
        values: of the dtype of `x`, or a number; they broadcast to the shape of the indices.
        axis: along which to look.
        reduce: None to replace, where of several values for one place the last one stays; or
            how to combine them, see `scatter_reduce`.
        include_self: whether the elements of `x` take part in the reduction.

    Raises:
        OutOfRangeError: an index points outside of the axis.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1, 2, 3], [4, 5, 6]])
    >>> it.put_along_axis(x, it.asarray([[2], [0]]), 9).tolist()
    [[1, 2, 9], [9, 5, 6]]
    """
    name = "put_along_axis"
    a = handle_of(x, name)
    u = filled_like(name, "values", values, a)
    i = index_handle(name, indices, a)
    place = normalize_axis(axis, len(a.shape), name)
    if len(i.shape) != len(a.shape) or any(
        m > n for k, (m, n) in enumerate(zip(i.shape, a.shape, strict=True)) if k != place
    ):
        raise ShapeError(
            f"{name}: indices must have as many axes as x and, but for axis {place}, none longer "
            f"than those of x, got {i.shape} for {a.shape}"
        )
    if broadcast_shapes(name, i.shape, u.shape) != i.shape:
        raise ShapeError(f"{name}: values of {u.shape} do not broadcast to indices of {i.shape}")
    if u.dtype is not a.dtype:
        raise DTypeError(f"{name}: values must have the dtype {a.dtype} of x, got {u.dtype}")
    positions = reshape(flat_positions(wrap(i), a.shape, place, called=name), (-1,))
    flat = reshape(wrap(a), (math.prod(a.shape),))
    updates = reshape(broadcast_to(wrap(u), i.shape), (math.prod(i.shape),))
    if reduce is None:
        out = scatter_set(flat, positions, updates)
    else:
        out = scatter_reduce(flat, positions, updates, reduce, include_self=include_self)
    return reshape(out, a.shape)
