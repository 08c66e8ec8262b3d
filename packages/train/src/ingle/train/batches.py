"""From a loader's NumPy batches to tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import ingle.tensor as it
from ingle.autodiff import no_grad
from ingle.nn import Module
from ingle.tensor import Device, Tensor

from .errors import TrainingError

if TYPE_CHECKING:
    from .learner import Learner


def to_tensors(batch: Any, model: Module) -> Any:
    """The batch with its arrays as tensors where the model is; what is no array stays."""
    first = next(model.parameters(), None)
    return _convert(batch, None if first is None else first.device)


def to_train_on(batch: Any, learner: Learner) -> Any:
    """The batch as tensors where the model is, augmented and transformed."""
    tensors = to_tensors(batch, learner.model)
    with no_grad():
        if learner.augment is not None:
            tensors = learner.augment(tensors)
        return _transformed(tensors, learner)


def to_evaluate(batch: Any, learner: Learner) -> Any:
    """The batch as tensors where the model is, transformed."""
    return _transformed(to_tensors(batch, learner.model), learner)


def _transformed(tensors: Any, learner: Learner) -> Any:
    return tensors if learner.transform is None else learner.transform(tensors)


def _convert(part: Any, device: Device | None) -> Any:
    if isinstance(part, Tensor):
        return part if device is None else part.to_device(device)
    # Those of other libraries, too, such as what PyTorch's loaders give.
    if isinstance(part, (np.ndarray, np.generic)) or hasattr(part, "__dlpack__"):
        return it.asarray(part, device=device)
    if isinstance(part, (tuple, list)):
        return type(part)(_convert(p, device) for p in part)
    if isinstance(part, dict):
        return {name: _convert(p, device) for name, p in part.items()}
    return part


def detached(outputs: Any) -> Any:
    """What a model gave, cut off from the gradients; what is no tensor stays."""
    if isinstance(outputs, Tensor):
        return outputs.detach()
    if isinstance(outputs, dict):
        return {name: detached(part) for name, part in outputs.items()}
    if isinstance(outputs, tuple) and hasattr(outputs, "_fields"):
        return type(outputs)(*map(detached, outputs))
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(map(detached, outputs))
    return outputs


def targets_of(batch: Any) -> Any:
    """The targets of a batch: the second of two parts, or "targets" of a dict."""
    if isinstance(batch, dict):
        return batch.get("targets")
    return batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None


def samples_in(batch: Any) -> int:
    """How many samples a batch has: the first size of the first array in it."""
    part = batch
    while isinstance(part, (tuple, list, dict)) and part:
        part = next(iter(part.values() if isinstance(part, dict) else part))
    shape = getattr(part, "shape", None)
    if not shape or shape[0] == 0:
        raise TrainingError(
            f"Learner: a batch must begin with an array whose first axis counts its samples, of "
            f"which there is at least one; got {type(part).__name__} of shape {shape}"
        )
    return int(shape[0])
