"""Rates that come back: cosines with restarts, cycles; and Noam's, and schedules in one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ingle.tensor.errors import ArgumentError
from ingle.tensor.numbers import cos
from ingle.tensor.other_names import also

from .closed_form import ClosedForm
from .rate import Rate, rate_at


@also(total_iters="steps")
@dataclass(frozen=True)
class Factor(ClosedForm):
    """`factor` times `lr` for the first steps, then `lr`; PyTorch's ConstantLR.

    >>> from ingle.optim import schedule
    >>> [schedule.Factor(1.0, steps=2, factor=0.5)(i) for i in range(4)]
    [0.5, 0.5, 1.0, 1.0]
    """

    lr: float
    steps: int = 5
    factor: float = 1.0 / 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("steps", least=0)

    def __call__(self, step: int) -> float:
        return self.lr * self.factor if step < self.steps else self.lr


@also(lr_lambda="function")
@dataclass(frozen=True)
class Lambda(ClosedForm):
    """`lr` times a function of the step; PyTorch's LambdaLR.

    >>> from ingle.optim import schedule
    >>> [schedule.Lambda(0.5, lambda step: 1 / (step + 1))(i) for i in range(2)]
    [0.5, 0.25]
    """

    lr: float
    function: Callable[[int], float]

    def __call__(self, step: int) -> float:
        return self.lr * self.function(step)


@also(T_max="half", eta_min="final")
@dataclass(frozen=True)
class CosineAnnealing(ClosedForm):
    """A cosine between `lr` and `final` that goes on, up and down; PyTorch's CosineAnnealingLR.

    `Cosine` is the first half of it with a warm-up, and stays at its end.

    Args:
        lr: the highest rate.
        half: after how many steps it is at its lowest.
        final: the lowest rate.

    >>> from ingle.optim import schedule
    >>> [round(schedule.CosineAnnealing(1.0, half=2)(i), 3) for i in range(5)]
    [1.0, 0.5, 0.0, 0.5, 1.0]
    """

    lr: float
    half: int
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("half")

    def __call__(self, step: int) -> float:
        wave = 1.0 + cos(math.pi * step / self.half)
        return self.final + (self.lr - self.final) * wave / 2.0


@also(T_0="first", T_mult="factor", eta_min="final")
@dataclass(frozen=True)
class WarmRestarts(ClosedForm):
    """Half cosines one after the other, each longer than the one before; SGDR (ICLR 2017).

    PyTorch's CosineAnnealingWarmRestarts.

    Args:
        lr: the rate at the beginning of each.
        first: how many steps the first takes.
        factor: how many times as long each is as the one before.
        final: the rate that each falls to.

    >>> from ingle.optim import schedule
    >>> [round(schedule.WarmRestarts(1.0, first=2)(i), 3) for i in range(4)]
    [1.0, 0.5, 1.0, 0.5]
    """

    lr: float
    first: int
    factor: int = 1
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("first")
        self._count("factor")

    def __call__(self, step: int) -> float:
        length, place = self.first, step
        if self.factor == 1:
            place = step % length
        while place >= length:
            place -= length
            length *= self.factor
        wave = 1.0 + cos(math.pi * place / length)
        return self.final + (self.lr - self.final) * wave / 2.0


@also(base_lr="low", max_lr="high", step_size_up="up", step_size_down="down")
@dataclass(frozen=True)
class Cyclic(ClosedForm):
    """Up and down between two rates; Smith (WACV 2017), PyTorch's CyclicLR.

    Args:
        low, high: the rates.
        up: how many steps the way up takes.
        down: how many the way down; as many if not given.
        mode: `"triangular"` keeps the height, `"triangular2"` halves it each cycle,
            `"exp_range"` multiplies it by `gamma` each step.
        gamma: of `"exp_range"`.

    >>> from ingle.optim import schedule
    >>> [schedule.Cyclic(0.0, 1.0, up=2, mode="triangular2")(i) for i in range(8)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.25, 0.5, 0.25]
    """

    low: float
    high: float
    up: int = 2000
    down: int | None = None
    mode: Literal["triangular", "triangular2", "exp_range"] = "triangular"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("up")
        if self.down is not None:
            self._count("down")
        if self.mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(
                "Cyclic: mode must be 'triangular', 'triangular2' or 'exp_range', got "
                f"{self.mode!r}"
            )

    def __call__(self, step: int) -> float:
        down = self.up if self.down is None else self.down
        cycle, place = divmod(step, self.up + down)
        part = place / self.up if place <= self.up else 1.0 - (place - self.up) / down
        height = (self.high - self.low) * part
        if self.mode == "triangular2":
            height = height / 2.0**cycle
        elif self.mode == "exp_range":
            height = height * self.gamma**step
        return self.low + height

    def momentum(self, low: float = 0.8, high: float = 0.9) -> Cyclic:
        """The schedule of a momentum that is high where the rate is low, as PyTorch cycles it.

        >>> from ingle import nn, optim
        >>> cycle = optim.schedule.Cyclic(0.1, 0.5, up=2)
        >>> sgd = optim.SGD(nn.Linear(2, 1), lr=cycle, momentum=cycle.momentum())
        >>> [round(cycle.momentum()(i), 3) for i in range(5)]
        [0.9, 0.85, 0.8, 0.85, 0.9]
        """
        return dataclasses.replace(self, low=high, high=low)


@dataclass(frozen=True)
class Noam(ClosedForm):
    """A line up and then the inverse root of the step; Vaswani et al. (2017), section 5.3.

    Args:
        lr: what the rate is multiplied by.
        warmup: how many steps the line takes.
        features: the size of the model, whose root divides the rate.

    >>> from ingle.optim import schedule
    >>> [round(schedule.Noam(1.0, warmup=4, features=1)(i), 3) for i in (0, 3, 15)]
    [0.125, 0.5, 0.25]
    """

    lr: float
    warmup: int
    features: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("warmup")
        self._count("features")

    def __call__(self, step: int) -> float:
        count = step + 1
        part = min(count**-0.5, count * self.warmup**-1.5)
        rate: float = self.lr * self.features**-0.5 * part
        return rate


@dataclass(frozen=True)
class Composed(ClosedForm):
    """Several schedules at once: their product, sum or mean.

    Args:
        schedules: schedules or rates, all counted from the same start.
        how: `"product"`, `"sum"` or `"mean"`.

    >>> from ingle.optim import schedule
    >>> both = schedule.Composed([1.0, schedule.Exponential(1.0, 0.5)], how="mean")
    >>> [both(i) for i in range(3)]
    [1.0, 0.75, 0.625]
    """

    schedules: Sequence[Rate]
    how: Literal["product", "sum", "mean"] = "product"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.schedules:
            raise ArgumentError("Composed: there are no schedules")
        if self.how not in ("product", "sum", "mean"):
            raise ArgumentError(
                f"Composed: how must be 'product', 'sum' or 'mean', got {self.how!r}"
            )

    def __call__(self, step: int) -> float:
        rates = [rate_at(s, step) for s in self.schedules]
        if self.how == "product":
            return math.prod(rates)
        return sum(rates) / (len(rates) if self.how == "mean" else 1)
