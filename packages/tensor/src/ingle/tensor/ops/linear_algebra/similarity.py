"""How alike vectors are: distances, angles, covariances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch import TensorLike, as_floating, handle_of, promote_tensors, wrap
from ...dtypes import default_float, real_dtype
from ...errors import ArgumentError, DTypeError, ShapeError
from .._guarding import guarded
from .._rules import broadcast_shapes, conj, normalize_axis
from ..creation.filled import ones
from ..elementwise.cast import astype
from ..elementwise.complex import real
from ..elementwise.extrema import clip, maximum
from ..elementwise.powers import sqrt, square
from ..elementwise.where import where
from ..movement.joining import concat
from ..movement.shapes import broadcast_to, reshape
from ..movement.triangular import diagonal
from ..reductions.basic import sum as reduce_sum
from ..reductions.statistics import mean
from .norms import vector_norm
from .products import matmul, matrix_transpose

if TYPE_CHECKING:
    from ...tensor import Tensor

_MANY = 25
"""Above so many rows the euclidean distances come from a matrix product, as in PyTorch."""


@guarded
def normalize(x: TensorLike, /, *, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """Vectors along an axis, divided by their norm, or by `eps` where that is larger.

    Args:
        x: a tensor; integers are cast to the default float dtype.
        p: which norm; see `linalg.vector_norm`.
        axis: of the vectors.
        eps: the least divisor.

    >>> import ingle.tensor as it
    >>> it.normalize(it.asarray([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    vectors = wrap(as_floating(x, "normalize"))
    place = normalize_axis(axis, vectors.ndim, "normalize")
    norm = vector_norm(vectors, ord=p, axis=place, keepdims=True)
    return vectors / maximum(norm, eps)


@guarded
def cosine_similarity(
    x1: TensorLike, x2: TensorLike, /, *, axis: int = 1, eps: float = 1e-8
) -> Tensor:
    """The cosine of the angle between vectors along an axis; the other axes broadcast.

    Args:
        x1, x2: real tensors that broadcast; integers are cast to the default float dtype.
        axis: of the vectors, after broadcasting.
        eps: the least norm that a vector is divided by.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, 0.0], [2.0, 2.0]])
    >>> it.cosine_similarity(x, it.asarray([0.0, 1.0])).tolist()
    [0.0, 0.7071067690849304]
    """
    name = "cosine_similarity"
    a, b = _floats(name, x1, x2)
    shape = broadcast_shapes(name, a.shape, b.shape, arguments=("x1", "x2"))
    place = normalize_axis(axis, len(shape), name)
    a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    left, right = (x / maximum(vector_norm(x, axis=place, keepdims=True), eps) for x in (a, b))
    return reduce_sum(left * right, axis=place)


@guarded
def pairwise_distance(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    p: float = 2.0,
    eps: float = 1e-6,
    keepdims: bool = False,
) -> Tensor:
    """The norm of `x1 - x2 + eps` along the last axis.

    Args:
        x1, x2: real tensors that broadcast; integers are cast to the default float dtype.
        p: which norm; see `linalg.vector_norm`.
        eps: keeps the gradient finite for equal vectors.
        keepdims: keep the axis with size 1.

    >>> import ingle.tensor as it
    >>> it.pairwise_distance(it.asarray([[3.0, 0.0]]), it.asarray([[0.0, 4.0]]), eps=0.0).tolist()
    [5.0]
    """
    a, b = _floats("pairwise_distance", x1, x2)
    broadcast_shapes("pairwise_distance", a.shape, b.shape, arguments=("x1", "x2"))
    return vector_norm(a - b + eps, ord=p, axis=-1, keepdims=keepdims)


@guarded
def cdist(x1: TensorLike, x2: TensorLike, /, *, p: float = 2.0) -> Tensor:
    """The distance of each row of `x1` from each row of `x2`; leading axes broadcast.

    Where there are more than 25 rows, euclidean distances come from a matrix product, which is
    fast but for close rows exact only to the root of the dtype's precision.

    Args:
        x1: (..., n, features), real; integers are cast to the default float dtype.
        x2: (..., m, features).
        p: which norm; see `linalg.vector_norm`. The gradient is 0 where the distance is.

    Returns:
        (..., n, m).

    Raises:
        ShapeError: rows of different lengths, or none.
        ArgumentError: `p` is negative.

    >>> import ingle.tensor as it
    >>> it.cdist(it.asarray([[0.0, 0.0]]), it.asarray([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    a, b = _floats("cdist", x1, x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"cdist: x1 must be (..., n, features) and x2 (..., m, features), got {a.shape} and "
            f"{b.shape}"
        )
    broadcast_shapes("cdist", a.shape[:-2], b.shape[:-2], arguments=("x1", "x2"))
    if p < 0:
        raise ArgumentError(f"cdist: p must not be negative, got {p}")
    if p == 2 and max(a.shape[-2], b.shape[-2]) > _MANY:
        return _euclidean(a, b)
    rows = reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    others = reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return vector_norm(rows - others, ord=p, axis=-1)


@guarded
def cov(
    x: TensorLike,
    /,
    *,
    correction: float = 1,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
) -> Tensor:
    """The covariances of variables, which are rows, over observations, which are columns.

    Args:
        x: (variables, observations), or (observations,) for one variable.
        correction: what is subtracted from the number of observations: 1 to estimate the
            covariances of what they were drawn from, 0 for those of these observations.
        fweights: (observations,): integers, how often each was made.
        aweights: (observations,): how much each counts.

    Returns:
        (variables, variables), or a 0-d variance for one variable.

    Raises:
        ShapeError: `x` has more than two axes.

    >>> import ingle.tensor as it
    >>> it.cov(it.asarray([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])).tolist()
    [[1.0, -2.0], [-2.0, 4.0]]
    """
    data = wrap(as_floating(x, "cov"))
    if data.ndim > 2:
        raise ShapeError(f"cov: x must be (variables, observations), got shape {data.shape}")
    rows = reshape(data, (-1, data.shape[-1])) if data.ndim else reshape(data, (1, 1))
    weights = _weights(rows, fweights, aweights)
    if weights is None:
        off = rows - mean(rows, axis=1, keepdims=True)
        out = matmul(off, conj(matrix_transpose(off))) / max(rows.shape[1] - float(correction), 0.0)
    else:
        total = reduce_sum(weights)
        off = rows - reduce_sum(rows * weights, axis=1, keepdims=True) / total
        left = total - correction
        if aweights is not None:
            shares = astype(wrap(handle_of(aweights, "cov", "aweights")), weights.dtype)
            left = total - reduce_sum(weights * shares) * correction / total
        out = matmul(off * weights, conj(matrix_transpose(off))) / maximum(left, 0.0)
    return reshape(out, ()) if rows.shape[0] == 1 else out


@guarded
def corrcoef(x: TensorLike, /) -> Tensor:
    """The correlations of variables, which are rows, over observations, which are columns.

    Args:
        x: (variables, observations), or (observations,) for one variable.

    Raises:
        ShapeError: `x` has more than two axes.

    >>> import ingle.tensor as it
    >>> it.corrcoef(it.asarray([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    data = wrap(as_floating(x, "corrcoef"))
    if data.ndim > 2:
        raise ShapeError(f"corrcoef: x must be (variables, observations), got shape {data.shape}")
    c = cov(data)
    if not c.ndim:
        return c / c
    deviation = sqrt(real(diagonal(c)) if c.dtype.is_complex else diagonal(c))
    out = c / reshape(deviation, (-1, 1)) / deviation
    # Rounding must not lead beyond a perfect correlation.
    return out if c.dtype.is_complex else clip(out, -1, 1)


def _floats(name: str, x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    a, b = promote_tensors(name, ("x1", x1), ("x2", x2))
    if not a.dtype.is_inexact:
        a, b = astype(a, default_float()), astype(b, default_float())
    if a.dtype.is_complex:
        raise DTypeError(f"{name}: x1 must be real vectors, got {a.dtype}")
    return a, b


def _euclidean(a: Tensor, b: Tensor) -> Tensor:
    """Distances as the root of |a|^2 - 2 a b + |b|^2, by one matrix product."""
    # Distances do not change when both are moved, and near 0 less cancels.
    center = mean(b, axis=-2, keepdims=True) if b.shape[-2] else 0.0
    a, b = a - center, b - center
    one_a, one_b = (ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device) for x in (a, b))
    left = concat([a * -2.0, reduce_sum(square(a), axis=-1, keepdims=True), one_a], axis=-1)
    right = concat([b, one_b, reduce_sum(square(b), axis=-1, keepdims=True)], axis=-1)
    squares = matmul(left, matrix_transpose(right))
    # Both where's keep the infinite slope of the root at 0 out of the gradient.
    apart = squares > 0
    return where(apart, sqrt(where(apart, squares, 1)), 0)


def _weights(
    rows: Tensor, fweights: TensorLike | None, aweights: TensorLike | None
) -> Tensor | None:
    found: Tensor | None = None
    for argument, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        handle = handle_of(given, "cov", argument)
        if handle.shape != (rows.shape[1],):
            raise ShapeError(
                f"cov: {argument} must have one value for each of the {rows.shape[1]} "
                f"observations, got shape {handle.shape}"
            )
        if argument == "fweights" and not handle.dtype.is_integer:
            raise DTypeError(f"cov: fweights must be integers, got {handle.dtype}")
        if handle.dtype.is_complex:
            raise DTypeError(f"cov: {argument} must be real, got {handle.dtype}")
        values = astype(wrap(handle), real_dtype(rows.dtype))
        found = values if found is None else found * values
    return found
