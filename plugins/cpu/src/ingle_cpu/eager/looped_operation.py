"""An operation that repeats a program, run by a plan of some of its steps.

A plan of all steps is the quickest, and takes as long to make as a hundred runs. Where the
operation comes by itself, what it stands in has no plan yet, and may well come on another length
next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.fusion.device import LoopPlan
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.operation import Op

Run = Callable[[Op, Sequence[Handle | Scalar]], Sequence[Handle]]

OFTEN = 512
"""Runs on the same shapes behind which a plan of all steps is worth it, for which one run waits:
what the operation stands in has its plan long before that."""


class LoopedOperation:
    """Runs it, turn by turn at first.

    Args:
        plan: of some steps, which serves loops of any length.
        whole: makes what runs a plan of all steps.
    """

    def __init__(self, plan: LoopPlan, whole: Callable[[], Run]) -> None:
        self._plan = plan
        self._make = whole
        self._whole: Run | None = None
        self._runs = 0

    def __call__(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Sequence[Handle]:
        if self._whole is not None:
            return self._whole(op, inputs)
        self._runs += 1
        if self._runs > OFTEN:
            self._whole = self._make()
        return self._plan.run(inputs)
