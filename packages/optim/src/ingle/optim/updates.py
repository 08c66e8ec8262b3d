"""The arithmetic of a step as one operation each: a backend may make a single pass of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import TensorLike, promote, run
from ingle.tensor.errors import ArgumentError, DTypeError, ShapeError
from ingle.tensor.numbers import sqrt
from ingle.tensor.operation import Op, Operation, Traits
from ingle.tensor.sample import Draw, Sample

Decay = Literal["none", "gradient", "value"]
"""Where weight decay goes: into the gradient, or straight into the value."""

DECAYS = ("none", "gradient", "value")


def adam_update(
    x: TensorLike,
    grad: TensorLike,
    mean: TensorLike,
    square: TensorLike,
    /,
    *,
    step: int,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decay: Decay = "none",
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of Adam: the new value and its two moments. Kingma and Ba (ICLR 2015), algorithm 1.

    Args:
        x, grad, mean, square: the value, its gradient and both moments, of one shape and dtype.
        step: the number of this step, from 1.
        lr: the learning rate.
        betas: how slowly the moments forget.
        eps: added to the root of the second moment.
        weight_decay: how much the value shrinks.
        decay: `"gradient"` adds `weight_decay * x` to the gradient, `"value"` multiplies the value
            with `1 - lr * weight_decay` before the step.

    >>> import ingle.tensor as it
    >>> from ingle.optim.updates import adam_update
    >>> zero = it.zeros(2)
    >>> grad = it.asarray([3.0, -3.0])
    >>> x, mean, square = adam_update(it.ones(2), grad, zero, zero, step=1, lr=0.5)
    >>> x.tolist()
    [0.5, 1.5]
    """
    numbers = adam_numbers(step, lr, betas, eps, weight_decay, decay)
    operands = promote(
        "adam_update", ("x", x), ("grad", grad), ("mean", mean), ("square", square),
        *zip(ADAM_UPDATE.tensors[4:], numbers, strict=True),
    )  # fmt: skip
    value, first, second = run(ADAM_UPDATE.op(decay=decay), operands)
    return value, first, second


def adam_numbers(
    step: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    decay: Decay,
) -> tuple[float, ...]:
    """What `adam_update` makes of its numbers: the operation's inputs after the tensors."""
    if step < 1:
        raise ArgumentError(f"adam_update: steps count from 1, got step={step}")
    beta1, beta2 = betas
    shrink = _shrink("adam_update", decay, lr, weight_decay)
    # Both corrections are numbers; moved to where they cost no pass over the parameter.
    root = sqrt(1.0 - beta2**step)
    size = lr * root / (1.0 - beta1**step)
    return 1.0 - beta1, beta2, 1.0 - beta2, eps * root, size, shrink


def _shrink(name: str, decay: Decay, lr: float, weight_decay: float) -> float:
    if decay not in DECAYS:
        raise ArgumentError(f"{name}: decay must be one of {', '.join(DECAYS)}, got {decay!r}")
    return 1.0 - lr * weight_decay if decay == "value" else weight_decay


