"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...dispatch import TensorLike, run, run1
from ...dtypes import real_dtype
from ...sample import Draw, Sample
from .._guarding import guarded
from ..elementwise.where import where
from ..movement.axes import expand_dims
from ..movement.triangular import eye
from ._matrices import (
    adjoint,
    hermitian_part,
    sample_hermitian,
    square_matrices,
)
from ._spectra import values_alone, with_vectors

if TYPE_CHECKING:
    from ...tensor import Tensor


class Eigen(NamedTuple):
    """The eigenvalues in ascending order, and the eigenvectors as columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _samples(view: Any, draw: Draw) -> Iterator[Sample]:
    for shape in map(draw.shape, ((1, 1), (5, 5), (2, 3, 3), (0, 0))):
        chosen = view if shape[-1] else None
        x = sample_hermitian(draw, shape)
        yield Sample((x,), condition=32, magnitude=2.5, view=chosen)


@guarded
def eigh(x: TensorLike, /) -> Eigen:
    """The eigenvalues, in ascending order, and eigenvectors of each Hermitian matrix of a stack.

    The signs (phases) of the eigenvectors are the library's choice: losses must not depend on
    them. The gradient through eigenvectors is infinite where two eigenvalues are equal.

    Args:
        x: Hermitian matrices. Of others the Hermitian part `(x + conj(x).mT) / 2` is decomposed,
            so that gradients are Hermitian too.

    >>> import ingle.tensor as it
    >>> values, vectors = it.linalg.eigh(it.asarray([[2.0, 0.0], [0.0, 1.0]]))
    >>> values.tolist()
    [1.0, 2.0]
    """
    return Eigen(*run(_EIGH, (hermitian_part(square_matrices("eigh", x))._handle,)))


def _vjp(g: tuple[Any, Any], w: Tensor, v: Tensor) -> Tensor:
    """Giles, An extended collection of matrix derivative results (2008), made Hermitian."""
    along, across = g
    total: Any = 0
    if across is not None:
        one = eye(w.shape[-1], dtype=w.dtype, device=w.device)
        gaps = expand_dims(w, axis=-2) - expand_dims(w, axis=-1)
        turn = adjoint(v) @ across
        turn = where(one != 0, 0, turn - adjoint(turn)) / (gaps * 2 + one)
        total = v @ turn @ adjoint(v)
    if along is not None:
        total = (v * expand_dims(along, axis=-2)) @ adjoint(v) + total
    return total  # type: ignore[no-any-return]


def _unsigned(w: Any, v: Any) -> tuple[Any, Any, Any]:
    first = v[..., :, :1]
    return w, first @ first.conj().mT, (v * w[..., None, :]) @ v.conj().mT


def _reference(x: Any) -> Any:
    return np.linalg.eigh((x + np.conj(x).mT) / 2)


_EIGH = with_vectors(
    eigh,
    dtypes=(real_dtype, lambda dtype: dtype),
    vjp=_vjp,
    samples=_samples,
    view=_unsigned,
    reference=_reference,
)


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of each Hermitian matrix of a stack, in ascending order.

    Args:
        x: Hermitian matrices; of others the Hermitian part `(x + conj(x).mT) / 2` counts.

    >>> import ingle.tensor as it
    >>> it.linalg.eigvalsh(it.asarray([[0.0, 2.0], [2.0, 0.0]])).tolist()
    [-2.0, 2.0]
    """
    return run1(_EIGVALSH, hermitian_part(square_matrices("eigvalsh", x))._handle)


def _values_reference(x: Any) -> Any:
    return np.linalg.eigvalsh((x + np.conj(x).mT) / 2)


_EIGVALSH = values_alone(
    eigvalsh, _EIGH, dtype=real_dtype, samples=_samples, reference=_values_reference
)
