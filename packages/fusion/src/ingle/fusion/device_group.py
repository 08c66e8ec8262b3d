"""Several devices that one compiled function may use: what `Fusion` asks of what groups them.

A package that groups devices takes from here, and from `ingle.fusion`, what it needs of fusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ingle.tensor.contract import Backend, Handle, Scalar
from ingle.tensor.operation import Op

if TYPE_CHECKING:
    from .fusion import Fusion
    from .record.log import LazyHandle


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
