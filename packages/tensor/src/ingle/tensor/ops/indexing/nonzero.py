"""The positions of elements that are not zero."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, call1, handle_of
from ...dtypes import int64
from ...errors import ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample

if TYPE_CHECKING:
    from ...tensor import Tensor


class Positions(tuple["Tensor", ...]):
    """A tensor of indices for each axis: a tuple, which says what to write where a program takes it
    for PyTorch's tensor of one row for each place.

    >>> import ingle.tensor as it
    >>> it.nonzero(it.asarray([0, 7])).squeeze()
    Traceback (most recent call last):
        ...
    AttributeError: nonzero gives a tuple with a tensor for each axis, which has no attribute \
'squeeze'; PyTorch's rows are it.stack(it.nonzero(x), axis=-1), a vector's places it.nonzero(x)[0]
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Never:
        told = "" if name.startswith("__") or not hasattr(self[0], name) else (
            "; PyTorch's rows are it.stack(it.nonzero(x), axis=-1), a vector's places "
            "it.nonzero(x)[0]"
        )  # fmt: skip
        raise AttributeError(
            "nonzero gives a tuple with a tensor for each axis, which has no attribute "
            f"{name!r}{told}", name=name, obj=self,
        )  # fmt: skip


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, in row-major order: a tensor for each axis.

    The result's size depends on the values. Where shapes have to be known beforehand use
    `where` or `masked_fill`.

    Args:
        x: a tensor of at least one axis.

    Raises:
        ShapeError: `x` has no axes.

    >>> import ingle.tensor as it
    >>> rows, columns = it.nonzero(it.asarray([[0, 7], [5, 0]]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [1, 0])
    """
    from ..movement.joining import unstack

    if not handle_of(x, "nonzero").shape:
        raise ShapeError("nonzero: needs at least one axis, got a 0-d tensor; reshape it to (1,)")
    return Positions(unstack(indices_of(x)))


def _rule(x: Aval) -> Aval:
    return Aval((len(x.shape), -1), int64)


def _body(x: Tensor) -> Tensor:
    """Sorts the positions so that those wanted come first, then splits them into indices."""
    from ..elementwise.arithmetic import floor_divide, remainder
    from ..movement.joining import stack
    from ..movement.shapes import reshape
    from ..movement.slicing import slice
    from ..sorting.sort import argsort

    hit = reshape(x, (math.prod(x.shape),)) != 0
    order = argsort(hit.astype("uint8"), descending=True, stable=True)
    rest = slice(order, (0,), (int(hit.astype(int64).sum()),))
    rows = []
    for size in reversed(x.shape):
        rows.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return stack(rows[::-1])


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((8,), (5, 3), (2, 1, 17), (0, 3)):
        mask = draw.integers(shape, 2)
        yield Sample((draw.array(shape) * mask.astype(draw.dtype.dtype),), gradient=False)


def _reference(x: Any) -> Any:
    return np.nonzero(x)


_NONZERO = Operation(
    "nonzero",
    tensors=("x",),
    rule=_rule,
    traits=Traits("opaque", dynamic_shape=True),
    vjp={},
    body=_body,
    public=nonzero,
    samples=_samples,
    reference=_reference,
).op()


def indices_of(x: TensorLike) -> Tensor:
    """The indices that `nonzero` returns, as the rows of one int64 tensor."""
    return call1(_NONZERO, x)
