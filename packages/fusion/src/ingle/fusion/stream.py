"""Plain recording: a stream of a thread, which runs when a value is needed."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ingle.tensor.blocks import holding
from ingle.tensor.callers import warn
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.errors import BackendError
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.operation import Op

from .errors import PlanWarning
from .former_values import FormerValues
from .ir.graph import Graph, LogEntry, has_halves, read_log
from .record.cut_log import cheapest_cut, crossing, loop_of
from .record.log import Inputs, LazyHandle, Turn
from .record.points import Points
from .record.repeated_logs import RepeatedLog
from .record.written_out import StepEntries, called
from .runtime.pending_checks import checked_together
from .runtime.plan_cache import PlanError
from .runtime.plan_codegen import DonationState
from .runtime.replay import Attempt, ensured, one_by_one
from .support.refcounts import MAPPED_ITEM, refs
from .support.run_ahead import setting
from .support.source_location import Line, told_lines, user_line, with_lines

if TYPE_CHECKING:
    from ingle.tensor.cell import Cell

    from .fusion import Fusion
    from .runtime.plan_cache import PlanCache

MOST_ENTRIES = 8192
"""Entries after which a stream runs in any case; most end at structural points long before."""
FIRST_CHECK, CHECKS = 1024, 64
"""After how many entries a loop is looked for that nobody reads; after how many each time what the
stream alone holds is looked at."""
MOST_LOOPS = 64
"""So many loops are known again."""
MOST_BYTES = 1 << 28
"""Bytes of inputs that a stream may hold alone."""
SHORT, SMALL = 6, 1 << 14
"""Logs of few entries on few elements are not worth a plan: looking it up takes longer."""
LONG, TINY = 24, 1 << 12
"""Nor are logs of so many entries on so few elements, where the same one is read once and again."""
FEW = 2
"""So many operations are short for a reader of each, however many operands they have."""


_CUT_OFF = BackendError(
    "another thread was computing this value when the process forked; read it before the fork, or "
    "compute it in the child"
)


MOST_HELD = 8
"""Of how many operations one at most is held by somebody in a loop that is run before anybody
reads anything: a recording of gradients holds more, and is better planned as one."""


class LazyStream(RepeatedLog):
    """What one thread has asked for and nobody has needed yet. It runs once.

    Attributes:
        done: whether it has run.
    """

    most = CHECKS

    def __init__(self, backend: Fusion, planner: PlanCache, turn: Turn, points: Points) -> None:
        super().__init__(backend, turn, points)
        self.done = False
        self._planner = planner
        self._looks = FIRST_CHECK
        self._ends = MOST_ENTRIES
        self._seen = self._bytes = 0
        self._limit = MOST_BYTES
        self._running: tuple[Sequence[LazyHandle], DonationState, int] | None = None
        self._former = FormerValues()
        self._asked: dict[int, tuple[str, Line]] = {}
        self._looked: Graph | None = None

    def _note(self, op: Op, inputs: Sequence[Handle | Scalar]) -> None:
        for x in inputs:
            if type(x) is not Scalar and x.dtype.is_integer:
                self._asked[len(self.written)] = called(op), user_line()
                return

    def _note_steps(self, found: StepEntries) -> None:
        if found.reading:
            self._note_reading(found.reading)

    def _note_reading(self, reading: Sequence[tuple[int, str]]) -> None:
        line, count = user_line(), len(self.written)
        self._asked.update({count + i: (name, line) for i, name in reading})

    def _repair(self) -> None:
        super()._repair()
        self._looked = None
        count = len(self.written)
        self._asked = {n: asked for n, asked in self._asked.items() if n < count}

    def shorten(self) -> None:
        count = len(self.written)
        if count >= self._looks and self._ends == MOST_ENTRIES:
            self._looks *= 2
            key = tuple(self.written)
            ends = self._planner.ends.get(key)
            if ends is None:
                ends = min(MOST_ENTRIES, self._end_of_loop())
                self._planner.ends[key] = ends
                while len(self._planner.ends) > MOST_LOOPS:
                    self._planner.ends.popitem(last=False)
            self._ends = ends
        if count >= self._ends or self._holds_much():
            self._ran()  # whose errors are those of who reads the values
        self.most = min(count + CHECKS, self._ends - 1)

    def _holds_much(self) -> bool:
        """Whether it alone keeps more than enough in memory."""
        for handle in self.given[self._seen :]:
            self._bytes += math.prod(handle.shape) * handle.dtype.itemsize
        self._seen = len(self.given)
        if self._bytes < self._limit:
            return False
        counts = [*map(refs, self.given)]
        held = sum([
            math.prod(handle.shape) * handle.dtype.itemsize
            for handle, count in zip(self.given, counts, strict=True)
            if count < MAPPED_ITEM
        ])  # fmt: skip
        self._limit = self._bytes + MOST_BYTES // 2
        return held >= MOST_BYTES // 2

    def _end_of_loop(self) -> int:
        """How many entries there are at the end of the iteration, if this is a loop that keeps
        little of what it computes: there is no need to wait for a read."""
        if MOST_HELD * len(self.living()) > len(self.written):
            return MOST_ENTRIES
        graph = self._looked = read_log(self.written, ())
        nodes = graph.nodes
        loop = loop_of([node.op.operation for node in nodes])
        if loop is None or loop.end < len(nodes) or 2 * loop.begin > len(nodes):
            return MOST_ENTRIES
        entries = [i for i, entry in enumerate(self.written, 1) if type(entry[0]) is Op]
        first_cut = cheapest_cut(loop, crossing(graph))
        left = (first_cut - len(nodes)) % loop.period
        before = len(nodes) - loop.period
        return len(self.written) + entries[before + left - 1] - entries[before - 1]

    def elsewhere(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        return self.backend.record_anew(op, inputs)

    def replaced(self, cell: Any, old: Handle) -> None:
        self._former.note(cell, self._standing(old))

    def _standing(self, old: Handle) -> Handle | int:
        """A value that this log knows, by its number: a reference would keep plans from writing
        over it."""
        if type(old) is LazyHandle:
            if old.pending_in is self:
                return old.number
            return self._places.get(id(old.value), old)
        return self._places.get(id(old), old)

    def finish(self, wanted: LazyHandle) -> None:
        self._finish(wanted, defers=False)

    def begin(self, wanted: LazyHandle) -> None:
        self._finish(wanted, defers=True)

    def _finish(self, wanted: LazyHandle, defers: bool) -> None:
        self._note_read()
        self._ran(wanted, defers=defers)
        if isinstance(wanted.value, BaseException):
            self._former.put_back()

    def _note_read(self) -> None:
        short = len(self._handles) <= FEW or self._is_short()
        brief = not short and self._is_short(LONG, TINY) and not has_halves(self.written)
        self.backend.noted(short, self.written if brief else None)

    def start(self) -> None:
        """Has the device compute everything that somebody still holds, and waits for nothing; what
        an operation raises, whoever reads what depends on it gets."""
        self._ran(defers=True)

    def flush(self, written: Collection[Cell[Any]] = ()) -> None:
        """Computes everything that somebody still holds; the rest is never computed.

        Args:
            written: cells that got values together: all of them get back what they held if
                anything fails, as every cell does that has a value which failed.

        Raises:
            Exception: what any of it raised; later reads of what depends on that raise it, too.
        """
        for handle in self._ran():
            if isinstance(handle.value, BaseException):
                self._former.put_back(written)
                raise handle.value

    def synchronize(self) -> None:
        """Computes the same, and its values count as read."""
        self._note_read()
        self.flush()

    def _ran(
        self, wanted: LazyHandle | None = None, *, defers: bool = False
    ) -> Sequence[LazyHandle]:
        """Gives each handle a value, or the error that stands in for it; returns them.

        Args:
            wanted: whose value is needed; if another thread has found it, nothing runs here.
            defers: whether its checks may be under way afterwards; see `PendingChecks`.
        """
        if setting.plans:
            self.backend.report()
        with self.turn.lock:
            if not self.written or (wanted is not None and wanted.pending_in is None):
                return ()
            if not self.open:  # in the middle of something that was interrupted
                return () if wanted is None else self._run_aside(wanted)
            handles: Sequence[LazyHandle] = ()
            donation = DonationState(defers=defers)
            try:
                self.open = False
                handles = self.living()
                if wanted is not None and wanted not in handles:
                    # A finalizer asks: the collector clears weak references before it calls those,
                    # so that nobody knows which other values they will ask for.
                    return self._run_aside(wanted)
                self._running = handles, donation, threading.get_ident()
                if handles:
                    self._run(handles, donation)
                self.done = True
            except BaseException:
                # Ctrl-C. If nothing has happened yet, the next read starts it again.
                if donation.done:
                    _settle(handles, donation.outputs)
                    self.done = True
                raise
            finally:
                self._running = None
                if self.done:
                    self._forget()
                else:
                    self.open = True
            return handles

    def _forget(self) -> None:
        """Lets go of what the log ran on."""
        self.written, self.given, self.numbers = [], Inputs(), []
        self._handles, self._places = [], {}
        self._asked, self._looked, self._missed = {}, None, None
        self._former.forget()

    def _run(self, handles: Sequence[LazyHandle], donation: DonationState) -> None:
        outputs = [h.number for h in handles]
        try:
            # Which one has failed, a plan for all such logs cannot tell.
            with holding(told_lines, partial(_with_asked, self._asked)):
                values = self._computed(outputs, donation)
                if self._former.noted:  # cells take these for good
                    values = [ensured(value) for value in values]
        except Exception as error:
            if donation.done or is_from_outside(error):
                raise
            # A log that cannot even be read has no values, however often they are asked for.
            values = [error] * len(outputs)
        if donation.again and self.strayed:
            self.points.wanted()
        if self._former.noted and any(isinstance(value, BaseException) for value in values):
            numbers = self._former.numbers()
            again = self._attempted(self.written, numbers, self.given, self.numbers)
            found = [self.backend.known(x) if isinstance(x, Handle) else x for x in again]
            self._former.find(dict(zip(numbers, found, strict=True)))
        donation.outputs, donation.done = values, True
        _settle(handles, values)

    def _computed(self, outputs: Sequence[int], donation: DonationState) -> list[Any]:
        log, given, numbers = self.written, self.given, self.numbers
        try:
            if self._is_short():
                below, defers = self.backend.inner, donation.defers
                run = partial(one_by_one, below)
                return checked_together(below, defers, run, log, outputs, given, numbers)
            return self._planner.run(log, outputs, given, numbers, donation, self._known)
        except Exception as error:
            reason = error.reason if isinstance(error, PlanError) else error
            if donation.done or is_from_outside(reason):
                raise reason from None
            found = self._attempted(log, outputs, given, numbers)
            failed = any(isinstance(value, BaseException) for value in found)
            if isinstance(error, PlanError) and not failed:
                warn(
                    "a plan could not be used, so its operations ran one by one, which is slower: "
                    f"{error}",
                    PlanWarning,
                )
            return found

    def _known(self) -> list[tuple[Aval, ...]]:
        """What the results of the log's first operations are like, if it was looked through."""
        return [] if self._looked is None else self._looked.avals_of(self._looked.nodes)

    def _attempted(
        self, log: Sequence[LogEntry], outputs: Sequence[int], given: Sequence[Handle],
        numbers: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        """Whatever has nothing to do with a failure gets its value."""
        graph, asked, unknown = read_log(log, outputs), self._asked, ("", Line(None, 0))
        graph.lines = [
            asked.get(n, unknown)[1] for n, entry in enumerate(log) if type(entry[0]) is Op
        ]
        return Attempt(self.backend.inner, graph)(given, numbers)

    def _run_aside(self, wanted: LazyHandle) -> Sequence[LazyHandle]:
        """Values for what interrupted this stream while it grew or ran, and for finalizers; it goes
        on afterwards."""
        if self._running is not None:
            handles, donation, thread = self._running
            if donation.done:
                mine = thread == threading.get_ident()
                _settle(handles, donation.outputs if mine else [_CUT_OFF] * len(handles))
                return handles
        log, given, numbers = self.written[:], self.given[:], self.numbers[:]
        graph = read_log(log, ())
        handles = [h for h in self.living() if h.number < len(graph.values)]
        if wanted not in handles and wanted.number < len(graph.values):
            handles.append(wanted)
        graph.outputs = tuple([h.number for h in handles])
        below = self.backend.inner
        found = Attempt(below, graph)(given[: len(graph.inputs)], numbers[: len(graph.scalars)])
        if self._running is not None:
            # What is running may write over the memory that these may be views of.
            found = [
                below.upload(below.download(x).copy()) if isinstance(x, Handle) else x
                for x in found
            ]
        _settle(handles, found)
        return handles

    def _is_short(self, long: int = SHORT, tiny: int = SMALL) -> bool:
        """Whether all that a plan prepares for takes longer than the operations one by one: for
        few entries, or for up to `long` on up to `tiny` elements."""
        most = SMALL if len(self.written) <= SHORT else tiny
        if len(self.written) > long or any([math.prod(x.shape) > most for x in self.given]):  # noqa: C419 (faster)
            return False
        # What is inlined is many operations.
        return not any(type(e[0]) is Op and e[0].operation.traits.inlined for e in self.written)


def _with_asked(asked: Mapping[int, tuple[str, Line]], text: str) -> str:
    """What went wrong, with the lines that asked for operations of the name that it begins with, or
    else for any whose indices may be wrong."""
    name = text.partition(":")[0]
    mine = [line for own, line in asked.values() if own == name]
    return with_lines(text, mine or [line for _, line in asked.values()])


def _settle(handles: Sequence[LazyHandle], values: Sequence[Handle | BaseException]) -> None:
    for handle, value in zip(handles, values, strict=True):
        handle.settle(value)
