"""Faults of passes and of plans' steps, after which a graph runs one operation after the other."""

from __future__ import annotations

from ingle.tensor.callers import warn
from ingle.tensor.errors import IngleError, LostDeviceError
from ingle.tensor.interruptions import is_from_outside

from ..errors import PlanWarning
from .plan_codegen import DonationState


class PlanFaults:
    """What has failed of the plans of one graph, which is said once.

    An operation alone has no other way to run, so that what is wrong with its plan is raised.

    Args:
        count: how many operations the graph has.

    Attributes:
        text: what has failed first; empty while nothing has.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._told = False
        self.text = ""

    def note_planning(self, error: Exception) -> None:
        """Notes why no plan can be made; raises what comes from elsewhere, or from a device that is
        lost or has no memory left, which says nothing of the plan."""
        gone = isinstance(error, (LostDeviceError, MemoryError))
        if gone or is_from_outside(error) or self._count == 1:
            raise error
        self.text = f"no plan could be made ({type(error).__name__}: {error})"

    def is_of_plan(self, error: Exception, donation: DonationState | None = None) -> bool:
        """Whether what a plan raised while it ran is a fault of a step that came before anything
        was written over.

        What a device says by itself, as that no memory is left, comes out as it is. The caller
        raises it: an error that a frame of its own traceback holds would hold what the plan ran on.
        """
        return not (
            isinstance(error, (IngleError, MemoryError, Warning))
            or (donation is not None and donation.done)
            or is_from_outside(error)
            or self._count == 1
        )

    def note_running(self, error: Exception) -> None:
        """Notes why a plan cannot be used any more."""
        self.text = f"a plan failed while it ran ({type(error).__name__}: {error})"

    def warn(self) -> None:
        """Says what has failed, if something has and it has not been said."""
        if self.text and not self._told:
            self._told = True
            warn(
                f"{self.text}, so its {self._count} operations run one by one from now on, which "
                "is slower; please report it",
                PlanWarning,
            )
