"""Logs that come again: what a call adds to one is known by where it comes.

A loop of plain code leaves the same log in each turn, or one of a few. Once one has come again, the
next is *learned*: each call of it becomes a `Point` behind the one before, with the entries that it
has left. A log that begins the same way goes from point to point, and has the entries of a call
without any look at shapes, dtypes and rules: these follow from the calls before, and from what a
call takes, which is a number of this log, or a value that is new to it, of a shape and a dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ref

from ingle.tensor.call_steps import CallSteps
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program

from ..ir.graph import LogEntry
from .log import LazyHandle, Log, Turn
from .written_out import called, may_fail

if TYPE_CHECKING:
    from ..fusion import Fusion

MOST = 1 << 14
"""So many points a thread has; where there are more, all are learned again: those that are in use
cost a run each, and which these are would have to be kept for each of them."""

Key: TypeAlias = tuple[Any, ...]


class Point:
    """A point of logs: all that have come to it are the same up to here.

    Attributes:
        behind: the points that came next, by the call and what it took.
        count: how many values there are.
        entries: what the call that leads here has added.
        tensors: those that became inputs of the log, in order: which one of the call's operands
            that were new to it, and its number from then on.
        numbers: the log's scalars, in order: which operand of the call each is.
        made: numbers of the values that the call returns, with what they are like.
        reading: entries that may fail for what whole numbers hold, with the operation's name.
    """

    __slots__ = ("behind", "count", "entries", "made", "numbers", "reading", "tensors")

    def __init__(self) -> None:
        self.behind: dict[Key, Point] = {}
        self.count = 0
        self.entries: tuple[LogEntry, ...] = ()
        self.tensors: tuple[tuple[int, int], ...] = ()
        self.numbers: tuple[int, ...] = ()
        self.made: tuple[tuple[int, Aval], ...] = ()
        self.reading: tuple[tuple[int, str], ...] = ()


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


class RepeatedLog(Log):
    """A log that is written by points as long as it goes as one that has come before.

    Attributes:
        at: the point that it is at; None where it went another way.
        points: those of its thread.
        strayed: whether it went another way than those that are learned.
    """

    def __init__(self, backend: Fusion, turn: Turn, points: Points) -> None:
        super().__init__(backend, turn)
        self.points = points
        self.at: Point | None = points.first
        self._learns = self.strayed = False

    def _is_learned(self) -> bool:
        """Whether this log, which goes another way than those before, is learned."""
        self._learns = self._learns or self.points.learns()
        self.strayed = not self._learns
        return self._learns

    def record(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        if self.at is not None:
            made = self._gone_on(op, inputs)
            if made is not None:
                return made
            if self.at is not None and self._learns:
                return self._learned(op, ((op, tuple(range(len(inputs)))),), inputs)
        self.at = None
        return self.record_steps(op, inputs)

    def record_call(
        self, steps: CallSteps, values: Sequence[Handle | Scalar]
    ) -> Sequence[LazyHandle] | None:
        """What a known call returns; None where its operations are to be recorded one by one."""
        if self.at is None:
            return None
        made = self._gone_on(steps, values)
        if made is None and self.at is not None and self._learns:
            return self._learned(steps, steps.steps, values, steps.outputs)
        return made

    def _gone_on(
        self, call: Op | CallSteps, values: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...] | None:
        """What a call returns that comes where it has come before; else None, and `at` is None if
        this log can't be learned."""
        with self.turn.lock:
            mine = False
            try:
                # Both at once: what comes in between may close it.
                mine, self.open = self.open, False
                at = self.at
                if not mine or at is None:
                    return None
                new: list[Handle] = []
                key = self._key(call, values, new)
                point = None if key is None else at.behind.get(key)
                if point is None:
                    if key is None or not self._is_learned():
                        self.at = None
                    return None
                made = self._taken(point, values, new)
            except BaseException:
                if mine:
                    self._repair()
                raise
            finally:
                if mine:
                    self.open = True
            if len(self.written) > self.most:
                self.shorten()
            return made

    def _key(
        self, call: object, values: Sequence[Handle | Scalar], new: list[Handle]
    ) -> Key | None:
        """A call with its operands: a number of this log; shape and dtype of what is new to it, and
        `~n` for the `n`-th of these, if it comes again; a dtype for a number of the host.

        Args:
            call: the operation or operations.
            values: the operands.
            new: the values that are new to this log are appended.
        """
        key: list[Any] = [call]
        handle: Any
        for x in values:
            if type(x) is LazyHandle:
                if x.pending_in is self:
                    key.append(x.number)
                    continue
                handle = x.value  # first, as in `computed`
                if x.pending_in is not None or not isinstance(handle, Handle):
                    return None
            elif type(x) is Scalar:
                key.append(x.dtype)
                continue
            else:
                handle = x
            place = self._places.get(id(handle))
            if place is not None:
                key.append(place)
                continue
            for n, other in enumerate(new):
                if other is handle:
                    key.append(~n)
                    break
            else:
                new.append(handle)
                key += (handle.shape, handle.dtype)
        return tuple(key)

    def _taken(
        self, point: Point, values: Sequence[Handle | Scalar], new: Sequence[Handle]
    ) -> tuple[LazyHandle, ...]:
        """Goes to the next point."""
        if point.reading:
            self._note_reading(point.reading)
        # Entries come last, as in `operand`.
        for n, number in point.tensors:
            handle = new[n]
            if handle.owned is not None:
                handle.owned.add(self.given)
            self.given.append(handle)
            self._places[id(handle)] = number
        if point.numbers:
            self.numbers += [values[n].value for n in point.numbers]  # type: ignore[union-attr]
        made: tuple[LazyHandle, ...]
        if len(point.made) == 1:
            ((number, aval),) = point.made
            made = (LazyHandle(self.backend, aval, self, number),)
            self._handles.append(ref(made[0]))
        else:
            made = tuple([LazyHandle(self.backend, aval, self, n) for n, aval in point.made])
            self._handles += map(ref, made)
        self._count = point.count
        self.written += point.entries
        self.at = point
        return made

    def _learned(
        self,
        call: Op | CallSteps,
        steps: Sequence[tuple[Op, Sequence[int]]],
        given: Sequence[Handle | Scalar],
        outputs: Sequence[int] | None = None,
    ) -> tuple[LazyHandle, ...]:
        """Records a call, which becomes a point of its own.

        Args:
            call: the operation or operations.
            steps: what they take, by number of the values: first `given`, then each result.
            outputs: which values it returns; None for the results of the last operation.
        """
        at, self.at = self.at, None
        # Before operands are looked at: what comes in between is then seen among the entries.
        written, known, count = len(self.written), len(self.given), self._count
        reading: list[tuple[int, str]] = []
        new: list[Handle] = []
        with self.turn.lock:
            key = self._key(call, given, new)
        values: list[Any] = [*given]
        made: Sequence[LazyHandle] = ()
        numbers: list[int] = []
        for op, places in steps:
            inputs = [values[n] for n in places]
            numbers += [n for n in places if type(values[n]) is Scalar]
            made = self.record_steps(op, inputs)
            if may_fail(op, len(inputs)) and any(
                [type(x) is not Scalar and x.dtype.is_integer for x in inputs]  # noqa: C419 (faster)
            ):
                reading.append((len(self.written) - 1 - written, called(op)))
            values += made
        returned = tuple(made) if outputs is None else tuple([values[n] for n in outputs])
        with self.turn.lock:
            mine = False
            try:
                # What comes in between may not run it now.
                mine, self.open = self.open, False
                if not mine or at is None or key is None or at.count != count:
                    return returned
                entries = tuple(self.written[written:])
                # What has interrupted this may have recorded something of its own, or read a value.
                if [e[0] for e in entries if type(e[0]) is Op] != [op for op, _ in steps]:
                    return returned
                place_of = {id(handle): n for n, handle in enumerate(new)}
                added = self.given[known:]
                fits = all([id(h) in place_of for h in added])  # noqa: C419 (faster)
                pending = all([x.pending_in is self for x in returned])  # noqa: C419 (faster)
                if not fits or not pending or len(set(map(id, returned))) < len(returned):
                    return returned
                point = Point()
                point.count, point.entries, point.numbers = self._count, entries, tuple(numbers)
                point.reading = tuple(reading)
                point.made = tuple([(x.number, Aval(x.shape, x.dtype)) for x in returned])
                point.tensors = tuple([(place_of[id(h)], self._places[id(h)]) for h in added])
                self.points.add(at, key, point)
                self.at = point
            finally:
                if mine:
                    self.open = True
        return returned

    def _written_out(
        self, program: Program, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...]:
        at, self.at = self.at, None
        key = None if at is None else self._key(program, inputs, [])
        made = super()._written_out(program, inputs)
        if at is not None and key is not None:
            # A program has its entries by itself: the point only says where the log is.
            point = at.behind.get(key)
            if point is None and self._is_learned():
                point = Point()
                point.count = self._count
                self.points.add(at, key, point)
            self.at = point
        return made

    def _note_reading(self, reading: Sequence[tuple[int, str]]) -> None:
        """Is told of entries that come next and may fail for what whole numbers hold."""

    def _repair(self) -> None:
        self.at = None
        super()._repair()
