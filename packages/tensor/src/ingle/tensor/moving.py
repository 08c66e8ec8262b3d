"""Copies of values from one device to another, by the most direct way that both know.

Decorators know how to move what they hold (`move`); below them `carried` tries, in this order: the
backend's own copy to the other, DLPack, memory that both can read, and the host.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from .dlpack import HOST, Place
from .errors import LostDeviceError
from .operation import OPERATIONS, Op

if TYPE_CHECKING:
    from .contract import Backend, Handle, Shape

MoveRoad = Literal["stays", "peer copy", "DLPack", "shared memory", "host", "reduction"]


def moved(handle: Handle, target: Backend) -> Handle:
    """The value as a handle of another device's backend, with the recording of gradients.

    Args:
        handle: of any level.
        target: the backend of the other device, as `backend_of` names it.
    """
    move = getattr(handle.backend, "move", None)
    if move is not None:
        found: Handle = move(handle, target)
        return found
    return received(handle, target)


def received(handle: Handle, target: Backend) -> Handle:
    """The value of a hardware backend's handle, at another device's backend."""
    receive = getattr(target, "receive", None)
    if receive is not None:
        found: Handle = receive(handle)
        return found
    while target.level:  # nothing is recorded of a value that comes from elsewhere
        target = target.inner  # type: ignore[attr-defined]
        if hasattr(target, "receive"):
            return received(handle, target)
    return carried(handle, target)[0]


def carried(handle: Handle, target: Backend) -> tuple[Handle, MoveRoad]:
    """A value moved between two hardware backends, and the road that it took.

    Args:
        handle: of the one.
        target: the other. `copy` of either backend is asked first and may return None.

    Raises:
        LostDeviceError: one of the two is gone; `device` says which.
    """
    source = handle.backend
    if source is target:
        return handle, "stays"
    for backend in (source, target):
        copy = getattr(backend, "copy", None)
        found: Handle | None = None if copy is None else copy(handle, target)
        if found is not None:
            return found, "peer copy"
    take, give = getattr(target, "from_dlpack", None), getattr(source, "to_dlpack", None)
    if take is not None and give is not None:
        try:
            found = take(Export(handle), copy=None)
        except BufferError:  # a dtype or a place that one of the two cannot name
            found = None
        if found is not None:
            return found, "DLPack"
    with _naming(source):
        array = source.download(handle)
    adopt = getattr(target, "adopt", None)
    with _naming(target):
        # A backend writes no memory that it has handed out: a reader of host memory shares it.
        if adopt is not None and not array.flags.writeable:
            return adopt(array), "shared memory"
        return target.upload(array), "host"


def reduced(groups: Sequence[Sequence[Handle]], target: Backend) -> list[Handle] | None:
    """The sum of each group of values of several devices, by the devices' own road (`reduce`).

    Args:
        groups: values of equal shape and dtype, one of each device, in the same order everywhere.
        target: the backend of the first device, as `backend_of` names it.

    Returns:
        A sum on the first device for each group; None where there is no such road, or where
        something of it is only being traced.
    """
    target = _lowest(target)
    reduce = getattr(target, "reduce", None)
    if reduce is None:
        return None
    for handle in (handle for group in groups for handle in group):
        if handle.abstract or type(handle.backend) is not type(target):
            return None
    found: list[Handle] | None = reduce(groups)
    return found


def started(target: Backend) -> None:
    """Has a device that works by itself begin with all that it was asked for, without a wait.

    Args:
        target: its backend, as `backend_of` names it.
    """
    start = getattr(_lowest(target), "start", None)
    if start is not None:
        start()


def _lowest(backend: Backend) -> Backend:
    """The hardware backend below all decorators."""
    while backend.level:
        backend = backend.inner  # type: ignore[attr-defined]
    return backend


@contextmanager
def _naming(backend: Backend) -> Generator[None, None, None]:
    """Errors of a lost device say which one."""
    try:
        yield
    except LostDeviceError as error:
        if error.device is None:
            error.device = backend.device
        raise


def standing_for_move(shape: Shape) -> Op:
    """What is recorded of a move where a function of several devices is traced: an operation
    that gives a tensor as it is, whose result has another place."""
    return OPERATIONS["reshape"].op(shape=shape)


class Export:
    """A hardware backend's handle, as a producer of DLPack."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __dlpack_device__(self) -> Place:
        where: Any = getattr(self._handle.backend, "dlpack_device", None)
        return HOST if where is None else where()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Place | None = None,
        copy: bool | None = None,
    ) -> Any:
        backend: Any = self._handle.backend
        return backend.to_dlpack(
            self._handle, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )
