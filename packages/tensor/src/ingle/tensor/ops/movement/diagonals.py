"""Matrices from their diagonals, triangles of ones, and the indices of triangles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...device import Device
from ...dispatch import TensorLike, handle_of, wrap
from ...dtypes import default_float, default_int
from ...errors import ShapeError
from .._guarding import guarded
from .._rules import as_int, dtype_argument, matrix_shape, normalize_axis
from ..creation.conversion import asarray
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.comparison import equal, greater_equal
from ..elementwise.where import where
from .axes import moveaxis
from .joining import concat
from .padding import pad
from .shapes import reshape
from .triangular import diagonal

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def diag(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix of zeros, or the diagonal of a matrix.

    Args:
        x: a tensor of 1 or 2 axes.
        offset: which diagonal: 0 is the main one, 1 the one above.

    Raises:
        ShapeError: `x` is neither a vector nor a matrix.

    >>> import ingle.tensor as it
    >>> it.diag(it.asarray([1, 2])).tolist(), it.diag(it.asarray([[1, 2], [3, 4]])).tolist()
    ([[1, 0], [0, 2]], [1, 4])
    """
    shape = handle_of(x, "diag").shape
    if len(shape) not in (1, 2):
        raise ShapeError(f"diag: x must be a vector or a matrix, got shape {shape}; see diag_embed")
    return diagonal(x, offset=offset) if len(shape) == 2 else diag_embed(x, offset=offset)


@guarded
def diag_embed(x: TensorLike, /, *, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """The vectors along the last axis as diagonals of matrices of zeros.

    Args:
        x: a tensor of at least one axis.
        offset: which diagonal: 0 is the main one, 1 the one above.
        axis1, axis2: where the rows and columns of the matrices stand in the result.

    Raises:
        ShapeError: `x` has no axes, or `axis1` and `axis2` are the same one.

    >>> import ingle.tensor as it
    >>> it.diag_embed(it.asarray([[1, 2]]), offset=1).tolist()
    [[[0, 1, 0], [0, 0, 2], [0, 0, 0]]]
    """
    vectors = wrap(handle_of(x, "diag_embed"))
    if not vectors.ndim:
        raise ShapeError("diag_embed: needs at least one axis, got a 0-d tensor")
    k = as_int(offset, "diag_embed", "offset")
    places = [
        normalize_axis(a, vectors.ndim + 1, "diag_embed", n)
        for n, a in (("axis1", axis1), ("axis2", axis2))
    ]
    if places[0] == places[1]:
        raise ShapeError(f"diag_embed: axis1={axis1} and axis2={axis2} are the same axis")
    n = vectors.shape[-1]
    size = n + abs(k)
    padded = pad(vectors, [(0, 0)] * (vectors.ndim - 1) + [(max(k, 0), max(-k, 0))])
    rows = reshape(arange(size, device=vectors.device), (size, 1))
    columns = arange(size, device=vectors.device)
    column_of = equal(columns - rows, k)
    out = where(column_of, reshape(padded, (*padded.shape[:-1], 1, size)), False)
    return moveaxis(out, (-2, -1), (places[0], places[1]))


@guarded
def block_diag(*matrices: TensorLike) -> Tensor:
    """A matrix with the given ones along its diagonal and zeros elsewhere.

    Args:
        matrices: tensors of at most 2 axes; a vector is a row, a 0-d tensor a single element.

    Raises:
        ShapeError: there is no matrix, or one with more than two axes.

    >>> import ingle.tensor as it
    >>> it.block_diag(it.asarray([[1, 2]]), it.asarray(3)).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    if not matrices:
        raise ShapeError("block_diag: needs at least one matrix")
    blocks = []
    for i, x in enumerate(matrices):
        block = wrap(handle_of(x, "block_diag", f"matrices[{i}]"))
        if block.ndim > 2:
            raise ShapeError(
                f"block_diag: matrices[{i}] must have at most 2 axes, got {block.shape}"
            )
        blocks.append(reshape(block, ((1,) * (2 - block.ndim) + block.shape)))
    width, left, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        right = width - left - block.shape[1]
        rows.append(pad(block, [(0, 0), (left, right)]))
        left += block.shape[1]
    return concat(rows, axis=0)


@guarded
def tri(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A matrix with ones on and below a diagonal and zeros above; with dtype bool, a mask.

    Args:
        n_rows, n_cols: its shape; square if `n_cols` is not given.
        k: the last diagonal of ones: 0 is the main one, 1 the one above.
        dtype: the dtype; the default float dtype if not given.
        device: where to put it; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    n, m = matrix_shape("tri", n_rows, n_cols)
    k = max(-n, min(as_int(k, "tri", "k"), m))  # beyond the corners all diagonals are alike
    rows = reshape(arange(n, device=device), (n, 1))
    below = greater_equal(rows + k, arange(m, device=device))
    return astype(below, dtype_argument(dtype, "tri", default_float))


@guarded
def tril_indices(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    offset: int = 0,
    device: Device | str | None = None,
) -> Tensor:
    """The rows and columns of the elements of a lower triangle, in row-major order.

    Args:
        n_rows, n_cols: of the matrix; square if `n_cols` is not given.
        offset: the last diagonal that belongs to it: 0 is the main one, 1 the one above.
        device: where to put them; the default device if not given.

    Returns:
        (2, n), in the default integer dtype.

    >>> import ingle.tensor as it
    >>> it.tril_indices(2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _indices("tril_indices", n_rows, n_cols, offset, device, lower=True)


@guarded
def triu_indices(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    offset: int = 0,
    device: Device | str | None = None,
) -> Tensor:
    """The rows and columns of the elements of an upper triangle, in row-major order.

    Args:
        n_rows, n_cols: of the matrix; square if `n_cols` is not given.
        offset: the first diagonal that belongs to it: 0 is the main one, 1 the one above.
        device: where to put them; the default device if not given.

    Returns:
        (2, n), in the default integer dtype.

    >>> import ingle.tensor as it
    >>> it.triu_indices(2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return _indices("triu_indices", n_rows, n_cols, offset, device, lower=False)


def _indices(
    name: str, n_rows: int, n_cols: int | None, offset: int, device: Device | str | None,
    *, lower: bool,
) -> Tensor:  # fmt: skip
    shape = matrix_shape(name, n_rows, n_cols)
    rows, columns = shape
    # Diagonals further out have no elements either.
    k = max(-rows - 1, min(as_int(offset, name, "offset"), columns))
    # On the host: the numbers follow from the sizes alone.
    ends = np.clip(np.arange(rows) + (k + 1 if lower else k), 0, columns)
    first, counts = (0 * ends, ends) if lower else (ends, columns - ends)
    total = int(counts.sum())
    behind = first - (np.cumsum(counts) - counts)
    found = np.empty((2, total), np.int64)
    found[0] = np.repeat(np.arange(rows), counts)
    found[1] = np.arange(total) + np.repeat(behind, counts)
    return asarray(found, dtype=default_int(), device=device)
