"""The log: writes operations into a log and answers with lazy handles."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

from ingle.tensor.blocks import of_values
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.errors import BackendError
from ingle.tensor.locks import renewed
from ingle.tensor.operation import Op, infer
from ingle.tensor.programs import Program

from ..ir.graph import LogEntry, read_log
from .written_out import HARMLESS, Place, StepEntries, written_out

if TYPE_CHECKING:
    from ..fusion import Fusion


current: ContextVar[Log | None] = of_values(ContextVar("ingle_recorder", default=None))
"""The log of the function that is being compiled, if one is."""


class LazyHandle(Handle):
    """A value that was computed, or is only recorded.

    Attributes:
        log: where it is recorded; None once it is computed.
        number: which value it is there.
        value: the handle of the backend below, once it is computed; the error if it never will be.
    """

    __slots__ = ("__weakref__", "number", "owned", "pending_in", "value")

    backend: Fusion

    def __init__(self, backend: Fusion, aval: Aval, log: Log | None, number: int) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.pending_in = log
        self.number = number
        self.owned = None
        self.value: Handle | BaseException | None = None

    @property
    def abstract(self) -> bool:  # type: ignore[override]
        return self.pending_in is not None and self.pending_in.is_tracer

    @property
    def owners(self) -> int | None:
        return self.value.owners if isinstance(self.value, Handle) else None

    def computed(self) -> Handle:
        """The handle of the backend below; runs what is recorded, if it must."""
        # In this order, since the value counts only if nobody has begun to write over it.
        value = self.value
        log = self.pending_in
        if log is not None:
            log.finish(self)
        if log is not None or value is None:  # what interrupted this may have computed it
            value = self.value
        if isinstance(value, Handle):
            return value
        if value is None:
            raise BackendError(
                f"a finalizer asks for a value (shape {self.shape}, {self.dtype}) that nobody else "
                "held when the operations before it ran; read it earlier, or let something that "
                "lives on hold it"
            )
        raise value

    def begun(self) -> Handle:
        """The handle of the backend below, for somebody who writes no state and does not wait for
        it: what is wrong may be found later."""
        log = self.pending_in
        if log is not None:
            log.begin(self)
        return self.computed()

    def settle(self, value: Handle | BaseException) -> None:
        """Gives it its value, or the error that stands in for it.

        It leaves the log when it has that, since other threads look at it without the lock.
        """
        owned = getattr(value, "owned", None)
        if owned is not None:  # a view of memory that may be written in place
            owned.add(self)
        self.value = value
        self.pending_in = None

    def replaces(self, old: Handle, cell: object) -> None:
        log = self.pending_in
        if log is not None:
            log.replaced(cell, old)
        elif isinstance(self.value, Handle):
            self.value.ensure()

    def item(self) -> Any:
        self.backend.was_read()
        return self.computed().item()


class Inputs(list[Handle]):
    """The inputs of a log: they hold memory that may be written in place until the log has run."""

    __slots__ = ("__weakref__",)


class Turn:
    """Whose turn it is: held while a log grows and while it runs."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = renewed(self, "lock")


