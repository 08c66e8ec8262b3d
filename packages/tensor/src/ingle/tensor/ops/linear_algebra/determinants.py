"""Determinants and adjugates of square matrices: det, slogdet, adjugate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, run, run1
from ...dtypes import real_dtype
from ...operation import Operation
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import conj
from ..creation.filled import ones_like
from ..elementwise.complex import imag
from ..movement.axes import expand_dims
from ..reductions.basic import products_of_others
from ..reductions.basic import sum as reduce_sum
from ._matrices import (
    DECOMPOSITION,
    adjoint,
    check_dtype,
    same_rule,
    sample_matrix,
    square_matrices,
)
from .linear_systems import inv
from .singular_values import svd

if TYPE_CHECKING:
    from ...tensor import Tensor


class SlogDet(NamedTuple):
    """`det(x) == sign * exp(logabsdet)`."""

    sign: Tensor
    logabsdet: Tensor


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((1, 1), (3, 3), (2, 5, 5), (0, 0), (0, 3, 3)):
        yield Sample((sample_matrix(draw, draw.shape(shape)),), condition=32, magnitude=4.0)


def det(x: TensorLike, /) -> Tensor:
    """The determinant of each matrix of a stack. Its gradient is exact at singular matrices too.

    >>> import ingle.tensor as it
    >>> it.linalg.det(it.asarray([[2.0, 0.0], [1.0, 3.0]])).item()
    6.0
    """
    return run1(_DET, square_matrices("det", x))


def _det_rule(x: Aval) -> Aval:
    check_dtype("det", x)
    return Aval(x.shape[:-2], x.dtype)


def _det_vjp(g: Tensor, x: Tensor) -> Tensor:
    return _matrix(g) * adjoint(adjugate(x))


_DET = Operation(
    "det",
    tensors=("x",),
    rule=_det_rule,
    traits=DECOMPOSITION,
    vjp={"x": _det_vjp},
    batch=(),
    public=det,
    samples=_samples,
    reference=np.linalg.det,
).op()


@guarded
def slogdet(x: TensorLike, /) -> SlogDet:
    """The sign (phase) and the logarithm of the absolute value of each matrix's determinant.

    A singular matrix has sign 0 and logarithm -inf; the gradient needs an invertible one.

    >>> import ingle.tensor as it
    >>> sign, logarithm = it.linalg.slogdet(it.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), logarithm.item()
    (-1.0, 0.0)
    """
    return SlogDet(*run(_SLOGDET, (square_matrices("slogdet", x),)))


def _slogdet_rule(x: Aval) -> tuple[Aval, Aval]:
    check_dtype("slogdet", x)
    return Aval(x.shape[:-2], x.dtype), Aval(x.shape[:-2], real_dtype(x.dtype))


def _slogdet_vjp(g: tuple[Any, Any], x: Tensor, sign: Tensor) -> Tensor | None:
    turning, growing = g
    factor = growing
    if sign.dtype.is_complex and turning is not None:
        # The logarithm's differential is tr(inv(x) dx): its imaginary part turns the sign.
        turn = imag(conj(turning) * sign) * -1j
        factor = turn if growing is None else growing + turn
    return None if factor is None else _matrix(factor) * adjoint(inv(x))


_SLOGDET = Operation(
    "slogdet",
    tensors=("x",),
    outputs=("sign", "logabsdet"),
    rule=_slogdet_rule,
    traits=DECOMPOSITION,
    vjp={"x": _slogdet_vjp},
    batch=(),
    public=slogdet,
    samples=_samples,
    reference=np.linalg.slogdet,
).op()


def adjugate(x: TensorLike, /) -> Tensor:
    """The adjugate of each matrix: `det(x) * inv(x)`, and what that tends to if it is singular.

    It is the transposed matrix of cofactors, and so the derivative of the determinant. Its own
    gradient needs an invertible matrix.

    >>> import ingle.tensor as it
    >>> it.round(it.linalg.adjugate(it.asarray([[1.0, 2.0], [2.0, 4.0]]))).tolist()
    [[4.0, -2.0], [-2.0, 1.0]]
    """
    return run1(_ADJUGATE, square_matrices("adjugate", x))


def _adjugate(x: Tensor) -> Tensor:
    u, s, vh = svd(x, full_matrices=False)
    others = products_of_others(s, ones_like(s[..., :1])) if s.shape[-1] else s
    signs = det(u) * det(vh)
    return _matrix(signs) * ((adjoint(vh) * expand_dims(others, axis=-2)) @ adjoint(u))


def _adjugate_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    inverse = adjoint(inv(x))
    along = reduce_sum(conj(out) * g, axis=(-2, -1))
    return _matrix(along) * inverse - inverse @ g @ adjoint(out)


def _cofactors(x: Any) -> Any:
    n = x.shape[-1]
    out = np.empty_like(x)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, i, -2), j, -1)
            out[..., j, i] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


_ADJUGATE = Operation(
    "adjugate",
    tensors=("x",),
    rule=partial(same_rule, "adjugate"),
    traits=DECOMPOSITION,
    vjp={"x": _adjugate_vjp},
    body=_adjugate,
    batch=(),
    public=adjugate,
    samples=_samples,
    reference=_cofactors,
).op()


def _matrix(x: Tensor) -> Tensor:
    """A number for each matrix, to be multiplied with it."""
    return expand_dims(expand_dims(x, axis=-1), axis=-1)
