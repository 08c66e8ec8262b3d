"""Logs that come again: what a call adds to one is known by where it comes.

A loop of plain code leaves the same log in each turn, or one of a few. Once one has come again, the
next is *learned*: each call of it becomes a `Point` behind the one before, with the entries that it
has left. A log that begins the same way goes from point to point, and has the entries of a call
without any look at shapes, dtypes and rules: these follow from the calls before, and from what a
call takes, which is a number of this log, or a value that is new to it, of a shape and a dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from ingle.tensor.call_steps import CallSteps
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op
from ingle.tensor.programs import Program

from .log import LazyHandle, Log, Turn, current
from .points import Key, Point, Points, PublicCall
from .written_out import called, may_fail

if TYPE_CHECKING:
    from ..fusion import Fusion


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
        self._missed: tuple[Point, Key, list[Any]] | None = None

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
                new: dict[int, Handle] = {}
                key = self._key(call, values, new)
                point = None if key is None else at.behind.get(key)
                if point is None:
                    if key is None or not self._is_learned():
                        self.at = None
                    return None
                numbers = [values[n].value for n in point.numbers]  # type: ignore[union-attr]
                made = self._taken(point, numbers, new)
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
        self, call: object, values: Sequence[Handle | Scalar], new: dict[int, Handle]
    ) -> Key | None:
        """A call with its operands: a number of this log; shape and dtype of what is new to it, and
        `~n` for the `n`-th of these, if it comes again; a dtype for a number of the host.

        Args:
            call: the operation or operations.
            values: the operands.
            new: the values that are new to this log are added, by their `id`.
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
            elif id(handle) in new:
                key.append(~[*new].index(id(handle)))
            else:
                new[id(handle)] = handle
                key += (handle.shape, handle.dtype)
        return tuple(key)

    def answered(self, key: Key, given: list[Any]) -> Handle | Sequence[Handle] | None:
        backend = self.backend
        if not backend.goes_on_with(self) or current.get() is not None:
            return None
        with self.turn.lock:
            mine = False
            try:
                mine, self.open = self.open, False
                at = self.at
                if not mine or at is None:
                    return None
                new: dict[int, Handle] = {}
                if given:
                    places = self._places_of(given, new)
                    if places is None:
                        return None
                    key += places
                found = at.calls.get(key)
                if found is None:
                    self._missed = at, key, given
                    return None
                point = found.point
                if found.plain:
                    self.numbers += found.fixed
                    number, aval = point.made[0]
                    one = LazyHandle(backend, aval, self, number)
                    self._handles.append(ref(one))
                    self._count = point.count
                    self.written += point.entries
                    self.at = point
                else:
                    numbers: Sequence[Any] = found.fixed
                    if found.numbers and not numbers:
                        floats = [x for x in given if type(x) is float]
                        numbers = [floats[n] if type(n) is int else n.value for n in found.numbers]  # type: ignore[union-attr]
                    made = self._taken(point, numbers, new)
            except BaseException:
                if mine:
                    self._repair()
                raise
            finally:
                if mine:
                    self.open = True
            if len(self.written) > self.most:
                self.shorten()
            if found.plain:
                return one
            return made[0] if found.alone else made

    def _places_of(self, given: list[Any], new: dict[int, Handle]) -> Key | None:
        """The numbers of values that were computed before, as in `_key`, and None for what is new.
        None for all where one cannot be told."""
        places: list[int | None] = []
        for x in given:
            if type(x) is not float:
                mine = type(x) is LazyHandle and x.backend is self.backend
                handle = x.value if mine else None  # first, as in `computed`
                if x.pending_in is not None or not isinstance(handle, Handle):
                    return None
                place = self._places.get(id(handle))
                if place is None and id(handle) in new:
                    place = ~[*new].index(id(handle))
                elif place is None:
                    new[id(handle)] = handle
                places.append(place)
        return tuple(places)

    def note_call(self, given: list[Any], steps: CallSteps, count: int, handle: Handle) -> None:
        missed, point = self._missed, self.at
        self._missed = None
        if missed is None or point is None or missed[2] is not given:
            return
        at, key, _ = missed
        # What has interrupted the call may have gone on from there.
        came = point.before is at and point.call is steps and type(handle) is LazyHandle
        if came and handle.pending_in is self and handle.number == point.made[0][0]:  # type: ignore[attr-defined]
            at.calls[key] = PublicCall.of(point, steps, count)

    def _taken(
        self, point: Point, numbers: Sequence[Any], new: dict[int, Handle]
    ) -> tuple[LazyHandle, ...]:
        """Goes to the next point.

        Args:
            point: that.
            numbers: those of the call that are scalars of the log.
            new: the values that are new to it.
        """
        if point.reading:
            self._note_reading(point.reading)
        # Entries come last, as in `operand`.
        if point.tensors:
            handles = [*new.values()]
            for n, number in point.tensors:
                handle = handles[n]
                if handle.owned is not None:
                    handle.owned.add(self.given)
                self.given.append(handle)
                self._places[id(handle)] = number
        self.numbers += numbers
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
        new: dict[int, Handle] = {}
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
                place_of = {place: n for n, place in enumerate(new)}
                added = self.given[known:]
                fits = all([id(h) in place_of for h in added])  # noqa: C419 (faster)
                pending = all([x.pending_in is self for x in returned])  # noqa: C419 (faster)
                if not fits or not pending or len(set(map(id, returned))) < len(returned):
                    return returned
                point = Point(at, call, self._count)
                point.entries, point.numbers = entries, tuple(numbers)
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
        key = None if at is None else self._key(program, inputs, {})
        made = super()._written_out(program, inputs)
        if at is not None and key is not None:
            # A program has its entries by itself: the point only says where the log is.
            point = at.behind.get(key)
            if point is None and self._is_learned():
                point = Point(at, program, self._count)
                self.points.add(at, key, point)
            self.at = point
        return made

    def _note_reading(self, reading: Sequence[tuple[int, str]]) -> None:
        """Is told of entries that come next and may fail for what whole numbers hold."""

    def _repair(self) -> None:
        self.at = None
        super()._repair()
