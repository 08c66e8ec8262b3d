"""Reading a run's file, as it grows."""

from __future__ import annotations

import json
import os
import platform
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .recording import FILE, FORMAT

HISTORY = "history.jsonl"
"""The usual name of a `JSONLLogger`'s file, which is read where there is no run's file."""
OUTPUT = "output.log"
"""What a training printed while the dashboard was open."""
SPAN_MEMORY = 0.7
"""How much of the average of spans stays at each look."""


class RunError(Exception):
    """A folder holds no run that can be shown.

    >>> from ingle.dashboard import RunError
    >>> issubclass(RunError, Exception)
    True
    """


@dataclass
class Series:
    """A number in the course of training.

    Attributes:
        steps: after how many steps it was taken.
        values: what it was.

    >>> from ingle.dashboard import Series
    >>> losses = Series()
    >>> for step, loss in ((1, 0.9), (2, 0.5), (3, 0.4)):
    ...     losses.add(step, loss)
    >>> losses.cut(2)  # a training that went on from step 2
    >>> losses.values.tolist()
    [0.9, 0.5]
    """

    steps: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: float, value: float) -> None:
        """Adds a value; one of the same step takes the older's place."""
        if self.steps and self.steps[-1] == step:
            self.values[-1] = value
        else:
            self.steps.append(step)
            self.values.append(value)

    def cut(self, step: float) -> None:
        """Forgets what is behind a step."""
        while self.steps and self.steps[-1] > step:
            self.steps.pop()
            self.values.pop()

    @property
    def last(self) -> float:
        """The newest value; NaN if there is none."""
        return self.values[-1] if self.values else float("nan")


