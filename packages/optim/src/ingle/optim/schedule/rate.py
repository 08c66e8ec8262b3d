"""What a learning rate is: a number, or a schedule, which gives one for each step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ingle.tensor.argument_checks import is_number
from ingle.tensor.errors import ArgumentError
from ingle.tensor.followed import as_float
from ingle.tensor.hosting import called

Schedule = Callable[[int], float]
Rate: TypeAlias = "float | Schedule"


def rate_at(rate: Rate, step: int) -> float:
    """A number as it is, or what a schedule gives for a step; checked to be a learning rate.

    Raises:
        ArgumentError: neither a number nor a schedule, or a rate that is negative or not finite.

    >>> rate_at(0.1, 5), rate_at(lambda step: 0.1 / (step + 1), 4)
    (0.1, 0.02)
    """
    if not (callable(rate) or is_number(rate)):
        raise ArgumentError(f"learning rate: must be a number or a schedule, got {rate!r:.80}")
    value = number_at(rate, step)
    if not 0.0 <= value < math.inf:
        raise ArgumentError(
            f"learning rate: must be a finite number of at least 0, got {value} at step {step}"
            + (f" from {rate!r}" if callable(rate) else "")
        )
    return value


def number_at(number: Rate, step: int) -> float:
    """A number as it is, or what a schedule gives for a step."""
    # Compiled steps call a schedule again, so that it may use `math`, tables and branches.
    return called(_Floats(number), step) if callable(number) else as_float(number)


@dataclass(frozen=True)
class _Floats:
    """A schedule whose values are floats, whatever kind of numbers they were."""

    schedule: Schedule

    def __call__(self, step: int) -> float:
        return as_float(self.schedule(step))
