"""Elements to indices: scatter_add and scatter_set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run
from ...dtypes import int64
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits, Updates
from ...sample import Draw, Sample
from .._batching import scatter_batch
from .._rules import NUMERIC, normalize_axis
from ..movement.slicing import zeros_of
from .gathering import Indices, index_handle, take, taken_shape

if TYPE_CHECKING:
    from ...tensor import Tensor


def check_updates(name: str, x: Aval, indices: Aval, updates: Aval, axis: int) -> None:
    """Refuses updates of another shape than what `take` reads of `x`."""
    expected = taken_shape(x.shape, indices.shape, axis)
    if updates.shape != expected:
        raise ShapeError(
            f"{name}: updates must have shape {expected} for x of {x.shape}, indices of "
            f"{indices.shape} and axis {axis}, got {updates.shape}"
        )


def update_rule(name: str, x: Aval, indices: Aval, updates: Aval, *, axis: int) -> Aval:
    """The result of setting updates, or of adding them, which booleans are not."""
    if updates.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: updates must have the dtype {x.dtype} of x, got {updates.dtype}; "
            "cast them first with updates.astype(x.dtype)"
        )
    if name != "scatter_set" and x.dtype.kind not in NUMERIC:
        raise DTypeError(f"{name}: x must be numbers, got {x.dtype}; cast first with x.astype(...)")
    check_updates(name, x, indices, updates, axis)
    return x


def _samples(draw: Draw) -> Iterator[Sample]:
    rows, many = draw.size(5, least=1), draw.size(17, least=1)
    a, b, c = draw.shape((2, 8, 3))
    x, updates = draw.array((rows, c)), draw.array((a, b, c))
    yield Sample((x, draw.integers((a, b), rows), updates), {"axis": 0})
    x, updates = draw.array((a, many, c)), draw.array((a, 3, c))
    yield Sample((x, draw.integers((3,), many) - many, updates), {"axis": 1})
    yield Sample((draw.array((rows,)), draw.integers((0,), rows), draw.array((0,))))
    yield Sample((draw.array((rows,)), draw.integers((), rows), draw.array(())))


def _reference(add: bool, x: Any, indices: Any, updates: Any, axis: int = 0) -> Any:
    out = np.moveaxis(np.array(x), axis, 0)
    moved = np.moveaxis(
        updates, range(axis, axis + indices.ndim), range(indices.ndim)
    ).reshape(indices.size, *out.shape[1:])  # fmt: skip
    for i, row in zip(np.ravel(indices), moved, strict=True):
        out[i] = out[i] + row if add else row
    return np.moveaxis(out, 0, axis)


def _operation(name: str, public: Callable[..., Any], updates: Updates, vjp: Any) -> Operation:
    return Operation(
        name,
        tensors=("x", "indices", "updates"),
        statics=("axis",),
        rule=partial(update_rule, name),
        traits=Traits("movement", family="scatter", access="scatter", updates=updates),
        vjp=vjp,
        batch=scatter_batch(public),
        public=public,
        samples=_samples,
        reference=partial(_reference, name == "scatter_add"),
    )


def scatter_add(
    x: TensorLike, indices: Indices, updates: TensorLike, /, *, axis: int = 0
) -> Tensor:
    """`x` with updates added at the indices of an axis: what `take` reads is added back.

    An index that comes several times adds several times, always in the same order, so that the
    result is the same bit for bit each time.

    Args:
        x: a tensor.
        indices: integers of any shape; negative ones count from the end.
        updates: of the dtype of `x` and the shape of `take(x, indices, axis=axis)`.
        axis: the axis that is indexed.

    Raises:
        OutOfRangeError: an index points outside of the axis.

    >>> import ingle.tensor as it
    >>> it.scatter_add(it.zeros(3), it.asarray([0, 2, 0]), it.asarray([1.0, 2.0, 3.0])).tolist()
    [4.0, 0.0, 2.0]
    """
    return _scatter(SCATTER_ADD, x, indices, updates, axis)


SCATTER_ADD = _operation(
    "scatter_add",
    scatter_add,
    "add",
    {
        "x": lambda g: g,
        "updates": lambda g, indices, axis: take(g, indices, axis=axis),
    },
)


def scatter_set(
    x: TensorLike, indices: Indices, updates: TensorLike, /, *, axis: int = 0
) -> Tensor:
    """`x` with the elements at the indices of an axis replaced.

    Of several updates for one index the last one stays.

    Args:
        x: a tensor.
        indices: integers of any shape; negative ones count from the end.
        updates: of the dtype of `x` and the shape of `take(x, indices, axis=axis)`.
        axis: the axis that is indexed.

    Raises:
        OutOfRangeError: an index points outside of the axis.

    >>> import ingle.tensor as it
    >>> it.scatter_set(it.zeros(3), it.asarray([0, 2]), it.asarray([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    return _scatter(SCATTER_SET, x, indices, updates, axis)


def _set_vjp_x(g: Tensor, indices: Tensor, updates_aval: Aval, axis: int) -> Tensor:
    return scatter_set(g, indices, zeros_of(updates_aval, g), axis=axis)


def _set_vjp_updates(g: Tensor, indices: Tensor, x_aval: Aval, axis: int) -> Tensor:
    """The cotangent at the indices, but only for the update that stayed where several met."""
    from ..creation.ranges import arange
    from ..elementwise.where import where
    from ..movement.shapes import reshape

    order = reshape(arange(indices.size, dtype=int64, device=indices.device), indices.shape)
    nobody = zeros_of(Aval((x_aval.shape[axis],), int64), g)
    winner = take(scatter_set(nobody, indices, order), indices, axis=0) == order
    tail = (1,) * (len(x_aval.shape) - axis - 1)
    return where(reshape(winner, (*indices.shape, *tail)), take(g, indices, axis=axis), 0)


SCATTER_SET = _operation(
    "scatter_set", scatter_set, "set", {"x": _set_vjp_x, "updates": _set_vjp_updates}
)


def _scatter(
    operation: Operation, x: TensorLike, indices: Indices, updates: TensorLike, axis: int
) -> Tensor:
    a, u = handle_of(x, operation.name), handle_of(updates, operation.name, "updates")
    place = normalize_axis(axis, len(a.shape), operation.name)
    return run(operation.op(axis=place), (a, index_handle(operation.name, indices, a), u))[0]
