"""Matrices with orthonormal columns, or rows if these are fewer, as a function of any matrix."""

from __future__ import annotations

from typing import Literal

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor, transaction
from ingle.tensor.errors import ShapeError
from ingle.tensor.programs import loops_once

from ..module import Module
from ..parameter import Buffer

OrthogonalMap = Literal["matrix_exp", "cayley", "householder"]


class Orthogonal(Module):
    """A fixed orthogonal matrix times one that moves from the identity; Lezcano-Casado (2019)."""

    def __init__(self, weight: Tensor, orthogonal_map: OrthogonalMap) -> None:
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.base = Buffer(self._completed(weight))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        n, k = x.shape
        moved = _reflected(x) if self.orthogonal_map == "householder" else self._turned(x, n, k)
        out = self.base.raw @ moved
        return out.mT if wide else out

    def right_inverse(self, value: Tensor) -> Tensor:
        """Minus the identity, at which the moving part is one; the value becomes the base."""
        if value.shape != self.shape:
            raise ShapeError(f"orthogonal: expected a value of {self.shape}, got {value.shape}")
        with transaction(flush=False):
            self.base.value = self._completed(value)
        rows, columns = self.shape
        return -it.eye(rows, columns, dtype=value.dtype, device=value.device)

    def _turned(self, x: Tensor, n: int, k: int) -> Tensor:
        low = it.pad(it.tril(x), ((0, 0), (0, n - k)))
        skew = low - low.mT
        if self.orthogonal_map == "matrix_exp":
            return it.linalg.matrix_exp(skew)[:, :k]
        one = it.eye(n, dtype=x.dtype, device=x.device)
        return it.linalg.solve(one - skew * 0.5, one + skew * 0.5)[:, :k]

    @staticmethod
    def _completed(value: Tensor) -> Tensor:
        """A square orthogonal matrix whose first columns span those of the value."""
        q = value.detach().numpy().astype(np.float64)
        q = q.T if q.shape[0] < q.shape[1] else q
        n, k = q.shape
        more = it.random.normal((n, n - k), dtype="float64").numpy()
        found, r = np.linalg.qr(np.concatenate([q, more], axis=1))
        # Signs for which an orthogonal value stays as it is.
        found = found * np.where(np.diag(r) < 0, -1.0, 1.0)
        return it.asarray(found, dtype=value.dtype, device=value.device)


def _reflected(x: Tensor) -> Tensor:
    """The first columns of a product of reflections, with the signs of the diagonal of `x`."""
    n, k = x.shape
    below = it.tril(x, k=-1)
    sizes = 2.0 / (1.0 + it.sum(below * below, axis=-2))
    one = it.eye(n, k, dtype=x.dtype, device=x.device)

    def step(found: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        v, size = now
        return found - v[:, None] * (size * (v @ found))[None], None

    with loops_once():
        found, _ = it.scan(step, one, ((below + one).mT, sizes), reverse=True)
    signed: Tensor = found * it.trunc(it.diagonal(x)).detach()
    return signed
