"""Where the largest and smallest elements are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, handle_of, run1, wrap
from ...dtypes import DType, default_int
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._rules import ORDERED, as_flag, normalize_axis
from ..movement.shapes import reshape
from .basic import reduction_rule

if TYPE_CHECKING:
    from ...tensor import Tensor


def _search_operation(name: str, public: Any, reference: Any) -> Operation:
    def rule(x: Aval, *, axis: int, keepdims: bool, dtype: DType) -> Aval:
        return reduction_rule(name, ORDERED, False, dtype, x, axis=(axis,), keepdims=keepdims)

    return Operation(
        name,
        tensors=("x",),
        statics=("axis", "keepdims", "dtype"),
        rule=rule,
        traits=Traits("reduction", family="argreduce", exactly_rounded=True),
        vjp={},
        public=public,
        samples=_samples,
        reference=reference,
    )


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.array((2, 17)),), gradient=False)
    yield Sample((draw.array((3, 5, 8)),), {"axis": 1}, gradient=False)
    yield Sample((draw.array((5, 3)),), {"axis": -1, "keepdims": True}, gradient=False)
    yield Sample((draw.array(()),), gradient=False)
    ties = np.asarray([1, 3, 3, 1], draw.dtype.dtype)
    yield Sample((ties,), gradient=False)
    if draw.dtype.is_floating:
        yield Sample((np.asarray([1, np.nan, 3], draw.dtype.dtype),), gradient=False)


def argmax(x: TensorLike, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element along an axis; of the first NaN if there is one.

    Args:
        x: a real or bool tensor.
        axis: an axis, or None for the index into all elements in row-major order.
        keepdims: keep reduced axes with size 1.

    Raises:
        ShapeError: there are no elements to choose from.

    >>> import ingle.tensor as it
    >>> it.argmax(it.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [1, 0]
    """
    return _search(_ARGMAX, x, axis, keepdims)


_ARGMAX = _search_operation("argmax", argmax, np.argmax)


def argmin(x: TensorLike, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element along an axis; of the first NaN if there is one.

    Args:
        x: a real or bool tensor.
        axis: an axis, or None for the index into all elements in row-major order.
        keepdims: keep reduced axes with size 1.

    Raises:
        ShapeError: there are no elements to choose from.

    >>> import ingle.tensor as it
    >>> it.argmin(it.asarray([[1, 5], [7, 2]]), axis=1).tolist()
    [0, 1]
    """
    return _search(_ARGMIN, x, axis, keepdims)


_ARGMIN = _search_operation("argmin", argmin, np.argmin)


def _search(operation: Operation, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    handle = handle_of(x, operation.name)
    shape = handle.shape
    as_flag(keepdims, operation.name, "keepdims")
    if axis is None:
        flat = reshape(wrap(handle), (math.prod(shape),))._handle
        found = run1(operation.op(axis=0, keepdims=False, dtype=default_int()), flat)
        return reshape(found, (1,) * len(shape)) if keepdims else found
    place = normalize_axis(axis, len(shape), operation.name)
    return run1(
        operation.op(axis=place, keepdims=keepdims, dtype=default_int()),
        handle,
    )
