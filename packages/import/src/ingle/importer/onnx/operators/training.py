"""Steps of optimizers (the preview domain for training)."""

from __future__ import annotations

from collections.abc import Callable

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator

DOMAIN = "ai.onnx.preview.training"


def _parts(xs: tuple[Tensor, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """[weights..., gradients..., states...] by weight."""
    if len(xs) % kinds:
        raise ModelError(f"{len(xs)} tensors are no {kinds} for each weight")
    n = len(xs) // kinds
    return [tuple(xs[k * n + i] for k in range(kinds)) for i in range(n)]


def _gathered(results: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(t for kind in zip(*results, strict=True) for t in kind)


def _each(
    xs: tuple[Tensor, ...], kinds: int, step: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    return _gathered([step(*part) for part in _parts(xs, kinds)])


@operator("Adagrad", domain=DOMAIN)
def adagrad(
    rate: Tensor, count: Tensor, *xs: Tensor, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    now = rate / (1 + count.astype(rate.dtype) * decay_factor)

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = norm_coefficient * x + g
        h = h + g * g
        return x - now * g / (it.sqrt(h) + epsilon), h

    return _each(xs, 3, step)


@operator("Momentum", domain=DOMAIN)
def momentum(
    rate: Tensor, count: Tensor, *xs: Tensor, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    if mode not in ("standard", "nesterov"):
        raise ModelError(f"Momentum: mode must be standard or nesterov, got {mode!r}")
    scale = it.where(count > 0, beta, 1.0).astype(rate.dtype)

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = norm_coefficient * x + g
        v = alpha * v + scale * g
        return x - rate * (g + alpha * v if mode == "nesterov" else v), v

    return _each(xs, 3, step)


@operator("Adam", domain=DOMAIN)
def adam(
    rate: Tensor, count: Tensor, *xs: Tensor, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    t = count.astype(rate.dtype)
    one = it.ones_like(rate)
    fixed = rate * it.sqrt(1 - it.pow(beta * one, t)) / (1 - it.pow(alpha * one, t))
    now = it.where(count > 0, fixed, rate)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        new = x - now * v / (it.sqrt(h) + epsilon)
        return (1 - norm_coefficient_post) * new, v, h

    return _each(xs, 4, step)
