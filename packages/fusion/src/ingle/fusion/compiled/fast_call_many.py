"""The fast path of a recording with many cells: loops over them.

Lines of a generated function are run a little faster than loops, and compiled at sixteen
microseconds each: with a thousand cells, which take some twenty lines each, that is longer than
twenty steps of the training that it is for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Handle
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.pytree import unflatten
from ingle.tensor.transactions import call_alone, commit_lock, commits

from ..record.log import LazyHandle
from ..runtime.plan_codegen import DonationState
from ..support.refcounts import PASSED_ITEM, may_overwrite
from ..support.run_ahead import setting
from .attribute_reads import Place
from .specialization import Result, Specialization

MANY = 64
"""Cells that are written from which on loops iterate over them."""


def is_many(entry: Specialization) -> bool:
    """Whether a recording is one for loops: of many cells, and of arguments that stay."""
    places = any(isinstance(source, Place) for source in entry.sources)
    return len(entry.writes) >= MANY and not entry.rebound and not places


# Without Python code between one handle and the next, where Ctrl-C might come.
_set_pending_in: Any = vars(LazyHandle)["pending_in"].__set__


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
        self._places = [n for n, cell in enumerate(self._cells) if cell is not None]
        shown = [entry.shown[s] for s in entry.sources if isinstance(s, Cell)]
        self._shapes = [shape for shape, _ in shown]
        self._dtypes = [dtype for _, dtype in shown]
        self._backends = [entry.backends[s] for s in entry.sources if isinstance(s, Cell)]
        self._donatable = sorted(donatable.values())
        self._none = (False,) * len(entry.sources)
        self._stepped = entry.stepped()
        self._writes = [
            (c, r.kind, r.data, _own_place(c, r, donatable, self._cells)) for c, r in entry.writes
        ]

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
        given = [
            _below(args[s]._handle) if type(s) is int else _below(s if h is None else h)
            for s, h in zip(entry.sources, handles, strict=True)
        ]
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
        """The handles of the cells' tensors by place, None elsewhere; None if they do not fit."""
        values = [cell._value for cell in self._cells if cell is not None]
        if any(type(v) is not Tensor for v in values):
            return None
        found = [v._handle for v in values]
        if (
            [h.backend for h in found] != self._backends
            or [h.shape for h in found] != self._shapes
            or [h.dtype for h in found] != self._dtypes
        ):
            return None
        handles: list[Any] = [None] * len(self._cells)
        for place, handle in zip(self._places, found, strict=True):
            handles[place] = handle
        return handles

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
        cells: Any = self._cells
        flags = list(self._none)
        try:
            for n in self._donatable:
                handles[n].pending_in = self._overwritten
                if may_overwrite(cells[n], handles[n], given[n], PASSED_ITEM):
                    flags[n] = True
                else:
                    handles[n].pending_in = None
            outputs = run_donating(given, scalars, flags, donation)
            self._write(outputs, given, computed, args, donation, before)
        except BaseException:
            if donation.done:
                self._write(donation.outputs, given, computed, args, donation, before)
            raise
        finally:
            deque(map(_set_pending_in, [handles[n] for n in self._donatable], repeat(None)), 0)
        return outputs  # type: ignore[no-any-return]

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
        for cell, kind, data, place in self._writes:
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
