"""Operands of products that are prepacked, so that calls need not copy them each time.

A weight that comes again and again as the same handle, unchanged, is copied into panels once. They
are kept beside the handle: they go when it goes, and are forgotten when a plan is about to write
over its memory, which is the only way in which the memory of a handle without a ledger changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ingle.fusion.device import Launch
from ingle.fusion.device.kernels import ContractionCall
from ingle.tensor.late_imports import late
from ingle.tensor.memory import Block, Label
from ingle_numpy.memory import pool

from ..memory import CpuHandle
from .entries_table import entries_table
from .packing import Packing
from .plan import PANELS, B, EntrySpec
from .problem import Choice

if TYPE_CHECKING:
    from .taps_packing import TapsPacking

ENOUGH = 3
"""Calls with the same handle after which its panels are kept."""
RETRY_AFTER = 1000
"""Calls after which it is tried again where there was no room."""
MOST_BYTES = 256 << 20
"""Bytes of all panels that are kept in a process."""


_sizes: dict[int, int] = {}
"""Bytes of all panels, by their address."""


class Panels:
    """A copy of an operand in the order in which tiles read it; it holds its memory."""

    __slots__ = ("address", "block")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.address = block.address
        _sizes[block.address] = block.nbytes

    def __del__(self, forget: Callable[..., object] = _sizes.pop) -> None:
        forget(self.block.address, None)  # modules have no names any more when Python goes down
        self.block.release()


class PackLayout:
    """How an operand is packed, and from which byte of its memory on; equal ones are one object."""

    __slots__ = ("offset", "packing")

    def __init__(self, packing: Packing | TapsPacking, offset: int) -> None:
        self.packing = packing
        self.offset = offset


order_of = lru_cache(maxsize=4096)(PackLayout)


class PackedCache:
    """What is kept beside a handle."""

    __slots__ = ("panels", "sightings")

    def __init__(self) -> None:
        self.panels: dict[PackLayout, Panels] = {}
        self.sightings = 0


class PackedOperand(NamedTuple):
    """The operand of a product that may be kept: the right one, or a weight that is.

    Attributes:
        launch: the number of the product.
        buffer: which of the executable's buffers it lies in.
        order: of its panels.
        choice: how the product is computed from them.
    """

    launch: int
    buffer: int
    order: PackLayout
    choice: Choice


def written(launches: Sequence[Launch]) -> set[int]:
    """The buffers that some launches write to."""
    found: set[int] = set()
    for launch in launches:
        call = launch.call
        if isinstance(call, ContractionCall):
            arguments = (call.a, call.b, *call.operands)
        else:
            arguments = call.arguments
        pairs = zip(arguments, launch.pointers, strict=True)
        found |= {pointer.buffer for argument, pointer in pairs if argument.output}
    return found


def panels_of(handle: CpuHandle | None, order: PackLayout, calls: int = 1) -> Panels | None:
    """The panels of a handle, if it came often enough that they are kept.

    Args:
        handle: the operand's; None where it is another one in each call.
        order: of the panels.
        calls: how many are about to read it: a loop's turns come to one each.
    """
    if handle is None:
        return None
    prepacked = handle.prepacked
    if prepacked is None:
        prepacked = handle.prepacked = PackedCache()
    return prepacked.panels.get(order) or _made(handle, prepacked, order, calls)


def cached_panels(handle: CpuHandle | None, order: PackLayout) -> Panels | None:
    """The panels of a handle, if they are kept at this moment."""
    prepacked = None if handle is None else handle.prepacked
    return None if prepacked is None else prepacked.panels.get(order)


def _made(
    handle: CpuHandle, prepacked: PackedCache, order: PackLayout, calls: int
) -> Panels | None:
    prepacked.sightings += calls
    if prepacked.sightings < ENOUGH:
        return None
    nbytes = order.packing.nbytes
    if not handle.private or not _room_for(nbytes):
        prepacked.sightings = -RETRY_AFTER
        return None
    made = Panels(pool.allocate(nbytes, Label("panels of a weight", handle.shape, handle.dtype)))
    _pack(handle, order, made)
    # Threads that come to this at the same time make the same panels, and one of them stay.
    prepacked.panels[order] = made
    return made


def prepacked_bytes() -> int:
    """How much memory all panels take."""
    # In one go, since finalizers and other threads change the sizes meanwhile.
    return sum(_sizes.copy().values())


def _room_for(nbytes: int) -> bool:
    # Where memory is short, what nobody asked for should not take it.
    return pool.limit is None and nbytes + prepacked_bytes() <= MOST_BYTES


def _pack(handle: CpuHandle, order: PackLayout, panels: Panels) -> None:
    spec = _packing_entry(order.packing)
    table = entries_table([spec], {B: (0, order.offset), PANELS: (1, 0)})
    table.bases[:] = handle.address, panels.address
    table.run()


def _packing_entry(packing: Packing | TapsPacking) -> EntrySpec:
    # Imported here, since a plan that comes whole from the disk does without.
    if isinstance(packing, Packing):
        made: EntrySpec = late("ingle_cpu.matmul.pack_launches").packed(packing, (B, PANELS))
    else:
        made = late("ingle_cpu.matmul.winograd_taps").turned_taps(packing, (B, PANELS))
    return made
