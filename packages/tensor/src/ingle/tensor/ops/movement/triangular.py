"""Triangles and diagonals of matrices: tril, triu, eye, diagonal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval, Handle, Shape
from ...device import Device
from ...dispatch import TensorLike, handle_of, run1
from ...dtypes import default_float, int64
from ...errors import ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_int, dtype_argument, matrix_shape
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.comparison import equal, greater_equal
from ..elementwise.where import where
from .shapes import reshape
from .slicing import slice

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The lower triangle of each matrix of a stack, zeros above it.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        k: the last diagonal to keep: 0 is the main one, 1 the one above.

    >>> import ingle.tensor as it
    >>> it.tril(it.ones((2, 3))).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    return _kept(TRIL, x, k)


@guarded
def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The upper triangle of each matrix of a stack, zeros below it.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        k: the first diagonal to keep: 0 is the main one, 1 the one above.

    >>> import ingle.tensor as it
    >>> it.triu(it.ones((2, 3)), k=1).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    """
    return _kept(TRIU, x, k)


def _kept(triangle: Operation, x: TensorLike, k: int) -> Tensor:
    handle, (n, m) = _matrices(triangle.name, x)
    last = as_int(k, triangle.name, "k")
    # Beyond the corners all diagonals are alike.
    return run1(triangle.op(k=max(-n, min(last, m))), handle)


def _lower(x: Tensor, *, k: int) -> Tensor:
    rows, columns = _grid((x.shape[-2], x.shape[-1]), k, x.device)
    return where(greater_equal(rows, columns), x, False)


def _upper(x: Tensor, *, k: int) -> Tensor:
    rows, columns = _grid((x.shape[-2], x.shape[-1]), k, x.device)
    return where(greater_equal(columns, rows), x, False)


def _triangle_samples(draw: Draw) -> Iterator[Sample]:
    for shape, options in (
        ((3, 5), {}), ((5, 3), {"k": 1}), ((2, 3, 3), {"k": -1}), ((0, 3), {}), ((2, 2), {"k": 9}),
    ):  # fmt: skip
        yield Sample((draw.array(shape),), options)


def _triangle(public: Callable[..., Any], body: Callable[..., Any]) -> Operation:
    name = public.__name__
    return Operation(
        name,
        tensors=("x",),
        statics=("k",),
        rule=lambda x, *, k: x,
        traits=Traits("movement", storage=True),
        vjp={"x": lambda g, k: public(g, k=k)},
        body=body,
        public=public,
        samples=_triangle_samples,
        reference=getattr(np, name),
    )


TRIL = _triangle(tril, _lower)
TRIU = _triangle(triu, _upper)


@guarded
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows, n_cols: its shape; square if `n_cols` is not given.
        k: which diagonal: 0 is the main one, 1 the one above.
        dtype: the dtype; the default float dtype if not given.
        device: where to put it; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    shape = matrix_shape("eye", n_rows, n_cols)
    rows, columns = _grid(shape, as_int(k, "eye", "k"), device)
    return astype(equal(rows, columns), dtype_argument(dtype, "eye", default_float))


@guarded
def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The elements on a diagonal of each matrix of a stack, as the last axis of the result.

    Args:
        x: a tensor of at least 2 axes; the last two are the matrices.
        offset: which diagonal: 0 is the main one, 1 the one above.

    >>> import ingle.tensor as it
    >>> it.diagonal(it.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    handle, (n, m) = _matrices("diagonal", x)
    k = as_int(offset, "diagonal", "offset")
    return run1(_DIAGONAL.op(offset=max(-n, min(k, m))), handle)


def _diagonal_rule(x: Aval, *, offset: int) -> Aval:
    n, m = x.shape[-2:]
    return Aval((*x.shape[:-2], min(n, m - offset) if offset >= 0 else min(n + offset, m)), x.dtype)


def _diagonal(x: Tensor, *, offset: int) -> Tensor:
    lead, (n, m) = x.shape[:-2], x.shape[-2:]
    size = min(n, m - offset) if offset >= 0 else min(n + offset, m)
    # In the matrix laid out flat, one step down and right is one row and one element.
    flat = reshape(x, (*lead, n * m))
    start = 0 if not size else offset if offset >= 0 else -offset * m
    steps = (*[1] * len(lead), m + 1)
    return slice(flat, (*[0] * len(lead), start), (*lead, size), steps)


def _diagonal_samples(draw: Draw) -> Iterator[Sample]:
    for shape, offset in (((3, 5), 0), ((5, 3), 1), ((2, 3, 3), -1), ((0, 3), 0), ((2, 3), -7)):
        yield Sample((draw.array(shape),), {"offset": offset})


_DIAGONAL = Operation(
    "diagonal",
    tensors=("x",),
    statics=("offset",),
    rule=_diagonal_rule,
    traits=Traits("movement", storage=True),
    body=_diagonal,
    public=diagonal,
    samples=_diagonal_samples,
    reference=lambda x, offset=0: np.diagonal(x, offset, -2, -1),
)


def _matrices(name: str, x: TensorLike) -> tuple[Handle, Shape]:
    """The handle of a stack of matrices, and the shape of each."""
    handle = handle_of(x, name)
    if len(handle.shape) < 2:
        raise ShapeError(f"{name}: x must have at least 2 axes, got shape {handle.shape}")
    return handle, handle.shape[-2:]


def _grid(shape: Shape, k: int, device: Device | str | None) -> tuple[Tensor, Tensor]:
    """Row numbers, shifted by the diagonal, as a column; column numbers as a row."""
    n, m = shape
    k = max(-n, min(k, m))  # beyond the corners all diagonals are alike
    rows = reshape(arange(k, n + k, dtype=int64, device=device), (n, 1))
    return rows, arange(m, dtype=int64, device=device)
