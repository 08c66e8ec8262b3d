"""Elements by index: take and take_along_axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Shape
from ...device import backend_of
from ...dispatch import TensorLike, handle_of, run2, wrap
from ...errors import ArgumentError, DTypeError, OperandError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._batching import along_batch, take_batch
from .._rules import broadcast_shapes, normalize_axis
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import zeros_of
from .linear_index import flat_positions

if TYPE_CHECKING:
    from ...tensor import Tensor

GATHER = Traits("movement", family="gather", cost="expensive")
Indices = TensorLike | Sequence[Any] | np.ndarray | int


def take(x: TensorLike, indices: Indices, /, *, axis: int | None = None) -> Tensor:
    """The elements of an axis at some indices, in the order of the indices.

    Args:
        x: a tensor.
        indices: integers of any shape, which takes the place of the axis; negative ones count
            from the end.
        axis: which axis; may be left out if `x` has only one.

    Raises:
        OutOfRangeError: an index points outside of the axis.

    >>> import ingle.tensor as it
    >>> it.take(it.asarray([[1, 2], [3, 4]]), it.asarray([1, 0, 1]), axis=0).tolist()
    [[3, 4], [1, 2], [3, 4]]
    """
    handle = handle_of(x, "take")
    if axis is None and len(handle.shape) != 1:
        raise ArgumentError(
            f"take: axis must be given for a tensor of shape {handle.shape}; of all elements one "
            "behind the other: take(x.ravel(), indices)"
        )
    place = normalize_axis(0 if axis is None else axis, len(handle.shape), "take")
    return run2(TAKE.op(axis=place), handle, index_handle("take", indices, handle))


def _take_rule(x: Aval, indices: Aval, *, axis: int) -> Aval:
    return Aval(taken_shape(x.shape, indices.shape, axis), x.dtype)


def _take_vjp(g: Tensor, indices: Tensor, x_aval: Aval, axis: int) -> Tensor:
    from .scattering import scatter_add

    return scatter_add(zeros_of(x_aval, g), indices, g, axis=axis)


def _take_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5, 3)), draw.integers((2, 8), 5)), {"axis": 0})
    yield Sample((draw.array((2, 17, 3)), draw.integers((3,), 17) - 17), {"axis": 1})
    yield Sample((draw.array((8,)), draw.integers((), 8, "int32")))
    yield Sample((draw.array((8, 2)), draw.integers((0,), 8)), {"axis": 0})


def _take_reference(x: Any, indices: Any, axis: int | None = None) -> Any:
    return np.take(x, indices, axis=axis)


TAKE = Operation(
    "take",
    tensors=("x", "indices"),
    statics=("axis",),
    rule=_take_rule,
    traits=replace(GATHER, access="rows"),
    vjp={"x": _take_vjp},
    batch=take_batch,
    public=take,
    samples=_take_samples,
    reference=_take_reference,
)


def take_along_axis(x: TensorLike, indices: Indices, /, *, axis: int = -1) -> Tensor:
    """One element of `x` for each index, found along an axis; the other axes broadcast.

    Args:
        x: a tensor.
        indices: integers with as many axes as `x`; negative ones count from the end.
        axis: along which to look.

    Raises:
        OutOfRangeError: an index points outside of the axis.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1, 2, 3], [4, 5, 6]])
    >>> it.take_along_axis(x, it.asarray([[2], [0]])).tolist()
    [[3], [4]]
    """
    a = handle_of(x, "take_along_axis")
    i = index_handle("take_along_axis", indices, a)
    if len(a.shape) != len(i.shape):
        raise ShapeError(
            f"take_along_axis: indices must have as many axes as x, got shape {i.shape} for "
            f"{a.shape}"
        )
    place = normalize_axis(axis, len(a.shape), "take_along_axis")
    common = broadcast_shapes(
        "take_along_axis", *[(*h.shape[:place], 1, *h.shape[place + 1 :]) for h in (a, i)]
    )
    a, i = [_spread(h, common, place) for h in (a, i)]
    return run2(TAKE_ALONG_AXIS.op(axis=place), a, i)


def _along_rule(x: Aval, indices: Aval, *, axis: int) -> Aval:
    if any(
        a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis
    ):
        raise ShapeError(
            f"take_along_axis: {x.shape} and indices of {indices.shape} differ outside of {axis}"
        )
    return Aval(indices.shape, x.dtype)


def along_vjp(g: Tensor, indices: Tensor, x_aval: Aval, axis: int) -> Tensor:
    """The gradient of what was taken along an axis: zeros with it at the indices."""
    from .scattering import scatter_add

    flat = zeros_of(Aval((math.prod(x_aval.shape),), x_aval.dtype), g)
    positions = flat_positions(indices, x_aval.shape, axis, called="take_along_axis")
    return reshape(scatter_add(flat, positions, g, axis=0), x_aval.shape)


def _along_samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((5, 3)), draw.integers((5, 1), 3)))
    yield Sample((draw.array((5, 3)), draw.integers((8, 3), 5) - 5), {"axis": 0})
    yield Sample((draw.array((2, 1, 3)), draw.integers((1, 8, 3), 1)), {"axis": 1})


def _along_reference(x: Any, indices: Any, axis: int = -1) -> Any:
    return np.take_along_axis(x, indices, axis=axis)


TAKE_ALONG_AXIS = Operation(
    "take_along_axis",
    tensors=("x", "indices"),
    statics=("axis",),
    rule=_along_rule,
    traits=replace(GATHER, access="along"),
    vjp={"x": along_vjp},
    batch=along_batch,
    public=take_along_axis,
    samples=_along_samples,
    reference=_along_reference,
)


def _spread(handle: Handle, common: Shape, axis: int) -> Handle:
    shape = (*common[:axis], handle.shape[axis], *common[axis + 1 :])
    return handle if shape == handle.shape else broadcast_to(wrap(handle), shape)._handle


def index_handle(name: str, indices: object, like: Handle) -> Handle:
    """Integer indices as a handle; lists and arrays go to the device of `like`."""
    if hasattr(indices, "_handle") or hasattr(type(indices), "__ingle_tensor__"):
        handle = handle_of(indices, name, "indices")
        if not handle.dtype.is_integer:
            raise DTypeError(
                f"{name}: indices must be integers, got {handle.dtype}; "
                + ("select by a mask with x[mask]" if handle.dtype.kind == "bool" else "cast them")
            )
        return handle
    try:
        values = np.asarray(indices)
    except ValueError as error:
        raise OperandError(f"{name}: indices are ragged: {error}") from None
    if not values.size and not isinstance(indices, np.ndarray):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise DTypeError(f"{name}: indices must be integers, got {values.dtype}: {indices!r:.60}")
    return backend_of(like.backend.device).upload(values)


def taken_shape(shape: Shape, indices: Shape, axis: int) -> Shape:
    """The shape of `take`: that of the indices in the place of the axis."""
    return (*shape[:axis], *indices, *shape[axis + 1 :])