class Run:
    """A training as its file tells it. `update` reads what was added since the last time.

    Args:
        folder: of a `RunRecorder` or `Dashboard`; or with a `history.jsonl` of a `JSONLLogger`; or
            such a file itself.

    Attributes:
        series: numbers by name, "train/loss", "valid/accuracy", "lr", "samples/s", …
        step, epoch, epochs, batch, batches: how far training is.
        modules: path, class and numbers of parameters of each module.
        norms: of each parameter and its gradient, by name, when they were last looked at.
        spans: seconds of a step by what was done.
        gauges: the last figures of the machine.
        log: time and text of what happened.
        state: "training", "validating", "paused" or "ended".
        reason: why it ended early.

    Raises:
        RunError: there is nothing to show.

    >>> import json, pathlib, tempfile
    >>> from ingle.dashboard import Run
    >>> from ingle.train import JSONLLogger
    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner
    >>> folder, model = tempfile.mkdtemp(), nn.Linear(1, 1)
    >>> logger = JSONLLogger(f"{folder}/history.jsonl")
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.1), it.mse_loss, callbacks=[logger], progress=False
    ... )
    >>> data = Loader(ArrayDataset([[1.0], [2.0]], [[2.0], [4.0]]), 1)
    >>> history = learner.fit(data, epochs=2)
    >>> run = Run(folder)
    >>> _ = run.update()
    >>> run.step, sorted(run.series)[:2]
    (4, ['lr', 'train/loss'])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        self.path = _file_of(path)
        self.folder = self.path.parent
        self.name = str(path)
        self._place = 0
        self._file_id: tuple[int, int] | None = None
        self._forget()
        self.update()

    def _forget(self) -> None:
        self.series: dict[str, Series] = {}
        self.step = self.epoch = self.epochs = self.batch = 0
        self.batches: int | None = None
        self.devices: tuple[str, ...] = ()
        self.modules: list[tuple[str, str, dict[str, int]]] = []
        self.norms: dict[str, tuple[float, float]] = {}
        self.norms_step = 0
        self.spans: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self.log: list[tuple[float, str]] = []
        self.state = "training"
        self.reason: str | None = None
        self.saves = False
        self.pid: int | None = None
        self.host = ""
        self.began = self.touched = 0.0
        self._anchor: tuple[float, float] | None = None
        self.paused = 0.0
        self._paused_at: float | None = None
        self._output_place = 0
        self._output_rest = b""

    def update(self) -> bool:
        """Reads what was added; whether there was anything.

        Raises:
            RunError: the file is no run's, or it is of a newer version.
        """
        output = self._read_output()
        try:
            stat = self.path.stat()
        except OSError:
            return output  # being replaced by a new training, or the file system is away
        if self._file_id != (stat.st_dev, stat.st_ino) or stat.st_size < self._place:
            if self._file_id is not None:
                self._forget()
            self._file_id, self._place = (stat.st_dev, stat.st_ino), 0
        if stat.st_size == self._place:
            return output
        with self.path.open("rb") as file:
            file.seek(self._place)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        number = 0
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                at = f"byte {self._place}" if self._place else f"line {number}"
                raise RunError(
                    f"{self.path}: this is no file of a run, or it is damaged, at {at}: {error!r}"
                ) from None
        self._place += len(whole)
        return True

    def _take(self, line: dict[str, Any]) -> None:
        kind = line.get("kind")
        self.touched = line.get("time", self.touched)
        if kind is None:
            self._take_record(line)
        elif (take := getattr(self, f"_take_{kind}", None)) is not None:
            take(line)

    def _take_begin(self, line: dict[str, Any]) -> None:
        if line["format"] > FORMAT:
            raise RunError(
                f"{self.path}: it has format {line['format']}, and this ingle-dashboard reads "
                f"formats up to {FORMAT}; upgrade with `pip install --upgrade ingle-dashboard`"
            )
        for series in self.series.values():
            series.cut(line["step"])
        if self.began:
            self.log.append((line["time"], f"resumed after step {line['step']:,}"))
        self.step = line["step"]
        self.epoch, self.epochs = line["epoch"], line["epochs"]
        self.batch, self.batches = 0, None
        self.devices = tuple(line["devices"])
        self.modules = [(path, name, dict(own)) for path, name, own in line["modules"]]
        self.saves = line["saves"]
        self.pid, self.host = line["pid"], line["host"]
        self.began, self.state, self.reason = line["time"], "training", None
        self.paused, self._paused_at, self._anchor = 0.0, None, None

    def _take_steps(self, line: dict[str, Any]) -> None:
        self.step, self.epoch = line["step"], line["epoch"]
        self.batch, self.batches = line["batch"], line["batches"]
        if self._anchor is None and self.done is not None:
            self._anchor = max(0.0, line["time"] - self.began - self.paused), self.done
        self._add("train/loss", line["loss"], self.step)
        self._add("lr", line["lr"], self.step)
        if line["seconds"] > 0:
            self._add("samples/s", line["samples"] / line["seconds"], self.step)
            self._add("steps/s", line["n"] / line["seconds"], self.step)
            self._add("waiting for data", line["data"] / line["seconds"], self.step)

    def _take_spans(self, line: dict[str, Any]) -> None:
        found = {**line["spans"]}
        found["other"] = max(0.0, line["seconds"] - sum(found.values()))
        for name, seconds in found.items():
            old = self.spans.get(name, seconds)
            self.spans[name] = SPAN_MEMORY * old + (1 - SPAN_MEMORY) * seconds

    def _take_norms(self, line: dict[str, Any]) -> None:
        self.norms = {name: (w, g) for name, (w, g) in line["norms"].items()}
        self.norms_step = line["step"]
        total = sum(g * g for _, g in self.norms.values()) ** 0.5
        self._add("gradient norm", total, line["step"])

    def _take_evaluation(self, line: dict[str, Any]) -> None:
        self._numbers(line["record"], line["record"]["step"])

    def _take_epoch(self, line: dict[str, Any]) -> None:
        record = line["record"]
        self.epochs = line["epochs"]
        self.epoch, self.batch = record["epoch"], 0
        # Steps have the loss already, finer.
        fine = {"train/loss", "lr", "seconds", "waited", "epoch"}
        self._numbers({k: v for k, v in record.items() if k not in fine}, record["step"])
        told = [f"{k} {v:.4g}" for k, v in record.items() if "/" in k]
        self.log.append((line["time"], f"epoch {record['epoch']}/{self.epochs}  {'  '.join(told)}"))

    def _take_gauges(self, line: dict[str, Any]) -> None:
        self.gauges = dict(line["gauges"])
        for name in ("process/memory", "process/cpu", "machine/cpu"):
            if name in self.gauges:
                self._add(name, self.gauges[name], self.step)

    def _take_state(self, line: dict[str, Any]) -> None:
        if self._paused_at is not None:
            self.paused += line["time"] - self._paused_at
        self.state = line["state"]
        self._paused_at = line["time"] if self.state == "paused" else None
        if self.state == "paused":
            self.log.append((line["time"], f"paused after step {self.step:,}"))

    def _take_message(self, line: dict[str, Any]) -> None:
        self.log.append((line["time"], line["text"]))

    def _take_end(self, line: dict[str, Any]) -> None:
        self.state, self.reason = "ended", line["reason"]
        self.log.append((line["time"], self.reason or "training is done"))

    def _take_record(self, line: dict[str, Any]) -> None:
        """A line of a `JSONLLogger`."""
        step = line["step"]
        self.step = max(self.step, step)
        self.state = "ended"
        if "epoch" in line:
            self.epoch = self.epochs = line["epoch"]
        if "loss" in line:
            self._add("train/loss", line["loss"], step)
        fine = {"loss", "seconds", "waited", "epoch", "step"}
        if self.series.get("train/loss"):
            fine.add("train/loss")
        self._numbers({k: v for k, v in line.items() if k not in fine}, step)

    def _numbers(self, record: Mapping[str, Any], step: int) -> None:
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)):
                self._add(name, value, step)

    def _add(self, name: str, value: float, step: float) -> None:
        self.series.setdefault(name, Series()).add(step, value)

    def _read_output(self) -> bool:
        """Takes what the training printed into the log."""
        try:
            with (self.folder / OUTPUT).open("rb") as file:
                file.seek(self._output_place)
                data = file.read()
        except OSError:
            return False
        if not data:
            return False
        self._output_place += len(data)
        *lines, self._output_rest = (self._output_rest + data).split(b"\n")
        now = time.time()
        for line in lines:
            # What a carriage return wrote over is not shown.
            text = line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
            self.log.append((now, text))
        return True

    @property
    def status(self) -> str:
        """How the run is doing: "training", "validating", "paused", "finished", "stopped", "lost".

        It is lost if it ended without a word, as by a crash: on this machine its process is gone.
        """
        if self.state == "ended":
            return "finished" if self.reason is None else "stopped"
        if self.pid is not None and self.host == platform.node() and not _alive(self.pid):
            return "lost"
        return self.state

    @property
    def seconds(self) -> float:
        """How long it has been going, without pauses, since it began or was resumed."""
        live = self.status in ("training", "validating")
        now = time.time() if live else self._paused_at or self.touched
        return max(0.0, now - self.began - self.paused)

    @property
    def done(self) -> float | None:
        """The share that is done; None before anybody can say."""
        if not self.epochs:
            return None
        inside = self.batch / self.batches if self.batches else 0.0
        return min(1.0, (self.epoch + inside) / self.epochs)

    @property
    def left(self) -> float | None:
        """The seconds that are left, by the speed so far; None before anybody can say."""
        done = self.done
        if done is None or self._anchor is None or done <= self._anchor[1]:
            return None
        since, from_share = self._anchor
        return (1 - done) * (self.seconds - since) / (done - from_share)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """The run of a folder.

    Raises:
        RunError: there is none, or its file cannot be read.

    >>> import tempfile
    >>> from ingle.dashboard import read_run
    >>> read_run(tempfile.mkdtemp())
    Traceback (most recent call last):
        ...
    ingle.dashboard.reading.RunError: ...
    """
    return Run(folder)


def _file_of(path: Path) -> Path:
    if path.is_file():
        return path
    for name in (FILE, HISTORY):
        if (path / name).is_file():
            return path / name
    if not path.exists():
        raise RunError(f"{path}: there is no such folder")
    inside = sorted(str(p.parent) for p in path.glob(f"*/{FILE}"))
    hint = f"; there are runs in {', '.join(inside[:5])}" if inside else ""
    raise RunError(
        f"{path}: there is no run here: neither {FILE}, which a Dashboard or RunRecorder writes, "
        f"nor {HISTORY} of a JSONLLogger{hint}"
    )


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
