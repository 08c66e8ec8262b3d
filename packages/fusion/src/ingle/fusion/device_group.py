"""Several devices that one compiled function may use: what `Fusion` asks of what groups them.

A package that groups devices takes from here, and from `ingle.fusion`, what it needs of fusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ingle.tensor.contract import Backend, Handle, Scalar
from ingle.tensor.operation import Op

from .ir.graph import Graph

if TYPE_CHECKING:
    from .fusion import Fusion
    from .record.log import LazyHandle
    from .runtime.plan_cache import Executable


class DeviceGroup(Protocol):
    """Devices whose tensors may meet in one recording; `ingle.router.Router` is one.

    Attributes:
        fusions: by hardware backend the decorator over it.
    """

    @property
    def fusions(self) -> Mapping[Backend, Fusion]: ...

    def meeting(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Backend:
        """The backend that executes an operation whose operands are on several of the devices.

        Raises:
            DeviceError: nobody shall; the message says what to do.
        """
        ...

    def carry(self, handle: Handle, target: Backend) -> Handle:
        """A hardware backend's handle, moved to another of the devices."""
        ...

    def reduce(
        self, groups: Sequence[Sequence[Handle]], target: Backend
    ) -> Sequence[Handle] | None:
        """Sums of hardware backends' handles at one of them; None where it cannot add them up."""
        ...

    def known(self, handle: Handle) -> LazyHandle:
        """A hardware backend's handle as one of the decorator over it."""
        ...


class PlannedPart(NamedTuple):
    """What one of several devices does of a graph.

    Attributes:
        device: its name.
        backend: its hardware backend.
        graph: the part, as a graph of its own.
        executable: runs that.
        inputs, results: which values of the whole graph the part's inputs and outputs are.
        given, numbers: what it runs on; no handles where nothing ran.
    """

    device: str
    backend: Backend
    graph: Graph
    executable: Executable
    inputs: Sequence[int]
    results: Sequence[int]
    given: Sequence[Handle]
    numbers: Sequence[Any]


@runtime_checkable
class PartedPlan(Protocol):
    """A plan for several devices, which `explain` takes apart."""

    def explained(
        self, given: Sequence[Handle], numbers: Sequence[Any], runs: bool, /
    ) -> Iterable[PlannedPart]:
        """Its parts in order.

        Args:
            given, numbers: what it runs on.
            runs: whether to run each part behind its turn, so that the next ones have operands.
        """
        ...

    def root(self, value: int, /) -> int:
        """The value that one of the graph stands for: itself, unless it is only moved."""
        ...
