"""What a pool deals in: memory of a source, spans that strategies keep, blocks that are lent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from .pool import Pool
    from .strategies import Strategy

ALIGNMENT = 64
"""Every block starts at a multiple of this many bytes: a cache line, and the widest vector."""


class Memory(Protocol):
    """What a source hands out: a range of addresses.

    >>> from ingle.tensor.memory import HostSource, Memory
    >>> memory: Memory = HostSource().allocate(4096)
    >>> memory.nbytes >= 4096, memory.address % 64
    (True, 0)
    """

    address: int
    nbytes: int


class Source(Protocol):
    """Where a pool gets its memory: the operating system, or the driver of a device.

    >>> from ingle.tensor.memory import HostSource, Pool, Source
    >>> source: Source = HostSource()
    >>> Pool(source).statistics().strategy
    'bins'
    """

    def allocate(self, nbytes: int) -> Memory:
        """At least so many bytes, aligned to `ALIGNMENT`; `MemoryError` if there are none."""
        ...

    def free(self, memory: Memory) -> None:
        """Takes back what `allocate` gave."""
        ...


class Label(NamedTuple):
    """What a block is for, in statistics and messages.

    >>> from ingle.tensor.memory import Label
    >>> str(Label("matmul", (2, 3), "float32"))
    'matmul float32[2, 3]'
    """

    operation: str
    shape: tuple[int, ...]
    dtype: object

    def __str__(self) -> str:
        return f"{self.operation} {self.dtype}{list(self.shape)}"


class Span:
    """A piece of a source's memory, lent or kept by a strategy.

    Attributes:
        memory, offset, size: which bytes of which memory.
        home: the strategy that it goes back to.
        free: whether it is kept, and not lent.
        previous, following: its neighbours in the same memory.
    """

    __slots__ = ("following", "free", "home", "memory", "offset", "previous", "size")

    def __init__(self, home: Strategy, memory: Memory, offset: int, size: int) -> None:
        self.home = home
        self.memory = memory
        self.offset = offset
        self.size = size
        self.free = False
        self.previous: Span | None = None
        self.following: Span | None = None


class Block:
    """Memory that a pool lent, with a count of owners; the last one to release it gives it back.

    Attributes:
        address: where it starts, a multiple of `ALIGNMENT`.
        nbytes: how many bytes were asked for.
        size: how many it has.
        memory, offset: the source's memory that it lies in, and where.
        label: what it is for; shown by `str`.

    >>> from ingle.tensor.memory import HostSource, Pool
    >>> pool = Pool(HostSource())
    >>> block = pool.allocate(1000)
    >>> block.address % 64, block.owners
    (0, 1)
    >>> block.retain(); block.release(); block.release()
    >>> pool.statistics().in_use
    0
    """

    __slots__ = ("_count", "_span", "address", "label", "nbytes", "pool")

    def __init__(self, pool: Pool, span: Span, nbytes: int, label: Any) -> None:
        self.pool = pool
        self.address: int = span.memory.address + span.offset
        self.nbytes = nbytes
        self.label = label
        self._span = span
        self._count = 1

    @property
    def size(self) -> int:
        return self._span.size

    @property
    def memory(self) -> Memory:
        return self._span.memory

    @property
    def offset(self) -> int:
        return self._span.offset

    @property
    def owners(self) -> int:
        """How many owners there are; 0 once it has gone back."""
        self.pool.settle()
        return self._count

    def retain(self) -> None:
        """Counts one owner more. Only an owner of the block may call it."""
        self.pool.note(self, 1)

    def release(self) -> None:
        """Counts one owner less. Never waits, so that finalizers may call it anywhere."""
        self.pool.note(self, -1)

    def __repr__(self) -> str:
        label = "" if self.label is None else f" for {self.label}"
        return f"<block of {self.nbytes} bytes at {self.address:#x}{label}>"
