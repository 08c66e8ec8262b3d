"""Operations of cuDNN among the kernels of a plan: at addresses, in any stream, also while a graph
is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ingle.fusion.device import Launch, WholeCall
from ingle.tensor.contract import Scalar
from ingle.tensor.operation import Op

from ..cudnn import ALIGNMENT, LibraryOffer, Plan, Prepared
from .buffer_uses import BufferUse

if TYPE_CHECKING:
    from ..backend import CudaBackend

WORKSPACE_ALIGNMENT = 256
"""Of memory that the library works in."""


class LibraryStep(NamedTuple):
    """An operation with all but addresses.

    Attributes:
        offer: which computes it.
        plan: the library's.
        op, numbers: the operation and those of its operands that are numbers.
        tensors, results: (buffer, offset in bytes) of each.
        workspace: where in the first buffer it works; None for scratch memory.
    """

    offer: LibraryOffer
    plan: Plan
    op: Op
    numbers: tuple[Scalar | None, ...]
    tensors: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]
    workspace: int | None = None

    def put(self, buffers: Sequence[int], scratch: int, stream: Any) -> None:
        """Puts it into a stream."""
        workspace = scratch if self.workspace is None else buffers[0] + self.workspace
        tensors, results = (
            [buffers[n] + offset for n, offset in places] for places in (self.tensors, self.results)
        )
        places, held = self.offer.places(self.op, tensors, results, self.numbers)
        self.offer.plans.put(self.plan, places, workspace, stream)
        del held  # what the library has read by now


def library_step(
    launch: Launch, call: WholeCall, offer: LibraryOffer, prepared: Prepared
) -> LibraryStep:
    """The step of a launch that the library computes."""
    places = [(p.buffer, p.offset) for p in launch.pointers]
    count, at = len(call.strides), launch.workspace
    if at is not None:
        at = -(-at // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
    numbers = tuple([x if isinstance(x, Scalar) else None for x in call.numbers])
    return LibraryStep(
        offer, prepared.plan, call.op, numbers, tuple(places[:count]), tuple(places[count:]),
        at,
    )  # fmt: skip


class ShiftedInputs:
    """Buffers that the library reads, where these do not begin at a multiple of 16 bytes.

    Args:
        uses: of a plan's buffers, the first of which is the arena.
    """

    def __init__(self, uses: Mapping[int, BufferUse]) -> None:
        self._nbytes = {n: use.nbytes for n, use in uses.items() if n and use.library_reads}

    def straightened(
        self, backend: CudaBackend, buffers: tuple[int, ...]
    ) -> tuple[tuple[int, ...], list[Any]]:
        """The addresses, with those of copies where it is needed, and the copies' memory, to be
        held until the plan is in the stream."""
        held: list[Any] = []
        if not self._nbytes:
            return buffers, held
        for number, nbytes in self._nbytes.items():
            if buffers[number] % ALIGNMENT:
                memory = backend.allocate(nbytes)
                backend.duplicate(memory.address, buffers[number], nbytes)
                held.append(memory)
                buffers = (*buffers[:number], memory.address, *buffers[number + 1 :])
        return buffers, held
