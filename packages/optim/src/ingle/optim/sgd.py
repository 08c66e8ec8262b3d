"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from .batched_update import alike, batched_update
from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least
from .schedule.rate import Rate
from .slots import Slot
from .updates import momentum_op, momentum_update


class SGD(Optimizer):
    """Gradient descent with momentum; the numbers are those of PyTorch's SGD.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the learning rate, or a schedule.
        momentum: how much of the last update goes into the next; Polyak (1964). A number or, as
            `OneCycle.momentum` makes one, a schedule.
        dampening: the part of the gradient that momentum leaves out.
        weight_decay: added to the gradient as this times the parameter.
        nesterov: look ahead along the momentum; Sutskever et al. (ICML 2013).
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> w = nn.Parameter([1.0])
    >>> sgd = optim.SGD([w], lr=0.1, momentum=0.9)
    >>> for _ in range(50):
    ...     sgd.step((w * w).sum().backward())
    >>> abs(w.value.item()) < 0.2
    True
    """

    moments = ("momentum_buffer",)

    def __init__(
        self,
        params: Parameters,
        lr: Rate = 1e-3,
        momentum: Rate = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **clipping: Any,
    ) -> None:
        super().__init__(
            params, lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
            nesterov=nesterov, maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("SGD", options, "momentum", "weight_decay")
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ArgumentError(
                "SGD: nesterov=True needs momentum above 0 and dampening=0, got "
                f"momentum={options['momentum']}, dampening={options['dampening']}"
            )

    def update_group(
        self, updates: Sequence[tuple[Slot, Tensor]], lr: float, options: Mapping[str, Any]
    ) -> None:
        momentum, decay = options["momentum"], options["weight_decay"]
        if not momentum or options["maximize"] or type(self).update is not SGD.update:
            super().update_group(updates, lr, options)
            return
        op = momentum_op(decay, options["nesterov"])
        numbers = (momentum, 1.0 - options["dampening"], lr, decay)
        for steps, some in alike(updates):
            if steps > 1:
                batched_update(op, some, ("momentum_buffer",), numbers)
            else:
                super().update_group(some, lr, options)

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, momentum, decay = slot.value, options["momentum"], options["weight_decay"]
        grad = -grad if options["maximize"] else grad
        if momentum and slot.steps.raw > 1:
            buffer = slot.moment("momentum_buffer")
            slot.value, buffer.value = momentum_update(
                x, grad, buffer.raw, lr=lr, momentum=momentum, dampening=options["dampening"],
                weight_decay=decay, nesterov=options["nesterov"],
            )  # fmt: skip
            return
        grad = grad + x * decay if decay else grad
        if momentum:
            # The first buffer is the gradient, undampened.
            slot.moment("momentum_buffer").value = grad
            grad = grad + grad * momentum if options["nesterov"] else grad
        slot.value = x - grad * lr
