"""The usual schedules, each from a first rate to a last."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError
from ingle.tensor.numbers import cos
from ingle.tensor.other_names import also

from .closed_form import ClosedForm
from .rate import Rate, Schedule, rate_at


@dataclass(frozen=True)
class Constant(ClosedForm):
    """Always the same.

    >>> from ingle.optim import schedule
    >>> schedule.Constant(0.1)(1000)
    0.1
    """

    lr: float

    def __call__(self, step: int) -> float:
        return self.lr


@also(step_size="every")
@dataclass(frozen=True)
class Step(ClosedForm):
    """Times `gamma` every `every` steps; PyTorch's StepLR.

    >>> from ingle.optim import schedule
    >>> [schedule.Step(1.0, every=2, gamma=0.5)(i) for i in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    lr: float
    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("every")

    def __call__(self, step: int) -> float:
        return self.lr * self.gamma ** (step // self.every)


@dataclass(frozen=True)
class MultiStep(ClosedForm):
    """Times `gamma` at each milestone; PyTorch's MultiStepLR.

    >>> from ingle.optim import schedule
    >>> [schedule.MultiStep(1.0, [1, 3], gamma=0.5)(i) for i in range(5)]
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    lr: float
    milestones: Sequence[int]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.milestones, Iterable):
            raise ArgumentError(
                f"MultiStep: milestones must be a list of steps, got {self.milestones!r:.80}"
            )
        for step in self.milestones:
            number("MultiStep", "each of milestones", step)

    def __call__(self, step: int) -> float:
        return self.lr * self.gamma ** bisect.bisect_right(sorted(self.milestones), step)


@dataclass(frozen=True)
class Exponential(ClosedForm):
    """Times `gamma` every step; PyTorch's ExponentialLR.

    >>> from ingle.optim import schedule
    >>> [schedule.Exponential(1.0, 0.5)(i) for i in range(3)]
    [1.0, 0.5, 0.25]
    """

    lr: float
    gamma: float

    def __call__(self, step: int) -> float:
        return self.lr * self.gamma**step


@also(total_iters="steps", start_factor="start", end_factor="end")
@dataclass(frozen=True)
class Linear(ClosedForm):
    """A straight line from `start` times `lr` to `end` times `lr`; PyTorch's LinearLR.

    Args:
        lr: the rate that both factors multiply.
        steps: how long the line is; the rate stays at its end after it.
        start, end: the factors.

    >>> from ingle.optim import schedule
    >>> [schedule.Linear(1.0, steps=2, start=0.5)(i) for i in range(4)]
    [0.5, 0.75, 1.0, 1.0]
    """

    lr: float
    steps: int
    start: float = 1.0 / 3.0
    end: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("steps")

    def __call__(self, step: int) -> float:
        done = min(step, self.steps) / self.steps
        return self.lr * (self.start + (self.end - self.start) * done)


@dataclass(frozen=True)
class Warmup(ClosedForm):
    """A line from `start` times the rate up to `after`, which is then counted from its own start.

    Args:
        after: the schedule, or the rate, that follows.
        steps: how long the line is.
        start: the first factor.

    >>> from ingle.optim import schedule
    >>> [schedule.Warmup(1.0, steps=4, start=0.0)(i) for i in range(6)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """

    after: Rate
    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("steps", least=0)

    def __call__(self, step: int) -> float:
        if step >= self.steps:
            return rate_at(self.after, step - self.steps)
        return Linear(rate_at(self.after, 0), self.steps, self.start)(step)


@dataclass(frozen=True)
class Cosine(ClosedForm):
    """Half a cosine from `lr` down to `final`, after a linear warm-up; stays there.

    Loshchilov and Hutter: SGDR (ICLR 2017); PyTorch's CosineAnnealingLR over its first half period.

    Args:
        lr: the highest rate.
        steps: how many steps there are in all, warm-up included.
        final: the rate at the end.
        warmup: how many steps a line from 0 to `lr` takes.

    >>> from ingle.optim import schedule
    >>> [round(schedule.Cosine(1.0, steps=4)(i), 3) for i in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """

    lr: float
    steps: int
    final: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("steps")
        self._count("warmup", least=0)
        if self.warmup >= self.steps:
            raise ArgumentError(
                f"Cosine: warmup={self.warmup} must be shorter than steps={self.steps}, which "
                "include it"
            )

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.lr * step / self.warmup
        done = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.final + (self.lr - self.final) * (1.0 + cos(math.pi * done)) / 2.0


@also(total_iters="steps")
@dataclass(frozen=True)
class Polynomial(ClosedForm):
    """`lr` times (1 - step / steps) ** power, down to `final`; PyTorch's PolynomialLR.

    >>> from ingle.optim import schedule
    >>> [schedule.Polynomial(1.0, steps=4)(i) for i in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    lr: float
    steps: int
    power: float = 1.0
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("steps")

    def __call__(self, step: int) -> float:
        left = 1.0 - min(step, self.steps) / self.steps
        rate: float = self.final + (self.lr - self.final) * left**self.power
        return rate


@also(max_lr="lr", total_steps="steps", pct_start="rise", anneal_strategy="anneal",
      div_factor="start_divisor", final_div_factor="final_divisor")  # fmt: skip
@dataclass(frozen=True)
class OneCycle(ClosedForm):
    """Up to `lr` and down to almost nothing; Smith and Topin (2017), PyTorch's OneCycleLR.

    Args:
        lr: the highest rate.
        steps: how many steps there are in all; later ones keep the last rate.
        rise: the part of them in which the rate grows.
        anneal: the shape of both ways, `"cos"` or `"linear"`.
        start_divisor: the first rate is `lr` divided by it.
        final_divisor: the last rate is the first divided by it.
        three_phase: come down as slowly as up to the first rate, and only then to the last.

    >>> from ingle.optim import schedule
    >>> cycle = schedule.OneCycle(1.0, steps=10, anneal="linear")
    >>> cycle(0), cycle(2)
    (0.04, 1.0)
    """

    lr: float
    steps: int
    rise: float = 0.3
    anneal: Literal["cos", "linear"] = "cos"
    start_divisor: float = 25.0
    final_divisor: float = 1e4
    three_phase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("steps")
        if not 0.0 <= self.rise <= 1.0:
            raise ArgumentError(f"OneCycle: rise must be in [0, 1], got {self.rise}")
        if self.anneal not in ("cos", "linear"):
            raise ArgumentError(f"OneCycle: anneal must be 'cos' or 'linear', got {self.anneal!r}")

    def __call__(self, step: int) -> float:
        first = self.lr / self.start_divisor
        return self._along(step, first, self.lr, first / self.final_divisor)

    def momentum(self, low: float = 0.85, high: float = 0.95) -> Schedule:
        """The schedule of a momentum, or of Adam's first beta, that falls while the rate grows.

        PyTorch's OneCycleLR sets it so unless it is told `cycle_momentum=False`.

        >>> from ingle import nn, optim
        >>> cycle = optim.schedule.OneCycle(0.1, steps=10, anneal="linear")
        >>> sgd = optim.SGD(nn.Linear(2, 1), lr=cycle, momentum=cycle.momentum())
        >>> [round(cycle.momentum()(i), 3) for i in (0, 2, 9)]
        [0.95, 0.85, 0.95]
        """
        return _CycledMomentum(self, low, high)

    def _phases(
        self, first: float, highest: float, last: float
    ) -> list[tuple[float, float, float]]:
        """The last step of each phase, its first and its last value."""
        top = float(self.rise * self.steps) - 1.0
        end = self.steps - 1.0
        if self.three_phase:
            middle = 2.0 * self.rise * self.steps - 2.0
            return [(top, first, highest), (middle, highest, first), (end, first, last)]
        return [(top, first, highest), (end, highest, last)]

    def _along(self, step: int, first: float, highest: float, last: float) -> float:
        begin, place = 0.0, min(step, self.steps - 1)
        *early, (end, low, high) = self._phases(first, highest, last)
        for phase in early:
            if place <= phase[0]:
                end, low, high = phase
                break
            begin = phase[0]
        done = (place - begin) / (end - begin) if end > begin else 1.0
        if self.anneal == "linear":
            return low + (high - low) * done
        return high + (low - high) / 2.0 * (1.0 + cos(math.pi * done))


@dataclass(frozen=True)
class _CycledMomentum(ClosedForm):
    """From `high` to `low` and back, as the rate of a `OneCycle` goes up and down."""

    cycle: OneCycle
    low: float
    high: float

    def __call__(self, step: int) -> float:
        return self.cycle._along(step, self.high, self.low, self.high)


@dataclass(frozen=True)
class Sequential(ClosedForm):
    """One schedule after the other, each counted from its own start; PyTorch's SequentialLR.

    Args:
        schedules: the schedules, or rates.
        milestones: the step at which each but the first begins.

    >>> from ingle.optim import schedule
    >>> both = schedule.Sequential([0.1, schedule.Exponential(1.0, 0.5)], [2])
    >>> [both(i) for i in range(5)]
    [0.1, 0.1, 1.0, 0.5, 0.25]
    """

    schedules: Sequence[Rate]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.schedules) != len(self.milestones) + 1:
            raise ArgumentError(
                f"Sequential: {len(self.schedules)} schedules need {len(self.schedules) - 1} "
                f"milestones, got {len(self.milestones)}"
            )
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ArgumentError(f"Sequential: milestones must increase, got {self.milestones}")

    def __call__(self, step: int) -> float:
        which = bisect.bisect_right(list(self.milestones), step)
        begin = self.milestones[which - 1] if which else 0
        return rate_at(self.schedules[which], step - begin)


@dataclass(frozen=True)
class Chain(ClosedForm):
    """`lr` times the factors of several schedules, all running at once; PyTorch's ChainedScheduler.

    Args:
        lr: the rate that the factors multiply.
        factors: schedules whose own `lr` is 1.

    >>> from ingle.optim import schedule
    >>> both = schedule.Chain(0.5, [schedule.Exponential(1.0, 0.5), schedule.Step(1.0, 2)])
    >>> [round(both(i), 6) for i in range(3)]
    [0.5, 0.25, 0.0125]
    """

    lr: float
    factors: Sequence[Schedule]

    def __call__(self, step: int) -> float:
        return self.lr * math.prod(factor(step) for factor in self.factors)
