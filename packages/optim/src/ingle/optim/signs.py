"""Steps by the signs of gradients, and averages of the way: Rprop, Lion, ASGD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least, decayed, fractions, several
from .schedule.rate import Rate
from .slots import Slot


class Rprop(Optimizer):
    """A step size for each element, by whether its gradient keeps its sign; Riedmiller (1993).

    For gradients of the whole data. The numbers are PyTorch's.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the first step size.
        etas: what a size is multiplied by when the sign changes, and when it stays.
        step_sizes: the least and the largest size.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.Rprop([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.tolist()
    [2.5]
    """

    moments = ("prev", "step_size")

    def __init__(
        self, params: Parameters, lr: Rate = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0), *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, etas=several(self, "etas", etas, 2),
            step_sizes=several(self, "step_sizes", step_sizes, 2), maximize=maximize,
            **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        less, more = options["etas"]
        if not 0.0 < less < 1.0 < more:
            raise ArgumentError(
                f"Rprop: etas must be one number in (0, 1) and one above 1, got {options['etas']}"
            )
        low, high = options["step_sizes"]
        if not 0.0 <= low <= high:
            raise ArgumentError(f"Rprop: step_sizes must increase, got {options['step_sizes']}")

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        grad = -grad if options["maximize"] else grad
        less, more = options["etas"]
        low, high = options["step_sizes"]
        previous, sizes = slot.moment("prev"), slot.moment("step_size")
        same = grad * previous.raw
        factor = it.where(same > 0, more, it.where(same < 0, less, it.ones_like(same)))
        old = sizes.raw if slot.steps.raw > 1 else it.full_like(sizes.raw, lr)
        sizes.value = new = it.clip(old * factor, low, high)
        # An element that turned round waits a step.
        grad = it.where(same < 0, 0.0, grad)
        previous.value = grad
        slot.value = slot.value - it.sign(grad) * new


class Lion(Optimizer):
    """The sign of a momentum; Chen et al.: Symbolic discovery (NeurIPS 2023).

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the size of every step, or a schedule; a tenth of Adam's is usual.
        betas: how much of the momentum goes into the step, and how slowly it forgets.
        weight_decay: how much the value shrinks, times the learning rate.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.Lion([w], lr=0.5).backward_step((w * w).sum())
    >>> w.value.tolist()
    [2.5]
    """

    moments = ("exp_avg",)

    def __init__(
        self, params: Parameters, lr: Rate = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas=several(self, "betas", betas), weight_decay=weight_decay,
            maximize=maximize,
            **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Lion", options, "weight_decay")
        fractions("Lion", options, "betas", 2)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options, decoupled=True)
        (beta1, beta2), held = options["betas"], slot.moment("exp_avg")
        m = held.raw
        held.value = m * beta2 + grad * (1.0 - beta2)
        slot.value = x - it.sign(m * beta1 + grad * (1.0 - beta1)) * lr


class ASGD(Optimizer):
    """Gradient descent with a falling rate, and the average of where it was; Polyak (1992).

    The average is `slot.moments["ax"]`; the parameters are PyTorch's.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the first learning rate, or a schedule of it.
        lambd: how much parameters shrink, and how fast the rate falls.
        alpha: the power of the fall.
        t0: after how many steps the average begins.
        weight_decay: added to the gradient as this times the parameter.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> w = nn.Parameter([3.0])
    >>> grads = optim.ASGD([w], lr=0.25, lambd=0.0).backward_step((w * w).sum())
    >>> w.value.tolist()
    [1.5]
    """

    moments = ("ax",)

    def __init__(
        self, params: Parameters, lr: Rate = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: float = 0.0, *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
            maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("ASGD", options, "lambd", "alpha", "t0", "weight_decay")

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, grad = decayed(slot.value, grad, lr, options)
        done = slot.steps.raw - 1
        rate = lr / (1.0 + options["lambd"] * lr * done) ** options["alpha"]
        x = x * (1.0 - options["lambd"] * rate) - grad * rate
        average = slot.moment("ax")
        behind = done - options["t0"]
        average.value = x if behind <= 1 else average.raw + (x - average.raw) * (1.0 / behind)
        slot.value = x
