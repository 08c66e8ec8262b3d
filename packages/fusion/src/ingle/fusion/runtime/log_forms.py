"""Forms of logs: what was recorded, without the values of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ingle.tensor.contract import Aval
from ingle.tensor.locks import renewed
from ingle.tensor.operation import typed_key

from ..ir.graph import Graph, LogEntry, read_log
from ..record.cut_log import Cut, Part, in_pieces, trimmed
from ..support.gc_pauses import uncollected
from .log_families import LogFamily, SizedPlans

if TYPE_CHECKING:
    from .plan_cache import Executable

Known: TypeAlias = "Callable[[], Sequence[Sequence[Aval]]]"
"""Tells what the results of a log's first operations are like; see `read_log`."""


class LogForm:
    """A log without the values of its numbers, and the plan that was made for it.

    A number is a constant of the plan until it comes with another value: then its position is an
    input for good.

    Attributes:
        trimmed: what runs in its place, if its outputs don't need all of it.
        cut: what runs in its place, if it is long and repeats.
        came: whether it has come before.
        graph: the log read, until it has run once.

    Args:
        numbers: those of its first run.
    """

    def __init__(
        self, graph: Graph | None, numbers: Sequence[Any], *, trimmed: Part | None = None,
        cut: Cut | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.trimmed = trimmed
        self.cut = cut
        self.first = list(numbers)
        self.keys: list[Any] = [typed_key(n) for n in numbers]
        self.varying: list[bool] = [False] * len(numbers)
        self.family: LogFamily | None = None
        self.executable: Executable | None = None
        self.filled: SizedPlans | None = None
        self.key: str | None = None
        self.runs = 0
        self.came = False
        self.lock = renewed(self, "lock")

    def use(self, plans: SizedPlans | None) -> None:
        """Has it run by a plan for all sizes, or for a while without any."""
        if plans is not None:
            plans.in_slices = plans.fills = True
            self.executable = self.filled = plans

    def read(self) -> Graph | None:
        """The log read, for the first who asks."""
        graph, self.graph = self.graph, None
        return graph

    def fit(self, numbers: Sequence[Any]) -> None:
        """Notes which numbers have changed since the plan was made."""
        for i, (number, first) in enumerate(zip(numbers, self.first, strict=True)):
            # A literal of the user's code is the same object each time.
            if number is first or self.varying[i]:
                continue
            if typed_key(number) != self.keys[i]:
                self.varying[i] = True
                self.executable = None
                if self.family is not None:
                    self.family.differs(self.varying)


@uncollected()
def log_form(
    key: tuple[Sequence[LogEntry], Sequence[int]], numbers: Sequence[Any], is_piece: bool,
    known: Known | None = None,
) -> LogForm:  # fmt: skip
    """The form of a log.

    Args:
        key: the log and its outputs.
        numbers: those of its first run.
        is_piece: whether it is a part of a longer one, and nothing can be left out of it.
        known: tells what the results of its operations are like, where the longer one was read.
    """
    graph = read_log(*key) if known is None else read_log(*key, known())
    if is_piece:
        return LogForm(graph, numbers)
    shorter = trimmed(key[0], graph)
    if shorter is not None:
        return LogForm(graph, numbers, trimmed=shorter)
    return LogForm(graph, numbers, cut=in_pieces(graph))
