"""The protocol of devices: what plans call of the backend that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, Operation

from ..passes.convolutions import WindowProblem
from ..schedule.rates import Rates
from ..schedule.schedule import Call, HostStep
from ..schedule.whole_calls import WholeCall
from .scratch import Lent

if TYPE_CHECKING:
    import numpy as np

    from ..ir.graph import Graph
    from .graph_plans import GraphPlans
    from .plan_codegen import DonationState, LinearPlan
    from .plan_store import PlanStore


class BufferOffset(NamedTuple):
    """A pointer of a kernel.

    Attributes:
        buffer: which of the executable's buffers.
        offset: how many bytes into it.
        nbytes: how many the whole buffer has; 0 where that is not said.
    """

    buffer: int
    offset: int
    nbytes: int = 0


class Launch(NamedTuple):
    """A call of a plan, with its operands as places in buffers.

    Attributes:
        call: the kernel and its sizes, without values and nodes (see `BareCalls`); a `WholeCall`
            where `launches_whole` took it.
        pointers: for a nest its operands; for a contraction A, B and the epilogue's operands.
        scalars: positions among the plan's scalars.
        operations: the names of what it computes, for messages.
        workspace: where in the first buffer it has the memory that `workspace_of` asked for.
        fixed: for each scalar its bits, if it is one number in all runs, else None; empty if none
            is.
    """

    call: Call | WholeCall
    pointers: tuple[BufferOffset, ...]
    scalars: tuple[int, ...]
    operations: str
    workspace: int | None = None
    fixed: tuple[int | None, ...] = ()


class NativeExecutable(Protocol):
    """Kernels that run one after the other without Python in between."""

    long: bool
    """Whether it takes so long that Ctrl-C should be able to end it."""

    renewed: bool
    """Whether it was found on a `PlanStore`, and is not as it stood there."""

    prepacks: tuple[int, ...]
    """Buffers that it may keep a copy of for later runs, in an order of its own."""

    profiles_whole: bool
    """Whether `profile` runs all kernels before it runs one again: they leave what a run leaves."""

    def __call__(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        donation: DonationState | None = None,
        *,
        prepacks: Sequence[Any] = (),
    ) -> None:
        """Runs them on buffers at these addresses.

        Args:
            prepacks: the handles in the buffers of `prepacks`, None for a value of one call only;
                nothing for none of them.
        """
        ...

    def profile(
        self,
        addresses: Sequence[int],
        scalars: Sequence[Any],
        runs: int,
        prepacks: Sequence[Any] = (),
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs; it uses what it kept of some handles."""
        ...

    def sources(self) -> Sequence[str]:
        """The code of each kernel."""
        ...


class Turns(NamedTuple):
    """An executable that runs again and again.

    Attributes:
        executable: what runs.
        addresses: of its buffers, int64 in C order: a row for each turn.
        prepacks: as in a call of the executable, for all turns.
    """

    executable: NativeExecutable
    addresses: np.ndarray
    prepacks: Sequence[Any]


class Ordered(Handle):
    """A handle whose elements lie in C order.

    Attributes:
        address: of the first one.
        prepacked: copies beside it, packed ones or one on its way to the host. A plan that writes
            over its memory sets it to None.
    """

    __slots__ = ()

    address: int
    prepacked: Any


class KernelDevice(Protocol):
    """What a backend gives so that plans of generated kernels run on it; see `KernelBackend`.

    Attributes:
        dtypes: what kernels may load, store and compute in; None for all that they know. Others are
            stored and moved, and computed with on the host.
        spreads_products: whether matrix products without a template are written out as nests.
        splits_sums: whether long sums and other reductions are made in two steps, since it has more
            workers than these have rows or columns.
        aligns_rows: whether large products of half types want rows that begin at multiples of 16
            bytes, so much so that values get longer rows.
        moves_by_vectors: whether what lies a few elements apart is loaded and stored by vectors of
            neighbours, so that maps over very short rows go along a longer axis instead.
        folds: whether it renders nests that add up windows, without which each tap is added by
            itself, and running sums that decay.
        joins_launches: whether its executables take neighbours of one small kernel in one launch.
        joined_operations: of those that it launches whole, those that it takes so, too.
        calls_beside: so many calls behind one may run beside it, where their memory is apart.
        joins_maps: whether maps of equal loops that write parts of one value become one kernel.
        fixes_numbers: whether its executables hold the numbers that are the same in each run, so
            that kernels that differ in these alone become one.
        places_results: whether `launches_whole` looks at where results lie, and so is asked about
            those in parts of other values, too.
        rates: of its memory and arithmetic, by which plans of the same bits are weighed.
        writes_over: whether its executables tell a `DonationState` how far they have come.
        ordered_type: the class of handles of which `axes_in_memory` says nothing, and which
            `in_order` gives back as they are: plans do not ask about each of them. On a device with
            `checks` these have an attribute `check`, the last one that was under way when they were
            made, and `in_order` is asked where that is not None.
        plan_store: where its plans are kept between processes; None for nowhere.

    It may have `contracts_bytes(avals)` as well: whether there is a template for a product of these
    matrices of bytes in int32. Without one they are products of float32. And
    `launches_whole(call)`: whether its executables compute an operation that an offer takes, on
    operands that lie so, beside kernels; else `execute_native` does between them. If it splits
    sums, `sums_beside_rows(rows, columns)`: how many sums over so many rows a kernel adds that
    folds each of these rows; else none; `sums_beside_maps` likewise, of one that goes by places.
    `products_apart(dtype, terms)`: whether a library computes products of so many terms, to which
    it may add a row, and leaves all else to other kernels. `workspace_of(call)`: how many bytes an
    operation that it launches whole takes while it runs, which large ones get. And `checks`, those
    of plans that have returned before they had run; without them plans wait for their flags.
    """

    dtypes: frozenset[str] | None
    spreads_products: bool
    splits_sums: bool
    aligns_rows: bool
    moves_by_vectors: bool
    folds: bool
    joins_launches: bool
    joined_operations: frozenset[Operation]
    calls_beside: int
    joins_maps: bool
    fixes_numbers: bool
    places_results: bool
    rates: Rates
    writes_over: bool
    ordered_type: type[Handle]

    @property
    def plan_store(self) -> PlanStore | None: ...

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation by itself."""
        ...

    def prepare(self, graph: Graph) -> GraphPlans:
        """A recorded graph as something to call."""

    def execute_native(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation that no kernel is generated for."""
        ...

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool: ...

    def has_custom_kernel(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether somebody wrote a kernel for the operation, which `execute_native` runs."""
        ...

    def takes_whole(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether the device computes the operation itself, in `execute_native`, be it composite or
        not. It is asked before a composite is taken apart."""
        ...

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product of these."""
        ...

    def takes_windows(self, problem: WindowProblem) -> bool:
        """Whether there is a template for a product with windows, as convolutions are; without
        one, they run as their bodies."""
        ...

    def begin_planning(self, graph: Graph) -> None:
        """Says that many operations are about to be planned, for a device that can begin to compile
        what nearly all such plans need beside that."""
        ...

    def begin_compiling(self, calls: Iterable[Call | HostStep]) -> None:
        """Says what `executable` will be asked to compile soon, for a device that can begin with it
        beside what goes on until then."""
        ...

    def executable(
        self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> NativeExecutable:
        """Compiles kernels and makes them ready to run; `scalars` are dtypes."""
        ...

    def run_turns(self, runs: Sequence[Turns], scalars: Sequence[Any]) -> None:
        """Runs executables one after the other, as often as each of them has addresses."""
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

    def async_plan(self, linear: LinearPlan) -> AsyncPlan | None:
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
