"""Elimination with pivots, and triangular systems: in blocks, for all matrices of a stack at once.

NumPy has LAPACK's solvers but not the triangles that they make on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.errors import LinearAlgebraError, OutOfRangeError
from ingle.tensor.operation import Op

from . import small_matrices

Array = np.ndarray[Any, Any]
_PANEL = 32
_BLOCK = 64
_SMALL_BLOCK = 16
_STACK = 64
"""Triangular matrices from which on a row of all of them is taken at once."""


def _lu_factor(op: Op, x: Array) -> tuple[Array, Array]:
    m, n = x.shape[-2:]
    k = min(m, n)
    a = np.array(x, order="C").reshape(math.prod(x.shape[:-2]), m, n)
    pivots = np.empty((len(a), k), np.int32)
    for start in range(0, k, _PANEL):
        stop = min(start + _PANEL, k)
        for i in range(start, stop):
            _eliminate(a, pivots, i, stop, op.attributes["pivot"])
        if stop < n:
            _update(a, start, stop)
    return a.reshape(x.shape), pivots.reshape(*x.shape[:-2], k)


def _eliminate(a: Array, pivots: Array, i: int, stop: int, pivot: bool) -> None:
    """Step i: the largest element becomes the pivot; only the panel up to `stop` is updated."""
    every = np.arange(len(a))
    column = a[:, i:, i]
    size = np.abs(column) if a.dtype.kind == "f" else np.abs(column.real) + np.abs(column.imag)
    chosen = i + np.argmax(size, axis=1) if pivot else np.full(len(a), i)
    pivots[:, i] = chosen
    row = a[every, chosen]
    a[every, chosen] = a[:, i]
    a[:, i] = row
    divisor = row[:, i, None]
    # A column whose largest element is zero has nothing to divide.
    a[:, i + 1 :, i] /= np.where(divisor == 0, 1, divisor) if pivot else divisor
    a[:, i + 1 :, i + 1 : stop] -= a[:, i + 1 :, i, None] * row[:, None, i + 1 : stop]


def _update(a: Array, start: int, stop: int) -> None:
    """The rows beside a finished panel, and what is right of and below it."""
    lower = np.tril(a[:, start:stop, start:stop], -1) + np.eye(stop - start, dtype=a.dtype)
    a[:, start:stop, stop:] = np.linalg.solve(lower, a[:, start:stop, stop:])
    a[:, stop:, stop:] -= a[:, stop:, start:stop] @ a[:, start:stop, stop:]


def _lu_permutation(op: Op, pivots: Array) -> Array:
    rows = op.attributes["rows"]
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    if np.any((flat < 0) | (flat >= rows)):
        wrong = flat[(flat < 0) | (flat >= rows)][0]
        raise OutOfRangeError(
            f"lu_permutation: pivots hold {wrong}, but there are {rows} rows: valid are 0 to "
            f"{rows - 1}"
        )
    order = np.tile(np.arange(rows), (len(flat), 1))
    every = np.arange(len(flat))
    for i, chosen in enumerate(flat.T):
        order[:, i], order[every, chosen] = order[every, chosen], order[:, i].copy()
    return order.reshape(*pivots.shape[:-1], rows)


def _solve_triangular(op: Op, a: Array, b: Array) -> Array:
    upper, unit = op.attributes["upper"], op.attributes["unitriangular"]
    n, lead = a.shape[-1], np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, (*lead, *b.shape[-2:])), order="C")
    # Rows are divided for all matrices of a stack at once, where these are as many as calls.
    many = small_matrices.count(out) >= _STACK
    block = _SMALL_BLOCK if many else _BLOCK
    a = np.broadcast_to(a, (*lead, n, n)) if many else a
    starts = range(0, n, block)
    for start in reversed(starts) if upper else starts:
        stop = min(start + block, n)
        done = slice(stop, n) if upper else slice(0, start)
        rows = out[..., start:stop, :]
        if done.start < done.stop:
            rows -= a[..., start:stop, done] @ out[..., done, :]
        square = a[..., start:stop, start:stop]
        if many and (unit or np.diagonal(square, axis1=-2, axis2=-1).all()):
            rows[...] = small_matrices.substitute(square, rows, upper, unit)
        else:
            rows[...] = _solve_block(square, rows, upper, unit)
    return out


def _solve_block(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    triangle = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    if unit:
        triangle += np.eye(a.shape[-1], dtype=a.dtype)
    try:
        return np.asarray(np.linalg.solve(triangle, b))
    except np.linalg.LinAlgError:
        raise LinearAlgebraError(
            "solve_triangular: a matrix has a zero on its diagonal, so that the system has no "
            "solution or many; add a multiple of the identity, or use pinv"
        ) from None


KERNELS: dict[str, Callable[..., Any]] = {
    "lu_factor": _lu_factor,
    "lu_permutation": _lu_permutation,
    "solve_triangular": _solve_triangular,
}
