"""What can be hung into training: early stopping, and base class for one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ingle.nn import Module
from ingle.tensor import Cell, Gradients
from ingle.tensor.argument_checks import did_you_mean, whole
from ingle.tensor.errors import ArgumentError

from .errors import TrainingError

if TYPE_CHECKING:
    from .learner import Learner

Record = dict[str, float]
Mode = Literal["min", "max"]


class Callback:
    """Derive from it and define what should happen when. All methods may be left out.

    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Callback, Learner
    >>> class Losses(Callback):
    ...     steps = []
    ...     def on_step(self, learner, loss): self.steps.append(learner.steps)
    >>> x, model = np.ones((8, 1), np.float32), nn.Linear(1, 1)
    >>> batches = Loader(ArrayDataset(x, x), 4)
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.1), it.mse_loss, callbacks=[Losses()], progress=False)
    >>> history = learner.fit(batches, epochs=2)
    >>> Losses.steps
    [1, 2, 3, 4]
    """

    def on_fit_start(self, learner: Learner) -> None:
        """Before the first step, after a checkpoint was loaded."""

    def on_gradients(self, learner: Learner, gradients: Gradients) -> None:
        """Within each step, with its gradients, before they are clipped and used."""

    def on_step(self, learner: Learner, loss: float) -> None:
        """After each step, with its loss."""

    def on_evaluation(self, learner: Learner, record: Record) -> None:
        """After each evaluation by `fit(..., valid_every=)`, with "step" and "valid/NAME"."""

    def on_evaluate_start(self, learner: Learner) -> None:
        """Before the batches of each evaluation."""

    def on_evaluate_end(self, learner: Learner) -> None:
        """After the batches of each evaluation, also if an exception ended it."""

    def on_checkpoint(self, learner: Learner, path: Path) -> None:
        """After each checkpoint that was written, or is being written in the background."""

    def on_epoch(self, learner: Learner, record: Record) -> None:
        """After each epoch and its validation. What it adds to the record is kept."""

    def on_fit_end(self, learner: Learner) -> None:
        """After the last epoch, also if an exception ended training."""

    def state(self) -> dict[str, Any]:
        """What a resumed training needs, as values that JSON can hold."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave."""

    def parts(self) -> dict[str, Any]:
        """What else checkpoints keep, by name: whatever has `state_dict` and `load_state_dict`."""
        return {}


