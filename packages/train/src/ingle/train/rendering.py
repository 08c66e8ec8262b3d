"""Between the learner and what shows it: measures steps, and does what is asked by key."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ingle.nn import Module
from ingle.tensor import Gradients

from .callbacks import Callback, Record
from .norms import norms_of
from .renderer import Control, ModuleFacts, Renderer, RunFacts, StepFacts

if TYPE_CHECKING:
    from .learner import Learner

SHARE = 0.005
"""What looking closely at some steps may take of the time of all."""
LONGEST = 60.0
"""Seconds from one look to the next at most: a long one was a machine with other work to do."""
FIRST_LOOK = 3
"""The step of a training that is looked at first: by then the usual kernels are compiled."""


class Rendering(Callback):
    """Tells a renderer what happens, and the learner what was asked for.

    At some steps, chosen so that it costs less than half a percent, the device is waited for
    between forward, backward and update, and norms are taken.

    Args:
        renderer: what shows the training.

    >>> from ingle.train import ConsoleLogger, Rendering
    >>> callback = Rendering(ConsoleLogger())
    """

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.control = Control()
        self._last = 0.0
        self._look_at = 0
        self._rehearsals = 2
        self._took = 0.0
        self._usual = 0.0

    def on_fit_start(self, learner: Learner) -> None:
        self.control = Control()
        self._look_at = learner.steps + FIRST_LOOK
        self._usual = 0.0
        self._rehearsals = 2
        learner.spans.exact = False
        learner.spans.take()
        self.renderer.begin(_facts(learner), self.control)
        self.renderer.state("training")
        self._last = time.perf_counter()

    def on_gradients(self, learner: Learner, gradients: Gradients) -> None:
        if learner.spans.exact:
            begin = time.perf_counter()
            self.renderer.norms(learner.steps + 1, norms_of(learner.model, gradients))
            self._took = time.perf_counter() - begin

    def on_step(self, learner: Learner, loss: float) -> None:
        now = time.perf_counter()
        seconds, exact = now - self._last, learner.spans.exact and not self._rehearsals
        done, total = learner.position
        self.renderer.step(
            StepFacts(
                learner.steps, learner.epoch, done, total, loss, learner.last_lr,
                learner.last_samples, seconds, learner.spans.take(), exact,
            )
        )  # fmt: skip
        self._plan_look(learner, seconds)
        self._obey(learner)
        self._last = time.perf_counter()

    def _plan_look(self, learner: Learner, seconds: float) -> None:
        """Whether the next step is looked at closely, and when the next one is due."""
        if learner.spans.exact and self._rehearsals:
            # A step in pieces has kernels of its own, which were compiled in this one.
            self._rehearsals -= 1
        elif learner.spans.exact:
            extra = self._took + max(0.0, seconds - self._took - self._usual)
            self._look_at = learner.steps + _pause(extra, self._usual)
            self._took = 0.0
        else:
            # The usual length, in which one slow step is forgotten soon.
            self._usual = min(seconds, self._usual * 1.1) if self._usual else seconds
        learner.spans.exact = self.renderer.wants_norms and learner.steps + 1 >= self._look_at

    def _obey(self, learner: Learner) -> None:
        self.renderer.poll()
        if self.control.paused:
            self.renderer.state("paused")
            while self.control.paused and learner.stopped is None:
                time.sleep(0.1)
                self.renderer.poll()
            self.renderer.state("training")
        if self.control.take_checkpoint():
            if learner.checkpoints is None:
                self.renderer.message("no checkpoint: give Learner(..., checkpoints=FOLDER)")
            else:
                learner.checkpoint_now()
        reason = self.control.take_stop()
        if reason is not None:
            learner.stop(reason, now=True)

    def on_evaluate_start(self, learner: Learner) -> None:
        self.renderer.state("validating")

    def on_evaluate_end(self, learner: Learner) -> None:
        self.renderer.state("training")
        self._begin_step(learner)

    def on_evaluation(self, learner: Learner, record: Record) -> None:
        self.renderer.evaluation(record)

    def on_checkpoint(self, learner: Learner, path: Path) -> None:
        self.renderer.message(f"wrote {path}")
        self._begin_step(learner)

    def _begin_step(self, learner: Learner) -> None:
        """The next step begins here, and so do its spans: an epoch's end asks for data, too."""
        self._last = time.perf_counter()
        learner.spans.take()

    def on_epoch(self, learner: Learner, record: Record) -> None:
        self.renderer.epoch(record, learner.epochs)

    def on_fit_end(self, learner: Learner) -> None:
        learner.spans.exact = False
        error = sys.exc_info()[1]
        self.renderer.end(f"{type(error).__name__}: {error}" if error else learner.stopped)


def _pause(extra: float, usual: float) -> int:
    """How many steps to leave alone behind one that took this much longer than usual."""
    if usual <= 0:
        return 10
    return max(10, int(min(extra / SHARE, LONGEST) / usual) + 1)


def _facts(learner: Learner) -> RunFacts:
    return RunFacts(
        epochs=learner.epochs,
        epoch=learner.epoch,
        steps=learner.steps,
        devices=tuple(sorted({str(p.raw.device) for p in learner.model.parameters()})),
        modules=tuple(_module(path, m) for path, m in learner.model.named_modules()),
        saves=learner.checkpoints is not None,
    )


def _module(path: str, module: Module) -> ModuleFacts:
    children = [f"{name}." for name, _ in module.named_children()]
    own = {
        name: p.raw.size
        for name, p in module.named_parameters()
        if not any(name.startswith(child) for child in children)
    }
    return ModuleFacts(path, type(module).__name__, own)
