"""The training loop, to be read from top to bottom: `fit`, an epoch, a step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.dataset import Loader
from ingle.nn import Module
from ingle.optim import LossScaler, Optimizer, clip_grad_norm
from ingle.tensor import Device, DType, Gradients, Tensor
from ingle.tensor.argument_checks import number, whole
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.errors import ArgumentError
from ingle.tensor.other_names import let_properties_raise

from . import arguments, batch_gradients, interrupting, nonfinite, other_calls
from .batches import samples_in, targets_of, to_evaluate
from .callbacks import Callback, Record
from .checkpointing import Checkpoints
from .errors import NonFiniteLossError, TrainingError
from .metrics import MeanLoss, Metric
from .named_loggers import Loggers, make_loggers
from .progress import ConsoleLogger
from .renderer import Renderer
from .rendering import Rendering
from .resuming import Left
from .spans import Spans
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
        augment: what is done with batches to train on, as tensors where the model is: those of
            `ingle.dataset.augment`, or any function. Metrics get the targets that it gives.
        transform: what is done with all batches, behind `augment` and in evaluations: `Normalize`.
        max_grad_norm: gradients are scaled down to this global norm.
        precision: `"bfloat16"` or `"float16"` for mixed precision, in training and validation; with
            float16 the loss is scaled, and a step whose gradients overflow is left out.
        checkpoints: where to keep them; a folder, or a `CheckpointStore`.
        checkpoint_every: also write one every so many steps, not only after each epoch.
        checkpoint_seconds: also write one after the step at which the last is this old.
        devices: where parts of each batch are computed side by side, by `ingle-router`: the
            gradients are those of the whole batch, and the parameters stay where they are.
        callbacks: early stopping, loggers that are made already, and one's own.
        loggers: what keeps the numbers, by name, and where: `{"tensorboard": "runs/first"}`. Names
            are those of `ingle.train.loggers()`; instead of a place, a dict says what a logger is
            called with.
        progress: whether to show how far training is; or a `Renderer` that does, such as
            `ingle.dashboard.Dashboard()`.

    Attributes:
        steps: how many steps were done.
        epoch: how many epochs were done.
        history: the record of each epoch.
        last_lr: the learning rate of the last step.
        last_loss: the mean loss of the last step.
        last_samples: how many samples went into it.
        position: how many batches of the epoch are done, and how many there are, if that is known.
        spans: where the time of the running step goes.
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

    @other_calls.explained(other_calls.LEARNER)
    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Loss,
        *,
        metrics: Sequence[Metric] = (),
        accumulate: int = 1,
        augment: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        max_grad_norm: float | None = None,
        precision: str | DType | None = None,
        checkpoints: CheckpointStore | str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        checkpoint_seconds: float | None = None,
        devices: Sequence[Device | str] = (),
        callbacks: Sequence[Callback] = (),
        loggers: Loggers | None = None,
        progress: bool | Renderer = True,
    ) -> None:
        _at_least_one("accumulate", accumulate)
        _at_least_one("checkpoint_every", checkpoint_every)
        arguments.check(model, optimizer, loss, metrics, callbacks)
        arguments.check_functions(augment=augment, transform=transform)
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.metrics: list[Metric] = [m.fresh() for m in (MeanLoss(), *metrics)]
        _different_names(self.metrics)
        self.accumulate, self.augment, self.transform = accumulate, augment, transform
        self.max_grad_norm = (
            None if max_grad_norm is None else number("Learner", "max_grad_norm", max_grad_norm)
        )
        self.precision = None if precision is None else as_dtype(precision)
        it.precision(self.precision)  # refuses other dtypes
        self.scaler = LossScaler(enabled=self.precision is it.float16)
        self._checkpoints = Checkpoints(checkpoints, checkpoint_every, checkpoint_seconds)
        self.devices = batch_gradients.checked(devices)
        self.callbacks: list[Callback] = [*callbacks, *make_loggers(loggers or {})]
        if progress is not False:
            shown = ConsoleLogger() if progress is True else progress
            self.callbacks.append(Rendering(shown))
        self.spans = Spans()
        self.steps = 0
        self.epoch = 0
        self.epochs = 0
        self.history: list[Record] = []
        self.last_lr = float("nan")
        self.last_loss = float("nan")
        self.last_samples = 0
        self.stopped: str | None = None
        self.position: tuple[int, int | None] = (0, None)
        self._ends_now = False
        self._evaluated: tuple[int, Record] | None = None

    def __getattr__(self, name: str) -> NoReturn:
        let_properties_raise(self, name)
        raise other_calls.missing(name)

    @other_calls.explained(other_calls.FIT, arrays=True)
    def fit(
        self,
        batches: Iterable[Any],
        *,
        epochs: int,
        valid: Iterable[Any] | None = None,
        valid_every: int | None = None,
        resume: bool | str | os.PathLike[str] = False,
    ) -> list[Record]:
        """Trains until `epochs` epochs are done in all, or `stop` is called.

        Args:
            batches: an `ingle.dataset.Loader`, or anything that gives batches each time it is
                iterated over. Only a loader can be resumed within an epoch.
            epochs: how many there shall be, those of earlier calls and of a resumed run included.
            valid: batches to evaluate on after each epoch.
            valid_every: also evaluate every so many steps, with `Callback.on_evaluation`. If the
                store of checkpoints monitors one of these numbers, each evaluation writes one.
            resume: True continues from the newest checkpoint, or starts anew where there is none;
                a path continues from that file.

        Returns:
            The history: for each epoch its number, the steps so far, the learning rate, the
            metrics as "train/NAME" and "valid/NAME", and the seconds it took.

        Raises:
            TrainingError: what was given are samples and no batches.
            NonFiniteLossError: the loss became NaN or infinite; the step was not taken.
            CheckpointError: the checkpoint cannot be read, or the folder holds another training's.
            FileWriteError: a checkpoint or log cannot be written. What was learned until then is
                in the model; calling again goes on with it.
            TrainingInterruptedError: Ctrl-C was pressed. The step was finished and, if there is
                a folder for it, a checkpoint written; pressed twice, Ctrl-C ends at once.
        """
        _at_least_one("valid_every", valid_every)
        arguments.require_count("epochs", epochs)
        arguments.check_batches("fit", batches)
        if valid is not None:
            arguments.check_batches("fit", valid)
        if valid_every is not None and valid is None:
            raise ArgumentError("fit: valid_every needs fit(..., valid=...)")
        self.epochs = epochs
        self.stopped = None
        self._ends_now = False
        self._evaluated = None
        arguments.check_augment(self.augment, valid is not None)
        left = self._checkpoints.prepare(self, batches, resume)
        with interrupting.gently(self), ExitStack() as stack:
            stack.callback(self._checkpoints.finish)
            for callback in self.callbacks:
                callback.on_fit_start(self)
                stack.callback(callback.on_fit_end, self)
            while self.epoch < epochs and self.stopped is None:
                start = time.perf_counter()
                self._train_epoch(batches, left, valid, valid_every)
                left = Left.ALL
                if self._ends_now:
                    break
                record = self._record(batches)
                if valid is not None:
                    record |= self._validation(valid)
                record["seconds"] = time.perf_counter() - start
                self._end_epoch(record, batches)
        return self.history

    def _train_epoch(
        self,
        batches: Iterable[Any],
        left: Left,
        valid: Iterable[Any] | None,
        valid_every: int | None,
    ) -> None:
        """Goes through the batches once, or through what a checkpoint left of them."""
        if left is Left.ALL:
            for metric in self.metrics:
                metric.reset()
        self.model.train()
        total = len(batches) if isinstance(batches, Sized) else None
        done = 0 if left is Left.ALL else self.position[0]
        for group in () if left is Left.NONE else self._groups(batches):
            loss = self.step(group)
            done += len(group)
            self.position = (done, total)
            for callback in self.callbacks:
                callback.on_step(self, loss)
            found = None
            if valid is not None and valid_every and self.steps % valid_every == 0:
                found = {"step": self.steps, **self._validation(valid)}
                for callback in self.callbacks:
                    callback.on_evaluation(self, found)
            if self._checkpoints.due(self.steps, found, ending=self._ends_now):
                self.save(batches, found)
            if self._ends_now:
                break
        arguments.require_batches(done, self.epoch + 1)

    def _validation(self, valid: Iterable[Any]) -> Record:
        """The numbers of an evaluation after this step, which is made only once."""
        if self._evaluated is None or self._evaluated[0] != self.steps:
            self._evaluated = (self.steps, _numbers("valid", self.evaluate(valid)))
        return self._evaluated[1]

    def _groups(self, batches: Iterable[Any]) -> Iterator[list[Any]]:
        """The batches of each step."""
        running = iter(batches)
        while True:
            with self.spans("data"):
                group = list(islice(running, self.accumulate))
            if not group:
                return
            yield group

    def step(self, group: Sequence[Any]) -> float:
        """One step of the optimizer over one batch or several; returns the mean loss.

        If anything raises, weights, buffers, generators and the optimizer are as before.

        Raises:
            NonFiniteLossError: the loss is NaN or infinite; the message names the operation and the
                module it comes from, which the batches are run again for.
        """
        try:
            loss = self._step(group)
        except NonFiniteLossError as error:
            raise nonfinite.located(self, group, error) from None
        self.steps += 1
        self.last_loss = loss
        return loss

    def _step(self, group: Sequence[Any]) -> float:
        self.last_lr = self.optimizer.lr
        with it.transaction():
            sizes = [samples_in(batch) for batch in group]
            loss, grads = 0.0, Gradients({})
            for batch, size in zip(group, sizes, strict=True):
                share = size / sum(sizes)
                batch_loss, batch_grads = batch_gradients.compute(self, batch)
                loss += batch_loss * share
                grads = batch_grads if len(group) == 1 else grads + batch_grads * share
            grads = self.scaler.unscale(grads)
            for callback in self.callbacks:
                callback.on_gradients(self, grads)
            begin = time.perf_counter()
            if self.max_grad_norm is not None:
                grads, _ = clip_grad_norm(grads, self.max_grad_norm)
            self.scaler.step(self.optimizer, grads, unscaled=True)
            self.scaler.update()
        # Behind the transaction: its end asks for all that is not computed yet.
        batch_gradients.wait(self)
        self.spans.add("optimizer", begin, time.perf_counter())
        self.last_samples = sum(sizes)
        return loss

    def forward_precisely(self, batch: Any) -> tuple[Any, Tensor]:
        """`forward`, with the learner's precision."""
        if self.precision is None:  # or what surrounds the call
            return self.forward(batch)
        with it.precision(self.precision):
            return self.forward(batch)

    def forward(self, batch: Any) -> tuple[Any, Tensor]:
        """What the model makes of a batch of tensors, and the loss.

        The outputs go to the metrics: a tensor, or tuples, lists and dicts of tensors.
        """
        inputs, targets = arguments.inputs_and_targets(batch)
        outputs = self.model(inputs)
        return outputs, self.loss(outputs, targets)

    @other_calls.explained(other_calls.EVALUATE, arrays=True)
    def evaluate(
        self, batches: Iterable[Any], metrics: Sequence[Metric] | None = None
    ) -> dict[str, Any]:
        """The metrics over batches, at least one, with the model in evaluation mode, by name."""
        arguments.check_batches("evaluate", batches)
        arguments.check_metrics("evaluate", () if metrics is None else metrics)
        if isinstance(batches, Loader):
            batches.epoch = self.epoch  # so that a shuffled one has the same order when resumed
        gathered = [m.fresh() for m in (self.metrics if metrics is None else metrics)]
        was_training = self.model.training
        self.model.eval()
        with ExitStack() as stack:
            stack.callback(self.model.train, was_training)
            for callback in self.callbacks:
                callback.on_evaluate_start(self)
                stack.callback(callback.on_evaluate_end, self)
            count = 0
            with no_grad():
                for batch in batches:
                    count += 1
                    tensors = to_evaluate(batch, self)
                    outputs, loss = self.forward_precisely(tensors)
                    for metric in gathered:
                        metric.update(outputs, targets_of(tensors), float(loss))
        arguments.require_evaluated(count)
        return {m.name: m.compute() for m in gathered}

    def stop(self, reason: str, *, now: bool = False) -> None:
        """Ends training after this epoch; or `now`, after this step and a checkpoint of it."""
        self.stopped = reason
        self._ends_now = self._ends_now or now

    def checkpoint_now(self) -> None:
        """Asks for a checkpoint after the step that is running."""
        if self.checkpoints is None:
            raise TrainingError("Learner.checkpoint_now: give Learner(..., checkpoints=FOLDER)")
        self._checkpoints.wanted = True

    def save(self, batches: Iterable[Any], record: Record | None = None) -> Path:
        """Writes a checkpoint of everything that training depends on.

        Raises:
            NonFiniteLossError: a weight is NaN or infinite; older checkpoints are left alone.
        """
        path = self._checkpoints.save(self, batches, record)
        for callback in self.callbacks:
            callback.on_checkpoint(self, path)
        return path

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Where checkpoints are kept; None if there are none."""
        return self._checkpoints.store

    def _end_epoch(self, record: Record, batches: Iterable[Any]) -> None:
        self.epoch += 1
        record["epoch"] = self.epoch
        self.history.append(record)
        for callback in self.callbacks:
            callback.on_epoch(self, record)
        self.position = (0, self.position[1])
        if self.checkpoints is not None:
            self.save(batches, record)

    def _record(self, batches: Iterable[Any]) -> Record:
        record: Record = {"epoch": self.epoch + 1, "step": self.steps, "lr": self.last_lr}
        record |= _numbers("train", {m.name: m.compute() for m in self.metrics})
        if isinstance(batches, Loader):
            record["waited"] = batches.stats.waited
        return record


def _numbers(prefix: str, values: dict[str, Any]) -> Record:
    """Those of the metrics that are numbers; a confusion matrix has no place in a record."""
    return {f"{prefix}/{k}": v for k, v in values.items() if isinstance(v, (int, float))}


def _at_least_one(name: str, value: int | None) -> None:
    if value is not None:
        whole("Learner", name, value, least=1)


def _different_names(metrics: Sequence[Metric]) -> None:
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(
                f"Learner: {names.count(name)} metrics are called {name!r}, so that a record could "
                "hold only one of them; set the attribute `name` of the others"
            )
