"""Serialization of executables: plans that outlive their process.

A record holds an executable's table as numbers, with placeholders for the addresses of code, and
the store's keys of the compiled objects. Reading one copies arrays and loads objects; nothing is
rendered or compiled. If an object is missing, the reader builds the executable anew from its
launches, which the record holds as well. Where the tuner has a better choice by now, or time to
look for one, it says so, and the executable is built anew when there is time.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.fusion.device import DiskStore, Launch, is_exact, is_measured
from ingle.fusion.device.executables import folder_digest, read_launches, written_launches
from ingle.tensor.errors import BackendError
from ingle.tensor.late_imports import late

from ..jit.engine import engine
from ..matmul.packing import Packing
from ..matmul.prepacked import PackedOperand, order_of
from ..matmul.problem import Choice
from ..matmul.taps_packing import WINOGRAD, TapsPacking, is_wanted
from ..matmul.tile import Tile
from ..matmul.winners import winners
from ..threads.pool import pool_size
from ..threads.table import Table
from .code_places import (
    FIELDS,
    CodePlaces,
    arrays_of,
    check_entries,
    count,
    put_back,
    read_tuned,
    recalled,
)
from .executable import CpuExecutable
from .sized_records import read_table, written_table
from .table_set import SymbolicTable, TableSet

if TYPE_CHECKING:
    from ingle.fusion.device import NativeExecutable, SizedPlan

_NONSENSE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, OverflowError,
    RecursionError, BackendError,
)  # fmt: skip
"""What bytes lead to that are no record."""


NO_TABLE = b"\xff" * 8
"""Before the launches of a plan for all sizes that has no table, which no table begins with."""


class CpuPlanStore:
    """Where the plans of this machine are kept.

    Args:
        store: on disk.
    """

    def __init__(self, store: DiskStore) -> None:
        self._store = store

    def description(self) -> str:
        """The machine, the threads, the settings, and the code of this plugin."""
        settings = is_exact(), is_measured(), is_wanted()
        return f"{_lasting_part()} {pool_size()} {settings}"

    def get(self, name: str) -> bytes | None:
        return self._store.get(name)

    def put(self, name: str, content: bytes) -> None:
        self._store.put(name, content)

    def written(self, executable: NativeExecutable) -> bytes | None:
        """An executable as bytes; None if its launches hold what is no data."""
        assert isinstance(executable, CpuExecutable)
        try:
            launches = written_launches(executable.launches()).encode()
            return _written(executable, launches)
        except (TypeError, LookupError):  # code of an unknown origin
            return None

    def executable(
        self, content: bytes, buffers: Sequence[int], scalars: Sequence[str]
    ) -> CpuExecutable | None:
        """The executable of such bytes; None if they are none, or do not suit."""
        try:
            return _ExecutableReader(content, buffers, scalars).executable()
        except _NONSENSE:
            return None

    def is_outdated(self, executable: NativeExecutable) -> bool:
        """Whether products of an executable that was read would be computed in another way now."""
        return isinstance(executable, CpuExecutable) and executable.outdated

    def anew(self, executable: NativeExecutable) -> CpuExecutable:
        """One that was read as it would be made now."""
        assert isinstance(executable, CpuExecutable)
        return executable.anew()

    def written_sized(self, kernels: SizedPlan) -> bytes | None:
        """The kernels of a plan for all sizes as bytes; None where they cannot be kept."""
        made = kernels.kernels  # type: ignore[attr-defined]
        try:
            if isinstance(made, SymbolicTable):
                return written_table(made)
            return NO_TABLE + written_launches(made.launches).encode()
        except (LookupError, TypeError):  # code of an unknown origin, or what is no data
            return None

    def sized_plan(
        self, content: bytes, device: Any, buffers: int, scalars: Sequence[str]
    ) -> SizedPlan | None:
        """The kernels of such bytes; None if they are none, or do not suit."""
        parts = late("ingle_cpu.eager.sized_call")
        kernels: Any
        try:
            if content.startswith(NO_TABLE):
                launches = read_launches(json.loads(content[len(NO_TABLE) :]))
                kernels = parts.SizedLaunches(launches, buffers, scalars)
            else:
                kernels = read_table(content, buffers, scalars)
        except _NONSENSE:
            return None
        made: SizedPlan | None = None if kernels is None else parts.CpuSizedPlan(device, kernels)
        return made


@functools.cache
def _lasting_part() -> str:
    """What stays the same in a process."""
    spec = importlib.util.find_spec("ingle_cpu")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    digests = [folder_digest(f) for f in folders]
    return f"{engine().machine.fingerprint.hex()} {digests}"


def _text(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _written(executable: CpuExecutable, launches: bytes) -> bytes:
    usual = executable.usual
    table = usual.table
    places = CodePlaces(table.code)
    entries, args = table.entries[:, :FIELDS].copy(), table.args.copy()
    code = places.taken_out(entries, args, usual.addressed)
    for at, _ in usual.patches:
        args[at // 8] = 0
    arrays = [entries, table.base_of, table.offset_of, args]
    said = {
        **code,
        "spans": usual.spans,
        "patches": usual.patches,
        "scratch": usual.scratch,
        "keepable": [_written_operand(o) for o in executable.prepackable],
        "tuned": usual.tuned,
        "sizes": [a.size for a in arrays],
    }
    text = _text(said)
    heads = struct.pack("<QQ", len(text), len(launches))
    return b"".join([heads, text, launches, *[a.astype("<i8").tobytes() for a in arrays]])


def _written_operand(operand: PackedOperand) -> list[Any]:
    order = operand.order
    return [operand.launch, operand.buffer, order.offset, order.packing, operand.choice]


class _ExecutableReader:
    """Makes an executable of bytes, none of which it takes for granted."""

    def __init__(self, content: bytes, buffers: Sequence[int], scalars: Sequence[str]) -> None:
        self._buffers = buffers
        self._scalars = scalars
        text, launches = struct.unpack_from("<QQ", content)
        end = 16 + text + launches
        if end > len(content):
            raise ValueError("cut off")
        self._said = json.loads(content[16 : 16 + text])
        self._launch_text = content[16 + text : end]
        self._tuned = read_tuned(self._said["tuned"])
        self._numbers = np.frombuffer(content, "<i8", offset=end).astype(np.int64)

    def executable(self) -> CpuExecutable:
        usual = self._table_set()
        launches = self._launches()
        if usual is None:
            made = CpuExecutable.of(launches(), len(self._buffers), self._scalars)
            made.renewed = True
            return made
        made = CpuExecutable(launches, len(self._buffers), self._scalars, usual, usual.prepackable)
        made.outdated = not self._agrees()
        return made

    def _launches(self) -> Callable[[], Sequence[Launch]]:
        text = self._launch_text
        return functools.cache(lambda: read_launches(json.loads(text)))

    def _agrees(self) -> bool:
        """Whether products would be computed in the same way now."""
        return all(winners().agrees(key, asked) for key, asked in self._tuned.items())

    def _table_set(self) -> TableSet | None:
        """The tables; None where an object is gone."""
        said = self._said
        found = recalled(said["objects"])
        if found is None:
            return None
        entries, base_of, offset_of, args = arrays_of(self._numbers, said["sizes"])
        scratch = count(said["scratch"])
        self._check(entries, base_of, offset_of, args, scratch)
        addressed = put_back(said, found, entries, args)
        patches = [(count(at), count(n)) for at, n in said["patches"]]
        if any(at % 8 or at // 8 >= len(args) or n >= len(self._scalars) for at, n in patches):
            raise ValueError("a number goes nowhere")
        spans = [(count(a), count(b)) for a, b in said["spans"]]
        if any(not a <= b <= len(entries) for a, b in spans):
            raise ValueError("a launch has entries that are not there")
        table = Table(
            entries, base_of=base_of, offset_of=offset_of, buffers=len(self._buffers) + 1,
            args=args, code=tuple(found),
        )  # fmt: skip
        return TableSet(
            table, len(self._buffers) + 1, spans=spans, patches=patches, scratch=scratch,
            prepackable=[self._operand(*o) for o in said["keepable"]], addressed=addressed,
            tuned=self._tuned,
        )  # fmt: skip

    def _check(
        self, entries: np.ndarray, base_of: np.ndarray, offset_of: np.ndarray, args: np.ndarray,
        scratch: int,
    ) -> None:  # fmt: skip
        """Raises ValueError where a table points to what is not there."""
        if len(base_of) != len(offset_of) or len(entries) != len(self._said["functions"]):
            raise ValueError("arrays of different lengths")
        check_entries(entries, len(base_of), len(args))
        sizes = np.array([*self._buffers, scratch], np.int64)
        if (base_of < 0).any() or (base_of >= len(sizes)).any():
            raise ValueError("a pointer into no buffer")
        # One past the end is where an empty operand may lie.
        if (offset_of < 0).any() or (offset_of > sizes[base_of]).any():
            raise ValueError("a pointer beyond its buffer")

    def _operand(
        self, launch: Any, buffer: Any, offset: Any, packing: Any, choice: Any
    ) -> PackedOperand:  # fmt: skip
        if not 0 < count(buffer) < len(self._buffers):
            raise ValueError("an operand in no buffer")
        tile, *how = choice
        known = Choice(Tile(*tile), *how)
        order = order_of(_read_packing(packing, known), count(offset))
        return PackedOperand(count(launch), buffer, order, known)


def _read_packing(said: Any, choice: Choice) -> Packing | TapsPacking:
    if choice.pack_b == WINOGRAD:
        return TapsPacking(*said)
    dtype, batch, strides, *sizes = said
    return Packing(dtype, tuple(batch), tuple(strides), *sizes)
