"""Plans of a device that works by itself: who waits for their checks, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingle.tensor.blocks import holding
from ingle.tensor.contract import Handle

from ..fusion import Fusion
from ..ir.graph import Graph
from .graph_plans import GraphPlans
from .pending_checks import PendingChecks, within_plan
from .plan_codegen import DonationState


class CheckedPlans(GraphPlans):
    """A graph as plans of a device with `checks`.

    Args:
        device: which runs it.
        fusion, graph: see `GraphPlans`.
        checks: the device's.
    """

    def __init__(
        self, device: Any, fusion: Fusion, graph: Graph, *, passing: bool = False,
        products: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(device, fusion, graph, passing=passing, products=products)
        self._checks: PendingChecks = device.checks

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs it, and waits for checks, its own and those under way before it, unless it is a part
        of a plan that does so.

        Raises:
            OutOfRangeError: an index is out of range.
        """
        if within_plan.get():
            return self.begin(given, numbers)
        failures = self._checks.failures
        outputs = super().__call__(given, numbers)
        self._checks.settle(failures)
        return outputs

    def begin(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs it for somebody who writes no state: what is wrong may be found when an output is
        read."""
        checks = self._checks
        failures = checks.failures
        outputs = super().__call__(given, numbers)
        if checks.failures != failures:  # another thread has found it out; it may be of an input
            checks.settle(failures)
        return outputs

    def _one_by_one(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """The same without a plan, none of whose operations waits for its own check; but where no
        plan can be made each does, so that what an operation says comes before that."""
        if self._faults.text:
            return super()._one_by_one(given, numbers)
        with holding(within_plan, True):  # the callers here see to the checks
            return super()._one_by_one(given, numbers)

    def run_donating(
        self, given: Sequence[Handle], numbers: Sequence[Any], donatable: Sequence[bool],
        donation: DonationState,
    ) -> list[Handle]:  # fmt: skip
        """Runs it, and waits for checks unless `donation.defers`.

        Before it writes over inputs it always does, so it writes over none where nobody else would
        wait: the memory that this saves is worth less than a device that works meanwhile.
        """
        checks = self._checks
        failures = checks.failures
        if donation.defers:
            donatable = (False,) * len(donatable)
        outputs = super().run_donating(given, numbers, donatable, donation)
        if not (donation.defers and checks.failures == failures):
            checks.settle(failures)
        return outputs
