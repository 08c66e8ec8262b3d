"""Showing how far training is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from .callbacks import Record
from .renderer import Control, Renderer, RunFacts, StepFacts

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

HIDDEN = ("epoch", "step", "seconds", "waited")


class ConsoleLogger(Renderer):
    """A bar for the running epoch and a line for each that is done.

    Where the output is no terminal (a file, a pipe, CI), there is a line after each epoch, and one
    every `interval` seconds within it.

    Args:
        file: where to write; standard output if not given.
        interval: seconds between lines within an epoch.

    >>> import io
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import ConsoleLogger, Learner
    >>> x, model = np.ones((8, 1), np.float32), nn.Linear(1, 1)
    >>> batches = Loader(ArrayDataset(x, x), 4)
    >>> output = io.StringIO()
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss,
    ...                   progress=ConsoleLogger(output))
    >>> history = learner.fit(batches, epochs=1)
    >>> output.getvalue()[:29]
    'epoch 1/1  lr 0.1  train/loss'
    """

    def __init__(self, file: TextIO | None = None, *, interval: float = 10.0) -> None:
        self.file = file
        self.interval = interval
        self._bars: Bars | None = None
        self._task: Any = None
        self._spoken = 0.0
        self._epoch = -1
        self._place = (0, 0)

    def begin(self, run: RunFacts, control: Control) -> None:
        self._epoch = -1
        self._place = (run.epoch, run.epochs)
        self._spoken = time.monotonic()
        if run.steps:
            self._say(f"resumed after step {run.steps}, in epoch {run.epoch + 1}")
        if self._output().isatty():
            self._bars = _bars(self._output())
            self._bars.start()

    def step(self, step: StepFacts) -> None:
        self._place = (step.epoch, self._place[1])
        if self._bars is not None:
            if self._epoch != step.epoch:
                self._new_bar(step)
            self._bars.update(self._task, completed=step.batch, loss=f"loss {step.loss:.4f}")
        elif time.monotonic() - self._spoken >= self.interval:
            of = f"/{step.batches}" if step.batches else ""
            self._spoken = time.monotonic()
            self._say(f"{self._where()}  batch {step.batch}{of}  loss {step.loss:.4f}")

    def evaluation(self, record: Record) -> None:
        self._spoken = time.monotonic()
        numbers = "  ".join(f"{k} {v:.4f}" for k, v in record.items() if k not in HIDDEN)
        self._say(f"{self._where()}  step {record['step']}  {numbers}")

    def epoch(self, record: Record, epochs: int) -> None:
        self._spoken = time.monotonic()
        self._say(describe(record, epochs))

    def end(self, reason: str | None) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._task = None
        if reason:
            self._say(f"stopped: {reason}")

    def _where(self) -> str:
        return f"epoch {self._place[0] + 1}/{self._place[1]}"

    def _new_bar(self, step: StepFacts) -> None:
        assert self._bars is not None
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(self._where(), total=step.batches, loss="")
        self._epoch = step.epoch

    def _output(self) -> TextIO:
        return sys.stdout if self.file is None else self.file

    def _say(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(text, highlight=False, markup=False)
        else:
            self._output().write(text + "\n")
            self._output().flush()


def describe(record: Record, epochs: int) -> str:
    """One line about an epoch.

    >>> from ingle.train.progress import describe
    >>> describe({"epoch": 1, "step": 40, "train/loss": 0.5, "seconds": 2.0}, 3)
    'epoch 1/3  train/loss 0.5000  2.0 s'
    """
    parts = [f"epoch {record['epoch']}/{epochs}"]
    for name, value in record.items():
        if name not in HIDDEN:
            parts.append(f"{name} {value:.3g}" if name == "lr" else f"{name} {value:.4f}")
    parts.append(f"{record['seconds']:.1f} s")
    if record.get("waited", 0.0) > max(0.5, 0.1 * record["seconds"]):
        parts.append(f"({record['waited']:.1f} s of it waiting for data)")
    return "  ".join(parts)


def _bars(file: TextIO) -> Bars:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=file),
        transient=True,
    )
