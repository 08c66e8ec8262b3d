"""Several indices as one: positions in the row-major order of some axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Shape
from ...dispatch import TensorLike, cast_handle, handle_of, run
from ...dtypes import int64
from ...errors import DTypeError, OperandError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape, broadcast_shapes

if TYPE_CHECKING:
    from ...tensor import Tensor


def ravel_index(
    indices: Sequence[TensorLike],
    shape: Sequence[int],
    *,
    called: str,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """The int64 positions in row-major order that indices of several axes point to.

    Args:
        indices: an integer tensor for each axis; they broadcast. Negative ones count from the end.
        shape: the sizes of the axes.
        called: the call that indexes so, whose name messages begin with.
        axes: their numbers in the tensor that is indexed, for messages.

    Raises:
        OutOfRangeError: an index points outside of its axis.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.indexing.linear_index import ravel_index
    >>> indices = [it.asarray([0, 1]), it.asarray([2, -1])]
    >>> ravel_index(indices, (2, 3), called="x[...]").tolist()
    [2, 5]
    """
    lengths = as_shape(shape, called, "shape")
    if not len(indices) == len(lengths) > 0:
        raise ShapeError(
            f"{called}: indices must have a tensor for each axis of shape={lengths}, got "
            f"{len(indices)}"
        )
    handles = [handle_of(x, called, f"indices[{i}]") for i, x in enumerate(indices)]
    for i, h in enumerate(handles):
        if not h.dtype.is_integer:
            raise DTypeError(f"{called}: indices[{i}] must be integers, got {h.dtype}; cast it")
    handles = [cast_handle(h, int64) for h in handles]
    numbers = tuple(range(len(lengths)) if axes is None else axes)
    return run(RAVEL_INDEX.op(sizes=lengths, axes=numbers, called=called), handles)[0]


@guarded
def ravel_multi_index(indices: Sequence[TensorLike], shape: Sequence[int], /) -> Tensor:
    """The positions in the row-major order of a shape that indices of its axes point to.

    Args:
        indices: an integer tensor for each axis; they broadcast. Negative ones count from the end.
            One that lies outside is an error, or in a plan has a position outside of all, which
            a gather refuses.
        shape: the sizes of the axes.

    Returns:
        int64 positions.

    Raises:
        OutOfRangeError: an index lies outside.
        OperandError: `indices` is no list or tuple.

    >>> import ingle.tensor as it
    >>> it.ravel_multi_index((it.asarray([0, 1]), it.asarray([1, 2])), (2, 3)).tolist()
    [1, 5]
    """
    if not isinstance(indices, (list, tuple)):
        raise OperandError(
            f"ravel_multi_index: indices must be a list of tensors, got {type(indices).__name__}"
        )
    return ravel_index(indices, shape, called="ravel_multi_index")


def _rule(*indices: Aval, sizes: Shape, axes: Shape, called: str) -> Aval:
    names = [f"indices[{i}]" for i in range(len(indices))]
    shapes = [i.shape for i in indices]
    return Aval(broadcast_shapes(called, *shapes, arguments=names), int64)


def _body(*indices: Tensor, sizes: Shape, axes: Shape, called: str) -> Tensor:
    """An index outside of its axis gives a position outside of all, which the gather refuses."""
    from ..elementwise.comparison import greater_equal, less
    from ..elementwise.where import where

    total: Any = None
    good: Any = None
    for index, size in zip(indices, sizes, strict=True):
        inside = less(index, size) & greater_equal(index, -size)
        wrapped = where(less(index, 0), index + size, index)
        total = wrapped if total is None else total * size + wrapped
        good = inside if good is None else good & inside
    return where(good, total, math.prod(sizes))


def _samples(draw: Draw) -> Iterator[Sample]:
    # Only indices inside: one beyond its axis gives whatever the gather behind it refuses.
    n, m = draw.shape((5, 8), least=1)
    a, b, c = draw.shape((3, 2, 17))
    yield Sample(([draw.integers((a,), n), draw.integers((b, 1), m) - m], (n, m)), gradient=False)
    yield Sample(([draw.integers((c,), n)], (n,)), gradient=False)


def _reference(indices: Any, sizes: Any) -> Any:
    whole = [np.asarray(i, np.int64) % n for i, n in zip(indices, sizes, strict=True)]
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*whole)), sizes)


RAVEL_INDEX = Operation(
    "ravel_index",
    tensors=("indices",),
    variadic=True,
    statics=("sizes", "axes", "called"),
    rule=_rule,
    traits=Traits("elementwise", checks_indices=True),
    vjp={},
    body=_body,
    public=ravel_multi_index,
    samples=_samples,
    reference=_reference,
)


def flat_positions(indices: Tensor, shape: Shape, axis: int, *, called: str) -> Tensor:
    """Where `take_along_axis` finds its elements in a tensor of `shape` that is laid out flat.

    Args:
        indices, shape, axis: as there.
        called: the call that indexes so, whose name messages begin with.
    """
    from ..creation.ranges import arange
    from ..movement.shapes import reshape

    parts = []
    for i, n in enumerate(indices.shape):
        here = (1,) * i + (n,) + (1,) * (len(shape) - i - 1)
        own = reshape(arange(n, dtype=int64, device=indices.device), here)
        parts.append(indices if i == axis else own)
    return ravel_index(parts, shape, called=called)
