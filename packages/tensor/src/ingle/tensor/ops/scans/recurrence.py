"""Linear recurrences along an axis, which gradients of running products are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, promote, run
from ...errors import DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._batching import Batched, all_batched
from .._guarding import guarded
from .._rules import conj, normalize_axis, widened
from ..creation.filled import full
from ..elementwise.cast import astype
from ..movement.joining import concat
from ..movement.slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def linear_recurrence(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> Tensor:
    """h[t] = a[t] * h[t - 1] + b[t] along an axis, from h[0] = b[0] on.

    Args:
        a: factors; the first one does not matter.
        b: what is added, of the same shape.
        axis: along which.

    Returns:
        Of the shape of `b`, and of the dtype that `a` and `b` are promoted to.

    Raises:
        ShapeError: `a` and `b` have different shapes.
        DTypeError: neither is of floats or complex numbers.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.ops.scans.recurrence import linear_recurrence
    >>> linear_recurrence(it.asarray([0.0, 0.5, 0.5]), it.asarray([4.0, 0.0, 1.0])).tolist()
    [4.0, 2.0, 2.0]
    """
    name = "linear_recurrence"
    place = normalize_axis(axis, len(handle_of(b, name, "b").shape), name)
    return run(LINEAR_RECURRENCE.op(axis=place), promote(name, ("a", a), ("b", b)))[0]


def _rule(a: Aval, b: Aval, *, axis: int) -> Aval:
    name = "linear_recurrence"
    if a.shape != b.shape:
        raise ShapeError(f"{name}: a and b must have one shape, got {a.shape} and {b.shape}")
    if not a.dtype.is_inexact:
        raise DTypeError(f"{name}: a and b must be floats or complex, got {a.dtype}; cast them")
    return b


def _body(a: Tensor, b: Tensor, *, axis: int) -> Tensor:
    """Hillis and Steele's scan of pairs: what is carried on, and what is added up to there."""
    dtype, size, distance = b.dtype, b.shape[axis], 1
    a, b = widened(a), widened(b)
    while distance < size:
        rest = size - distance
        early, late = (slice_axis(b, axis, first, rest) for first in (0, distance))
        factor = slice_axis(a, axis, distance, rest)
        b = concat([slice_axis(b, axis, 0, distance), late + factor * early], axis=axis)
        if 2 * distance < size:
            carried = factor * slice_axis(a, axis, 0, rest)
            a = concat([slice_axis(a, axis, 0, distance), carried], axis=axis)
        distance *= 2
    return astype(b, dtype)


def following(x: Tensor, axis: int) -> Tensor:
    """Factors of the recurrence that goes backwards: those of the element behind each."""
    size = x.shape[axis]
    return moved_on(flip(x, axis), axis, 1) if size else x


def moved_on(x: Tensor, axis: int, first: float) -> Tensor:
    """Each element in the place of the one behind it; a number comes first."""
    one = full(
        tuple(1 if a == axis else n for a, n in enumerate(x.shape)), first, dtype=x.dtype,
        device=x.device,
    )  # fmt: skip
    return concat([one, slice_axis(x, axis, 0, x.shape[axis] - 1)], axis=axis)


def flip(x: Tensor, axis: int) -> Tensor:
    """The elements along an axis in the opposite order."""
    size = x.shape[axis]
    return slice_axis(x, axis, size - 1, size, -1) if size else x


def backwards(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """h[t] = a[t + 1] * h[t + 1] + b[t], from the last one on."""
    return flip(linear_recurrence(following(a, axis), flip(b, axis), axis=axis), axis)


def _batch(batched: Batched, a: Tensor, b: Tensor, axis: int) -> Tensor:
    a, b = all_batched(batched, (a, b))
    return linear_recurrence(a, b, axis=axis + 1)


def _by_a(g: Tensor, a: Tensor, out: Tensor, axis: int) -> Tensor:
    if not a.shape[axis]:
        return g
    behind = backwards(conj(a), g, axis)
    return behind * moved_on(conj(out), axis, 0)


def _by_b(g: Tensor, a: Tensor, axis: int) -> Tensor:
    return backwards(conj(a), g, axis)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    for shape, axis in (((17,), 0), ((3, 5, 2), 1), ((2, 8), -1), ((0, 3), 0), ((3, 1), 1)):
        yield Sample((draw.array(shape), draw.array(shape)), {"axis": axis}, condition=64)
    zeros = np.asarray([[2, 0, 3], [0, 0, 1]], draw.dtype.dtype)
    yield Sample((zeros, zeros + 1), {"axis": 1})


def _reference(a: Any, b: Any, axis: int = -1) -> Any:
    factors, out = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0).copy()
    for t in range(1, len(out)):
        out[t] = factors[t] * out[t - 1] + out[t]
    return np.moveaxis(out, 0, axis)


LINEAR_RECURRENCE = Operation(
    "linear_recurrence",
    tensors=("a", "b"),
    statics=("axis",),
    rule=_rule,
    traits=Traits("opaque", precision="high"),
    vjp={"a": _by_a, "b": _by_b},
    body=_body,
    batch=_batch,
    public=linear_recurrence,
    samples=_samples,
    reference=_reference,
)
