"""Steps divided by what squares of gradients were: Adagrad, Adadelta, RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor

from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least, decayed, fraction
from .schedule.rate import Rate
from .slots import Slot


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squares; Duchi et al. (JMLR 2011), as PyTorch.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        lr_decay: the rate is divided by 1 + (step - 1) times this.
        weight_decay: added to the gradient as this times the parameter.
        initial_accumulator_value: where the sum begins.
        eps: added to the root.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.Adagrad([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.tolist()
    [2.5]
    """

    moments = ("sum",)

    def __init__(
        self, params: Parameters, lr: Rate = 1e-2, lr_decay: float = 0.0,
        weight_decay: float = 0.0, initial_accumulator_value: float = 0.0, eps: float = 1e-10, *,
        maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps, maximize=maximize,
            **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Adagrad", options, "lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options)
        held = slot.moment("sum", first=options["initial_accumulator_value"])
        held.value = total = held.raw + it.square(grad)
        rate = lr / (1.0 + (slot.steps.raw - 1) * options["lr_decay"])
        slot.value = x - grad / (it.sqrt(total) + options["eps"]) * rate


class Adadelta(Optimizer):
    """Steps as large as the last ones were; Zeiler (arXiv 1212.5701). The numbers are PyTorch's.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: what steps are multiplied by, or a schedule.
        rho: how slowly both averages forget.
        eps: added to both.
        weight_decay: added to the gradient as this times the parameter.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.Adadelta([w]).backward_step((w * w).sum())
    >>> w.value.item() < 3.0
    True
    """

    moments = ("square_avg", "acc_delta")

    def __init__(
        self, params: Parameters, lr: Rate = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0.0, *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, **clipping
        )

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Adadelta", options, "eps", "weight_decay")
        fraction("Adadelta", options, "rho", closed=True)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options)
        rho, eps = options["rho"], options["eps"]
        squares, deltas = slot.moment("square_avg"), slot.moment("acc_delta")
        old, before = squares.raw, deltas.raw
        squares.value = average = old * rho + it.square(grad) * (1.0 - rho)
        delta = it.sqrt(before + eps) / it.sqrt(average + eps) * grad
        deltas.value = before * rho + it.square(delta) * (1.0 - rho)
        slot.value = x - delta * lr


class RMSprop(Optimizer):
    """Steps divided by the root of an average of squares; Tieleman and Hinton (2012), as PyTorch.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        alpha: how slowly the average forgets.
        eps: added to the root.
        weight_decay: added to the gradient as this times the parameter.
        momentum: how much of the last update goes into the next.
        centered: whether the square of the mean is taken off, which leaves the variance.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.RMSprop([w], lr=0.1, alpha=0.75).backward_step((w * w).sum())
    >>> round(w.value.item(), 4)
    2.8
    """

    moments = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(
        self, params: Parameters, lr: Rate = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *,
        maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum,
            centered=centered, maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("RMSprop", options, "alpha", "eps", "weight_decay", "momentum")

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options)
        alpha = options["alpha"]
        held = slot.moment("square_avg")
        held.value = average = held.raw * alpha + it.square(grad) * (1.0 - alpha)
        if options["centered"]:
            mean = slot.moment("grad_avg")
            mean.value = now = mean.raw + (grad - mean.raw) * (1.0 - alpha)
            average = average - it.square(now)
        step = grad / (it.sqrt(average) + options["eps"])
        if options["momentum"]:
            buffer = slot.moment("momentum_buffer")
            buffer.value = step = buffer.raw * options["momentum"] + step
        slot.value = x - step * lr
