"""Optimizers that know matrices: Muon, which makes steps orthogonal, and Adafactor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError, ShapeError

from .complex_parameters import refuse_complex
from .groups import Parameters
from .optimizer import Optimizer
from .options import at_least, decayed, fraction, several
from .schedule.rate import Rate
from .slots import Slot


class Muon(Optimizer):
    """Momentum whose singular values are all made 1; Jordan et al. (2024), as PyTorch.

    For matrices of hidden layers; train vectors and embeddings with another optimizer.

    Args:
        params: a module, parameters or groups, all of two axes; see `Optimizer`.
        lr: the learning rate, or a schedule.
        weight_decay: how much the value shrinks, times the learning rate.
        momentum: how slowly the momentum forgets.
        nesterov: look ahead along the momentum.
        ns_coefficients: of the polynomial that is iterated.
        eps: the least norm that is divided by.
        ns_steps: how often it is iterated.
        adjust_lr_fn: `"original"` multiplies the rate by sqrt(max(1, rows / columns)),
            `"match_rms_adamw"` by 0.2 * sqrt(max(rows, columns)); the former if None.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    Raises:
        ShapeError: a parameter is not a matrix.
        DTypeError: a parameter is complex.

    >>> from ingle import nn, optim
    >>> layer = nn.Linear(3, 2, bias=False)
    >>> muon = optim.Muon(layer.parameters(), lr=0.02)
    """

    moments = ("momentum_buffer",)

    def __init__(
        self, params: Parameters, lr: Rate = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
            ns_coefficients=several(self, "ns_coefficients", ns_coefficients), eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn, **clipping,
        )  # fmt: skip

    def check_slots(self, slots: Sequence[Slot]) -> None:
        refuse_complex("Muon", slots)
        wrong = [slot for slot in slots if slot.parameter.ndim != 2]
        if wrong:
            raise ShapeError(
                f"Muon: every parameter must have 2 axes, {wrong[0].name!r} has shape "
                f"{wrong[0].parameter.shape}; give the others to AdamW, for example with "
                "nn.select(model, lambda path, p: p.ndim != 2)"
            )

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Muon", options, "weight_decay", "momentum", "eps", "ns_steps")
        if options["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(
                "Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got "
                f"{options['adjust_lr_fn']!r}"
            )

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, momentum = slot.value, options["momentum"]
        held = slot.moment("momentum_buffer")
        held.value = buffer = held.raw + (grad - held.raw) * (1.0 - momentum)
        step = grad + (buffer - grad) * momentum if options["nesterov"] else buffer
        step = orthogonal_step(
            step, options["ns_coefficients"], options["ns_steps"], options["eps"]
        )
        rows, columns = x.shape
        factor = math.sqrt(max(1.0, rows / columns))
        if options["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        slot.value = x * (1.0 - lr * options["weight_decay"]) - step * (lr * factor)


def orthogonal_step(
    x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """A matrix with its singular values moved near 1 by iterating an odd polynomial of it.

    The values stay in `x.dtype`; half types are enough where a device is fast in them.

    >>> import ingle.tensor as it
    >>> from ingle.optim.matrices import orthogonal_step
    >>> y = orthogonal_step(it.asarray([[4.0, 0.0]]), (1.5, -0.5, 0.0), 5, 1e-7)
    >>> [round(v, 3) for v in y[0].tolist()]
    [1.0, 0.0]
    """
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    y = x.mT if tall else x
    y = y / it.maximum(it.linalg.vector_norm(y), eps)
    for _ in range(steps):
        gram = y @ y.mT
        y = y * a + (gram * b + gram @ gram * c) @ y
    return y.mT if tall else y


class Adafactor(Optimizer):
    """Second moments of matrices as a column times a row; Shazeer and Stern (ICML 2018).

    Parameters of one axis keep all their second moments. The numbers are PyTorch's.

    Args:
        params: a module, parameters or groups; see `Optimizer`.
        lr: the largest relative step, or a schedule of it.
        beta2_decay: the power of the step by which averages forget.
        eps: the least root of a second moment, the dtype's step from 1 if None, and the least root
            of the mean square of parameters, which steps are relative to.
        d: the largest root of the mean square of an update.
        weight_decay: how much the value shrinks, times the learning rate.
        maximize: climb.
        clipping: `max_grad_norm`, `max_grad_value`, `error_if_nonfinite`; see `Optimizer`.

    >>> from ingle import nn, optim
    >>> layer = nn.Linear(30, 20)
    >>> adafactor = optim.Adafactor(layer)
    >>> grads = adafactor.backward_step((layer.weight * layer.weight).sum())
    >>> sorted((n, c.shape) for n, c in adafactor.groups[0].slots[0].moments.items())
    [('col_var', (1, 30)), ('row_var', (20, 1))]
    """

    moments = ("row_var", "col_var", "variance")

    def __init__(
        self, params: Parameters, lr: Rate = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, maximize: bool = False, **clipping: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, beta2_decay=beta2_decay, eps=several(self, "eps", eps, 2), d=d,
            weight_decay=weight_decay,
            maximize=maximize, **clipping,
        )  # fmt: skip

    def check_options(self, options: Mapping[str, Any]) -> None:
        at_least("Adafactor", options, "weight_decay")
        at_least("Adafactor", options, "d", least=1.0)
        number("Adafactor", "beta2_decay", options["beta2_decay"])
        fraction("Adafactor", {"-beta2_decay": -options["beta2_decay"]}, "-beta2_decay", True)

    def check_slots(self, slots: Sequence[Slot]) -> None:
        refuse_complex("Adafactor", slots)

    def moment_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        if name == "row_var":
            return (*shape[:-1], 1)
        return (*shape[:-2], 1, *shape[-1:]) if name == "col_var" else shape

    def update(self, slot: Slot, grad: Tensor, lr: float, options: Mapping[str, Any]) -> None:
        x, steps = slot.value, slot.steps.raw
        least, floor = options["eps"]
        least = float(it.finfo(slot.parameter.dtype).eps) if least is None else least
        new = steps ** options["beta2_decay"]
        rho = min(lr, 1.0 / steps**0.5)
        count = max(1, x.size)
        size = it.maximum(it.linalg.vector_norm(x) / count**0.5, floor) * rho
        x, grad = decayed(x, grad, lr, options, decoupled=True)
        if grad.ndim > 1:
            row = slot.moment("row_var", self.moment_shape("row_var", x.shape))
            column = slot.moment("col_var", self.moment_shape("col_var", x.shape))
            r, c, squares = row.raw, column.raw, it.square(grad)
            row.value = r = r + (it.mean(squares, axis=-1, keepdims=True) - r) * new
            column.value = c = c + (it.mean(squares, axis=-2, keepdims=True) - c) * new
            estimate = r @ c / it.maximum(it.mean(r, axis=-2, keepdims=True), least)
        else:
            held = slot.moment("variance")
            held.value = estimate = held.raw + (it.square(grad) - held.raw) * new
        step = grad * it.rsqrt(it.maximum(estimate, least * least))
        over = it.maximum(it.linalg.vector_norm(step) / (count**0.5 * options["d"]), 1.0)
        slot.value = x - step * (size / over)
