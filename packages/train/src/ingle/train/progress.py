"""Showing how far training is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from .callbacks import Callback, Record

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from .learner import Learner

HIDDEN = ("epoch", "step", "seconds", "waited")


class ConsoleLogger(Callback):
    """A bar for the running epoch and a line for each that is done.

    Where the output is no terminal (a file, a pipe, CI), there is a line after each epoch, and one
    every `interval` seconds within it.

    Args:
        file: where to write; standard output if not given.
        interval: seconds between lines within an epoch.
    """

    def __init__(self, file: TextIO | None = None, *, interval: float = 10.0) -> None:
        self.file = file
        self.interval = interval
        self._bars: Bars | None = None
        self._task: Any = None
        self._spoken = 0.0
        self._epoch = -1

    def on_fit_start(self, learner: Learner) -> None:
        self._epoch = -1
        self._spoken = time.monotonic()
        if learner.steps:
            self._say(f"resumed after step {learner.steps}, in epoch {learner.epoch + 1}")
        if self._output().isatty():
            self._bars = _bars(self._output())
            self._bars.start()

    def on_step(self, learner: Learner, loss: float) -> None:
        done, total = learner.position
        if self._bars is not None:
            if self._epoch != learner.epoch:
                self._new_bar(learner, total)
            self._bars.update(self._task, completed=done, loss=f"loss {loss:.4f}")
        elif time.monotonic() - self._spoken >= self.interval:
            self._spoken = time.monotonic()
            of = f"/{total}" if total else ""
            self._say(
                f"epoch {learner.epoch + 1}/{learner.epochs}  batch {done}{of}  loss {loss:.4f}"
            )

    def on_epoch(self, learner: Learner, record: Record) -> None:
        self._spoken = time.monotonic()
        self._say(describe(record, learner.epochs))

    def on_fit_end(self, learner: Learner) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        if learner.stopped:
            self._say(f"stopped: {learner.stopped}")

    def _new_bar(self, learner: Learner, total: int | None) -> None:
        assert self._bars is not None
        if self._task is not None:
            self._bars.remove_task(self._task)
        text = f"epoch {learner.epoch + 1}/{learner.epochs}"
        self._task = self._bars.add_task(text, total=total, loss="")
        self._epoch = learner.epoch

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
