"""Updates for indices in the order of their places, and for each the product of all others there.

Such products are what gradients of scattered products are made of: nothing is divided, so zeros are
factors like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import handle_of, run
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import NUMERIC, as_int, normalize_axis
from ..creation.filled import ones
from ..elementwise.arithmetic import multiply
from ..elementwise.where import where
from ..movement.joining import concat
from ..movement.rearranging import flip
from ..movement.shapes import permute_dims, reshape
from ..movement.slicing import slice_axis
from ..sorting.sort import argsort
from .gathering import index_handle, take
from .linear_index import ravel_index

if TYPE_CHECKING:
    from ...tensor import Tensor


def products_beside(indices: Tensor, updates: Tensor, /, *, axis: int, size: int) -> Tensor:
    """For each update the product of all others for its place.

    Args:
        indices: integers of any shape; negative ones count from the end.
        updates: of the shape of `take(x, indices, axis=axis)`.
        axis: the axis that is indexed.
        size: of this axis.

    Raises:
        ShapeError, DTypeError, AxisError: arguments that do not fit together.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.indexing.products_beside import products_beside
    >>> indices, updates = it.asarray([0, 2, 0, 0]), it.asarray([2.0, 5.0, 0.0, 3.0])
    >>> products_beside(indices, updates, axis=0, size=3).tolist()
    [0.0, 1.0, 6.0, 0.0]
    """
    name = "products_beside"
    given = handle_of(updates, name, "updates")
    places = index_handle(name, indices, given)
    axes = len(given.shape) - len(places.shape) + 1
    if axes < 1:
        raise ShapeError(
            f"{name}: updates must have the axes of indices of {places.shape}, got {given.shape}"
        )
    op = PRODUCTS_BESIDE.op(
        axis=normalize_axis(axis, axes, name), size=as_int(size, name, "size")
    )  # fmt: skip
    return run(op, (places, given))[0]


def along(values: Tensor, axis: int, shape: Shape) -> Tensor:
    """A vector along one axis of a shape, to broadcast over the others."""
    return reshape(values, tuple(n if i == axis else 1 for i, n in enumerate(shape)))


def sorted_updates(
    indices: Tensor, updates: Tensor, *, axis: int, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """An order of the updates by their place, the places in it, and the updates, a row each."""
    count, ndim = math.prod(indices.shape), indices.ndim
    # One place may be named from both ends.
    flat = reshape(indices, (count,))
    places = ravel_index([flat], (size,), called="scatter_reduce", axes=(axis,))
    order = argsort(places)
    moved = permute_dims(
        updates,
        (*range(axis, axis + ndim), *range(axis), *range(axis + ndim, len(updates.shape))),
    )
    rows = reshape(moved, (count, *moved.shape[ndim:]))
    return order, take(places, order), take(rows, order, axis=0)


def running(combine: Callable[[Tensor, Tensor], Tensor], keys: Tensor, runs: Tensor) -> Tensor:
    """For each row what it and those before it with its key are combined to."""
    count, distance = keys.shape[0], 1
    while distance < count:
        left = count - distance
        same = slice_axis(keys, 0, distance, left) == slice_axis(keys, 0, 0, left)
        late, early = slice_axis(runs, 0, distance, left), slice_axis(runs, 0, 0, left)
        joined = where(along(same, 0, late.shape), combine(early, late), late)
        runs = concat([slice_axis(runs, 0, 0, distance), joined], axis=0)
        distance *= 2
    return runs


def _beside(indices: Tensor, updates: Tensor, *, axis: int, size: int) -> Tensor:
    """Products of those before and those behind, in the order of places."""
    if not updates.size:
        return updates
    order, keys, rows = sorted_updates(indices, updates, axis=axis, size=size)
    shape, count, ndim = updates.shape, rows.shape[0], indices.ndim

    def before(keys: Tensor, rows: Tensor) -> Tensor:
        one = ones((1, *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        inner = slice_axis(running(multiply, keys, rows), 0, 0, count - 1)
        same = slice_axis(keys, 0, 1, count - 1) == slice_axis(keys, 0, 0, count - 1)
        return concat([one, where(along(same, 0, inner.shape), inner, 1)], axis=0)

    turned = before(flip(keys, axis=0), flip(rows, axis=0))
    found = before(keys, rows) * flip(turned, axis=0)
    found = take(found, argsort(order), axis=0)
    others = (*shape[:axis], *shape[axis + ndim :])
    moved = reshape(found, (*indices.shape, *others))
    front = (*range(axis, axis + ndim), *range(axis), *range(axis + ndim, len(shape)))
    return permute_dims(moved, tuple(sorted(range(len(front)), key=front.__getitem__)))


def _beside_rule(indices: Aval, updates: Aval, *, axis: int, size: int) -> Aval:
    have = updates.shape[axis : axis + len(indices.shape)]
    if have != indices.shape:
        raise ShapeError(
            f"products_beside: updates of {updates.shape} must have the shape {indices.shape} of "
            f"indices from axis {axis} on, got {have}"
        )
    if updates.dtype.kind not in NUMERIC:
        raise DTypeError(f"products_beside: updates must be numbers, got {updates.dtype}")
    return updates


def _beside_reference(indices: Any, updates: Any, axis: int, size: int) -> Any:
    places = np.ravel(indices) % size
    ndim = indices.ndim
    moved = np.moveaxis(updates, range(axis, axis + ndim), range(ndim))
    rows = moved.reshape(len(places), *moved.shape[ndim:])
    out = np.ones_like(rows)
    for i, j in zip(*np.nonzero(places[:, None] == places), strict=True):
        if i != j:
            out[i] *= rows[j]
    return np.moveaxis(out.reshape(moved.shape), range(ndim), range(axis, axis + ndim))


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    a, b, c, size = *draw.shape((2, 8, 3)), draw.size(5, least=1)
    options = {"axis": 0, "size": size}
    yield Sample((draw.integers((a, b), size), draw.array((a, b, c))), options, condition=64)
    options = {"axis": 1, "size": size}
    places = draw.integers((7,), size) - size
    yield Sample((places, draw.array((a, 7, c))), options, condition=64)
    yield Sample((draw.integers((0,), size), draw.array((0,))), {"axis": 0, "size": size})


PRODUCTS_BESIDE = Operation(
    "products_beside",
    tensors=("indices", "updates"),
    statics=("axis", "size"),
    rule=_beside_rule,
    traits=Traits("opaque", precision="high"),
    body=_beside,
    public=products_beside,
    samples=_samples,
    reference=_beside_reference,
)
