"""What a handle holds of memory that comes from a pool."""

from __future__ import annotations

from ingle.tensor.memory import Block


class Held:
    """A block of the pool that goes back with the last handle that holds it."""

    __slots__ = ("_block", "address")

    def __init__(self, block: Block) -> None:
        self._block = block
        self.address = block.address

    def __del__(self) -> None:
        self._block.release()
