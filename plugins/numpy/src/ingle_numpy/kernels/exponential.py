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


def _matrix_exp(op: Op, x: Array) -> Array:
    # In double precision, since squarings double the errors.
    wide = np.result_type(x, np.float64)
    n = x.shape[-1]
    a = x.astype(wide).reshape(math.prod(x.shape[:-2]), n, n)
    norms = np.abs(a).sum(axis=-2).max(axis=-1, initial=0.0)
    finite = np.isfinite(norms)
    halvings = np.ceil(np.log2(np.maximum(norms, _REACH) / _REACH))
    halvings = np.where(finite, halvings, 0).astype(np.int64)
    out = _quotient(np.ldexp(1.0, -halvings)[:, None, None] * np.where(finite[:, None, None], a, 0))
    for done in range(int(halvings.max(initial=0))):
        left = halvings > done
        out[left] = out[left] @ out[left]
    out[~finite] = np.nan
    return out.astype(x.dtype).reshape(x.shape)


def _quotient(a: Array) -> Array:
    """The diagonal Padé approximant of order 13, its even and its odd powers apart."""
    one = np.eye(a.shape[-1], dtype=a.dtype)
    square = a @ a
    powers = [one]
    for _ in range(_ORDER // 2):
        powers.append(powers[-1] @ square)
    scale = float(_PADE[0])
    even = sum(c / scale * p for c, p in zip(_PADE[0::2], powers, strict=True))
    odd = a @ sum(c / scale * p for c, p in zip(_PADE[1::2], powers, strict=True))
    return np.asarray(np.linalg.solve(even - odd, even + odd))


KERNELS: dict[str, Callable[..., Any]] = {"matrix_exp": _matrix_exp}
