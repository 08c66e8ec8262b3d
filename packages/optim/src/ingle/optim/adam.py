"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.numbers import sqrt

from .batched_update import alike, batched_update
from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least, fractions, several
from .schedule.rate import Rate
from .slots import Slot
from .updates import ADAM_UPDATE, Decay, adam_numbers, adam_update


class Adam(Optimizer):
    """Steps scaled by running moments; Kingma and Ba (ICLR 2015). The numbers are PyTorch's.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        betas: how slowly the first and second moments forget; numbers or schedules.
        eps: added to the root of the second moment.
        weight_decay: added to the gradient as this times the parameter.
        amsgrad: divide by the largest second moment so far; Reddi et al. (ICLR 2018).
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w = nn.Parameter([1.0])
    >>> adam = optim.Adam([w], lr=optim.schedule.Cosine(0.1, steps=100))
    >>> for _ in range(100):
    ...     adam.step((w * w).sum().backward())
    >>> abs(w.value.item()) < 0.01
    True
    """

    moments = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    decoupled = False

    def __init__(
        self,
        params: Parameters,
        lr: Rate = 1e-3,
        betas: tuple[Rate, Rate] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **clipping: Any,
    ) -> None:
        super().__init__(
            params, lr, betas=several(self, "betas", betas), eps=eps, weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        name = type(self).__name__
        at_least(name, options, "eps", "weight_decay")
        fractions(name, options, "betas", 2)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        grad = -grad if options["maximize"] else grad
        if options["amsgrad"]:
            self._with_largest(slot, grad, lr, options)
            return
        first, second = slot.moment("exp_avg"), slot.moment("exp_avg_sq")
        slot.value, first.value, second.value = adam_update(
            slot.value, grad, first.raw, second.raw, step=slot.steps.raw, lr=lr,
            betas=options["betas"], eps=options["eps"], weight_decay=options["weight_decay"],
            decay=self._decay(options),
        )  # fmt: skip

    def update_group(
        self, updates: Sequence[tuple[Slot, Tensor]], lr: float, options: Mapping[str, Any]
    ) -> None:
        if options["amsgrad"] or options["maximize"] or type(self).update is not Adam.update:
            super().update_group(updates, lr, options)
            return
        decay = self._decay(options)
        op, rest = ADAM_UPDATE.op(decay=decay), (options["weight_decay"], decay)
        for steps, some in alike(updates):
            numbers = adam_numbers(steps, lr, options["betas"], options["eps"], *rest)
            batched_update(op, some, ("exp_avg", "exp_avg_sq"), numbers)

    def _decay(self, options: Mapping[str, Any]) -> Decay:
        if not options["weight_decay"]:
            return "none"
        return "value" if self.decoupled else "gradient"

    def _with_largest(
        self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]
    ) -> None:
        x, decay = slot.value, options["weight_decay"]
        if decay and self.decoupled:
            x = x * (1.0 - lr * decay)
        elif decay:
            grad = grad + x * decay
        beta1, beta2 = options["betas"]
        first, second = slot.moment("exp_avg"), slot.moment("exp_avg_sq")
        m, v = first.raw, second.raw
        m = m + (grad - m) * (1.0 - beta1)
        v = v * beta2 + it.square(grad) * (1.0 - beta2)
        first.value, second.value = m, v
        largest = slot.moment("max_exp_avg_sq")
        largest.value = v = it.maximum(largest.raw, v)
        steps = slot.steps.raw
        root = sqrt(1.0 - beta2**steps)
        size = lr * root / (1.0 - beta1**steps)
        slot.value = x - m / (it.sqrt(v) + options["eps"] * root) * size


class AdamW(Adam):
    """Adam with weight decay apart from the gradient; Loshchilov and Hutter (ICLR 2019).

    The arguments are those of `Adam`; the parameter shrinks by `lr * weight_decay` each step.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> model = nn.Linear(3, 2)
    >>> groups = [
    ...     {"params": nn.select(model, "*weight"), "weight_decay": 0.1},
    ...     {"params": nn.select(model, "*bias"), "weight_decay": 0.0},
    ... ]
    >>> adamw = optim.AdamW(groups, lr=0.1)
    >>> grads = adamw.backward_step(model(it.ones((4, 3))).sum())
    """

    decoupled = True

    def __init__(
        self,
        params: Parameters,
        lr: Rate = 1e-3,
        betas: tuple[Rate, Rate] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **clipping: Any,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **clipping
        )
