"""The fast path of a recording with many cells: loops over them.

Lines of a generated function are run a little faster than loops, and compiled at sixteen
microseconds each: with a thousand cells, which take some twenty lines each, that is longer than
twenty steps of the training that it is for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter, is_
from typing import Any
from weakref import ref

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Handle
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.pytree import unflatten
from ingle.tensor.transactions import call_alone, commit_lock, commits

from ..record.log import LazyHandle
from ..runtime.plan_codegen import DonationState
from ..support.picked import picked
from ..support.refcounts import PASSED_ITEM, may_overwrite, may_overwrite_all
from ..support.run_ahead import setting
from .attribute_reads import Place
from .snapshots import Snapshot
from .specialization import Result, Specialization

MANY = 64
"""Cells that are written from which on loops iterate over them."""


def is_many(entry: Specialization) -> bool:
    """Whether a recording is one for loops: of many cells, and of arguments that stay."""
    places = any(isinstance(source, Place) for source in entry.sources)
    return len(entry.writes) >= MANY and not entry.rebound and not places


# Without Python code between one handle and the next, where Ctrl-C might come.
_set_pending_in: Any = vars(LazyHandle)["pending_in"].__set__
_handle_of = attrgetter("_value._handle")
_value_of = attrgetter("_value")


def holding(fixed: Sequence[tuple[Cell[Any], Snapshot]]) -> Callable[[], bool]:
    """What says whether cells hold the immutable things that they held."""
    cells, things = [cell for cell, _ in fixed], [value.thing for _, value in fixed]

    def hold() -> bool:
        held = [*map(_value_of, cells)]
        return all(map(is_, held, things)) or all(
            value.holds(x) for (_, value), x in zip(fixed, held, strict=True)
        )

    return hold


class ManyCells:
    """What is left of a call once its arguments are known to fit.

    Args:
        entry: the recording.
        donatable: for outputs that may overwrite a cell's value, by the output's position, the
            position of that value among the inputs.
        missed: what says that the recording does not hold.
        overwritten: stands where a handle has its log while its memory is written.
    """

    def __init__(
        self, entry: Specialization, donatable: dict[int, int], missed: Any, overwritten: Any
    ) -> None:
        self._entry = entry
        self._missed = missed
        self._overwritten = overwritten
        self._cells = [s if isinstance(s, Cell) else None for s in entry.sources]
        self._held = [cell for cell in self._cells if cell is not None]
        self._others = [(n, s) for n, s in enumerate(entry.sources) if not isinstance(s, Cell)]
        shown = [entry.shown[s] for s in entry.sources if isinstance(s, Cell)]
        self._shapes = [shape for shape, _ in shown]
        self._dtypes = [dtype for _, dtype in shown]
        self._backends = [entry.backends[s] for s in entry.sources if isinstance(s, Cell)]
        self._known: list[ref[LazyHandle]] = []
        held = [n for n, cell in enumerate(self._cells) if cell is not None]
        places = {n: place for place, n in enumerate(held)}
        self._donatable = sorted(donatable.values())
        self._donated = [places[n] for n in self._donatable]
        self._owners = [self._cells[n] for n in self._donatable]
        self._none = (False,) * len(entry.sources)
        overwritten_ones = frozenset(self._donatable)
        self._all = tuple([n in overwritten_ones for n in range(len(entry.sources))])
        self._stepped = entry.stepped()
        self._writes = [
            (c, r.kind, r.data, _own_place(c, r, donatable, self._cells)) for c, r in entry.writes
        ]
        kept = [(c, data, place) for c, _, data, place in self._writes if place is not None]
        self._kept = [cell for cell, *_ in kept]
        self._of_outputs, self._of_given = (
            picked([n for _, n, _ in kept]),
            picked([n for *_, n in kept]),
        )
        self._renewed = [write for write in self._writes if write[3] is None]

    def __call__(self, args: Sequence[Any], begun: int) -> Any:
        """The result, or what says that the recording does not hold.

        Args:
            args: of the call.
            begun: the count of `commits` before the first cell was read.
        """
        entry = self._entry
        numbers = [args[s] if type(s) is int else s._value for s in entry.numbers]
        if list(map(type, numbers)) != entry.kinds:
            return self._missed
        try:
            computed = entry.host(*numbers)
        except Exception as error:  # the function itself says what is wrong with these numbers
            if is_from_outside(error):
                raise
            return self._missed
        if computed is None:
            return self._missed
        handles = self._handles()
        if handles is None:
            return self._missed
        # Nothing else may hold them when references are counted.
        given = self._given(handles, args)
        with commit_lock:
            if commits.count != begun:
                return self._missed
            step = partial(self._step, numbers, handles, given, computed, args)
            outputs = call_alone([*self._stepped], step)
            if outputs is None:
                return self._missed
        results = [entry.result_of(r, outputs, computed, args) for r in entry.results]
        return unflatten(entry.tree, results)

    def _step(
        self, numbers: list[Any], handles: list[Any], given: list[Handle], computed: Sequence[Any],
        args: Sequence[Any],
    ) -> Sequence[Handle] | None:  # fmt: skip
        """Runs and writes; None if a cell was stepped since it was read."""
        for cell, place in self._stepped.items():
            if numbers[place] != cell._value:
                return None
        return self._run(handles, given, computed, args)

    def _handles(self) -> list[Any] | None:
        """The handles of the cells' tensors; None if they do not fit."""
        try:
            found = list(map(_handle_of, self._held))
        except AttributeError:  # a cell that held a tensor may hold a number now
            return None
        # What was looked at before fits: a handle never changes its shape, dtype or device.
        if found == [known() for known in self._known]:
            return found
        if (
            any(type(cell._value) is not Tensor for cell in self._held)
            or [h.backend for h in found] != self._backends
            or [h.shape for h in found] != self._shapes
            or [h.dtype for h in found] != self._dtypes
        ):
            return None
        lazy = {*map(type, found)} == {LazyHandle}
        self._known = list(map(ref, found)) if lazy else []
        return found

    def _given(self, handles: Sequence[Any], args: Sequence[Any]) -> list[Handle]:
        """The plan's inputs: handles of the backend below."""
        if self._known:
            # In this order; see `fast_call._CallWriter._run_donating`.
            given = [handle.value for handle in handles]
            if [handle.pending_in for handle in handles].count(None) < len(handles):
                given = [_below(handle) for handle in handles]
        else:
            given = [_below(handle) for handle in handles]
        for place, source in self._others:
            given.insert(place, _below(args[source]._handle if type(source) is int else source))
        return given

    def _run(
        self, handles: Sequence[Any], given: list[Handle], computed: Sequence[Any],
        args: Sequence[Any],
    ) -> Sequence[Handle]:  # fmt: skip
        """Runs the plan and writes; see `fast_call._CallWriter._run_donating`."""
        executable: Any = self._entry.executable
        scalars = computed[: self._entry.scalars]
        before: list[Any] = []
        donation: DonationState | None = None
        run_donating = getattr(executable, "run_donating", None)
        begin = None if self._writes else getattr(executable, "begin", None)
        if begin is not None or run_donating is None:
            outputs = (begin or executable)(given, scalars)
            self._write(outputs, given, computed, args, None, before)
            return outputs  # type: ignore[no-any-return]
        if setting.plans:
            executable.report()
        if not self._donatable:
            if setting.plans:
                donation = DonationState()
                outputs = run_donating(given, scalars, self._none, donation)
            else:
                outputs = executable(given, scalars)
            self._write(outputs, given, computed, args, donation, before)
            return outputs  # type: ignore[no-any-return]
        donation = DonationState(True)
        donated = [handles[n] for n in self._donated]
        try:
            deque(map(_set_pending_in, donated, repeat(self._overwritten)), 0)
            flags = self._overwritable(donated, given)
            outputs = run_donating(given, scalars, flags, donation)
            self._write(outputs, given, computed, args, donation, before)
        except BaseException:
            if donation.done:
                self._write(donation.outputs, given, computed, args, donation, before)
            raise
        finally:
            deque(map(_set_pending_in, donated, repeat(None)), 0)
        return outputs  # type: ignore[no-any-return]

    def _overwritable(self, donated: list[Any], given: Sequence[Handle]) -> Sequence[bool]:
        """Which inputs may be written over, of those whose handles are marked; others are marked no
        more."""
        values = [given[n] for n in self._donatable]
        # Beside the lists counted here, one of the caller's has the handles, and one the values.
        if may_overwrite_all(self._owners, donated, values, 1):
            return self._all
        flags = list(self._none)
        cells: Any = self._owners
        for n, place in enumerate(self._donatable):
            if may_overwrite(cells[n], donated[n], values[n], PASSED_ITEM + 1):
                flags[place] = True
            else:
                donated[n].pending_in = None
        return flags

    def _write(
        self, outputs: Sequence[Handle], given: Sequence[Handle], computed: Sequence[Any],
        args: Sequence[Any], donation: DonationState | None, before: list[Any],
    ) -> None:  # fmt: skip
        """Gives cells what the plan made; a run in the background is told what they held before."""
        if donation is not None and donation.job and not before:
            before += [(cell, cell._value) for cell, *_ in self._writes]
        commits.begin()
        try:
            self._put(outputs, given, computed, args)
        except BaseException:
            # Ctrl-C in the middle goes on when the group is whole.
            self._put(outputs, given, computed, args)
            raise
        finally:
            commits.end()
        if before:
            assert donation is not None
            assert donation.job is not None
            donation.job.wrote(before)

    def _put(
        self, outputs: Sequence[Handle], given: Sequence[Handle], computed: Sequence[Any],
        args: Sequence[Any],
    ) -> None:  # fmt: skip
        wrap = self._entry.wrap
        writes = self._writes
        if all(map(is_, self._of_outputs(outputs), self._of_given(given))):
            writes = self._renewed
            for cell in self._kept:
                cell.version += 1
        for cell, kind, data, place in writes:
            if kind == "tensor":
                if place is None or outputs[data] is not given[place]:
                    cell._value = Tensor(wrap(outputs[data]))
            elif kind == "number":
                cell._value = computed[data]
            else:
                cell._value = args[data] if kind == "argument" else data
            cell.version += 1


def _own_place(
    cell: Cell[Any], result: Result, donatable: dict[int, int], cells: Sequence[Cell[Any] | None]
) -> int | None:
    """Where among the inputs a cell's value is that its new value may overwrite."""
    place = donatable.get(result.data) if result.kind == "tensor" else None
    return place if place is not None and cells[place] is cell else None


def _below(handle: Any) -> Handle:
    """The handle of the backend below, in this order; see `fast_call._CallWriter._run_donating`."""
    if type(handle) is not LazyHandle:
        return handle  # type: ignore[no-any-return]
    value = handle.value
    if handle.pending_in is not None:
        return handle.computed()
    return value  # type: ignore[return-value]
