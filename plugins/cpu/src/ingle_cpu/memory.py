"""Handles in memory whose address is known, so that plans need not ask NumPy for it."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import attrgetter
from types import MethodType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.fusion.device import Lent
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType
from ingle.tensor.eager import ArrayHandle
from ingle.tensor.errors import OutOfMemoryError
from ingle.tensor.memory import Block, HostMemory, Label
from ingle_numpy.memory import Root, pool

if TYPE_CHECKING:
    from .backend import Cpu
    from .background.job import Failure, Job
    from .background.queue import Queue
    from .matmul.prepacked import PackedCache

SMALL = 1 << 16
"""Bytes up to which blocks are kept here, by size; larger ones come from the pool."""
_MOST_FREE = 256
_LINE_BITS = 6
_LINE = 1 << _LINE_BITS
_nothing = bool
"""Does nothing when it is called, without a function of Python's."""
_exclusive_of, _memory_of, _seen_of = map(attrgetter, ("exclusive", "memory", "_seen"))


queues: list[Queue] = []
"""What runs while Python goes on: the queue of plans, once there is one."""


def lent_memory(nbytes: int) -> Lent:
    """Memory for runs of plans to take turns with, aligned to a line of the cache."""
    buffer = np.empty(nbytes + _LINE, np.uint8)
    return Lent(-(-buffer.ctypes.data // _LINE) * _LINE, nbytes, buffer)


class Small:
    """A small block of memory of its own, of `2 ** bits` bytes: an array of ctypes', since one of
    NumPy's would take six times as long to tell its address."""

    __slots__ = ()

    free: deque[Small]
    """Those of this size that nobody uses; of more than these the oldest is given up."""
    home: Callable[[Small], None]
    """Takes one back."""
    address: int
    start: int


def _size_class(bits: int) -> type[Small]:
    """The blocks of a size."""
    free: deque[Small] = deque(maxlen=_MOST_FREE)
    own = {"_type_": ctypes.c_char, "_length_": (1 << bits) + _LINE}
    kept = {"free": free, "home": free.append, "__slots__": ("address", "start")}
    return type("Small", (Small, ctypes.Array), own | kept)


_SIZES = [_size_class(bits) for bits in range(SMALL.bit_length())]
"""By the logarithm of their size."""


class _Borrowed:
    """Memory of an array that NumPy made."""

    __slots__ = ("address", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.address = array.__array_interface__["data"][0]


class Pending:
    """Stands in a handle where its array would, as long as a plan in the queue is to write that.

    The states of a handle, of which each is one class and what `_seen` holds:

        written  `CpuHandle`; None, or the array that was made of the memory
        pending  `PendingHandle`; a `Pending` whose job is in the queue, or has ended well
        failed   `PendingHandle`; a `Pending` with a failure: there is no value, each read raises it

    The transitions, each in one place:

        any -> pending      `CpuHandle.leave_to`, in force as soon as the queue has the job
        pending -> written  `PendingHandle._wait`, if the job has ended well, or has failed and the
                            memory has kept a value of before (`old`)
        pending -> failed   `Job.fail`, if it has not

    A job that the queue never got, because a handler of signals raised in between, counts for
    nothing: the handle is in the state of before. The state is a class, since `address` of a
    written handle is then a slot: plans read it for each buffer, and a property would take them
    three times as long.

    Attributes:
        job: the plan's run.
        old: whether the memory keeps its value if that fails.
        before: the pending run of before that was to write that value, if there was one.
    """

    __slots__ = ("before", "job", "old")

    def __init__(self, job: Job, old: bool, before: Pending | None) -> None:
        self.job = job
        self.old = old
        self.before = before

    @property
    def failure(self) -> Failure | None:
        """Why there is no value, if that is known."""
        if self.job.failure is None or not self.old:
            return self.job.failure
        return None if self.before is None else self.before.failure

    def shortened(self) -> Pending | None:
        """The same without what is over and well; None if all is."""
        if self.before is not None:
            self.before = self.before.shortened()
        done = self.before is None and self.job.over
        return None if done and self.failure is None else self


class CpuHandle(ArrayHandle):
    """A value whose elements lie in C order at a known address.

    Attributes:
        address: of the first element.
        memory: what keeps it alive; it goes back when the handle is gone, unless NumPy saw it.
        prepacked: the elements packed into panels. A write over the memory drops it.
    """

    __slots__ = ("_let_go", "_seen", "address", "memory", "owned", "prepacked")

    def __init__(self, backend: Cpu, aval: Aval, memory: Small | Block | _Borrowed) -> None:
        self.backend = backend
        self.shape, self.dtype = aval
        self.owned = None
        self._seen: Any = None
        self.prepacked: PackedCache | None = None
        self.memory = memory
        self.address = memory.address
        self._let_go: Callable[[], object]
        if type(memory) is Block:
            self._let_go = memory.release
        else:
            small = type(memory) is not _Borrowed
            self._let_go = MethodType(memory.home, memory) if small else _nothing  # type: ignore[union-attr]

    @property
    def array(self) -> Any:
        """The value as an array that shares the memory, and keeps it from then on."""
        if self._seen is None:
            self._seen = self._exposed()
        return self._seen

    def _exposed(self) -> Any:
        """An array in the memory, which a small block belongs to from then on."""
        if isinstance(self.memory, Small):
            self._let_go = _nothing
        return _array(self.memory, self.shape, self.dtype.dtype)

    @property
    def exclusive(self) -> bool:
        """Whether nothing but this handle sees the memory."""
        return self._seen is None and type(self.memory) is not _Borrowed

    @staticmethod
    def all_exclusive(handles: Sequence[CpuHandle]) -> bool:
        """Whether each of many of one class is `exclusive`, without a call of Python for each."""
        if type(handles[0]) is not CpuHandle:
            return False not in map(_exclusive_of, handles)
        unseen = {*map(type, map(_seen_of, handles))} == {NoneType}
        return unseen and _Borrowed not in map(type, map(_memory_of, handles))

    @property
    def pending(self) -> Pending | None:
        """The run in the queue that is to write the memory."""
        return None

    def leave_to(self, job: Job, old: bool) -> None:
        """From any state to pending; see `Pending`."""
        before = self.pending
        pending = Pending(job, old, None if before is None else before.shortened())
        # Both in one step, without a call.
        self.__class__ = PendingHandle
        self._seen = pending

    @property
    def private(self) -> bool:
        """Whether nobody but plans may write the memory."""
        return type(self.memory) is not _Borrowed

    def fill(self, array: np.ndarray) -> None:
        """Writes elements into the memory, which nobody has seen yet."""
        np.copyto(_array(self.memory, self.shape, self.dtype.dtype), array)

    # Python looks the finalizer up and then calls what it got. Ctrl-C is raised as a function of
    # Python's begins, and in a finalizer it would be lost; what lets go of small blocks is none.
    __del__ = property(attrgetter("_let_go"))


class PendingHandle(CpuHandle):
    """A handle that is pending or failed; see `Pending`. Reads of its address or array wait.

    The address of the memory itself is known all the time, and says nothing of what is there.
    """

    __slots__ = ()

    @property
    def address(self) -> int:  # type: ignore[override]
        """Of the first element, once it is written."""
        self._wait()
        return self.memory.address

    @property
    def array(self) -> Any:
        """The value as an array, once it is written."""
        self._wait()
        if type(self) is PendingHandle:
            return self._exposed()
        return self.array

    @property
    def exclusive(self) -> bool:
        """Whether nothing but this handle will see the memory."""
        return type(self.memory) is not _Borrowed

    @property
    def pending(self) -> Pending | None:
        """The run in the queue that is to write the memory."""
        seen = self._seen
        found = seen if type(seen) is Pending else None
        # A handler of signals may come by before a job is given, and finds what was there before;
        # or it raises then, and the job never is.
        while found is not None and not found.job.given:
            found = found.before
        return found

    def _wait(self) -> None:
        """From pending to written, or the error of a failed run."""
        seen, pending = self._seen, self.pending
        if pending is None:
            return
        pending.job.wait()
        failure = pending.failure
        if failure is not None:
            pending.job.hear(failure)
        if pending is seen:
            # In this order: other threads may look at it, too.
            self._seen = None
            self.__class__ = CpuHandle  # type: ignore[assignment]

    def __del__(self) -> None:
        pending = self.pending
        if pending is not None:
            pending.job.keep(self.memory)
            return
        self._let_go()


def give_back(memory: Small | Block) -> None:
    """Gives the memory of a handle back that nobody sees any more."""
    if isinstance(memory, Block):
        memory.release()
    else:
        memory.home(memory)


def ours(handle: CpuHandle) -> bool:
    """Whether nobody but this backend writes the memory of a handle."""
    if type(handle.memory) is not _Borrowed:
        return True
    owner = _owner(handle.memory.array)
    return isinstance(owner, np.ndarray) and id(owner) not in foreign


foreign: dict[int, Any] = {}
"""Weak references to arrays that others made, by their `id`."""


def adopted(array: Any) -> None:
    """Notes that others made an array, and may write it."""
    owner = _owner(array)
    if isinstance(owner, np.ndarray):
        key = id(owner)
        foreign[key] = weakref.ref(owner, lambda _: foreign.pop(key, None))


def _owner(array: Any) -> Any:
    """What owns the memory of an array: another one, if not some object of others."""
    while not isinstance(array, (_Held, Root)) and getattr(array, "base", None) is not None:
        array = array.base
    return array


class _Held(np.ndarray[Any, Any]):
    """Below every array in a block of the pool: it gives the block back."""

    block: Block | None

    def __del__(self) -> None:
        block = getattr(self, "block", None)
        if block is not None:
            block.release()


def _array(memory: Small | Block | _Borrowed, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if isinstance(memory, _Borrowed):
        return memory.array
    if isinstance(memory, Small):
        return np.ndarray(shape, dtype, memory, memory.start)  # type: ignore[arg-type]
    host = memory.memory
    assert isinstance(host, HostMemory)
    memory.retain()
    held = np.ndarray.__new__(_Held, shape, dtype, host.buffer, host.start + memory.offset)
    held.block = memory
    return held.view(np.ndarray)


maker: ContextVar[str] = ContextVar("maker", default="a plan")
"""What large results are made by, for statistics and messages."""


def new_handle(backend: Cpu, aval: Aval) -> CpuHandle:
    """A handle with whatever is in its memory."""
    nbytes = aval.dtype.itemsize
    for size in aval.shape:
        nbytes *= size
    if nbytes > SMALL:
        label = Label(maker.get(), aval.shape, aval.dtype)
        return CpuHandle(backend, aval, _block(nbytes, label))
    return CpuHandle(backend, aval, small_block(_SIZES[_bits(nbytes)]))


def small_size(aval: Aval) -> type[Small] | None:
    """The size of block that values of a shape and dtype lie in; None where they are not small."""
    nbytes = math.prod(aval.shape) * aval.dtype.itemsize
    return _SIZES[_bits(nbytes)] if nbytes <= SMALL else None


def _bits(nbytes: int) -> int:
    return (nbytes - 1).bit_length() if nbytes > _LINE else _LINE_BITS


def small_block(size: type[Small]) -> Small:
    """A block with whatever is in its memory."""
    try:
        return size.free.pop()
    except IndexError:
        made: Any = size()
        first = ctypes.addressof(made)
        made.start = start = -first % _LINE
        made.address = first + start
        found: Small = made
        return found


def _block(nbytes: int, label: Label) -> Block:
    try:
        return pool.allocate(nbytes, label)
    except OutOfMemoryError:
        if not any(queue.busy for queue in queues):
            raise
    for queue in queues:  # Its jobs hold what they read.
        queue.wait_for_all()
    return pool.allocate(nbytes, label)


def copied(backend: Cpu, array: np.ndarray, dtype: DType) -> CpuHandle:
    """A handle of a copy of an array's elements."""
    made = new_handle(backend, Aval(array.shape, dtype))
    made.fill(array)
    return made


def borrowed(backend: Cpu, handle: ArrayHandle) -> CpuHandle:
    """A handle of another one's memory, whose elements lie in C order."""
    made = CpuHandle(backend, Aval(handle.shape, handle.dtype), _Borrowed(handle.array))
    made.owned = handle.owned
    return made


def place_of(handle: Any) -> Any:
    """Where the first element is of elements that lie in C order, as a launcher takes it; None for
    others."""
    if isinstance(handle, CpuHandle):
        return handle.address
    array = handle.array
    return array.__array_struct__ if array.flags.c_contiguous else None


def place_in_order(handle: Any) -> Any:
    """The same of a copy, where they lie otherwise and are few."""
    place = place_of(handle)
    if place is None and handle.array.nbytes <= SMALL:
        return np.ascontiguousarray(handle.array).__array_struct__  # which holds the array
    return place
