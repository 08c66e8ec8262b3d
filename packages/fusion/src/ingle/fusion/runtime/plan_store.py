"""What a device gives so that plans outlive their process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .device import NativeExecutable


class PlanStore(Protocol):
    """Where a device's plans are kept between processes; see `ingle.fusion.runtime.plan_records`.

    A device has one as its attribute `plan_store`, or None. Its content is nothing to rely on: it
    may be gone, or not be what was put there.
    """

    def description(self) -> str:
        """Everything that plans depend on and that is no graph: the machine, settings, versions."""
        ...

    def get(self, name: str) -> bytes | None:
        """What was put there under a name, if it is still there as it was."""
        ...

    def put(self, name: str, content: bytes) -> None: ...

    def written(self, executable: NativeExecutable) -> bytes | None:
        """An executable as bytes; None if it cannot be one."""
        ...

    def executable(
        self, content: bytes, buffers: Sequence[int], scalars: Sequence[str]
    ) -> NativeExecutable | None:
        """The executable of such bytes, ready to run; None if they are none, or do not suit.

        Args:
            content: what `written` said, in this process or another.
            buffers: the bytes of each buffer that it will be given.
            scalars: the dtypes of its numbers.
        """
        ...

    def is_outdated(self, executable: NativeExecutable) -> bool:
        """Whether an executable that was read would be made otherwise now, with the same bits: this
        machine knows better by now which way is quick."""
        ...

    def anew(self, executable: NativeExecutable) -> NativeExecutable:
        """One that was read as it would be made now; says `tick` as it goes on."""
        ...
