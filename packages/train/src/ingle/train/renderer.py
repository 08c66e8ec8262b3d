"""What shows a training: the protocol that the dashboard and plain lines both implement."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ingle.tensor.locks import ReentrantLock

from .callbacks import Record


@dataclass(frozen=True)
class ModuleFacts:
    """A module of the model.

    Attributes:
        path: where it is, such as "layers.0"; empty for the model itself.
        kind: the name of its class.
        parameters: the number of elements of each parameter of its own, by name.

    >>> from ingle.train import ModuleFacts
    >>> facts = ModuleFacts("head", "Linear", {"weight": 20, "bias": 2})
    >>> facts.path, sum(facts.parameters.values())
    ('head', 22)
    """

    path: str
    kind: str
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class RunFacts:
    """What is known of a training when it begins, or goes on.

    Attributes:
        epochs: how many there shall be in all.
        epoch: how many epochs were done before.
        steps: how many steps were done before.
        devices: where the parameters are.
        modules: of the model, parents first.
        saves: whether checkpoints can be written.

    >>> from ingle.train import Renderer, RunFacts
    >>> class Begins(Renderer):
    ...     def begin(self, facts):
    ...         print(f"{facts.epochs - facts.epoch} epochs on {', '.join(facts.devices)}")
    >>> Begins().begin(RunFacts(epochs=5, epoch=2, steps=80, devices=("cpu",)))
    3 epochs on cpu
    """

    epochs: int
    epoch: int
    steps: int
    devices: tuple[str, ...]
    modules: tuple[ModuleFacts, ...] = ()
    saves: bool = False


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step that was done.

    Attributes:
        step: how many steps were done.
        epoch: how many epochs were done; this step is of the one behind them.
        batch: how many batches of the epoch were done.
        batches: how many it has; None if nobody knows.
        loss: the mean loss of the step.
        lr: the learning rate.
        samples: how many went into the step.
        seconds: since the step before, without evaluations and checkpoints.
        spans: seconds by what was done: "data", "forward", "metrics", "backward", "optimizer".
        exact: whether the device was waited for between them. Elsewhere "optimizer" contains
            what backward asked for, as nothing is waited for without need.

    >>> from ingle.train import Renderer, StepFacts
    >>> class Losses(Renderer):
    ...     def step(self, facts):
    ...         print(f"{facts.step}: {facts.loss:.2f}")
    >>> Losses().step(StepFacts(7, 0, 7, 40, 0.25, 1e-3, 64, 0.01, {}))
    7: 0.25
    """

    step: int
    epoch: int
    batch: int
    batches: int | None
    loss: float
    lr: float
    samples: int
    seconds: float
    spans: Mapping[str, float] = field(default_factory=dict)
    exact: bool = False


class Control:
    """What a renderer may ask of the training, from any thread. It is done after the step.

    >>> from ingle.train import Control
    >>> control = Control()
    >>> control.pause()
    >>> control.paused
    True
    >>> control.resume()
    """

    def __init__(self) -> None:
        self._lock = ReentrantLock()
        self._paused = threading.Event()
        self._stop: str | None = None
        self._save = False

    @property
    def paused(self) -> bool:
        """Whether training waits, or will after this step."""
        return self._paused.is_set()

    def pause(self) -> None:
        """Lets training wait until `resume` or `stop`."""
        self._paused.set()

    def resume(self) -> None:
        """Lets training go on."""
        self._paused.clear()

    def stop(self, reason: str = "stopped by hand") -> None:
        """Ends training after the step, with a checkpoint where there is a folder for it."""
        with self._lock:
            self._stop = reason
        self._paused.clear()

    def checkpoint(self) -> None:
        """Asks for a checkpoint now."""
        with self._lock:
            self._save = True

    def take_stop(self) -> str | None:
        """The reason given to `stop`, once."""
        with self._lock:
            reason, self._stop = self._stop, None
            return reason

    def take_checkpoint(self) -> bool:
        """Whether one was asked for, once."""
        with self._lock:
            wanted, self._save = self._save, False
            return wanted


class Renderer(Protocol):
    """Shows a training. Derive from it and define what should be shown; the rest may be left out.

    The calls come from the thread that trains, in the order of what happened; `Rendering` makes
    them. `Learner(progress=...)` takes one.

    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner, Renderer
    >>> class Dots(Renderer):
    ...     text = ""
    ...     def step(self, step): self.text += "."
    ...     def epoch(self, record, epochs): self.text += f"{record['epoch']}/{epochs}"
    >>> dots, model, x = Dots(), nn.Linear(1, 1), np.ones((8, 1), np.float32)
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss, progress=dots)
    >>> history = learner.fit(Loader(ArrayDataset(x, x), 4), epochs=2)
    >>> dots.text
    '..1/2..2/2'
    """

    wants_norms: bool = False
    """Whether `norms` is defined; they are computed at some steps, and cost a little."""

    def begin(self, run: RunFacts, control: Control) -> None:
        """Training begins, or goes on after `run.steps`; `control` takes wishes."""
        return

    def step(self, step: StepFacts) -> None:
        """A step was done."""
        return

    def norms(self, step: int, norms: Mapping[str, tuple[float, float]]) -> None:
        """The norms of each parameter and its gradient in a step, by the parameter's name."""
        return

    def evaluation(self, record: Record) -> None:
        """An evaluation by `fit(..., valid_every=)`: "step", and numbers as "valid/NAME"."""
        return

    def epoch(self, record: Record, epochs: int) -> None:
        """An epoch and its validation were done."""
        return

    def state(self, state: str) -> None:
        """What training does from now on: "training", "validating" or "paused"."""
        return

    def message(self, text: str) -> None:
        """Something happened that is worth a line."""
        return

    def poll(self) -> None:
        """After each step, and ten times a second while training is paused."""
        return

    def end(self, reason: str | None) -> None:
        """Training has ended, by an exception too; the reason if that was early."""
        return
