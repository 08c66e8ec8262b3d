"""What a learner is given: classes where objects are meant, and other slips, named at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

from ingle.dataset import IndexedDataset
from ingle.nn import Module
from ingle.optim import Optimizer
from ingle.tensor import Tensor
from ingle.tensor.callers import warn
from ingle.tensor.errors import ArgumentError

from .callbacks import Callback
from .errors import AugmentationWarning, TrainingError
from .metrics import Metric


def check(
    model: object,
    optimizer: object,
    loss: object,
    metrics: Iterable[object],
    callbacks: Iterable[object],
) -> None:
    """Raises `ArgumentError` for what a learner cannot work with."""
    _be("model", model, Module, "a module")
    _be("optimizer", optimizer, Optimizer, "an optimizer of ingle.optim")
    if isinstance(loss, type):
        raise ArgumentError(f"Learner: loss is the class {loss.__name__}; write {loss.__name__}()")
    if loss is not None and not callable(loss):  # none where `forward` is overridden
        raise ArgumentError(
            f"Learner: loss must be a function of outputs and targets, such as it.cross_entropy or "
            f"nn.CrossEntropyLoss(), got {loss!r:.80}"
        )
    check_metrics("Learner", metrics)
    _be_listed("Learner", "callbacks", callbacks)
    for callback in callbacks:
        _be("one of callbacks", callback, Callback, "a callback, such as EarlyStopping()")


def check_functions(**given: object) -> None:
    """Raises `ArgumentError` for what cannot be called with a batch; None is not looked at."""
    for name, function in given.items():
        if function is not None and not callable(function):
            raise ArgumentError(
                f"Learner: {name} must be a function of a batch, got {function!r:.80}"
            )


def check_metrics(call: str, metrics: Iterable[object]) -> None:
    """Raises `ArgumentError` for what are no metrics, such as the targets of an evaluation."""
    if hasattr(metrics, "shape"):
        raise ArgumentError(
            f"{call}: metrics must be a list of metrics, got an array of shape {metrics.shape}; "
            f"targets are in batches with inputs: {call}(Loader(ArrayDataset(x, y), 32))"
        )
    _be_listed(call, "metrics", metrics)
    for metric in metrics:
        _be("one of metrics", metric, Metric, "a metric, such as Accuracy()", call)


def _be_listed(call: str, name: str, given: object) -> None:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(f"{call}: {name} must be a list, got {given!r:.80}; write [...]")


def _be(name: str, given: object, kind: type, meant: str, call: str = "Learner") -> None:
    if isinstance(given, type) and issubclass(given, kind):
        raise ArgumentError(
            f"{call}: {name} is the class {given.__name__}; write {given.__name__}(...)"
        )
    if not isinstance(given, kind):
        raise ArgumentError(f"{call}: {name} must be {meant}, got {given!r:.80}")


def check_batches(call: str, given: object) -> None:
    """Raises `TrainingError` for what gives no batches.

    It is a dataset, each sample of which would be taken for a batch, or cannot be gone through.
    """
    if not (hasattr(type(given), "__iter__") or hasattr(type(given), "__getitem__")):
        called = callable(given) and not isinstance(given, Module)
        cure = "call it, and give what it returns" if called else "write Loader(dataset, 32)"
        raise TrainingError(f"{call}: batches are asked for, got {type(given).__name__}; {cure}")
    if isinstance(given, IndexedDataset):
        raise TrainingError(
            f"{call}: batches are asked for, and a dataset ({type(given).__name__}) gives one "
            "sample at a time: write Loader(dataset, 32, shuffle=True). If what it holds are "
            "batches, write [*dataset]"
        )


def inputs_and_targets(batch: object) -> tuple[Any, Any]:
    """The two parts of a batch; raises `TrainingError` for batches of another form."""
    if not (isinstance(batch, (tuple, list)) and len(batch) == 2):
        told = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
        if isinstance(batch, Tensor):
            told = "; arrays become batches in Loader(ArrayDataset(x, y), 32, shuffle=True)"
        raise TrainingError(
            f"Learner: a batch must be (inputs, targets), got {type(batch).__name__}{told}; "
            "override Learner.forward for batches of another form"
        )
    if isinstance(batch[1], Tensor) and not batch[1].shape:
        raise TrainingError(
            "Learner: the targets of a batch must have an axis for its samples, got shape (): a "
            "single sample? Loader(samples, 32) makes batches; override Learner.forward for "
            "batches of another form"
        )
    return batch[0], batch[1]


def check_augment(augment: object, evaluated: bool) -> None:
    """Warns of an augmentation that changes what trains into numbers of another size."""
    if augment is None or not evaluated:
        return
    from ingle.dataset.augment import Compose, Normalize

    def normalizes(part: object) -> bool:
        if isinstance(part, Compose):
            return any(map(normalizes, part.transforms))
        return isinstance(part, Normalize)

    if normalizes(augment):
        warn(
            "fit: augment has Normalize, which batches to evaluate do not get; give it as "
            "Learner(..., transform=Normalize(...)), which all batches go through",
            AugmentationWarning,
        )


def require_count(name: str, given: object) -> None:
    """Raises `ArgumentError` for what is no number to count up to; infinity is one."""
    if not isinstance(given, Real) or isinstance(given, bool) or not _counts(float(given)):
        raise ArgumentError(f"fit: {name} must be a whole number of at least 0, got {given!r:.80}")


def _counts(number: float) -> bool:
    return number >= 0 and (math.isinf(number) or number.is_integer())


def check_loss(loss: Any) -> None:
    """Raises `TrainingError` for what a loss gave if it is no tensor of one element."""
    if not isinstance(loss, Tensor):
        raise TrainingError(
            f"Learner: the loss must be a tensor, which gradients come from, got "
            f"{type(loss).__name__}; leave out .item() or float() in it"
        )
    if loss.size != 1:
        raise TrainingError(
            f"Learner: the loss must be one number, got shape {loss.shape}; take it.mean of it, or "
            'reduction="mean"'
        )


def require_evaluated(count: int) -> None:
    """Raises `TrainingError` for an evaluation without batches, whose numbers were NaN."""
    if not count:
        raise TrainingError(
            "evaluate: there were no batches; an iterator is used up after it was gone through: "
            "give a Loader or a list, which can be gone through again"
        )


def require_batches(count: int, epoch: int) -> None:
    """Raises `TrainingError` for an epoch without batches."""
    if not count:
        raise TrainingError(
            f"fit: there were no batches in epoch {epoch}; an iterator is used up after one epoch: "
            "give a Loader or a list, which can be gone through again"
        )
