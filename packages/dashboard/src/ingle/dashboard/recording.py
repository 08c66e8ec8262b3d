"""Writing a run's file: what happened in a training, for the dashboard and for later."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingle.tensor.callers import warn

from .wishes import Wishes

if TYPE_CHECKING:
    from ingle.train import Control, Gauges, Renderer, RunFacts, StepFacts

FORMAT = 1
FILE = "run.jsonl"
"""The name of a run's file in its folder."""
WINDOW = 0.1
"""Seconds of steps that share a line at first."""
GROWTH = 20_000
"""About as many lines as a run has for each e-fold of time: a line covers 1/GROWTH of it."""
EVERY = 1.0
"""Seconds between two readings of the gauges."""
PATIENCE = 0.2
"""Seconds between two looks at what viewers wish, and for which lines are kept back."""


class RunWarning(UserWarning):
    """A run can no longer be recorded; the training goes on.

    >>> from ingle.dashboard import RunWarning
    >>> issubclass(RunWarning, UserWarning)
    True
    """


class RunRecorder:
    """A renderer that writes what happens into `FOLDER/run.jsonl`, and obeys those who watch.

    `ingle train show FOLDER` opens it at any time, from anywhere that sees the folder. Short steps
    share a line, the more the longer the run lasts, so that the file of a week has some tens of
    megabytes. A resumed training goes on in the same file. If it cannot be written, a `RunWarning`
    says so and the training goes on without.

    Args:
        folder: that of the run; made when training begins.

    >>> import tempfile
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dashboard import RunRecorder, read_run
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner
    >>> folder, x, model = tempfile.mkdtemp(), np.ones((8, 1), np.float32), nn.Linear(1, 1)
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.1), it.mse_loss, progress=RunRecorder(folder))
    >>> history = learner.fit(Loader(ArrayDataset(x, x), 4), epochs=3)
    >>> run = read_run(folder)
    >>> run.step, run.epoch, run.status
    (6, 3, 'finished')
    """

    wants_norms = True

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._wishes = Wishes(self.folder)
        self._control: Control | None = None
        self._gauges: Gauges | None = None
        self._lines: list[str] = []
        self._window: list[StepFacts] = []
        self._exact: StepFacts | None = None
        self._began = self._polled = self._window_began = self._gauged = 0.0
        self._broken = True

    def begin(self, run: RunFacts, control: Control) -> None:
        """Begins the file, or goes on with it after `run.steps` steps."""
        from ingle.train import Gauges  # here, so that viewers do without the framework

        self._control = control
        self._gauges = Gauges(run.devices)
        self._began = self._polled = self._window_began = time.monotonic()
        self._gauged = 0.0
        self._broken = False
        self._window, self._lines, self._exact = [], [], None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not run.steps:
                (self.folder / FILE).unlink(missing_ok=True)
            self._wishes.forget()
        except OSError as error:
            self._give_up(error)
        modules = [[m.path, m.kind, dict(m.parameters)] for m in run.modules]
        self._line(
            "begin", format=FORMAT, step=run.steps, epoch=run.epoch, epochs=run.epochs,
            devices=run.devices, modules=modules, saves=run.saves, pid=os.getpid(),
            host=platform.node(), python=platform.python_version(),
        )  # fmt: skip
        self._flush()

    def step(self, step: StepFacts) -> None:
        """Adds a step to the line of its time."""
        now = time.monotonic()
        if self._window and (
            now - self._window_began >= max(WINDOW, (now - self._began) / GROWTH)
            or self._window[-1].epoch != step.epoch
        ):
            self._close_window()
        if not self._window:
            self._window_began = now
        self._window.append(step)
        if step.exact:
            self._exact = step

    def norms(self, step: int, norms: Mapping[str, tuple[float, float]]) -> None:
        """Writes the norms of parameters and gradients."""
        self._line("norms", step=step, norms={k: [_short(a) for a in v] for k, v in norms.items()})

    def evaluation(self, record: Mapping[str, float]) -> None:
        """Writes the numbers of an evaluation."""
        self._close_window()
        self._line("evaluation", record=dict(record))

    def epoch(self, record: Mapping[str, float], epochs: int) -> None:
        """Writes the record of an epoch."""
        self._close_window()
        self._line("epoch", record=dict(record), epochs=epochs)
        self._flush()

    def state(self, state: str) -> None:
        """Writes what training does from now on."""
        if not self._broken:
            self._close_window()
            self._line("state", state=state)
            if state == "paused":
                self._flush()

    def message(self, text: str) -> None:
        """Writes a line of the log."""
        self._line("message", text=text)

    def poll(self) -> None:
        """Writes what was kept back, reads the gauges, and obeys those who watch."""
        now = time.monotonic()
        if self._broken or now - self._polled < PATIENCE:
            return
        self._polled = now
        if self._gauges is not None and now - self._gauged >= EVERY:
            self._gauged = now
            self._line("gauges", gauges=self._gauges.read())
        self._flush()
        assert self._control is not None
        for wish in self._wishes.read():
            if wish == "stop":
                self._control.stop("stopped from the dashboard")
            elif wish == "pause":
                self._control.pause()
            elif wish == "resume":
                self._control.resume()
            elif wish == "checkpoint":
                self._control.checkpoint()

    def end(self, reason: str | None) -> None:
        """Writes how training ended."""
        self._close_window()
        self._line("end", reason=reason)
        self._flush()
        self._broken = True

    def _close_window(self) -> None:
        """Writes the steps of a window as one line."""
        if not self._window:
            return
        steps, self._window = self._window, []
        last = steps[-1]
        spans: dict[str, float] = {}
        for step in steps:
            for name, seconds in step.spans.items():
                spans[name] = spans.get(name, 0.0) + seconds
        self._line(
            "steps", n=len(steps), step=last.step, epoch=last.epoch, batch=last.batch,
            batches=last.batches, lr=last.lr,
            loss=_short(math.fsum(s.loss for s in steps) / len(steps)),
            samples=sum(s.samples for s in steps), seconds=_short(sum(s.seconds for s in steps)),
            data=_short(spans.get("data", 0.0)),
        )  # fmt: skip
        if self._exact is not None:
            step, self._exact = self._exact, None
            self._line("spans", step=step.step, seconds=_short(step.seconds), spans={
                name: _short(seconds) for name, seconds in step.spans.items()
            })  # fmt: skip

    def _line(self, kind: str, **values: Any) -> None:
        if not self._broken:
            line = {"kind": kind, "time": round(time.time(), 3), **values}
            self._lines.append(json.dumps(line, separators=(",", ":")) + "\n")

    def _flush(self) -> None:
        if self._broken or not self._lines:
            return
        text, self._lines = "".join(self._lines), []
        try:
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        warn(
            f"{self.folder / FILE}: this run is no longer recorded ({error}); the training goes "
            "on, and the dashboard shows what there was",
            RunWarning,
        )


def _short(value: float) -> float:
    """Six digits of a number: a plot shows no more."""
    return float(f"{value:.6g}")


if TYPE_CHECKING:
    _: type[Renderer] = RunRecorder
