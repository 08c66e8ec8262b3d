"""Points of logs that come again, and the calls that lead from one to the next."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from ingle.tensor.call_steps import CallSteps
from ingle.tensor.contract import Aval, Scalar

from ..ir.graph import LogEntry

MOST = 1 << 14
"""So many points a thread has; where there are more, all are learned again: those that are in use
cost a run each, and which these are would have to be kept for each of them."""

Key: TypeAlias = tuple[Any, ...]


class Point:
    """A point of logs: all that have come to it are the same up to here.

    Attributes:
        before: the point before it.
        call: what leads here from there.
        behind: the points that came next, by the call and what it took.
        calls: those among them that a public call leads to, by that.
        count: how many values there are.
        entries: what the call that leads here has added.
        tensors: those that became inputs of the log, in order: which one of the call's operands
            that were new to it, and its number from then on.
        numbers: the log's scalars, in order: which operand of the call each is.
        made: numbers of the values that the call returns, with what they are like.
        reading: entries that may fail for what whole numbers hold, with the operation's name.
    """

    __slots__ = (
        "before", "behind", "call", "calls", "count", "entries", "made", "numbers", "reading",
        "tensors",
    )  # fmt: skip

    def __init__(self, before: Point | None = None, call: object = None, count: int = 0) -> None:
        self.before = before
        self.call = call
        self.behind: dict[Key, Point] = {}
        self.calls: dict[Key, PublicCall] = {}
        self.count = count
        self.entries: tuple[LogEntry, ...] = ()
        self.tensors: tuple[tuple[int, int], ...] = ()
        self.numbers: tuple[int, ...] = ()
        self.made: tuple[tuple[int, Aval], ...] = ()
        self.reading: tuple[tuple[int, str], ...] = ()


class PublicCall(NamedTuple):
    """A call of a public function.

    Attributes:
        point: to which it leads.
        numbers: the log's scalars, in order: which number of the call each is, or a constant.
        fixed: their values, if all are constants.
        alone: whether it returns a tensor, not a tuple.
        plain: whether it only adds entries and constants, and has one result.
    """

    point: Point
    numbers: tuple[int | Scalar, ...]
    fixed: tuple[Any, ...]
    alone: bool
    plain: bool

    @staticmethod
    def of(point: Point, steps: CallSteps, count: int) -> PublicCall:
        """The call that came to some operations, of so many handles and numbers."""
        given = {place: n for n, (place, _) in enumerate(sorted(steps.numbers))}
        numbers = [given[n] if n in given else steps.constants[n - count] for n in point.numbers]
        fixed = tuple([n.value for n in numbers if type(n) is Scalar])
        varies = len(fixed) < len(numbers)
        plain = steps.alone and not (varies or point.tensors or point.reading)
        return PublicCall(point, tuple(numbers), () if varies else fixed, steps.alone, plain)


class Points:
    """The points of a thread's logs.

    Attributes:
        first: where each log begins.
        size: how many there are.
        credit: how many of the next logs that go another way are learned.
    """

    __slots__ = ("credit", "first", "size")

    def __init__(self) -> None:
        self.first = Point()
        self.size = self.credit = 0

    def wanted(self) -> None:
        """Is told that a log came again which is not learned. What comes next may be another one,
        which never comes again."""
        self.credit = min(self.credit + 2, 8)

    def learns(self) -> bool:
        """Whether a log that goes another way than those before is learned."""
        if not self.credit:
            return False
        self.credit -= 1
        return True

    def add(self, before: Point, key: Key, point: Point) -> None:
        """Puts a new point, which has all that it needs, behind another one."""
        if self.size >= MOST:
            self.first, self.size = Point(), 0
        self.size += 1
        before.behind[key] = point
