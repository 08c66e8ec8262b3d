"""A plan ready to run: its table of entries, its pointers and its arguments, in fixed memory.

Everything that one call needs has its address taken once, so that a run is one call of a native
function with two numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ingle.fusion.device import DonationState, Lent
from ingle.tensor.errors import BackendError

from ..jit.engine import Code
from . import abi
from .launcher import launcher
from .pool import ThreadPool, thread_pool

# One keeps Python's lock (cheaper, for short plans), the other releases it.
HOLDING = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t)
RELEASING = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t)


class TableEntry(NamedTuple):
    """One kernel of a plan.

    Attributes:
        function: its address.
        first_pointer: its first slot in the plan's pointers.
        first_arg: its first place in the plan's arguments.
        units: how many units of work it has.
        grain: work is split into multiples of this many units; not at all up to that many.
        flags: `abi.WITH_PREVIOUS`, `abi.POINT_OF_NO_RETURN`.
    """

    function: int
    first_pointer: int
    first_arg: int
    units: int
    grain: int = 1
    flags: int = 0


class AbortedError(BackendError):
    """A plan was stopped by its abort flag before it wrote to any state."""


class Table:
    """Runs a plan's entries.

    One table serves one call at a time: `bases` and `args` are its memory. A second call while the
    first still runs takes a `copy`.

    Args:
        entries: in the order of the plan.
        base_of: for each pointer slot, the number of the buffer it points into.
        offset_of: for each pointer slot, how many bytes into that buffer.
        buffers: how many buffers there are.
        args: what the kernels take, at their entries' `first_arg`.
        code: what must stay in memory while there is this table: whose functions entries name.
        thread_pool: whose workers help; the process's by default.

    Attributes:
        launch: runs all entries and keeps Python's lock, after it has put the addresses it is given
            into `bases`, from the first on; returns a status, see `after`.
        scratch: memory that belongs to its runs alone.
        filled_for: whose numbers its entries and arguments hold, where many take turns with it.
    """

    filled_for: object = None
    scratch: Lent | None = None

    def __init__(
        self,
        entries: Sequence[TableEntry] | np.ndarray,
        *,
        base_of: Sequence[int] | np.ndarray,
        offset_of: Sequence[int] | np.ndarray,
        buffers: int,
        args: Sequence[int] | np.ndarray,
        code: Sequence[Code] = (),
        thread_pool: ThreadPool | None = None,
    ) -> None:
        self.code = tuple(code)
        self.entries = np.zeros((len(entries), 8), np.int64)
        if len(entries):
            self.entries[:, :6] = entries
        self.base_of = np.array(base_of, np.int64)
        self.offset_of = np.array(offset_of, np.int64)
        self.bases = np.zeros(max(buffers, 1), np.int64)
        self.args = np.array(args, np.int64)
        self.pointers = np.zeros(len(base_of), np.int64)
        self.profile: np.ndarray | None = None
        self._check(buffers)
        self._connect(thread_pool)

    def _check(self, buffers: int) -> None:
        if len(self.base_of) != len(self.offset_of):
            raise ValueError(
                f"{len(self.base_of)} pointers have a buffer, but {len(self.offset_of)} an offset"
            )
        if ((self.base_of < 0) | (self.base_of >= buffers)).any():
            raise ValueError(f"a pointer names a buffer outside of 0..{buffers - 1}")
        if (self.entries[:, abi.GRAIN] < 1).any():
            raise ValueError("the grain of an entry is below 1")

    def _connect(self, chosen: ThreadPool | None) -> None:
        self.thread_pool = chosen or thread_pool()
        self.thread_pool.start()
        values = {
            "entries": self.entries.ctypes.data,
            "count": len(self.entries),
            "base_of": self.base_of.ctypes.data,
            "offset_of": self.offset_of.ctypes.data,
            "pointer_count": len(self.base_of),
            "pointers": self.pointers.ctypes.data,
            "bases": self.bases.ctypes.data,
            "args": self.args.ctypes.data,
        }
        self.control = np.array([values.get(name, 0) for name in abi.CONTROL], np.int64)
        self.base_bytes = self.bases.data
        self.arg_bytes = self.args.data.cast("B")
        self.bases_address = values["bases"]
        self.args_address = values["args"]
        self.control_address = self.control.ctypes.data
        self._state = self.thread_pool.state
        self._wakes = not self.thread_pool.parks_in_kernel
        run = self.thread_pool.run_address
        holds = (
            self.entries, self.base_of, self.offset_of, self.pointers, self.args, self.control,
            self.code, self.thread_pool,
        )  # fmt: skip
        self.launch = launcher(run, self.control_address, self._state, self.bases, holds)
        self._releasing = RELEASING(run)

    def run(self, *, release: bool = True, donation: DonationState | None = None) -> None:
        """Runs all entries; `bases` and `args` must hold their values.

        Args:
            release: let other Python threads run meanwhile. Keep Python's lock for plans of few
                microseconds: getting it back may take longer than the plan.
            donation: is told when nothing comes between it and the entries any more.

        Raises:
            AbortedError: `abort` was called before the point of no return.
        """
        if self._wakes and self.thread_pool.sleeping:
            self.thread_pool.wake()
        if donation is not None:
            # Python looks for signals after calls: none is handled before the next one's end.
            donation.done = True
        control, state = self.control_address, self._state
        status = self._releasing(control, state) if release else self.launch()
        if status:
            self.after(status)

    def after(self, status: int) -> None:
        """Does what the status of a run asks for, where that is not `abi.FINISHED`."""
        if status == abi.ALONE:
            # A forked child's first plan: it ran on this thread, the next one has help.
            self.thread_pool.start()
            return
        self.forget_abort()
        position = self.control[abi.CONTROL.index("position")]
        raise AbortedError(f"the plan was stopped before entry {position} of {len(self.entries)}")

    def abort(self) -> None:
        """Stops a run in another thread before its next entry, unless state is being written."""
        self.control[abi.CONTROL.index("abort")] = 1

    def forget_abort(self) -> None:
        """Lets the next run run, if `abort` came after the last entry of the one before."""
        self.control[abi.CONTROL.index("abort")] = 0

    def measure(self, wanted: bool = True) -> None:
        """Starts or ends adding up how long each entry takes, each one run by itself."""
        self.profile = np.zeros(len(self.entries), np.int64) if wanted else None
        place = abi.CONTROL.index("profile")
        self.control[place] = 0 if self.profile is None else self.profile.ctypes.data

    @property
    def seconds(self) -> np.ndarray:
        """What each entry took since `measure`, summed over the runs, in seconds."""
        if self.profile is None:
            raise ValueError("nothing was measured: call measure() before the runs")
        return self.profile / self.thread_pool.ticks_per_us * 1e-6

    def copy(self) -> Table:
        """A table of the same plan for a call that overlaps with another."""
        made = object.__new__(Table)
        for name in ("entries", "base_of", "offset_of", "bases", "args", "pointers"):
            setattr(made, name, getattr(self, name).copy())
        made.code, made.profile = self.code, None
        made._connect(self.thread_pool)
        return made


class IdleTables:
    """Tables of the same entries: a call that overlaps with another has one of its own.

    Args:
        table: the first of them.

    Attributes:
        table: likewise.
        idle: those that no thread uses.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.idle = [table]

    def taken(self) -> Table:
        """A table that no other thread uses, to be put back to the idle ones."""
        try:
            return self.idle.pop()
        except IndexError:
            return self.table.copy()


def kernel_table(
    code: Code, base_of: Sequence[int], buffers: int, args: Sequence[int], *,
    units: int = 1, grain: int = 1, offset_of: Sequence[int] = (),
) -> Table:  # fmt: skip
    """The table of one kernel, the first function of its code.

    The arguments are those of a `Table` and its `TableEntry`; without offsets its pointers are at
    the begin of their buffers.
    """
    entry = TableEntry(code.addresses[0], 0, 0, units, grain)
    offsets = offset_of or [0] * len(base_of)
    return Table(
        [entry], base_of=base_of, offset_of=offsets, buffers=buffers, args=args, code=[code]
    )
