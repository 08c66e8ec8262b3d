"""What is said of a loss or a weight that became NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import AnomalyError

from .batches import to_train_on
from .errors import NonFiniteLossError

if TYPE_CHECKING:
    from .learner import Learner


class _UndoneError(Exception):
    """Takes back what a run for its messages alone did to buffers and generators."""


def error(learner: Learner, value: float, batch: Any) -> NonFiniteLossError:
    """The error about a loss of this value."""
    bad = any(t.dtype.is_inexact and not it.all(it.isfinite(t)) for t in _tensors(batch))
    spoilt = _bad_weights(learner)
    last = f"{learner.last_loss:.6g}" if math.isfinite(learner.last_loss) else "none yet"
    advice = (
        "This batch itself holds NaN or infinite numbers: clean the data"
        if bad
        else f"The weights {spoilt!r} are NaN or infinite already, from gradients of an earlier "
        "step: error_if_nonfinite=True of the optimizer stops at that step"
        if spoilt
        else "Try a smaller learning rate, a warm-up schedule or max_grad_norm=1.0, and look "
        "for logs or divisions of 0 in the model and the loss"
    )
    return NonFiniteLossError(
        f"the loss is {value} at step {learner.steps} (epoch {learner.epoch + 1}, learning rate "
        f"{learner.last_lr:.3g}; last finite loss: {last}). {_kept(learner)} {advice}",
        learner.steps,
        value,
    )


def located(learner: Learner, group: Sequence[Any], told: NonFiniteLossError) -> NonFiniteLossError:
    """The error with the operation and the module that gave the first NaN, if a run shows one.

    The batches of the step run forward again, from the state before it and with every result
    watched; afterwards all is as before.
    """
    # Infinities are looked for where the loss is one; elsewhere they may be meant, as in masks.
    infinite = not math.isnan(told.value)
    try:
        with it.transaction(), it.anomaly(infinite=infinite):
            for batch in group:
                learner.forward(to_train_on(batch, learner))
            raise _UndoneError
    except AnomalyError as found:
        return NonFiniteLossError(f"{told}. It comes from {found}", told.step, told.value)
    except _UndoneError:
        return told


def require_finite_weights(learner: Learner) -> None:
    """Raises `NonFiniteLossError` for the first weight that is NaN or infinite."""
    name = _bad_weights(learner)
    if name is not None:
        raise NonFiniteLossError(
            f"the weights {name!r} are NaN or infinite after step {learner.steps} (learning "
            f"rate {learner.last_lr:.3g}, last loss {learner.last_loss:.6g}), so no checkpoint "
            "was written and older ones were left alone. Resume from one of them with a "
            "smaller learning rate or max_grad_norm=1.0",
            learner.steps,
        )


def _bad_weights(learner: Learner) -> str | None:
    """The name of the first parameter that is not finite."""
    for name, parameter in learner.model.named_parameters():
        if not it.all(it.isfinite(parameter.raw)):
            return name
    return None


def _kept(learner: Learner) -> str:
    found = learner.checkpoints.latest() if learner.checkpoints is not None else None
    kept = f"; the last good checkpoint is {found}" if found else ""
    return f"The step was not taken and the weights are those before it{kept}."


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, (tuple, list, dict)):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from _tensors(part)
