"""Loggers that keep the course of training in a file."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import TYPE_CHECKING, Any

from ingle.nn import atomic_write, writing
from ingle.tensor import argument_checks

from .callbacks import Callback, Record
from .errors import TrainingError

if TYPE_CHECKING:
    from .learner import Learner


class JSONLLogger(Callback):
    """One JSON object a line: `{"step", "loss", "lr"}` for steps, the whole record for epochs,
    `{"step", "valid/..."}` for evaluations by step.

    A new training replaces the file; a resumed one cuts off what came after its checkpoint, so
    that the file looks as if training had never been interrupted.

    Args:
        path: of the file; its folder is made.
        every: log each so many steps; 0 for epochs alone.

    >>> import pathlib, tempfile
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import JSONLLogger, Learner, read_jsonl
    >>> x, model = np.ones((8, 1), np.float32), nn.Linear(1, 1)
    >>> batches = Loader(ArrayDataset(x, x), 4)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss,
    ...                   callbacks=[JSONLLogger(path)], progress=False)
    >>> history = learner.fit(batches, epochs=1)
    >>> [line["step"] for line in read_jsonl(path)], read_jsonl(path)[-1] == history[0]
    ([1, 2, 2], True)
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int = 1) -> None:
        self.path = argument_checks.path("JSONLLogger", "path", path)
        self.every = argument_checks.whole("JSONLLogger", "every", every, least=0)

    def on_fit_start(self, learner: Learner) -> None:
        kept = []
        if learner.steps and self.path.exists():
            kept = [line for line in read_jsonl(self.path) if _before(line, learner)]
        with atomic_write(self.path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())

    def on_step(self, learner: Learner, loss: float) -> None:
        if self.every and learner.steps % self.every == 0:
            self._append({"step": learner.steps, "loss": loss, "lr": learner.last_lr})

    def on_evaluation(self, learner: Learner, record: Record) -> None:
        self._append(record)

    def on_epoch(self, learner: Learner, record: Record) -> None:
        self._append(record)

    def _append(self, line: dict[str, Any]) -> None:
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _before(line: dict[str, Any], learner: Learner) -> bool:
    """Whether a line was written before the checkpoint that the learner stands at."""
    for name, now in (("epoch", learner.epoch), ("step", learner.steps)):
        if isinstance(line.get(name), int):
            return bool(line[name] <= now)
    raise TrainingError(
        f"a line of the log has neither epoch nor step, which no JSONLLogger wrote: {line!r:.80}; "
        "remove it, or the file"
    )


def read_jsonl(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a `JSONLLogger`'s file. A last line that a crash cut off is left out.

    Raises:
        TrainingError: the file cannot be read, or is no log; the message names the line.

    >>> import pathlib, tempfile
    >>> from ingle.train import read_jsonl
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> size = path.write_text('{"step": 1, "loss": 0.5}\\n{"step": 2, "lo')
    >>> read_jsonl(path)
    [{'step': 1, 'loss': 0.5}]
    """
    path = argument_checks.path("read_jsonl", "path", path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise TrainingError(f"{path}: this log cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrainingError(f"{path}: this is no log of a training: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"expected an object, got {record!r:.80}")
            found.append(record)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise TrainingError(
                f"{path}: line {number} is no JSON ({error}); remove the line, or the file"
            ) from None
    return found


class CSVLogger(Callback):
    """The records of all epochs as a table, rewritten as a whole after each epoch.

    Args:
        path: of the file; its folder is made.

    >>> import pathlib, tempfile
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import CSVLogger, Learner
    >>> x, model = np.ones((8, 1), np.float32), nn.Linear(1, 1)
    >>> batches = Loader(ArrayDataset(x, x), 4)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "epochs.csv"
    >>> learner = Learner(model, optim.SGD(model, lr=0.1), it.mse_loss,
    ...                   callbacks=[CSVLogger(path)], progress=False)
    >>> history = learner.fit(batches, epochs=3)
    >>> lines = path.read_text().splitlines()
    >>> lines[0], len(lines)
    ('epoch,step,lr,train/loss,waited,seconds', 4)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = argument_checks.path("CSVLogger", "path", path)

    def on_epoch(self, learner: Learner, record: Record) -> None:
        columns = list(dict.fromkeys(key for r in learner.history for key in r))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(learner.history)
        with atomic_write(self.path) as file:
            file.write(text.getvalue().encode())
