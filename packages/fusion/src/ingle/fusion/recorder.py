"""The recorder: writes operations into a log and answers with lazy handles."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from .graph import Entry

if TYPE_CHECKING:
    from .fusion import Fusion


current: ContextVar[Recorder | None] = ContextVar("ingle_recorder", default=None)
"""The recorder of the function that is being compiled, if one is."""


class LazyHandle(Handle):
    """A value that was computed, or is only written down.

    Attributes:
        recorder: where it is written down; None once it is computed.
        number: which value it is there.
        value: the handle of the backend below, once it is computed; the error if it never will be.
    """

    __slots__ = ("__weakref__", "number", "owned", "recorder", "value")

    backend: Fusion

    def __init__(self, backend: Fusion, aval: Aval, recorder: Recorder | None, number: int) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.recorder = recorder
        self.number = number
        self.owned = None
        self.value: Handle | BaseException | None = None

    @property
    def abstract(self) -> bool:  # type: ignore[override]
        return self.recorder is not None and self.recorder.staged

    @property
    def owners(self) -> int | None:
        return self.value.owners if isinstance(self.value, Handle) else None

    def computed(self) -> Handle:
        """The handle of the backend below; runs what is written down, if it must."""
        # In this order, since the value counts only if nobody has begun to write over it.
        value = self.value
        if self.recorder is not None:
            self.recorder.finish(self)
            value = self.value
        if isinstance(value, Handle):
            return value
        assert value is not None, self
        raise value

    def settle(self, value: Handle | BaseException) -> None:
        """Gives it its value, or the error that stands in for it.

        It leaves the recorder when it has that, since other threads look at it without the lock.
        """
        owned = getattr(value, "owned", None)
        if owned is not None:  # a view of memory that may be written in place
            owned.add(self)
        self.value = value
        self.recorder = None

    def item(self) -> Any:
        return self.computed().item()


class Inputs(list[Handle]):
    """The inputs of a log: they hold memory that may be written in place until the log has run."""

    __slots__ = ("__weakref__",)


class Recorder:
    """A log that grows, with what it ran on so far.

    Attributes:
        written: the log.
        given: the handles, of the backend below, of its inputs in order.
        numbers: the numbers of its scalars in order.
        most: how long the log may become before `shorten` is called.
        staged: whether values are never computed here: the log is kept for later runs.
    """

    most = sys.maxsize
    staged = False

    def __init__(self, backend: Fusion) -> None:
        self.backend = backend
        self.lock = threading.RLock()
        self.written: list[Entry] = []
        self.given = Inputs()
        self.numbers: list[Any] = []
        self._count = 0
        self._handles: list[ref[LazyHandle]] = []
        self._places: dict[int, int] = {}

    def record(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        """Writes an operation down."""
        avals = infer(op, inputs)
        for x in inputs:
            if type(x) is LazyHandle and x.recorder is not self and x.recorder is not None:
                # Not under the lock: another thread that computes it may be waiting for that.
                x.computed()
        with self.lock:
            args: list[Any] = [op]
            for x in inputs:
                if type(x) is LazyHandle:
                    if x.recorder is self:
                        args.append(x.number)
                    else:  # computed before, or by somebody who needed it in between
                        args.append(self.operand(x.computed()))
                elif type(x) is Scalar:
                    args.append(self.number(x))
                else:
                    args.append(self.operand(x))  # type: ignore[arg-type]
            number, entry = self._count, tuple(args)
            made: tuple[LazyHandle, ...]
            if len(avals) == 1:
                made = (LazyHandle(self.backend, avals[0], self, number),)
                known: Sequence[ref[LazyHandle]] = (ref(made[0]),)
            else:
                made = tuple(
                    [LazyHandle(self.backend, a, self, number + i) for i, a in enumerate(avals)]
                )
                known = [ref(h) for h in made]
            # Without calls, between which Ctrl-C may come.
            self._count = number + len(made)
            self._handles += known
            self.written += (entry,)
            if len(self.written) > self.most:
                self.shorten()
            return made

    def shorten(self) -> None:
        """The log has more entries than `most`."""

    def operand(self, handle: Handle) -> int:
        """The value of a handle of the backend below: an input of the log."""
        place = id(handle)
        found = self._places.get(place)
        if found is None:
            found, entry = self._count, ("input", handle.shape, handle.dtype)
            self._places[place] = found
            self._count = found + 1
            self.given += (handle,)
            self.written += (entry,)
            if handle.owned is not None:
                handle.owned.add(self.given)
        return found

    def number(self, scalar: Scalar) -> int:
        """The value of a number: given anew to each run."""
        entry, number = ("scalar", scalar.dtype), self._count
        self._count = number + 1
        self.numbers += (scalar.value,)
        self.written += (entry,)
        return number

    def living(self) -> list[LazyHandle]:
        """The handles that somebody still holds, in the order of their values."""
        return [h for r in self._handles if (h := r()) is not None]

    def taken(self) -> tuple[Any, ...]:
        """Everything that is written down, which is forgotten here."""
        state = self.written, self.given, self.numbers, self._count, self._handles, self._places
        self.written, self.given, self.numbers = [], Inputs(), []
        self._count, self._handles, self._places = 0, [], {}
        return state

    def put_back(self, state: tuple[Any, ...]) -> None:
        """Undoes `taken`."""
        self.written, self.given, self.numbers, self._count, self._handles, self._places = state

    def finish(self, wanted: LazyHandle) -> None:
        """Somebody needs a value that is written down here."""
        raise NotImplementedError
