"""What all metrics share: gathering over batches, a state for JSON, checks of shapes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError

from ..other_calls import check_metric

Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]


class Metric:
    """Derive from it, keep what was gathered in plain numbers, and write three methods.

    Attributes:
        name: what it is called in records: "train/NAME", "valid/NAME".
        gathered: names of the attributes that make up its state.

    >>> import ingle.tensor as it
    >>> from ingle.train import Metric
    >>> class Largest(Metric):
    ...     name = "largest"
    ...     gathered = ("value",)
    ...     def __init__(self): self.reset()
    ...     def reset(self): self.value = 0.0
    ...     def update(self, outputs, targets, loss):
    ...         self.value = max(self.value, float(it.max(outputs)))
    ...     def compute(self): return self.value
    >>> metric = Largest()
    >>> metric.update(it.asarray([1.0, 3.0]), it.zeros((2,)), 0.0)
    >>> metric.compute(), metric.state(), metric.fresh().compute()
    (3.0, {'value': 3.0}, 0.0)
    """

    name: str = ""
    gathered: tuple[str, ...] = ()

    def __new__(cls, *args: object, **options: object) -> Self:
        if args or options:
            check_metric(cls, args, options)
        return super().__new__(cls)

    def reset(self) -> None:
        """Forgets everything gathered."""
        raise NotImplementedError

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        """Takes in one batch: what the model gave, what it should have given, the mean loss."""
        raise NotImplementedError

    def compute(self) -> Any:
        """The value over all that was gathered: a float, or an array for what is no number."""
        raise NotImplementedError

    def __call__(self, *batch: object) -> NoReturn:
        name = type(self).__name__
        raise OperandError(
            f"{name}: a metric is no function; write metric.update(outputs, targets, loss) for "
            f"each batch, then metric.compute(), or Learner(..., metrics=[{name}()])"
        )

    def fresh(self) -> Self:
        """A copy that has gathered nothing."""
        new = copy.copy(self)
        new.reset()
        return new

    def state(self) -> dict[str, Any]:
        """What was gathered, as values that JSON can hold without loss."""
        return {key: getattr(self, key) for key in self.gathered}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave."""
        for key in self.gathered:
            setattr(self, key, state[key])


class Mean(Metric):
    """A sum over samples, divided by how many there were; NaN before the first."""

    gathered: tuple[str, ...] = ("total", "count")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.total = 0.0
        self.count = 0

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")


def doubles(array: Tensor) -> Doubles:
    """The numbers on the host, in the width that sums are made in."""
    return array.numpy().astype(np.float64)


def seen(array: Tensor) -> str:
    """How an error shows an argument."""
    if not isinstance(array, Tensor):
        return f"a {type(array).__name__}"
    return f"{array.dtype}{list(array.shape)}"


def check_classes(name: str, outputs: Tensor, targets: Tensor) -> None:
    """Raises unless the classes are on the outputs' last axis and the targets number them."""
    tensors_only(name, outputs, targets)
    if outputs.shape[:-1] != targets.shape or not targets.dtype.is_integer:
        raise ShapeError(
            f"{name}: needs outputs of shape (..., classes) and integer targets of shape (...), "
            f"got {seen(outputs)} and {seen(targets)}{_class_hint(outputs, targets)}"
        )


def _class_hint(outputs: Tensor, targets: Tensor) -> str:
    if outputs.shape == targets.shape:
        if outputs.ndim < 2 or outputs.shape[-1] == 1:
            told = "; where one score says yes or no, 1 - HammingLoss(threshold).compute() is the "
            return told + "share that is right, and FBeta, AUROC and their kin take it, too"
        return "; turn one-hot targets into class numbers with argmax(targets, axis=-1)"
    if outputs.shape[:-1] == targets.shape:
        return '; cast class numbers with targets.astype("int64")'
    if (*outputs.shape[:-1], 1) == targets.shape:
        return "; take the last axis of the targets away with squeeze(targets, axis=-1)"
    return ""


def check_range(name: str, classes: int, targets: Counts) -> None:
    """Raises where a class number is not one of `classes`."""
    if targets.size and (targets.min() < 0 or targets.max() >= classes):
        wrong = int(targets[(targets < 0) | (targets >= classes)][0])
        raise ArgumentError(
            f"{name}: a target is class {wrong}, but the outputs have the {classes} classes 0 to "
            f"{classes - 1}; number classes from 0, and give ignore={wrong} where the metric has "
            "it if this one stands for no class"
        )


def check_same(name: str, outputs: Tensor, targets: Tensor) -> None:
    """Raises unless outputs and targets have one shape."""
    tensors_only(name, outputs, targets)
    if outputs.shape != targets.shape:
        hint = ""
        if outputs.size == targets.size:
            hint = f"; reshape one of them, as with reshape(targets, {outputs.shape})"
        raise ShapeError(
            f"{name}: outputs and targets must have the same shape, got {seen(outputs)} and "
            f"{seen(targets)}{hint}"
        )


def tensors_only(name: str, outputs: Any, targets: Any) -> None:
    """Raises where what is no tensor was given."""
    if not (isinstance(outputs, Tensor) and isinstance(targets, Tensor)):
        raise ArgumentError(
            f"{name}: outputs and targets must be tensors, got {seen(outputs)} and "
            f"{seen(targets)}; override Learner.forward, or give ingle.tensor.asarray(...)"
        )
