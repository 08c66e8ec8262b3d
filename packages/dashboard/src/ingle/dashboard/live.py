"""The dashboard of a training that runs in this process: opened, fed and closed by it."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingle.tensor.callers import warn

from .reading import OUTPUT
from .recording import RunRecorder, RunWarning
from .terminal import restore, terminal_modes

if TYPE_CHECKING:
    from ingle.train import ConsoleLogger, Control, Renderer, RunFacts, StepFacts

CHECK = 0.5
"""Seconds between two looks at whether the dashboard is still open."""
CLOSING = 5.0
"""Seconds that it has to close, before it is ended."""


class Dashboard:
    """Opens a dashboard in the terminal while training: `Learner(..., progress=Dashboard(FOLDER))`.

    It is a process of its own that reads the run's file, so that drawing takes no time of the
    training, and that whatever happens to it, the training goes on. Closed with q, it leaves plain
    lines; `ingle train show FOLDER` opens it again, there or elsewhere. What the program prints
    meanwhile stands in its log, and is printed when it closes. Where the output is no terminal,
    there are plain lines from the beginning. Ctrl-C asks whether to stop.

    Args:
        folder: of the run, where its file goes; a temporary one if not given.
        stay: whether it stays open when training has ended, until q is pressed.

    >>> import tempfile
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dashboard import Dashboard
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner
    >>> x, model = np.ones((8, 1), np.float32), nn.Linear(1, 1)
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss,
    ...                   progress=Dashboard(tempfile.mkdtemp()))
    >>> history = learner.fit(Loader(ArrayDataset(x, x), 4), epochs=1)  # doctest: +ELLIPSIS
    epoch 1/1  lr 0.1  train/loss ...
    """

    wants_norms = True

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, stay: bool = False) -> None:
        self._given = None if folder is None else Path(folder)
        self._stay = stay
        self._recorder: RunRecorder | None = None
        self._lines: ConsoleLogger | None = None
        self._screen: _Screen | None = None
        self._told: io.StringIO | None = None
        self._checked = 0.0

    @property
    def folder(self) -> Path | None:
        """Where the run is recorded; None before it begins, if no folder was given."""
        return self._given if self._recorder is None else self._recorder.folder

    def begin(self, run: RunFacts, control: Control) -> None:
        """Opens it, where there is a terminal."""
        from ingle.train import ConsoleLogger  # here, so that viewers do without the framework

        folder = self._given or Path(tempfile.mkdtemp(prefix="ingle-run-"))
        self._recorder = RunRecorder(folder)
        self._recorder.begin(run, control)
        self._told = None
        if _has_terminal():
            try:
                self._screen = _Screen.open(folder, self._stay)
                self._told = io.StringIO()
            except OSError as error:
                warn(
                    f"the dashboard cannot be opened ({error}); there are plain lines instead",
                    RunWarning,
                )
        self._lines = ConsoleLogger(self._told, interval=math.inf if self._screen else 10.0)
        self._lines.begin(run, control)

    def step(self, step: StepFacts) -> None:
        """Hands it on."""
        self._both("step", step)

    def norms(self, step: int, norms: Mapping[str, tuple[float, float]]) -> None:
        """Hands them on."""
        self._both("norms", step, norms)

    def evaluation(self, record: Mapping[str, float]) -> None:
        """Hands it on."""
        self._both("evaluation", record)

    def epoch(self, record: Mapping[str, float], epochs: int) -> None:
        """Hands it on."""
        self._both("epoch", record, epochs)

    def state(self, state: str) -> None:
        """Hands it on."""
        self._both("state", state)

    def message(self, text: str) -> None:
        """Hands it on."""
        self._both("message", text)

    def poll(self) -> None:
        """Looks whether it is still open; plain lines take its place where it is not."""
        if self._recorder is not None:
            self._recorder.poll()
        now = time.monotonic()
        if self._screen is None or now - self._checked < CHECK:
            return
        self._checked = now
        if self._screen.closed():
            self._leave("training goes on")

    def end(self, reason: str | None) -> None:
        """Closes it, or waits for q."""
        self._both("end", reason)
        if self._screen is not None:
            self._screen.wait(None if self._stay else CLOSING)
            self._leave(None)
        self._lines = None

    def _both(self, what: str, *arguments: Any) -> None:
        if self._lines is not None and self._recorder is not None:
            getattr(self._recorder, what)(*arguments)
            getattr(self._lines, what)(*arguments)

    def _leave(self, why: str | None) -> None:
        screen, self._screen = self._screen, None
        assert screen is not None
        assert self._told is not None
        assert self._lines is not None
        screen.close()
        sys.stdout.write(self._told.getvalue())
        self._lines.file, self._lines.interval = None, 10.0
        if why is not None:
            sys.stdout.write(f"{why}; `ingle train show {self.folder}` opens the dashboard again\n")
        sys.stdout.flush()


class _Screen:
    """The process that has the terminal, while this one prints into a file."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, kept: list[int]) -> None:
        self._process = process
        self._output = output
        self._kept = kept
        self._modes = terminal_modes(kept[0])

    @classmethod
    def open(cls, folder: Path, stay: bool) -> _Screen:
        """Starts it, and turns what this process prints into the folder's `output.log`.

        Raises:
            OSError: the file cannot be written, or no process can be started.
        """
        output = folder / OUTPUT
        _flush()
        with output.open("wb") as file:
            kept = [os.dup(1), os.dup(2)]
            command = [sys.executable, "-m", "ingle.dashboard", str(folder), str(os.getpid())]
            try:
                process = subprocess.Popen(
                    [*command, *(["stay"] if stay else [])],
                    stdin=0, stdout=kept[0], stderr=kept[1],
                )  # fmt: skip
            except BaseException:
                for number in kept:
                    os.close(number)
                raise
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        return cls(process, output, kept)

    def closed(self) -> bool:
        """Whether somebody closed it, or it failed."""
        return self._process.poll() is not None

    def wait(self, seconds: float | None) -> None:
        """Waits until it has closed; ends it when the time is over."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(CLOSING)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def close(self) -> None:
        """Gives the terminal back and prints what was printed meanwhile."""
        _flush()
        if self._process.returncode:
            restore(self._kept[0], self._modes)
        for number, kept in enumerate(self._kept, 1):
            os.dup2(kept, number)
            os.close(kept)
        try:
            text = self._output.read_bytes()
        except OSError as error:
            text = f"what the program printed meanwhile is lost: {error}\n".encode()
        while text:
            text = text[os.write(1, text) :]


def _has_terminal() -> bool:
    """Whether standard input and output are terminals, and Python's own."""
    try:
        if sys.stdout.fileno() != 1 or os.environ.get("TERM") == "dumb":
            return False
        return all(map(os.isatty, (0, 1, 2)))
    except (OSError, ValueError, AttributeError):
        return False


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


if TYPE_CHECKING:
    _: type[Renderer] = Dashboard
