"""When a training writes checkpoints, what goes into them, and how it continues from one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingle.nn import StateError, require_writable
from ingle.tensor import transaction
from ingle.tensor.argument_checks import number
from ingle.tensor.errors import ArgumentError

from . import nonfinite, resuming
from .callbacks import Record
from .errors import TrainingError
from .store import CheckpointStore

if TYPE_CHECKING:
    from .learner import Learner


class Checkpoints:
    """The checkpoints of a learner.

    Args:
        store: where they go; None for none.
        every: one every so many steps.
        seconds: one after the step at which the last is this old.
    """

    def __init__(
        self,
        store: CheckpointStore | str | os.PathLike[str] | None,
        every: int | None,
        seconds: float | None,
    ) -> None:
        if seconds is not None and not number("Learner", "checkpoint_seconds", seconds) > 0:
            raise ArgumentError(f"Learner: checkpoint_seconds must be positive, got {seconds}")
        for name, given in (("every", every), ("seconds", seconds)):
            if given is not None and store is None:
                raise ArgumentError(f"Learner: checkpoint_{name} needs checkpoints=FOLDER")
        if not (store is None or isinstance(store, CheckpointStore)):
            store = CheckpointStore(store)
        self.store = store
        self.every = every
        self.seconds = seconds
        self.wanted = False
        self._saved_at = 0.0

    def due(self, steps: int, found: Record | None, *, ending: bool = False) -> bool:
        """Whether to write one after this step, of whose evaluation these are the numbers."""
        if self.store is None:
            return False
        return (
            ending
            or self.wanted
            or bool(self.every and steps % self.every == 0)
            or (self.seconds is not None and time.monotonic() - self._saved_at >= self.seconds)
            or (found is not None and self.store.monitor in found)
        )

    def save(self, learner: Learner, batches: Iterable[Any], record: Record | None) -> Path:
        """Writes one of everything that training depends on."""
        if self.store is None:
            raise TrainingError("Learner.save: give Learner(..., checkpoints=FOLDER)")
        nonfinite.require_finite_weights(learner)
        state = resuming.collect(learner, batches)
        # Within an epoch there are no numbers of training yet: they tell nothing of the best.
        if record is not None and not {"epoch", self.store.monitor} & record.keys():
            record = None
        path = self.store.save(learner.steps, parts(learner), state, record)
        self._saved_at = time.monotonic()
        self.wanted = False
        return path

    def finish(self) -> None:
        """Waits until all are written."""
        if self.store is not None:
            self.store.wait()

    def prepare(
        self, learner: Learner, batches: Iterable[Any], resume: bool | str | os.PathLike[str]
    ) -> resuming.Left:
        """Loads the checkpoint asked for; what is left of the epoch that it was written in."""
        self._saved_at = time.monotonic()
        self.wanted = False
        store = self.store
        if store is None:
            if resume is not False:
                raise TrainingError("fit: resume needs Learner(..., checkpoints=FOLDER)")
            return resuming.Left.ALL
        require_writable(store.folder)
        store.clean()
        if resume is False:
            if learner.steps == 0 and store.paths():
                raise TrainingError(
                    f"fit: {store.folder} holds checkpoints of another training. Continue it with "
                    "resume=True, choose another folder, or delete them with "
                    "CheckpointStore(folder).clear()"
                )
            return resuming.Left.ALL
        path = store.latest() if resume is True else Path(resume)
        if path is None:
            return resuming.Left.ALL
        with transaction():
            try:
                state = store.load(path, parts(learner))
            except StateError as error:
                raise StateError(
                    f"cannot resume from {path}: it is a checkpoint of another model or optimizer, "
                    f"and nothing was changed; build these as they were, or choose another folder. "
                    f"{error}"
                ) from None
            return resuming.restore(learner, batches, state)


def parts(learner: Learner) -> dict[str, Any]:
    """What of a learner has a `state_dict`, by name."""
    found: dict[str, Any] = {"model": learner.model, "optimizer": learner.optimizer}
    if learner.scaler.enabled:
        found["scaler"] = learner.scaler
    for i, callback in enumerate(learner.callbacks):
        found |= {f"callbacks.{i}.{name}": part for name, part in callback.parts().items()}
    return found
