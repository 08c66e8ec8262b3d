"""What is made of elimination with pivots: lu and lu_solve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import linalg
from ..ops.linear_algebra._matrices import sample_matrix
from ..ops.linear_algebra.lu import elimination_reference as lu_reference
from ..sample import Checked, Draw, Sample


def _matrices(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 3), (5, 3), (3, 5), (2, 3, 3), (0, 3)):
        matrix = sample_matrix(draw, shape)
        yield Sample((matrix,), condition=32, magnitude=2.5)


def _factors(x: Any) -> tuple[Any, Any, Any]:
    packed, pivots = lu_reference(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    rows = np.broadcast_to(np.eye(m), (*x.shape[:-2], m, m)).copy()
    for place in np.ndindex(x.shape[:-2]):
        for i, j in enumerate(pivots[place]):
            rows[place][[i, j]] = rows[place][[j, i]]
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k)
    return rows.mT.astype(packed.dtype), lower, np.triu(packed[..., :k, :])


def _systems(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_inexact:
        return
    for a, b, options in (
        ((3, 3), (3,), {}), ((5, 5), (5, 2), {"adjoint": True}), ((2, 3, 3), (3, 5), {}),
        ((0, 0), (0, 2), {}),
    ):  # fmt: skip
        packed, pivots = lu_reference(sample_matrix(draw, a))
        sample = (np.asarray(packed, draw.dtype.dtype), pivots, draw.array(b))
        yield Sample(sample, options, condition=32, magnitude=2.5)


def _solved(packed: Any, pivots: Any, x2: Any, *, adjoint: bool = False) -> Any:
    lower = np.tril(packed, -1) + np.eye(packed.shape[-1])
    lead = np.broadcast_shapes(packed.shape[:-2], pivots.shape[:-1])
    x1 = np.broadcast_to(lower @ np.triu(packed), (*lead, *packed.shape[-2:])).copy()
    pivots = np.broadcast_to(pivots, (*lead, pivots.shape[-1]))
    for place in np.ndindex(x1.shape[:-2]):
        for i in reversed(range(x1.shape[-1])):
            j = pivots[place][i]
            x1[place][[i, j]] = x1[place][[j, i]]
    return np.linalg.solve(np.conj(x1).mT if adjoint else x1, x2)


Checked(linalg.lu, samples=_matrices, reference=_factors)
Checked(linalg.lu_solve, samples=_systems, reference=_solved)
