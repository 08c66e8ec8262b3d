"""What a training depends on besides the weights, so that it resumes bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from enum import Enum
from typing import TYPE_CHECKING, Any

from ingle.dataset import DatasetError, Loader
from ingle.nn import CheckpointError, Module
from ingle.tensor import transaction
from ingle.tensor.errors import IngleError
from ingle.tensor.random import Generator, default_generator

if TYPE_CHECKING:
    from .learner import Learner


def collect(learner: Learner, batches: Iterable[Any]) -> dict[str, Any]:
    """Counters, positions, generators and what metrics and callbacks hold, for JSON."""
    return {
        "steps": learner.steps,
        "epoch": learner.epoch,
        "last_lr": learner.last_lr,
        "last_loss": learner.last_loss,
        "stopped": learner.stopped,
        "history": learner.history,
        "done": learner.position[0],
        "loader": batches.state() if isinstance(batches, Loader) else None,
        "metrics": [m.state() for m in learner.metrics],
        "callbacks": [c.state() for c in learner.callbacks],
        "generators": {name: list(g.state) for name, g in generators(learner.model)},
    }


class Left(Enum):
    """What of its batches the first epoch still has: all, those of a loader, or none."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


def restore(learner: Learner, batches: Iterable[Any], state: dict[str, Any]) -> Left:
    """Takes back what `collect` gave.

    Raises:
        CheckpointError: the state was collected of another training, or makes no sense.
        DatasetError: the loader is not as it was.
    """
    try:
        return _restore(learner, batches, state)
    except (IngleError, DatasetError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise CheckpointError(
            f"cannot resume: the state of the training in this checkpoint makes no sense "
            f"({error!r:.200}); resume from another one, or start anew"
        ) from error


def _restore(learner: Learner, batches: Iterable[Any], state: dict[str, Any]) -> Left:
    steps, epoch, done = int(state["steps"]), int(state["epoch"]), int(state["done"])
    last_lr, last_loss = float(state["last_lr"]), float(state["last_loss"])
    history = [dict(record) for record in state["history"]]
    _same("metrics", len(state["metrics"]), len(learner.metrics))
    found = dict(generators(learner.model))
    _same("random generators", sorted(state["generators"]), sorted(found))
    if state["loader"] is not None:
        if not isinstance(batches, Loader):
            raise CheckpointError(
                f"cannot resume: training was done with a loader, got {type(batches).__name__}; "
                "give the ingle.dataset.Loader that it was"
            )
        batches.load_state(state["loader"])
    with transaction():
        for name, generator in found.items():
            generator.state = tuple(state["generators"][name])
    learner.steps, learner.epoch = steps, epoch
    learner.last_lr, learner.last_loss = last_lr, last_loss
    learner.history[:] = history
    for metric, saved in zip(learner.metrics, state["metrics"], strict=True):
        metric.load_state(saved)
    for callback, saved in zip(learner.callbacks, state["callbacks"], strict=False):
        callback.load_state(saved)
    return _left(learner, batches, done)


def _left(learner: Learner, batches: Iterable[Any], done: int) -> Left:
    total = len(batches) if isinstance(batches, Sized) else None
    learner.position = (done, total)
    if not done:
        return Left.ALL
    if isinstance(batches, Loader):
        # A loader is at its next epoch as soon as it was asked for more than the last batch.
        return Left.SOME if batches.state()["batch"] else Left.NONE
    # Other batches begin anew, unless they were at their end: what is behind them is not done yet.
    if done == total:
        return Left.NONE
    learner.position = (0, total)
    return Left.ALL


def generators(model: Module) -> Iterator[tuple[str, Generator]]:
    """The default generator, under the empty name, and those that modules hold, by path."""
    seen = {id(default_generator())}
    yield "", default_generator()
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Generator) and id(value) not in seen:
                seen.add(id(value))
                yield f"{path}.{name}" if path else name, value


def _same(what: str, saved: Any, have: Any) -> None:
    if saved != have:
        raise CheckpointError(
            f"cannot resume: the checkpoint was written with {saved} as its {what}, this learner "
            f"has {have}; build it as it was"
        )