def _adam(
    x: Tensor, grad: Tensor, mean: Tensor, square: Tensor, forget: float, keep: float, add: float,
    eps: float, size: float, shrink: float, *, decay: Decay,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    if decay == "value":
        x = x * shrink
    elif decay == "gradient":
        grad = grad + x * shrink
    mean = mean + (grad - mean) * forget
    square = square * keep + it.square(grad) * add
    return x - mean / (it.sqrt(square) + eps) * size, mean, square


def _rule(name: str, names: tuple[str, ...], avals: tuple[Aval, ...]) -> Aval:
    first = avals[0]
    if not first.dtype.is_floating:
        raise DTypeError(f"{name}: needs floating-point values, got {first.dtype}; cast them first")
    for argument, aval in zip(names, avals, strict=False):
        if aval.shape != first.shape:
            raise ShapeError(
                f"{name}: {argument} has shape {aval.shape}, expected {first.shape} as x has"
            )
    return first


def _adam_rule(*avals: Aval, decay: Decay) -> tuple[Aval, ...]:
    return (_rule("adam_update", ADAM_UPDATE.tensors[:4], avals),) * 3


def _adam_samples(draw: Draw) -> Iterator[Sample]:
    for decay, shape in (("none", (5, 8)), ("gradient", (3,)), ("value", (0, 2)), ("value", ())):
        x, grad, mean = (draw.array(shape) for _ in range(3))
        square = draw.array(shape, low=0.5)
        options = {"step": 3, "lr": 0.125, "weight_decay": 0.25, "decay": decay}
        yield Sample((x, grad, mean, square), options, condition=8.0)


def _adam_reference(
    x: Any, grad: Any, mean: Any, square: Any, *, step: int, lr: float,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
    decay: Decay = "none",
) -> Any:  # fmt: skip
    # As the paper writes it, with the corrections where they stand there.
    grad = grad + weight_decay * x if decay == "gradient" else grad
    x = x - lr * weight_decay * x if decay == "value" else x
    first = betas[0] * mean + (1 - betas[0]) * grad
    second = betas[1] * square + (1 - betas[1]) * grad**2
    unbiased = first / (1 - betas[0] ** step), second / (1 - betas[1] ** step)
    return x - lr * unbiased[0] / (unbiased[1] ** 0.5 + eps), first, second


ADAM_UPDATE = Operation(
    "adam_update",
    tensors=(
        "x", "grad", "mean", "square", "forget", "keep", "add", "eps", "size", "shrink",
    ),
    outputs=("out", "new_mean", "new_square"),
    statics=("decay",),
    rule=_adam_rule,
    traits=Traits("opaque", precision="high"),
    body=_adam,
    public=adam_update,
    samples=_adam_samples,
    reference=_adam_reference,
)  # fmt: skip


def momentum_update(
    x: TensorLike,
    grad: TensorLike,
    buffer: TensorLike,
    /,
    *,
    lr: float,
    momentum: float,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """One step of gradient descent with momentum: the new value and momentum. Polyak (1964).

    Args:
        x, grad, buffer: the value, its gradient and the momentum, of one shape and dtype.
        lr: the learning rate.
        momentum: how much of the buffer stays.
        dampening: the part of the gradient that the buffer leaves out.
        weight_decay: added to the gradient as this times the value.
        nesterov: look ahead along the momentum; Sutskever et al. (ICML 2013).

    >>> import ingle.tensor as it
    >>> from ingle.optim.updates import momentum_update
    >>> x, buffer = momentum_update(it.ones(1), it.ones(1), it.ones(1), lr=0.5, momentum=0.5)
    >>> x.item(), buffer.item()
    (0.25, 1.5)
    """
    numbers = (momentum, 1.0 - dampening, lr, weight_decay)
    operands = promote(
        "momentum_update", ("x", x), ("grad", grad), ("buffer", buffer),
        *zip(MOMENTUM_UPDATE.tensors[3:], numbers, strict=True),
    )  # fmt: skip
    value, kept = run(momentum_op(weight_decay, nesterov), operands)
    return value, kept


def momentum_op(weight_decay: float, nesterov: bool) -> Op:
    """The operation of `momentum_update`."""
    return MOMENTUM_UPDATE.op(decay="gradient" if weight_decay else "none", nesterov=nesterov)


def _momentum(
    x: Tensor, grad: Tensor, buffer: Tensor, keep: float, add: float, size: float, shrink: float,
    *, decay: Decay, nesterov: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if decay == "gradient":
        grad = grad + x * shrink
    buffer = buffer * keep + grad * add
    return x - (grad + buffer * keep if nesterov else buffer) * size, buffer


def _momentum_rule(*avals: Aval, decay: Decay, nesterov: bool) -> tuple[Aval, ...]:
    return (_rule("momentum_update", MOMENTUM_UPDATE.tensors[:3], avals),) * 2


def _momentum_samples(draw: Draw) -> Iterator[Sample]:
    for nesterov, decay, shape in ((False, 0.0, (5, 8)), (True, 0.25, (3,)), (False, 0.25, ())):
        x, grad, buffer = (draw.array(shape) for _ in range(3))
        options = {"lr": 0.125, "momentum": 0.75, "weight_decay": decay, "nesterov": nesterov}
        yield Sample(
            (x, grad, buffer), {**options, "dampening": 0.25 * (not nesterov)}, condition=4
        )


def _momentum_reference(
    x: Any, grad: Any, buffer: Any, *, lr: float, momentum: float, dampening: float = 0.0,
    weight_decay: float = 0.0, nesterov: bool = False,
) -> Any:  # fmt: skip
    grad = grad + weight_decay * x
    velocity = momentum * buffer + (1 - dampening) * grad
    ahead = grad + momentum * velocity if nesterov else velocity
    return x - lr * ahead, velocity


MOMENTUM_UPDATE = Operation(
    "momentum_update",
    tensors=("x", "grad", "buffer", "keep", "add", "size", "shrink"),
    outputs=("out", "new_buffer"),
    statics=("decay", "nesterov"),
    rule=_momentum_rule,
    traits=Traits("opaque", precision="high"),
    body=_momentum,
    public=momentum_update,
    samples=_momentum_samples,
    reference=_momentum_reference,
)
