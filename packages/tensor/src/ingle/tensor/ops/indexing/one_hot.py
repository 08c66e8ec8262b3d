"""Class numbers as vectors with a single one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, call1, handle_of
from ...dtypes import DType, default_float, float32, int64
from ...errors import ArgumentError, DTypeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import MOST, as_size, dtype_argument, normalize_axis

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def one_hot(
    indices: TensorLike, /, num_classes: int, *, axis: int = -1, dtype: object = None
) -> Tensor:
    """For each class number a vector with a one at its place and zeros elsewhere.

    Args:
        indices: class numbers in [0, num_classes).
        num_classes: the length of the vectors.
        axis: where their axis stands in the result.
        dtype: of the result; the default float dtype if not given.

    Raises:
        OutOfRangeError: a class number is negative or too large.

    >>> import ingle.tensor as it
    >>> it.one_hot(it.asarray([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    from ..movement.axes import moveaxis

    handle = handle_of(indices, "one_hot", "indices")
    count = as_size(num_classes, "one_hot", "num_classes", most=MOST)
    if count < 1:
        raise ArgumentError(f"one_hot: num_classes must be at least 1, got {count}")
    to = dtype_argument(dtype, "one_hot", default_float)
    place = normalize_axis(axis, len(handle.shape) + 1, "one_hot")
    return moveaxis(call1(_ONE_HOT.op(num_classes=count, dtype=to), indices), -1, place)


def _rule(indices: Aval, *, num_classes: int, dtype: DType) -> Aval:
    if not indices.dtype.is_integer:
        raise DTypeError(
            f"one_hot: indices must be integers, got {indices.dtype}; cast them with "
            "indices.astype('int64')"
        )
    return Aval((*indices.shape, num_classes), dtype)


def _body(indices: Tensor, *, num_classes: int, dtype: DType) -> Tensor:
    from ..creation.ranges import arange
    from ..elementwise.cast import astype
    from ..elementwise.comparison import equal
    from ..elementwise.where import where
    from ..movement.shapes import reshape
    from .gathering import take

    classes = arange(num_classes, device=indices.device)
    # Read from the classes so that a number which is none of them is refused; `take` would count a
    # negative one from the end.
    places = astype(indices, int64)
    known = take(classes, where(places < 0, num_classes, places), axis=0)
    return astype(equal(reshape(known, (*indices.shape, 1)), classes), dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    yield Sample((draw.integers((8,), 5), 5), gradient=False)
    yield Sample((draw.integers((2, 3), 17), 17), {"dtype": float32, "axis": 0}, gradient=False)


def _reference(indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    return np.moveaxis(np.eye(num_classes)[indices], -1, axis)


_ONE_HOT = Operation(
    "one_hot",
    tensors=("indices",),
    statics=("num_classes", "dtype"),
    rule=_rule,
    traits=Traits("opaque", indices_from_0="one_hot"),
    vjp={},
    body=_body,
    public=one_hot,
    samples=_samples,
    reference=_reference,
)