class Snapshot:
    """The weights and buffers of a model at one time; none at first.

    Values never change, so that it costs memory only for what the model has replaced since.

    >>> from ingle import nn, optim
    >>> from ingle.train.callbacks import Snapshot
    >>> model = nn.Linear(2, 1)
    >>> kept = Snapshot()
    >>> kept.take(model)
    >>> model.weight.value = model.weight.value * 0.0
    >>> kept.give(model)
    >>> bool((model.weight.value != 0.0).all())
    True
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def take(self, model: Module) -> None:
        """Keeps the values that the model has now."""
        self.values = {
            name: value.raw.detach() if isinstance(value, Cell) else value
            for name, value in model.state_dict().items()
        }

    def give(self, model: Module) -> None:
        """Sets the model to the values kept; does nothing before any were."""
        if self.values:
            model.load_state_dict(self.values)

    def state_dict(self) -> dict[str, Any]:
        """The values kept, by name."""
        return dict(self.values)

    def load_state_dict(self, mapping: Mapping[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        self.values = dict(mapping)


class EarlyStopping(Callback):
    """Ends training when a number no longer gets better.

    It is looked at after each evaluation: by epoch, and by step with `fit(..., valid_every=)`,
    where training ends within the epoch. A training that has ended so stays ended when it is
    resumed; with more `patience`, or without this callback, it goes on.

    Args:
        monitor: its name in the record, such as "valid/loss".
        patience: how many evaluations in a row without improvement end training.
        min_delta: less than this is no improvement.
        mode: whether a smaller ("min") or a larger ("max") number is better.
        restore_best: whether the model is as it was at its best when training has ended, early or
            after all epochs. Checkpoints hold the weights of their own step.

    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import EarlyStopping, Learner
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> batches = Loader(ArrayDataset(x, 3 * x), 16)
    >>> model = nn.Linear(1, 1)
    >>> stopping = EarlyStopping(patience=2, min_delta=1e-4, restore_best=True)
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.5), it.mse_loss, callbacks=[stopping], progress=False)
    >>> history = learner.fit(batches, valid=batches, epochs=1000)
    >>> len(history) < 100, learner.stopped[:27]
    (True, 'valid/loss has not improved')
    """

    def __init__(
        self,
        monitor: str = "valid/loss",
        *,
        patience: int = 3,
        min_delta: float = 0.0,
        mode: Mode = "min",
        restore_best: bool = False,
    ) -> None:
        self.monitor = monitor
        self.patience = whole("EarlyStopping", "patience", patience, least=1)
        self.min_delta = min_delta
        self.mode = checked_mode("EarlyStopping", mode)
        self.restore_best = restore_best
        self.best: float | None = None
        self.waited = 0
        self._judged = -1
        self._unit = "epochs"
        self._ended = False
        self._resumed = False
        self._snapshot = Snapshot()

    def on_fit_start(self, learner: Learner) -> None:
        self._ended = False
        if self._resumed and self.waited >= self.patience:
            self._end(learner, now=True)
        self._resumed = False

    def on_evaluation(self, learner: Learner, record: Record) -> None:
        if self.monitor in record:
            self._unit = "evaluations"
            self._judge(learner, record[self.monitor], now=True)

    def on_epoch(self, learner: Learner, record: Record) -> None:
        value = monitored(record, self.monitor, "EarlyStopping")
        # The evaluation by step at the end of an epoch is that of the epoch, too.
        if self._judged != learner.steps:
            self._judge(learner, value, now=False)

    def _judge(self, learner: Learner, value: float, *, now: bool) -> None:
        self._judged = learner.steps
        if self.best is None or better(value, self.best, self.mode, self.min_delta):
            self.best, self.waited = value, 0
            if self.restore_best:
                self._snapshot.take(learner.model)
            return
        self.waited += 1
        if self.waited >= self.patience:
            self._end(learner, now=now)

    def _end(self, learner: Learner, *, now: bool) -> None:
        self._ended = True
        learner.stop(
            f"{self.monitor} has not improved on {self.best:.6g} for {self.waited} {self._unit}",
            now=now,
        )

    def on_fit_end(self, learner: Learner) -> None:
        if self._ended or learner.epoch >= learner.epochs:
            self._snapshot.give(learner.model)

    def state(self) -> dict[str, Any]:
        return {
            "best": self.best, "waited": self.waited, "judged": self._judged, "unit": self._unit,
        }  # fmt: skip

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]
        self._judged, self._unit = state["judged"], state["unit"]
        self._resumed = True

    def parts(self) -> dict[str, Any]:
        return {"best": self._snapshot} if self.restore_best else {}


def monitored(record: Mapping[str, float], name: str, who: str) -> float:
    """A number of a record; an error lists what there is."""
    if name not in record:
        hint = did_you_mean(name, record)
        if name.startswith("valid/") and not any(n.startswith("valid/") for n in record):
            hint = "; give fit(..., valid=...)"
        raise TrainingError(f"{who}: the record has no {name!r}, only {', '.join(record)}{hint}")
    return record[name]


def checked_mode(who: str, mode: Mode) -> Mode:
    """The mode; raises `ArgumentError` for what is none, which would be taken for "max"."""
    if mode not in ("min", "max"):
        raise ArgumentError(f"{who}: mode must be 'min' or 'max', got {mode!r:.80}")
    return mode


def better(value: float, best: float, mode: Mode, by: float = 0.0) -> bool:
    """Whether `value` beats `best` by more than `by`; NaN beats nothing, everything beats NaN."""
    if math.isnan(value) or math.isnan(best):
        return math.isnan(best) and not math.isnan(value)
    return value < best - by if mode == "min" else value > best + by