class Log:
    """A log that grows, with what it runs on.

    Whatever interrupts Python between two of its instructions, such as a handler of signals or a
    finalizer, may ask for operations, too. A log that is in the middle of one takes none.

    Attributes:
        written: the log.
        avals: of each operation in it what its results are like, if that is kept: a log that is
            read once is told so again in less time than it takes to keep it in each.
        given: the handles, of the backend below, of its inputs in order.
        numbers: the numbers of its scalars in order.
        turn: held while it grows and while it runs.
        most: how long the log may become before `shorten` is called.
        open: whether it takes operations now.
        is_tracer: whether values are never computed here: the log is kept for later runs.
        at: where calls are known by what they take, the point that it is at; see `RepeatedLog`.
    """

    most = sys.maxsize
    is_tracer = False
    at: object = None

    def __init__(self, backend: Fusion, turn: Turn | None = None) -> None:
        self.backend = backend
        self.turn = Turn() if turn is None else turn
        self.open = True
        self.written: list[LogEntry] = []
        self.avals: list[Sequence[Aval]] | None = None
        self.given = Inputs()
        self.numbers: list[Any] = []
        self._count = 0
        self._handles: list[ref[LazyHandle]] = []
        self._places: dict[int, int] = {}

    def record(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        """Records an operation."""
        return self.record_steps(op, inputs)

    def record_steps(
        self, op: Op, inputs: Sequence[Handle | Scalar], steps: Program | None = None
    ) -> tuple[LazyHandle, ...]:
        """Records an operation, or in its place the steps of the program that it is."""
        avals = infer(op, inputs) if steps is None else ()
        for x in inputs:
            if type(x) is LazyHandle:
                log = x.pending_in
                if log is not None and log is not self:
                    # Not under the lock: another thread that computes it may be waiting for that.
                    x.computed()
        with self.turn.lock:
            mine, made = False, None
            try:
                # Both at once: what comes in between may close it.
                mine, self.open = self.open, False
                if mine and steps is None:
                    made = self._written(op, inputs, avals)
                elif mine and steps is not None:
                    made = self._written_out(steps, inputs)
            except BaseException:
                if mine:
                    self._repair()
                raise
            finally:
                if mine:
                    self.open = True
            if made is not None:
                if len(self.written) > self.most:
                    self.shorten()
                return made
        return self.elsewhere(op, inputs)

    def elsewhere(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        """An operation that comes while it takes none: in the middle of another one, which was
        interrupted. It runs at once."""
        return self.backend.execute_now(op, inputs)

    def _written(
        self, op: Op, inputs: Sequence[Handle | Scalar], avals: Sequence[Aval]
    ) -> tuple[LazyHandle, ...]:
        args: list[Any] = [op]
        places = self._places
        for x in inputs:
            if type(x) is LazyHandle:
                if x.pending_in is self:
                    args.append(x.number)
                else:  # computed before, or by a read in between
                    handle = x.value  # first, as in `computed`
                    if x.pending_in is not None or not isinstance(handle, Handle):
                        handle = x.computed()
                    place = places.get(id(handle))
                    args.append(self.operand(handle) if place is None else place)
            elif type(x) is Scalar:
                args.append(self.number(x))
            else:
                args.append(self.operand(x))  # type: ignore[arg-type]
        traits = op.operation.traits  # as `may_fail`, by one frame less
        if traits.checks_indices or (traits.kind, len(inputs) > 1) not in HARMLESS:
            self._note(op, inputs)
        number, entry = self._count, tuple(args)
        made: tuple[LazyHandle, ...]
        if len(avals) == 1:
            made = (LazyHandle(self.backend, avals[0], self, number),)
            self._handles.append(ref(made[0]))
        else:
            made = tuple(
                [LazyHandle(self.backend, a, self, number + i) for i, a in enumerate(avals)]
            )
            self._handles += [ref(h) for h in made]
        self._count = number + len(made)
        if self.avals is not None:
            self.avals.append(avals)
        self.written.append(entry)
        return made

    def _written_out(
        self, program: Program, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...]:
        """The outputs of a program, each of whose steps is written down as if it came by itself."""
        places: list[Place] = []
        new: dict[int, tuple[int, Handle]] = {}
        for x in inputs:
            if type(x) is Scalar:
                places.append(None)
            elif type(x) is LazyHandle and x.pending_in is self:
                places.append(x.number)
            else:
                handle: Handle = x.computed() if type(x) is LazyHandle else x  # type: ignore[assignment]
                place = self._places.get(id(handle))
                if place is None:
                    place = ~new.setdefault(id(handle), (len(new), handle))[0]
                places.append(place)
        found = written_out(program, self._count, tuple(places))
        tensors = [handle for _, handle in new.values()]
        made = [LazyHandle(self.backend, aval, self, number) for number, aval in found.made]
        self._note_steps(found)
        # Entries come last, as in `operand`.
        for place, number in found.tensors:
            handle = tensors[place]
            if handle.owned is not None:
                handle.owned.add(self.given)
            self.given.append(handle)
            self._places[id(handle)] = number
        self.numbers += [inputs[n].value if type(n) is int else n.value for n in found.numbers]  # type: ignore[union-attr]
        self._handles += [ref(h) for h in made]
        self._count = found.count
        self.written += found.entries
        return tuple([made[n] if n >= 0 else self._own(inputs[~n]) for n in found.outputs])

    def _own(self, x: Handle | Scalar) -> LazyHandle:
        """An operand as a value of this device."""
        return x if type(x) is LazyHandle else self.backend.known(x)  # type: ignore[arg-type]

    def _note_steps(self, found: StepEntries) -> None:
        """Is told of the steps of a program that come next."""

    def _note(self, op: Op, inputs: Sequence[Handle | Scalar]) -> None:
        """Is told of an operation that comes next, if it may fail for what its operands hold."""

    def _repair(self) -> None:
        """After an interruption: what has no entry in the log was never there."""
        kinds = [e[0] for e in self.written]
        del self.given[kinds.count("input") :], self.numbers[kinds.count("scalar") :]
        graph = read_log(self.written, ())
        self._count = len(graph.values)
        self._places = {k: n for k, n in self._places.items() if n < self._count}
        # What the error's traceback holds of it lives on.
        self._handles = [r for r in self._handles if (h := r()) is None or h.number < self._count]

    def takes(self, backend: Fusion) -> bool:
        """Whether operations of a device are recorded here."""
        return backend is self.backend

    def record_for(
        self, backend: Fusion, op: Op, inputs: Sequence[Handle | Scalar]
    ) -> tuple[LazyHandle, ...]:
        """Records an operation that runs on another device of the group."""
        raise NotImplementedError

    def interrupted(self) -> bool:
        """Whether the operation at hand is none of the function that is being recorded."""
        return False

    def records_next(self) -> bool:
        """Whether the operation at hand, which `record` is called for at once, is recorded here."""
        return not self.interrupted()

    def shorten(self) -> None:
        """Is called where the log has more entries than `most`."""

    def operand(self, handle: Handle) -> int:
        """The value of a handle of the backend below: an input of the log."""
        place = id(handle)
        found = self._places.get(place)
        if found is None:
            found, entry = self._count, ("input", handle.shape, handle.dtype)
            # Entries come last: what reads the log meanwhile finds all that they need.
            if handle.owned is not None:
                handle.owned.add(self.given)
            self.given.append(handle)
            self._places[place] = found
            self._count = found + 1
            self.written.append(entry)
        return found

    def number(self, scalar: Scalar) -> int:
        """The value of a number: given anew to each run."""
        entry, number = ("scalar", scalar.dtype), self._count
        self.numbers.append(scalar.value)
        self._count = number + 1
        self.written.append(entry)
        return number

    def living(self) -> list[LazyHandle]:
        """The handles that wait here and that somebody holds, in the order of their values."""
        return [h for r in self._handles if (h := r()) is not None and h.pending_in is self]

    def replaced(self, cell: object, old: Handle) -> None:
        """A cell holds a value that is recorded here, in place of another one."""

    def finish(self, wanted: LazyHandle) -> None:
        """Computes a value that is recorded here, for a reader who waits for it."""
        raise NotImplementedError

    def begin(self, wanted: LazyHandle) -> None:
        """Begins to compute a value, for a reader who does not wait for it."""
        self.finish(wanted)
