"""What is solved by decompositions: least squares, Cholesky factors, condition numbers, chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import linalg
from ..operation import Traits
from ..ops.linear_algebra._matrices import sample_hermitian, sample_matrix
from ..sample import Checked, Draw, Sample


def _is_decomposed(draw: Draw) -> bool:
    return draw.dtype.is_inexact and draw.dtype.itemsize > 2


def _squares(draw: Draw) -> Iterator[Sample]:
    if not _is_decomposed(draw):
        return
    for a, b in (((5, 3), (5, 2)), ((3, 5), (3,)), ((2, 5, 3), (2, 5, 1))):
        yield Sample((sample_matrix(draw, a), draw.array(b)), condition=64, magnitude=8.0)
    flat = sample_matrix(draw, (5, 3))
    flat[:, 2] = flat[:, 1]
    yield Sample((flat, draw.array((5,))), {"rtol": 1e-3}, gradient=(1,), condition=64, magnitude=8)


def _lstsq(x1: Any, x2: Any, rtol: float = 1e-6) -> tuple[Any, ...]:
    inverse = np.linalg.pinv(x1, rtol=rtol)
    columns = x2[:, None] if x2.ndim == 1 else x2
    solution = inverse @ columns
    left = (np.abs(x1 @ solution - columns) ** 2).sum(axis=-2)
    if x2.ndim == 1:
        solution, left = solution[..., 0], left[..., 0]
    values = np.linalg.svd(x1, compute_uv=False)
    return solution, left, np.linalg.matrix_rank(x1, rtol=rtol), values


Checked(linalg.lstsq, samples=_squares, reference=_lstsq)


def _conditions(draw: Draw) -> Iterator[Sample]:
    if not _is_decomposed(draw):
        return
    yield Sample((sample_matrix(draw, (2, 5, 3)),), condition=32)
    for ord in (-2, "fro", 1, -np.inf):
        yield Sample((sample_matrix(draw, (3, 3)),), {"ord": ord}, condition=64)
    yield Sample((np.diag([2, 0]).astype(draw.dtype.dtype),), gradient=False)


def _condition(x: Any, ord: Any = None) -> Any:
    return np.linalg.cond(x, ord)


# The operation `cond` chooses between functions.
Checked(linalg.cond, name="matrix_cond", samples=_conditions, reference=_condition)


def _factored(draw: Draw) -> Iterator[Sample]:
    if not _is_decomposed(draw):
        return
    for a, b, upper in (((3, 3), (3, 2), False), ((2, 5, 5), (5, 1), True), ((3, 3), (3,), False)):
        factor = _triangle(draw, a, upper)
        yield Sample((factor, draw.array(b)), {"upper": upper}, condition=64, magnitude=4.0)


def _triangle(draw: Draw, shape: tuple[int, ...], upper: bool) -> Any:
    lower = np.linalg.cholesky(sample_hermitian(draw, shape))
    return np.ascontiguousarray(np.conj(lower).mT if upper else lower)


def _product(x: Any, upper: bool) -> Any:
    lower = np.conj(np.triu(x)).mT if upper else np.tril(x)
    return lower @ np.conj(lower).mT


def _solved(x1: Any, x2: Any, upper: bool = False) -> Any:
    return np.linalg.solve(_product(x1, upper), x2)


Checked(linalg.cholesky_solve, samples=_factored, reference=_solved)


def _inverted(draw: Draw) -> Iterator[Sample]:
    if _is_decomposed(draw):
        yield Sample((_triangle(draw, (3, 3), False),), condition=64, magnitude=4.0)
        x = _triangle(draw, (2, 3, 3), True)
        yield Sample((x,), {"upper": True}, condition=64, magnitude=4.0)


Checked(
    linalg.cholesky_inverse,
    samples=_inverted,
    reference=lambda x, upper=False: np.linalg.inv(_product(x, upper)),
)


def _chains(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.kind == "bool":
        return
    for shapes in (((3, 5), (5, 2)), ((2, 5), (5, 3), (3, 2)), ((5,), (5, 2), (2, 3), (3,))):
        yield Sample(([draw.array(s) for s in shapes],), condition=32, magnitude=4.0)


Checked(
    linalg.multi_dot, samples=_chains, reference=np.linalg.multi_dot, traits=Traits("contraction")
)
