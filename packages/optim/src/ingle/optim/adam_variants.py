"""Adam with another second moment, with Nesterov's momentum, with a rectified start: and Adan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.numbers import sqrt

from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least, decayed, fractions, several
from .schedule.rate import Rate
from .slots import Slot


def _moved(slot: Slot, grad: Tensor, betas: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Both moments of Adam after a gradient."""
    first, second = slot.moment("exp_avg"), slot.moment("exp_avg_sq")
    m, v = first.raw, second.raw
    first.value = mean = m + (grad - m) * (1.0 - betas[0])
    second.value = square = v * betas[1] + it.square(grad) * (1.0 - betas[1])
    return mean, square


class Adamax(Optimizer):
    """Adam with the largest gradient in place of the second moment; Kingma and Ba (ICLR 2015).

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        betas: how slowly the mean and the maximum forget.
        eps: added to gradients' absolute values.
        weight_decay: added to the gradient as this times the parameter.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.Adamax([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.tolist()
    [2.5]
    """

    moments = ("exp_avg", "exp_inf")

    def __init__(
        self, params: Parameters, lr: Rate = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas=several(self, "betas", betas), eps=eps, weight_decay=weight_decay,
            maximize=maximize,
            **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Adamax", options, "eps", "weight_decay")
        fractions("Adamax", options, "betas", 2)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options)
        beta1, beta2 = options["betas"]
        first, largest = slot.moment("exp_avg"), slot.moment("exp_inf")
        m, u = first.raw, largest.raw
        first.value = mean = m + (grad - m) * (1.0 - beta1)
        largest.value = most = it.maximum(u * beta2, it.abs(grad) + options["eps"])
        slot.value = x - mean / most * (lr / (1.0 - beta1**slot.steps.raw))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum; Dozat (ICLR workshop 2016). The numbers are PyTorch's.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        betas: how slowly the moments forget.
        eps: added to the root of the second moment.
        weight_decay: how much parameters shrink.
        momentum_decay: how fast the momentum grows to the first of the betas.
        decoupled_weight_decay: whether the value shrinks, as in `AdamW`, rather than the gradient
            grows.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.NAdam([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.item() < 3.0
    True
    """

    moments = ("exp_avg", "exp_avg_sq", "mu_product")

    def __init__(
        self, params: Parameters, lr: Rate = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas=several(self, "betas", betas), eps=eps, weight_decay=weight_decay,
            momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("NAdam", options, "eps", "weight_decay", "momentum_decay")
        fractions("NAdam", options, "betas", 2)

    def moment_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return () if name == "mu_product" else shape

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options, options["decoupled_weight_decay"])
        (beta1, beta2), steps = options["betas"], slot.steps.raw
        mean, square = _moved(slot, grad, (beta1, beta2))
        now = beta1 * (1.0 - 0.5 * 0.96 ** (steps * options["momentum_decay"]))
        after = beta1 * (1.0 - 0.5 * 0.96 ** ((steps + 1) * options["momentum_decay"]))
        held = slot.moment("mu_product", (), 1.0)
        held.value = product = held.raw * now
        root = it.sqrt(square / (1.0 - beta2**steps)) + options["eps"]
        x = x - grad / root * (lr * (1.0 - now) / (1.0 - product))
        slot.value = x - mean / root * (lr * after / (1.0 - product * after))


class RAdam(Optimizer):
    """Adam that trusts its second moment only when it has seen enough; Liu et al. (ICLR 2020).

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        betas: how slowly the moments forget.
        eps: added to the root of the second moment.
        weight_decay: how much parameters shrink.
        decoupled_weight_decay: whether the value shrinks, as in `AdamW`, rather than the gradient
            grows.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.RAdam([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.tolist()
    [0.0]
    """

    moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Parameters, lr: Rate = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *,
        maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas=several(self, "betas", betas), eps=eps, weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("RAdam", options, "eps", "weight_decay")
        fractions("RAdam", options, "betas", 2)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options, options["decoupled_weight_decay"])
        (beta1, beta2), steps = options["betas"], slot.steps.raw
        mean, square = _moved(slot, grad, (beta1, beta2))
        size = lr / (1.0 - beta1**steps)
        most, left = 2.0 / (1.0 - beta2) - 1.0, 1.0 - beta2**steps
        length = most - 2.0 * steps * beta2**steps / left
        if length <= 5.0:
            slot.value = x - mean * size
            return
        ratio = (length - 4.0) * (length - 2.0) * most / ((most - 4.0) * (most - 2.0) * length)
        slot.value = x - mean / (it.sqrt(square) + options["eps"]) * (size * sqrt(ratio * left))


class Adan(Optimizer):
    """Adam with an estimate of Nesterov's step from differences; Xie et al. (TPAMI 2024).

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        betas: how slowly gradients, their differences and the squares forget.
        eps: added to the root.
        weight_decay: parameters are divided by 1 + `lr * weight_decay` behind the step.
        no_prox: multiply by 1 - `lr * weight_decay` before the step instead.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.Adan([w], lr=0.5).backward_step((w * w).sum())
    >>> round(w.value.item(), 4)
    2.5
    """

    moments = ("exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_grad")

    def __init__(
        self, params: Parameters, lr: Rate = 1e-3,
        betas: tuple[float, float, float] = (0.98, 0.92, 0.99), eps: float = 1e-8,
        weight_decay: float = 0.0, no_prox: bool = False, *, maximize: bool = False,
        **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas=several(self, "betas", betas), eps=eps, weight_decay=weight_decay,
            no_prox=no_prox,
            maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Adan", options, "eps", "weight_decay")
        fractions("Adan", options, "betas", 3)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        grad = -grad if options["maximize"] else grad
        (beta1, beta2, beta3), steps = options["betas"], slot.steps.raw
        previous = slot.moment("previous_grad")
        # The first gradient has none before it to differ from.
        change = grad - previous.raw if steps > 1 else grad * 0.0
        previous.value = grad
        mean, slope = slot.moment("exp_avg"), slot.moment("exp_avg_diff")
        squares = slot.moment("exp_avg_sq")
        mean.value = m = mean.raw * beta1 + grad * (1.0 - beta1)
        slope.value = v = slope.raw * beta2 + change * (1.0 - beta2)
        ahead = grad + change * beta2
        squares.value = n = squares.raw * beta3 + it.square(ahead) * (1.0 - beta3)
        root = it.sqrt(n) / sqrt(1.0 - beta3**steps) + options["eps"]
        step = m / (1.0 - beta1**steps) + v * (beta2 / (1.0 - beta2**steps))
        x, decay = slot.value, lr * options["weight_decay"]
        if options["no_prox"]:
            slot.value = x * (1.0 - decay) - step / root * lr
        else:
            slot.value = (x - step / root * lr) / (1.0 + decay)
