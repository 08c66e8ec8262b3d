"""A rate that falls when a measure stops getting better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, SupportsFloat

from ingle.tensor.argument_checks import number, whole
from ingle.tensor.errors import ArgumentError

from .closed_form import ClosedForm


class Plateau(ClosedForm):
    """Times `factor` when what is observed has not got better; PyTorch's ReduceLROnPlateau.

    It is a schedule, with a state: `observe` a loss or metric, mostly once an epoch.

    Args:
        lr: the first rate.
        mode: `"min"` if less is better, else `"max"`.
        factor: what the rate is multiplied by, below 1.
        patience: how many bad observations in a row are borne.
        threshold: by how much better is better.
        threshold_mode: `"rel"`, a part of the best, or `"abs"`.
        cooldown: for how many observations bad ones do not count behind a fall.
        min_lr: the least rate.
        eps: a fall by less does not happen.

    >>> from ingle.optim import schedule
    >>> plateau = schedule.Plateau(1.0, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     plateau.observe(loss)
    >>> plateau(0)
    0.5
    """

    def __init__(
        self,
        lr: float,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        numbers = {"lr": lr, "threshold": threshold, "min_lr": min_lr, "eps": eps}
        for name, value in numbers.items():
            number("Plateau", name, value)
        if not 0.0 < number("Plateau", "factor", factor) < 1.0:
            raise ArgumentError(f"Plateau: factor must be between 0 and 1, got {factor}")
        if mode not in ("min", "max"):
            raise ArgumentError(f"Plateau: mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"Plateau: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}"
            )
        self.lr, self.mode, self.factor = lr, mode, factor
        self.patience = whole("Plateau", "patience", patience, 0)
        self.cooldown = whole("Plateau", "cooldown", cooldown, 0)
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.min_lr, self.eps = min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.bad, self.cooling = 0, 0

    def __call__(self, step: int) -> float:
        return self.lr

    def observe(self, value: SupportsFloat) -> None:
        """Takes a loss or metric into account; the next step has the new rate."""
        try:
            found = float(value)
        except (TypeError, ValueError):
            raise ArgumentError(
                f"Plateau.observe: a loss or metric must be one number, got {value!r:.80}"
            ) from None
        if self._better(found):
            self.best, self.bad = found, 0
        else:
            self.bad += 1
        if self.cooling:
            self.cooling, self.bad = self.cooling - 1, 0
        if self.bad > self.patience:
            lower = max(self.lr * self.factor, self.min_lr)
            self.lr = lower if self.lr - lower > self.eps else self.lr
            self.cooling, self.bad = self.cooldown, 0

    def _better(self, value: float) -> bool:
        margin = self.threshold
        if self.threshold_mode == "rel":
            margin = self.best * self.threshold if math.isfinite(self.best) else 0.0
        if self.mode == "max":
            return value > self.best + margin
        return value < self.best - margin

    def state_dict(self) -> dict[str, Any]:
        """What a later run needs: numbers by name, for `ingle.nn.save`."""
        return {"lr": self.lr, "best": self.best, "bad": self.bad, "cooling": self.cooling}

    def load_state_dict(self, mapping: Mapping[str, Any]) -> None:
        """Takes a `state_dict` back."""
        missing = {"lr", "best", "bad", "cooling"} - set(mapping)
        if missing:
            raise ArgumentError(
                f"Plateau.load_state_dict: {', '.join(sorted(missing))} is missing; expected what "
                "state_dict() returned"
            )
        self.lr, self.best = float(mapping["lr"]), float(mapping["best"])
        self.bad, self.cooling = int(mapping["bad"]), int(mapping["cooling"])
