"""All combinations of elements, positions as indices of axes, and products of two inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...dispatch import TensorLike, handle_of, promote_tensors, wrap
from ...dtypes import int64
from ...errors import DTypeError, OperandError, ShapeError
from .._guarding import guarded
from .._rules import as_shape, as_size
from ..creation.conversion import asarray
from ..creation.ranges import meshgrid
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..indexing.gathering import take
from ..linear_algebra.einsum import einsum
from .joining import stack
from .shapes import reshape

if TYPE_CHECKING:
    from ...tensor import Tensor

_MOST = 1 << 24
"""Combinations beyond that are a mistake: their indices are made on the host."""


@guarded
def cartesian_prod(*xs: TensorLike) -> Tensor:
    """All choices of one element of each tensor, a row for each; the last one changes fastest.

    Args:
        xs: at least one tensor of one axis; promoted to one dtype.

    Returns:
        (product of the sizes, number of tensors); of one tensor that itself.

    Raises:
        OperandError: there is no tensor.
        ShapeError: one has another number of axes than one.

    >>> import ingle.tensor as it
    >>> it.cartesian_prod(it.asarray([1, 2]), it.asarray([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    name = "cartesian_prod"
    if not xs:
        raise OperandError(f"{name}: needs at least one tensor")
    tensors = promote_tensors(name, *((f"xs[{i}]", x) for i, x in enumerate(xs)))
    for i, x in enumerate(tensors):
        if x.ndim != 1:
            raise ShapeError(f"{name}: xs[{i}] must have one axis, got shape {x.shape}")
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return stack([reshape(g, (-1,)) for g in grids], axis=1)


@guarded
def combinations(x: TensorLike, /, r: int = 2, *, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements in the order that they stand in, a row for each.

    Args:
        x: a tensor of one axis.
        r: how many are chosen.
        with_replacement: whether an element may be chosen again.

    Returns:
        (number of combinations, r).

    Raises:
        ShapeError: `x` has another number of axes than one, or there are too many combinations.

    >>> import ingle.tensor as it
    >>> it.combinations(it.asarray([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    name = "combinations"
    tensor = wrap(handle_of(x, name))
    if tensor.ndim != 1:
        raise ShapeError(f"{name}: x must have one axis, got shape {tensor.shape}")
    n, count = tensor.shape[0], as_size(r, name, "r")
    number = math.comb(n + count - 1, count) if with_replacement and n else math.comb(n, count)
    if number * count > _MOST:
        raise ShapeError(f"{name}: {number} combinations of {count} are more than {_MOST} elements")
    rows = _chosen(n, count, number, with_replacement)
    return take(tensor, asarray(rows, device=tensor.device), axis=0)


def _chosen(n: int, count: int, number: int, again: bool) -> np.ndarray:
    """The places of each choice of `count` among n, a row each."""
    if count == 2:  # A tuple in Python for each takes ten times as long.
        return np.stack(np.triu_indices(n, 0 if again else 1), axis=1)
    choose = itertools.combinations_with_replacement if again else itertools.combinations
    places = itertools.chain.from_iterable(choose(range(n), count))
    return np.fromiter(places, np.int64, number * count).reshape(number, count)


@guarded
def unravel_index(indices: TensorLike, shape: Sequence[int], /) -> tuple[Tensor, ...]:
    """The indices of each axis of a shape for positions in its row-major order.

    Args:
        indices: integers from 0; negative ones count from the end. One that lies outside has an
            index of the first axis that lies outside, too, which a gather refuses.
        shape: the sizes of the axes.

    Returns:
        An int64 tensor of the shape of `indices` for each axis.

    Raises:
        DTypeError: `indices` are no integers.
        ShapeError: a shape without axes or without elements.

    >>> import ingle.tensor as it
    >>> rows, columns = it.unravel_index(it.asarray([1, 5]), (2, 3))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [1, 2])
    """
    name = "unravel_index"
    sizes = as_shape(shape, name)
    places = wrap(handle_of(indices, name, "indices"))
    if not places.dtype.is_integer:
        raise DTypeError(f"{name}: indices must be integers, got {places.dtype}; cast them")
    if not sizes or 0 in sizes:
        raise ShapeError(f"{name}: shape must have elements and at least one axis, got {sizes}")
    rest = astype(places, int64)
    rest = where(rest < 0, rest + math.prod(sizes), rest)
    found = []
    for size in reversed(sizes[1:]):
        found.append(rest % size)
        rest = rest // size
    return (rest, *reversed(found))


@guarded
def bilinear(
    x1: TensorLike, x2: TensorLike, weight: TensorLike, bias: TensorLike | None = None
) -> Tensor:
    """`x1 @ weight[o] @ x2 + bias[o]` for each feature o of the result.

    Args:
        x1: (..., features1), floats.
        x2: (..., features2), with the same leading axes.
        weight: (features, features1, features2).
        bias: (features,).

    Returns:
        (..., features).

    Raises:
        ShapeError: sizes that do not fit one another.

    >>> import ingle.tensor as it
    >>> x, y = it.asarray([[1.0, 2.0]]), it.asarray([[3.0, 5.0]])
    >>> it.bilinear(x, y, it.ones((1, 2, 2)), it.asarray([0.5])).tolist()
    [[24.5]]
    """
    name = "bilinear"
    operands = [("x1", x1), ("x2", x2), ("weight", weight)]
    more = [] if bias is None else [("bias", bias)]
    a, b, w, *offset = promote_tensors(name, *operands, *more)
    fits = a.ndim and b.ndim and a.shape[:-1] == b.shape[:-1] and w.ndim == 3
    if not fits or w.shape[1:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"{name}: x1 must be (..., features1), x2 (..., features2) and weight (features, "
            f"features1, features2), got {a.shape}, {b.shape} and {w.shape}"
        )
    if offset and offset[0].shape != w.shape[:1]:
        raise ShapeError(f"{name}: bias must be ({w.shape[0]},), got shape {offset[0].shape}")
    out = einsum("...i,oij,...j->...o", a, w, b)
    return out + offset[0] if offset else out
