"""The singular value decomposition, and singular values alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, run, run1
from ...dtypes import real_dtype
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from ..elementwise.where import where
from ..movement.axes import expand_dims
from ..movement.slicing import slice_axis
from ..movement.triangular import diagonal, eye
from ._matrices import DECOMPOSITION, adjoint, beside, check_dtype, matrices, sample_matrix

if TYPE_CHECKING:
    from ...tensor import Tensor


class SVD(NamedTuple):
    """`x == (U * S) @ Vh` with orthonormal columns in `U` and rows in `Vh`, and `S` descending."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@guarded
def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVD:
    """The singular value decomposition of each matrix of a stack.

    The signs (phases) of the singular vectors are the library's choice: losses must not depend on
    them. The gradient through singular vectors is infinite where two singular values are equal
    or, of a matrix that is not square, one is zero.

    Args:
        x: matrices of shape `(..., m, n)`.
        full_matrices: whether `U` is m by m and `Vh` n by n, or both have min(m, n) vectors. The
            further vectors are arbitrary but for the space that they span: gradients are right for
            what depends on nothing else of them.

    >>> import ingle.tensor as it
    >>> u, s, vh = it.linalg.svd(it.asarray([[0.0, 2.0], [-3.0, 0.0]]))
    >>> s.tolist()
    [3.0, 2.0]
    """
    return SVD(*run(_SVD.op(full_matrices=bool(full_matrices)), (matrices("svd", x),)))


def _rule(x: Aval, *, full_matrices: bool) -> tuple[Aval, Aval, Aval]:
    check_dtype("svd", x)
    *lead, m, n = x.shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    return (
        Aval((*lead, m, rows), x.dtype),
        Aval((*lead, k), real_dtype(x.dtype)),
        Aval((*lead, columns, n), x.dtype),
    )


def _vjp(g: tuple[Any, Any, Any], u: Tensor, s: Tensor, vh: Tensor, full_matrices: bool) -> Tensor:
    """Wan and Zhang, Automatic differentiation for complex valued SVD (2019)."""
    k = s.shape[-1]
    if g[0] is None and g[2] is None:
        # Singular values alone: nothing turns, so that equal ones are no matter.
        u, vh = slice_axis(u, -1, 0, k), slice_axis(vh, -2, 0, k)
        return (u * expand_dims(g[1], axis=-2)) @ vh
    if full_matrices:
        g, u, vh = _narrowed(g, u, vh, k)
    gu, gs, gvh = g
    left, right = _turn(adjoint(u), gu), _turn(vh, None if gvh is None else adjoint(gvh))
    rows, columns = expand_dims(s, axis=-1), expand_dims(s, axis=-2)
    one = eye(k, dtype=s.dtype, device=s.device)
    apart = columns * columns - rows * rows + one
    inner = _off_diagonal(left * columns + rows * right, apart, one)
    if gs is not None:
        inner = inner + one * expand_dims(gs, axis=-1)
    if u.dtype.is_complex and gu is not None:
        # The phases of a pair of vectors turn together; what is imaginary here belongs to both.
        phases = expand_dims(diagonal(left), axis=-1) * one
        inner = inner + phases / (columns * 2)
    out = u @ inner @ vh
    if gu is not None and u.shape[-2] > k:
        rest = gu / columns
        out = out + (rest - u @ (adjoint(u) @ rest)) @ vh
    if gvh is not None and vh.shape[-1] > k:
        rest = gvh / rows
        out = out + u @ (rest - (rest @ adjoint(vh)) @ vh)
    return out  # type: ignore[no-any-return]


def _turn(transposed: Tensor, g: Tensor | None) -> Any:
    """How a cotangent of vectors turns them among themselves: an anti-Hermitian matrix."""
    if g is None:
        return 0.0
    turn = transposed @ g
    return turn - adjoint(turn)


def _off_diagonal(x: Any, apart: Tensor, one: Tensor) -> Any:
    return x if isinstance(x, float) else where(one != 0, 0, x) / apart


def _narrowed(
    g: tuple[Any, Any, Any], u: Tensor, vh: Tensor, k: int
) -> tuple[tuple[Any, Any, Any], Tensor, Tensor]:
    """Cotangents of the first k singular vectors alone, and these."""
    gu, gs, gvh = g
    v = adjoint(vh)
    gu, u = (None, slice_axis(u, -1, 0, k)) if gu is None else beside(gu, u, k)
    gv, v = (None, slice_axis(v, -1, 0, k)) if gvh is None else beside(adjoint(gvh), v, k)
    return (gu, gs, None if gv is None else adjoint(gv)), u, adjoint(v)


def _unsigned(u: Any, s: Any, vh: Any) -> tuple[Any, Any, Any, Any]:
    k = s.shape[-1]
    first, last = u[..., :, :1], vh[..., :1, :]
    whole = (u[..., :, :k] * s[..., None, :]) @ vh[..., :k, :]
    return s, whole, first @ first.conj().mT, first @ last


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 3), (5, 3), (3, 5), (2, 3, 2), (1, 1))):
        yield Sample(
            (sample_matrix(draw, shape),), {"full_matrices": False}, condition=64, magnitude=2.5,
            view=_unsigned,
        )  # fmt: skip
    yield Sample((sample_matrix(draw, (5, 3)),), condition=64, magnitude=2.5, view=_unsigned)
    yield Sample((sample_matrix(draw, (3, 3)),), condition=64, magnitude=2.5, view=_unsigned)
    yield Sample((draw.array((0, draw.size(3))),), {"full_matrices": False})


_SVD = Operation(
    "svd",
    tensors=("x",),
    statics=("full_matrices",),
    outputs=("u", "s", "vh"),
    rule=_rule,
    traits=DECOMPOSITION,
    vjp={"x": _vjp},
    batch=(),
    public=svd,
    samples=_samples,
    reference=np.linalg.svd,
)


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values of each matrix of a stack, in descending order.

    >>> import ingle.tensor as it
    >>> it.linalg.svdvals(it.asarray([[0.0, 2.0], [-3.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    return run1(_SVDVALS, matrices("svdvals", x))


def _values_rule(x: Aval) -> Aval:
    check_dtype("svdvals", x)
    return Aval((*x.shape[:-2], min(x.shape[-2:])), real_dtype(x.dtype))


def _svdvals(x: Tensor) -> Tensor:
    return svd(x, full_matrices=False).S


def _values_samples(draw: Draw) -> Iterator[Sample]:
    for shape in map(draw.shape, ((3, 3), (5, 3), (2, 3, 5), (0, 3))):
        yield Sample((sample_matrix(draw, shape),), condition=32, magnitude=2.5)


def _values_reference(x: Any) -> Any:
    return np.linalg.svd(x, compute_uv=False)


_SVDVALS = Operation(
    "svdvals",
    tensors=("x",),
    rule=_values_rule,
    traits=DECOMPOSITION,
    body=_svdvals,
    batch=(),
    public=svdvals,
    samples=_values_samples,
    reference=_values_reference,
).op()
