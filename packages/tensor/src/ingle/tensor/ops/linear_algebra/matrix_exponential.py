"""The exponential of square matrices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dispatch import TensorLike, run1
from ...operation import Operation
from ...sample import Draw, Sample
from ..creation.filled import zeros_like
from ..movement.joining import concat
from ..movement.slicing import slice_axis
from ._matrices import DECOMPOSITION, adjoint, same_rule, square_matrices

if TYPE_CHECKING:
    from ...tensor import Tensor


def matrix_exp(x: TensorLike, /) -> Tensor:
    """The exponential `1 + x + x @ x / 2 + …` of each matrix of a stack.

    Args:
        x: matrices of shape `(..., n, n)`; integers are cast to the default float dtype.

    >>> import ingle.tensor as it
    >>> it.linalg.matrix_exp(it.asarray([[0.0, 2.0], [0.0, 0.0]])).tolist()
    [[1.0, 2.0], [0.0, 1.0]]
    """
    return run1(_MATRIX_EXP, square_matrices("matrix_exp", x))


def _vjp(g: Tensor, x: Tensor) -> Tensor:
    """Van Loan, Computing integrals involving the matrix exponential (1978): the derivative along
    `g` stands beside the exponential, in that of a matrix of twice the size."""
    n = x.shape[-1]
    turned = adjoint(x)
    above = concat([turned, g], axis=-1)
    below = concat([zeros_like(x), turned], axis=-1)
    whole = matrix_exp(concat([above, below], axis=-2))
    return slice_axis(slice_axis(whole, -2, 0, n), -1, n, n)


def _samples(draw: Draw) -> Iterator[Sample]:
    for shape, reach in (((3, 3), 0.5), ((2, 5, 5), 1.0), ((1, 1), 2.0), ((0, 0), 1.0)):
        size = draw.shape(shape)
        if draw.dtype.is_inexact and draw.dtype.itemsize > 2:
            yield Sample((draw.array(size, low=-reach, high=reach),), condition=512, magnitude=8.0)


def _reference(x: Any) -> Any:
    from scipy.linalg import expm

    return expm(x) if x.size else np.array(x)


_MATRIX_EXP = Operation(
    "matrix_exp",
    tensors=("x",),
    rule=partial(same_rule, "matrix_exp"),
    traits=DECOMPOSITION,
    vjp={"x": _vjp},
    batch=(),
    public=matrix_exp,
    samples=_samples,
    reference=_reference,
).op()
