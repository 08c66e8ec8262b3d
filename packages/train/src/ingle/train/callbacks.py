"""What can be hung into training: early stopping, and base class for one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ingle.tensor.errors import ArgumentError

from .errors import TrainingError

if TYPE_CHECKING:
    from .learner import Learner

Record = dict[str, float]
Mode = Literal["min", "max"]


class Callback:
    """Derive from it and define what should happen when. All methods may be left out."""

    def on_fit_start(self, learner: Learner) -> None:
        """Before the first step, after a checkpoint was loaded."""

    def on_step(self, learner: Learner, loss: float) -> None:
        """After each step, with its loss."""

    def on_epoch(self, learner: Learner, record: Record) -> None:
        """After each epoch and its validation. What it adds to the record is kept."""

    def on_fit_end(self, learner: Learner) -> None:
        """After the last epoch, also if an exception ended training."""

    def state(self) -> dict[str, Any]:
        """What a resumed training needs, as values that JSON can hold."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave."""


class EarlyStopping(Callback):
    """Ends training when a number no longer gets better.

    Args:
        monitor: its name in the record, such as "valid/loss".
        patience: how many epochs in a row without improvement end training.
        min_delta: less than this is no improvement.
        mode: whether a smaller ("min") or a larger ("max") number is better.
    """

    def __init__(
        self,
        monitor: str = "valid/loss",
        *,
        patience: int = 3,
        min_delta: float = 0.0,
        mode: Mode = "min",
    ) -> None:
        if patience < 1:
            raise ArgumentError(f"EarlyStopping: patience must be at least 1, got {patience}")
        self.monitor = monitor
        self.patience = patience
        self.min_delta = min_delta
        self.mode = mode
        self.best: float | None = None
        self.waited = 0

    def on_epoch(self, learner: Learner, record: Record) -> None:
        value = monitored(record, self.monitor, "EarlyStopping")
        if self.best is None or better(value, self.best, self.mode, self.min_delta):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            learner.stop(
                f"{self.monitor} has not improved on {self.best:.6g} for {self.waited} epochs"
            )

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


def monitored(record: Mapping[str, float], name: str, who: str) -> float:
    """A number of a record; an error lists what there is."""
    if name not in record:
        hint = "; give fit(..., valid=...)" if name.startswith("valid/") else ""
        raise TrainingError(f"{who}: the record has no {name!r}, only {', '.join(record)}{hint}")
    return record[name]


def better(value: float, best: float, mode: Mode, by: float = 0.0) -> bool:
    """Whether `value` beats `best` by more than `by`; NaN beats nothing, everything beats NaN."""
    if math.isnan(value) or math.isnan(best):
        return math.isnan(best) and not math.isnan(value)
    return value < best - by if mode == "min" else value > best + by
