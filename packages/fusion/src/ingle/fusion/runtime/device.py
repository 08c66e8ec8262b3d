"""What plans ask of a backend that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op

from ..schedule.schedule import Call
from .scratch import Lent

if TYPE_CHECKING:
    import numpy as np

    from .plan_codegen import DonationState, LinearPlan
    from .plan_store import PlanStore


class BufferOffset(NamedTuple):
    """A pointer of a kernel: which of the segment's buffers, and how many bytes into it."""

    buffer: int
    offset: int


class Launch(NamedTuple):
    """A call of a plan, with its operands as places in buffers.

    Attributes:
        call: the kernel and its sizes.
        pointers: for a nest its operands; for a contraction A, B and the epilogue's operands.
        scalars: positions among the plan's scalars.
        operations: the names of what it computes, for messages.
    """

    call: Call
    pointers: tuple[BufferOffset, ...]
    scalars: tuple[int, ...]
    operations: str


class Segment(Protocol):
    """Kernels that run one after the other without Python in between."""

    long: bool
    """Whether it takes so long that Ctrl-C should be able to end it."""

    renewed: bool
    """Whether it was found on a `PlanStore`, and is not as it stood there."""

    keeps: tuple[int, ...]
    """Buffers that it may keep a copy of for later runs, in an order of its own."""

    def __call__(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        landing: DonationState | None = None,
        *,
        keeps: Sequence[Any] = (),
    ) -> None:
        """Runs them on buffers at these addresses.

        Args:
            keeps: the handles in the buffers that are named so, None for what will not come again;
                nothing for none of them.
        """
        ...

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int, keeps: Sequence[Any] = ()
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs; it uses what it kept of some handles."""
        ...

    def sources(self) -> Sequence[str]:
        """The code of each kernel."""
        ...


class Turns(NamedTuple):
    """A segment that runs again and again.

    Attributes:
        segment: what runs.
        addresses: of its buffers, int64 in C order: a row for each turn.
        keeps: as in a call of the segment, for all turns.
    """

    segment: Segment
    addresses: np.ndarray
    keeps: Sequence[Any]


class Ordered(Handle):
    """A handle whose elements lie in C order.

    Attributes:
        address: of the first one.
        kept: what a device keeps beside it. A plan that writes over its memory sets it to None.
    """

    __slots__ = ()

    address: int
    kept: Any


class KernelDevice(Protocol):
    """What a backend gives so that plans of generated kernels run on it; see `KernelBackend`.

    Attributes:
        spreads_products: whether matrix products without a template are written out as nests.
        writes_over: whether its segments tell a `DonationState` how far they have come.
        shelf: where its plans are kept between processes; None for nowhere.
    """

    spreads_products: bool
    writes_over: bool

    @property
    def shelf(self) -> PlanStore | None: ...

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation by itself."""
        ...

    def execute_native(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation that no kernel is generated for."""
        ...

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool: ...

    def owns(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether somebody wrote a kernel for the operation, which `execute_native` runs."""
        ...

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product of these."""
        ...

    def segment(self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]) -> Segment:
        """Compiles kernels and makes them ready to run; `scalars` are dtypes."""
        ...

    def run_turns(self, runs: Sequence[Turns], scalars: Sequence[Any]) -> None:
        """Runs segments one after the other, as often as each of them has addresses."""
        ...

    def empty(self, aval: Aval) -> Ordered:
        """New memory."""
        ...

    def arena(self, nbytes: int) -> Lent:
        """Memory that one run of a plan may use until its end, when it gives it back."""
        ...

    def take_back(self, arena: Lent) -> None:
        """Says that the run is over."""
        ...

    def upload(self, array: np.ndarray) -> Handle:
        """A host array as a value."""
        ...

    def download(self, handle: Handle) -> np.ndarray:
        """A value as a host array."""
        ...

    def in_order(self, handle: Handle) -> Ordered:
        """The handle, or a copy of it whose elements lie in C order at a known address."""
        ...

    def axes_in_memory(self, handle: Handle) -> tuple[int, ...] | None:
        """The axes, the one along which elements lie closest last; None for C order, and on a
        device whose products give the same bits either way.
        """
        ...

    def viewed(self, handle: Handle, aval: Aval, strides: Sequence[int], offset: int) -> Handle:
        """A handle of strided elements of another's memory."""
        ...

    def flag(self, handle: Ordered) -> bool:
        """The one bool of a value that a kernel wrote."""
        ...

    def later(self, parts: LinearPlan) -> AsyncPlan | None:
        """How a plan runs in the background; None if it can't."""
        ...

    def report(self) -> None:
        """Raises what went wrong in the background in runs that this thread asked for."""
        ...


AsyncPlan: TypeAlias = (
    "Callable[[Sequence[Handle], Sequence[Any], Sequence[bool], DonationState], "
    "list[Handle] | None]"
)
"""Takes what a run takes, and returns outputs that get their values later; or None, having done
nothing, if the plan is to be run at once."""
