"""Keeping gradients within bounds. Both functions return new containers."""

from __future__ import annotations

import math

import ingle.tensor as it
from ingle.tensor import Gradients, Tensor
from ingle.tensor.dtypes import float32, float64, real_dtype
from ingle.tensor.errors import ArgumentError, IngleError

from ._gradients import require_gradients


class NonFiniteError(IngleError, ArithmeticError):
    """A loss or a gradient is NaN or infinite.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([1e30])
    >>> sgd = optim.SGD([w], lr=0.1, error_if_nonfinite=True)
    >>> try:
    ...     sgd.step((w * w).sum().backward())
    ... except optim.NonFiniteError as error:
    ...     print("nothing was changed" in str(error))
    True
    """


def clip_grad_norm(
    grads: Gradients,
    max_norm: float,
    norm_type: float = 2.0,
    *,
    error_if_nonfinite: bool = False,
) -> tuple[Gradients, Tensor]:
    """Scales all gradients by one factor so that the norm of them as one vector is `max_norm`.

    The numbers are those of PyTorch's `clip_grad_norm_`: the factor is max_norm / (norm + 1e-6), at
    most 1. Pascanu et al. (ICML 2013).

    Args:
        grads: of `backward`.
        max_norm: the norm that is not exceeded.
        norm_type: p of the p-norm; `inf` for the largest absolute value.
        error_if_nonfinite: whether to read the norm and raise if it is NaN or infinite.

    Returns:
        The gradients, and their norm before.

    Raises:
        NonFiniteError: see `error_if_nonfinite`.

    >>> import ingle.tensor as it
    >>> from ingle.optim import clip_grad_norm
    >>> w = it.asarray([3.0, 4.0]).require_grad()
    >>> clipped, norm = clip_grad_norm((w * w / 2.0).sum().backward(), 1.0)
    >>> norm.item(), [round(v, 3) for v in clipped[w].tolist()]
    (5.0, [0.6, 0.8])
    """
    require_gradients("clip_grad_norm", grads, "grads, norm = clip_grad_norm({}, max_norm)")
    if not max_norm >= 0:
        raise ArgumentError(f"clip_grad_norm: max_norm must be at least 0, got {max_norm}")
    if not norm_type > 0:
        raise ArgumentError(f"clip_grad_norm: norm_type must be above 0, got {norm_type}")
    norm = _norm(grads, float(norm_type))
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise NonFiniteError(
            f"clip_grad_norm: the norm of the gradients is {norm.item()}; lower the learning rate, "
            "or look for the first operation with such a result"
        )
    factor = it.minimum(max_norm / (norm + 1e-6), 1.0)
    factors: dict[object, Tensor] = {}

    def scale(g: Tensor) -> Tensor:
        # In the gradient's dtype, which a wider factor would change.
        key = (g.dtype, g.device)
        if key not in factors:
            factors[key] = factor.astype(g.dtype).to_device(g.device)
        return g * factors[key]

    return grads.map(scale), norm


def clip_grad_value(grads: Gradients, max_value: float) -> Gradients:
    """Cuts every element of every gradient to [-max_value, max_value].

    Raises:
        ArgumentError: `max_value` is negative.

    >>> import ingle.tensor as it
    >>> from ingle.optim import clip_grad_value
    >>> w = it.asarray([1.0, -4.0]).require_grad()
    >>> clip_grad_value((w * w / 2.0).sum().backward(), 2.0)[w].tolist()
    [1.0, -2.0]
    """
    require_gradients("clip_grad_value", grads, "clip_grad_value({}, max_value)")
    if not max_value >= 0:
        raise ArgumentError(f"clip_grad_value: max_value must be at least 0, got {max_value}")
    bound = float(max_value)
    return grads.map(lambda g: it.clip(g, -bound, bound))


def _norm(grads: Gradients, p: float) -> Tensor:
    tensors = grads.tensors()
    if not tensors:
        raise ArgumentError("clip_grad_norm: there are no gradients in this container")
    if p == 2.0:
        return grads.norm()
    dtype = float64 if any(real_dtype(g.dtype) is float64 for g in tensors) else float32
    parts = [abs(g).astype(dtype) for g in tensors if g.size]
    if not parts:  # all of them have no elements
        return it.asarray(0.0, dtype=dtype, device=tensors[0].device)
    if p == math.inf:
        total = it.max(parts[0])
        for part in parts[1:]:
            total = it.maximum(total, it.max(part))
        return total
    total = it.sum(it.pow(parts[0], p))
    for part in parts[1:]:
        total = total + it.sum(it.pow(part, p))
    return it.pow(total, 1.0 / p)
