"""The exponential of matrices, by scaling and squaring a quotient of polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op

Array = np.ndarray[Any, Any]

_ORDER = 13
_PADE = [
    math.factorial(2 * _ORDER - i) * math.factorial(_ORDER)
    // (math.factorial(i) * math.factorial(_ORDER - i) * math.factorial(_ORDER))
    for i in range(_ORDER + 1)
]  # fmt: skip
_REACH = 4.25
"""Norms up to which the quotient is exact to double precision (Al-Mohy and Higham 2009)."""


Solver = Callable[[Array, Array], Any]
"""Solves systems for stacks of matrices."""


def _matrix_exp(op: Op, x: Array) -> Array:
    return matrix_exp(x, np.linalg.solve)


def matrix_exp(x: Array, solve: Solver) -> Array:
    """The exponential of each matrix of a stack."""
    # In double precision, since squarings double the errors.
    wide = np.result_type(x, np.float64)
    n = x.shape[-1]
    a = x.astype(wide).reshape(math.prod(x.shape[:-2]), n, n)
    norms = np.abs(a).sum(axis=-2).max(axis=-1, initial=0.0)
    finite = np.isfinite(norms)
    halvings = np.ceil(np.log2(np.maximum(norms, _REACH) / _REACH))
    halvings = np.where(finite, halvings, 0).astype(np.int64)
    scaled = np.ldexp(1.0, -halvings)[:, None, None] * np.where(finite[:, None, None], a, 0)
    out = _quotient(scaled, solve)
    for done in range(int(halvings.max(initial=0))):
        left = halvings > done
        out[left] = out[left] @ out[left]
    out[~finite] = np.nan
    return out.astype(x.dtype).reshape(x.shape)


def _quotient(a: Array, solve: Solver) -> Array:
    """The diagonal Padé approximant of order 13, its even and its odd powers apart.

    Of six products, as in Higham, The scaling and squaring method for the matrix exponential
    revisited (2005): powers from the sixth on are the sixth times lower ones.
    """
    square = a @ a
    fourth = square @ square
    sixth = fourth @ square
    one = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    powers = np.stack([one, square, fourth, sixth]).reshape(4, a.size)
    # All four sums of powers in one product.
    sums = _SUMS.astype(a.dtype) @ powers
    low_even, high_even, low_odd, high_odd = sums.reshape(4, *a.shape)
    even = sixth @ high_even + low_even
    odd = a @ (sixth @ high_odd + low_odd)
    return np.asarray(solve(even - odd, even + odd))


_SUMS = np.array(
    [
        [float(c) / _PADE[0] for c in row]
        for row in (
            (*_PADE[0:7:2],),
            (0, *_PADE[8::2]),
            (*_PADE[1:8:2],),
            (0, *_PADE[9::2]),
        )
    ]
)
"""For each sum the factors of the identity and of the second, fourth and sixth power."""

KERNELS: dict[str, Callable[..., Any]] = {"matrix_exp": _matrix_exp}
