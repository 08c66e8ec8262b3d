"""The training loop, to be read from top to bottom: `fit`, an epoch, a step."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.dataset import Loader
from ingle.nn import Module, require_writable
from ingle.optim import Optimizer, clip_grad_norm
from ingle.tensor import Gradients, Tensor
from ingle.tensor.errors import ArgumentError

from . import resuming
from .batches import samples_in, targets_of, to_tensors
from .callbacks import Callback, Record
from .errors import NonFiniteLossError, TrainingError
from .metrics import MeanLoss, Metric
from .progress import ConsoleLogger
from .store import CheckpointStore

Loss = Callable[[Any, Any], Tensor]


class Learner:
    """Trains a model: epochs of steps with metrics, checkpoints and exact resume.

    A batch is `(inputs, targets)`; the model gets the inputs, the loss and the metrics get the
    outputs and the targets. For batches of another form override `forward`.

    Args:
        model: what is trained.
        optimizer: over the model's parameters; its learning rate may be a schedule.
        loss: the mean loss of a batch from outputs and targets.
        metrics: besides the mean loss, gathered in training and validation.
        accumulate: how many batches make up one step; their gradients are averaged by samples.
        max_grad_norm: gradients are scaled down to this global norm.
        checkpoints: where to keep them; a folder, or a `CheckpointStore`.
        checkpoint_every: also write one every so many steps, not only after each epoch.
        callbacks: loggers, early stopping, and one's own.
        progress: whether to show how far training is.

    Attributes:
        steps: how many steps were done.
        epoch: how many epochs were done.
        history: the record of each epoch.
        last_lr: the learning rate of the last step.
        last_loss: the mean loss of the last step.
        position: how many batches of the epoch are done, and how many there are, if that is known.
        stopped: why training ended early; None if it did not.

    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> it.random.seed(0)
    >>> model = nn.Linear(1, 1)
    >>> learner = Learner(model, optim.SGD(model, lr=0.5), it.mse_loss, progress=False)
    >>> history = learner.fit(Loader(ArrayDataset(x, 3 * x + 1), 16), epochs=20)
    >>> round(model.weight.value.item(), 2), round(model.bias.value.item(), 2)
    (3.0, 1.0)
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Loss,
        *,
        metrics: Sequence[Metric] = (),
        accumulate: int = 1,
        max_grad_norm: float | None = None,
        checkpoints: CheckpointStore | str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
    ) -> None:
        _at_least_one("accumulate", accumulate)
        _at_least_one("checkpoint_every", checkpoint_every)
        if checkpoint_every is not None and checkpoints is None:
            raise ArgumentError("Learner: checkpoint_every needs checkpoints=FOLDER")
        if not (checkpoints is None or isinstance(checkpoints, CheckpointStore)):
            checkpoints = CheckpointStore(checkpoints)
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.metrics: list[Metric] = [m.fresh() for m in (MeanLoss(), *metrics)]
        self.accumulate = accumulate
        self.max_grad_norm = max_grad_norm
        self.checkpoints = checkpoints
        self.checkpoint_every = checkpoint_every
        self.callbacks: list[Callback] = [*callbacks, *([ConsoleLogger()] if progress else [])]
        self.steps = 0
        self.epoch = 0
        self.epochs = 0
        self.history: list[Record] = []
        self.last_lr = float("nan")
        self.last_loss = float("nan")
        self.stopped: str | None = None
        self.position: tuple[int, int | None] = (0, None)

    def fit(
        self,
        batches: Iterable[Any],
        *,
        epochs: int,
        valid: Iterable[Any] | None = None,
        resume: bool | str | os.PathLike[str] = False,
    ) -> list[Record]:
        """Trains until `epochs` epochs are done in all, or `stop` is called.

        Args:
            batches: an `ingle.dataset.Loader`, or anything that gives batches each time it is
                iterated over. Only a loader can be resumed within an epoch.
            epochs: how many there shall be, those of earlier calls and of a resumed run included.
            valid: batches to evaluate on after each epoch.
            resume: True continues from the newest checkpoint, or starts anew where there is none;
                a path continues from that file.

        Returns:
            The history: for each epoch its number, the steps so far, the learning rate, the
            metrics as "train/NAME" and "valid/NAME", and the seconds it took.

        Raises:
            NonFiniteLossError: the loss became NaN or infinite; the step was not taken.
            CheckpointError: the checkpoint cannot be read, or the folder holds another training's.
            FileWriteError: a checkpoint or log cannot be written. What was learned until then is
                in the model; calling again goes on with it.
        """
        self.epochs = epochs
        self.stopped = None
        resumed = self._prepare(batches, resume)
        with ExitStack() as stack:
            for callback in self.callbacks:
                callback.on_fit_start(self)
                stack.callback(callback.on_fit_end, self)
            while self.epoch < epochs and self.stopped is None:
                start = time.perf_counter()
                self._train_epoch(batches, resumed)
                resumed = False
                record = self._record(batches)
                if valid is not None:
                    record |= _numbers("valid", self.evaluate(valid))
                record["seconds"] = time.perf_counter() - start
                self._end_epoch(record, batches)
        return self.history

    def _train_epoch(self, batches: Iterable[Any], resumed: bool) -> None:
        """Goes through the batches once, or through what a checkpoint left of them."""
        if not resumed:
            for metric in self.metrics:
                metric.reset()
        self.model.train()
        total = len(batches) if isinstance(batches, Sized) else None
        done = resuming.position(batches) if resumed else 0
        for group in _groups(batches, self.accumulate):
            loss = self.step(group)
            done += len(group)
            self.position = (done, total)
            for callback in self.callbacks:
                callback.on_step(self, loss)
            if self.checkpoint_every and self.steps % self.checkpoint_every == 0:
                self.save(batches)

    def step(self, group: Sequence[Any]) -> float:
        """One step of the optimizer over one batch or several; returns the mean loss.

        If anything raises, weights, buffers, generators and the optimizer are as before.
        """
        self.last_lr = self.optimizer.lr
        with it.transaction():
            sizes = [samples_in(batch) for batch in group]
            loss, grads = 0.0, Gradients({})
            for batch, size in zip(group, sizes, strict=True):
                share = size / sum(sizes)
                batch_loss, batch_grads = self._gradients(batch)
                loss += batch_loss * share
                grads = batch_grads if len(group) == 1 else grads + batch_grads * share
            if self.max_grad_norm is not None:
                grads, _ = clip_grad_norm(grads, self.max_grad_norm)
            self.optimizer.step(grads)
        self.steps += 1
        self.last_loss = loss
        return loss

    def _gradients(self, batch: Any) -> tuple[float, Gradients]:
        tensors = to_tensors(batch, self.model)
        outputs, loss = self.forward(tensors)
        value = float(loss)
        if not math.isfinite(value):
            raise NonFiniteLossError(self._explain(value, tensors), self.steps)
        with no_grad():
            for metric in self.metrics:
                metric.update(outputs.detach(), targets_of(tensors), value)
        return value, loss.backward()

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        """What the model makes of a batch of tensors, and the loss."""
        if not (isinstance(batch, tuple) and len(batch) == 2):
            raise TrainingError(
                f"Learner: a batch must be (inputs, targets), got {type(batch).__name__}"
                f"{f' of {len(batch)}' if isinstance(batch, tuple) else ''}; "
                "override Learner.forward for batches of another form"
            )
        inputs, targets = batch
        outputs = self.model(inputs)
        return outputs, self.loss(outputs, targets)

    def evaluate(
        self, batches: Iterable[Any], metrics: Sequence[Metric] | None = None
    ) -> dict[str, Any]:
        """The metrics over batches, with the model in evaluation mode, by name."""
        if isinstance(batches, Loader):
            batches.epoch = self.epoch  # so that a shuffled one has the same order when resumed
        gathered = [m.fresh() for m in (self.metrics if metrics is None else metrics)]
        was_training = self.model.training
        self.model.eval()
        try:
            with no_grad():
                for batch in batches:
                    tensors = to_tensors(batch, self.model)
                    outputs, loss = self.forward(tensors)
                    for metric in gathered:
                        metric.update(outputs, targets_of(tensors), float(loss))
        finally:
            self.model.train(was_training)
        return {m.name: m.compute() for m in gathered}

    def stop(self, reason: str) -> None:
        """Ends training after this epoch."""
        self.stopped = reason

    def save(self, batches: Iterable[Any], record: Record | None = None) -> Path:
        """Writes a checkpoint of everything that training depends on.

        Raises:
            NonFiniteLossError: a weight is NaN or infinite; older checkpoints are left alone.
        """
        if self.checkpoints is None:
            raise TrainingError("Learner.save: give Learner(..., checkpoints=FOLDER)")
        self._require_finite_weights()
        state = resuming.collect(self, batches)
        return self.checkpoints.save(self.steps, self._parts(), state, record)

    def _parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer}

    def _prepare(self, batches: Iterable[Any], resume: bool | str | os.PathLike[str]) -> bool:
        """Loads the checkpoint asked for; whether training continues within an epoch."""
        store = self.checkpoints
        if store is None:
            if resume is not False:
                raise TrainingError("fit: resume needs Learner(..., checkpoints=FOLDER)")
            return False
        require_writable(store.folder)
        store.clean()
        if resume is False:
            if self.steps == 0 and store.paths():
                raise TrainingError(
                    f"fit: {store.folder} holds checkpoints of another training. Continue it with "
                    "resume=True, choose another folder, or delete them with "
                    "CheckpointStore(folder).clear()"
                )
            return False
        path = store.latest() if resume is True else Path(resume)
        if path is None:
            return False
        with it.transaction():
            return resuming.restore(self, batches, store.load(path, self._parts()))

    def _end_epoch(self, record: Record, batches: Iterable[Any]) -> None:
        self.epoch += 1
        record["epoch"] = self.epoch
        self.history.append(record)
        for callback in self.callbacks:
            callback.on_epoch(self, record)
        if self.checkpoints is not None:
            self.save(batches, record)

    def _record(self, batches: Iterable[Any]) -> Record:
        record: Record = {"epoch": self.epoch + 1, "step": self.steps, "lr": self.last_lr}
        record |= _numbers("train", {m.name: m.compute() for m in self.metrics})
        if isinstance(batches, Loader):
            record["waited"] = batches.stats.waited
        return record

    def _explain(self, value: float, batch: Any) -> str:
        bad = [t for t in _tensors(batch) if t.dtype.is_inexact and not it.all(it.isfinite(t))]
        last = f"{self.last_loss:.6g}" if math.isfinite(self.last_loss) else "none yet"
        advice = (
            "This batch itself holds NaN or infinite numbers: clean the data"
            if bad
            else "Try a smaller learning rate, a warm-up schedule or max_grad_norm=1.0, and look "
            "for logs or divisions of 0 in the model and the loss"
        )
        return (
            f"the loss is {value} at step {self.steps} (epoch {self.epoch + 1}, learning rate "
            f"{self.last_lr:.3g}; last finite loss: {last}). {self._kept()} {advice}"
        )

    def _kept(self) -> str:
        found = self.checkpoints.latest() if self.checkpoints is not None else None
        kept = f"; the last good checkpoint is {found}" if found else ""
        return f"The step was not taken and the weights are those before it{kept}."

    def _require_finite_weights(self) -> None:
        for name, parameter in self.model.named_parameters():
            if not it.all(it.isfinite(parameter.raw)):
                raise NonFiniteLossError(
                    f"the weights {name!r} are NaN or infinite after step {self.steps} (learning "
                    f"rate {self.last_lr:.3g}, last loss {self.last_loss:.6g}), so no checkpoint "
                    "was written and older ones were left alone. Resume from one of them with a "
                    "smaller learning rate or max_grad_norm=1.0",
                    self.steps,
                )


def _groups(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    running = iter(batches)
    while group := list(islice(running, size)):
        yield group


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, (tuple, list, dict)):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from _tensors(part)


def _numbers(prefix: str, values: dict[str, Any]) -> Record:
    """Those of the metrics that are numbers; a confusion matrix has no place in a record."""
    return {f"{prefix}/{k}": v for k, v in values.items() if isinstance(v, (int, float))}


def _at_least_one(name: str, value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or value < 1):
        raise ArgumentError(f"Learner: {name} must be at least 1, got {value}")
