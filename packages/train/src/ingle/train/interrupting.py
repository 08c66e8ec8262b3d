"""Ctrl-C during training: the step is finished and saved before the program ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import TrainingInterruptedError

if TYPE_CHECKING:
    from .learner import Learner


@contextmanager
def gently(learner: Learner) -> Iterator[None]:
    """The first Ctrl-C inside ends training after the step; a second one interrupts at once.

    Where the program handles Ctrl-C itself, or this is not its main thread, nothing is changed.

    Raises:
        TrainingInterruptedError: at the end, if there was one.
    """
    usual = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    interrupted = False

    def end(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, usual)
        learner.stop("interrupted by Ctrl-C", now=True)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if interrupted:
        raise _told(learner)


def _told(learner: Learner) -> TrainingInterruptedError:
    epoch = min(learner.epoch + 1, learner.epochs)  # it may have come behind the last step
    where = f"interrupted after step {learner.steps}, in epoch {epoch}"
    path = learner.checkpoints.latest() if learner.checkpoints is not None else None
    advice = (
        f"the checkpoint is {path}; go on with fit(..., resume=True)"
        if path
        else "the weights are those after this step, and no checkpoint was written; with "
        "Learner(..., checkpoints=FOLDER) training can go on later with fit(..., resume=True)"
    )
    return TrainingInterruptedError(f"{where}: {advice}", learner.steps, path)
