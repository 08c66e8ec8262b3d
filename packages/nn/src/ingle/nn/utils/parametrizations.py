"""Weights of given length or spectral norm, or orthogonal: `torch.nn.utils.parametrizations`."""

from __future__ import annotations

from typing import TypeVar

import ingle.tensor as it
from ingle.tensor import Tensor, transaction
from ingle.tensor.errors import ArgumentError

from ..module import Module
from ..parameter import Buffer
from ..transposed import _ConvTranspose
from ._orthogonal import Orthogonal, OrthogonalMap
from .parametrize import register_parametrization

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        self.dim = dim

    def _lengths(self, v: Tensor) -> Tensor:
        if self.dim is None:
            return it.linalg.vector_norm(v)
        axes = tuple(i for i in range(v.ndim) if i != self.dim % v.ndim)
        return it.sqrt(it.sum(v * v, axis=axes, keepdims=True))

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v * (g / self._lengths(v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The lengths and the directions."""
        return self._lengths(weight), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """A weight as lengths, `original0`, times directions, `original1`; Salimans and Kingma (2016).

    Args:
        module: whose parameter.
        name: of the parameter.
        dim: each slice along this axis has a length of its own; None for one length.

    >>> from ingle import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    >>> layer.parametrizations.weight.original0.shape
    (3, 1)
    """
    register_parametrization(module, name, _WeightNorm(dim))
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations < 1:
            raise ArgumentError(
                f"spectral_norm: n_power_iterations must be at least 1, got {n_power_iterations}"
            )
        if not -weight.ndim <= dim < max(1, weight.ndim):
            raise ArgumentError(
                f"spectral_norm: dim={dim} is out of range for a weight of shape {weight.shape}"
            )
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            first, second = (
                it.random.normal((n,), dtype=weight.dtype, device=weight.device)
                for n in matrix.shape
            )
            self._u, self._v = Buffer(self._unit(first)), Buffer(self._unit(second))
            self._iterate(matrix, 15)

    def _unit(self, x: Tensor) -> Tensor:
        return x / it.maximum(it.linalg.vector_norm(x), self.eps)

    def _matrix(self, weight: Tensor) -> Tensor:
        rows = it.moveaxis(weight, self.dim, 0)
        return it.reshape(rows, (rows.shape[0], rows.size // rows.shape[0]))

    def _iterate(self, matrix: Tensor, times: int) -> None:
        u, v = self._u.raw, self._v.raw
        for _ in range(times):
            u = self._unit(matrix @ v)
            v = self._unit(matrix.mT @ u)
        with transaction(flush=False):
            self._u.value, self._v.value = u, v

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight / it.maximum(it.linalg.vector_norm(weight), self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / it.vecdot(self._u.raw, matrix @ self._v.raw)

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value as it is."""
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> M:  # fmt: skip
    """A weight divided by an estimate of its largest singular value; Miyato et al. (ICLR 2018).

    Each read while training does `n_power_iterations` of the power method.

    Args:
        module: whose parameter.
        name: of the parameter.
        n_power_iterations: at least 1.
        eps: the least length that is divided by.
        dim: the axis of outputs; 1 for transposed convolutions and 0 else if None.

    Raises:
        ArgumentError: the module has no such parameter.

    >>> from ingle import nn
    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    >>> sorted(layer.state_dict())[1:3]
    ['parametrizations.weight.0._u', 'parametrizations.weight.0._v']
    """
    weight = vars(module).get(name)
    if weight is None:
        names = ", ".join(n for n, _ in module.named_parameters(recurse=False)) or "none"
        raise ArgumentError(
            f"spectral_norm: {type(module).__name__} has no parameter {name!r}; it has {names}"
        )
    axis = (1 if isinstance(module, _ConvTranspose) else 0) if dim is None else dim
    made = _SpectralNorm(weight.raw, n_power_iterations, axis, eps)
    register_parametrization(module, name, made)
    return module


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: OrthogonalMap | None = None, *,
    use_trivialization: bool = True,
) -> M:  # fmt: skip
    """A matrix that stays orthogonal in training; Lezcano-Casado (NeurIPS 2019).

    Args:
        module: whose parameter.
        name: of the parameter, of two axes.
        orthogonal_map: `"matrix_exp"` or `"cayley"` of a skew-symmetric matrix, or
            `"householder"`, a product of reflections; the first for square matrices and the last
            for others if None.
        use_trivialization: only True, which allows to assign to the parameter.

    Raises:
        ArgumentError: an unknown map, or a parameter that is no matrix.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> q = nn.utils.parametrizations.orthogonal(nn.Linear(3, 5)).weight
    >>> bool(it.all(abs(q.mT @ q - it.eye(3)) < 1e-5))
    True
    """
    held = vars(module).get(name)
    if held is None or held.ndim != 2:
        raise ArgumentError(
            f"orthogonal: {type(module).__name__}.{name} must be a parameter of 2 axes, got "
            f"{None if held is None else held.shape}"
        )
    if not use_trivialization:
        raise ArgumentError("orthogonal: use_trivialization=False is not offered; leave it out")
    square = held.shape[0] == held.shape[1]
    chosen = orthogonal_map or ("matrix_exp" if square else "householder")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ArgumentError(
            "orthogonal: orthogonal_map must be 'matrix_exp', 'cayley' or 'householder', got "
            f"{orthogonal_map!r}"
        )
    register_parametrization(module, name, Orthogonal(held.raw, chosen))
    return module
