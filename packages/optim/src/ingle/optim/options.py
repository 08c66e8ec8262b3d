"""Checks of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.argument_checks import is_number
from ingle.tensor.errors import ArgumentError

from .schedule.rate import number_at


def scheduled(value: Any) -> bool:
    """Whether an option is a schedule, or several numbers with one among them."""
    return callable(value) or (type(value) is tuple and any(map(callable, value)))


def at_step(options: Mapping[str, Any], step: int) -> Mapping[str, Any]:
    """The options with what the schedules among them give for a step.

    >>> at_step({"betas": (lambda step: 1.0 / (step + 2), 0.99), "eps": 0.0}, 2)
    {'betas': (0.25, 0.99), 'eps': 0.0}
    """
    moving = {name: value for name, value in options.items() if scheduled(value)}
    if not moving:
        return options
    found = {
        name: tuple(number_at(v, step) for v in value)
        if isinstance(value, tuple)
        else number_at(value, step)
        for name, value in moving.items()
    }
    return {**options, **found}


def several(optimizer: object, name: str, values: Any, count: int | None = None) -> tuple[Any, ...]:
    """An option of several numbers as a tuple.

    Args:
        optimizer: whose.
        name: of the option.
        values: what was given.
        count: how many there must be, if that is not asked elsewhere.

    Raises:
        ArgumentError: it is one number, or none, or another count of them.

    >>> several(None, "betas", [0.9, 0.99])
    (0.9, 0.99)
    """
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        who = type(optimizer).__name__
        raise ArgumentError(f"{who}: {name} must be several numbers, got {values!r}")
    found = tuple(values)
    if count is not None and len(found) != count:
        raise ArgumentError(
            f"{type(optimizer).__name__}: {name} must be {count} numbers, got {values!r:.80}"
        )
    return found


def refuse_no_number(who: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raises `ArgumentError` for what is neither number nor schedule where the default is one."""
    for name, value in options.items():
        default = defaults.get(name)
        number = isinstance(default, (int, float)) and not isinstance(default, bool)
        if number and not (is_number(value) or callable(value)):
            raise ArgumentError(
                f"{who}: {name} must be a number such as {default}, or a schedule of numbers; "
                f"got {value!r}"
            )


def at_least(who: str, options: Mapping[str, Any], *names: str, least: float = 0.0) -> None:
    """Raises `ArgumentError` unless these options are numbers of at least `least`."""
    for name in names:
        if not options[name] >= least:
            raise ArgumentError(f"{who}: {name} must be at least {least}, got {options[name]}")


def fractions(who: str, options: Mapping[str, Any], name: str, count: int) -> None:
    """Raises `ArgumentError` unless an option is `count` numbers in [0, 1)."""
    values = options[name]
    if len(values) != count or not all(0.0 <= v < 1.0 for v in values):
        raise ArgumentError(f"{who}: {name} must be {count} numbers in [0, 1), got {values}")


def fraction(who: str, options: Mapping[str, Any], name: str, closed: bool = False) -> None:
    """Raises `ArgumentError` unless an option is a number in [0, 1), or [0, 1] if `closed`."""
    value = options[name]
    if not (0.0 <= value < 1.0 or (closed and value == 1.0)):
        span = "[0, 1]" if closed else "[0, 1)"
        raise ArgumentError(f"{who}: {name} must be in {span}, got {value}")


def decayed(
    x: Tensor, grad: Tensor, lr: float, options: Mapping[str, Any], decoupled: bool = False
) -> tuple[Tensor, Tensor]:
    """A value and its gradient with the weight decay in one of them, and the sign of `maximize`.

    Args:
        x, grad: of a parameter.
        lr: the learning rate.
        options: `weight_decay`, and `maximize` where there is such a one.
        decoupled: whether the value shrinks, rather than the gradient grows.
    """
    grad = -grad if options.get("maximize") else grad
    decay = options["weight_decay"]
    if decay and decoupled:
        return x * (1.0 - lr * decay), grad
    return x, (grad + x * decay if decay else grad)
