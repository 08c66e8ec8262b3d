"""Several GPUs: copies from one to another, and sums over them by NCCL.

Each device works in a stream of its own. Where one has to come after another, its stream waits for
an event in the other's, and Python waits for neither.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from ingle.fusion.device.kernel_backend import MemoryHandle
from ingle.tensor.contract import Aval, Handle
from ingle.tensor.locks import renewed

from .driver.errors import told
from .driver.libraries import cupy, nccl

if TYPE_CHECKING:
    from .backend import CudaBackend

_DTYPES = {
    "int8": "NCCL_INT8", "uint8": "NCCL_UINT8", "int32": "NCCL_INT32", "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64", "uint64": "NCCL_UINT64", "float16": "NCCL_FLOAT16",
    "bfloat16": "NCCL_BFLOAT16", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
}  # fmt: skip
"""CuPy's names of what NCCL adds."""
_ALREADY = "PeerAccessAlreadyEnabled"


def copied(handle: Handle, target: CudaBackend) -> Handle:
    """A value of another GPU, copied to this one without the host; nobody waits.

    Args:
        handle: of another CUDA backend.
        target: where to.
    """
    source: CudaBackend = handle.backend  # type: ignore[assignment]
    ordered = source.in_order(handle)
    _follow(target, source)
    made = target.empty(Aval(handle.shape, handle.dtype))
    nbytes = math.prod(handle.shape) * handle.dtype.itemsize
    if not nbytes:
        return made
    with _held((source, target)), told(target.device, f"a copy came from {source.device}"):
        target.enter()
        _enable_access(target.limits.number, source.limits.number)
        _wait(target, source)
        target.enter()
        cupy().cuda.runtime.memcpyPeerAsync(
            made.address, target.limits.number, ordered.address, source.limits.number, nbytes,
            target.stream.ptr,
        )  # fmt: skip
        # The source's memory may be given to others once its own stream is behind the copy.
        _wait(source, target)
    return made


def summed(groups: Sequence[Sequence[Handle]]) -> list[Handle] | None:
    """The sum of each group of values, on the device of its first one, by NCCL.

    Args:
        groups: values of equal shape and dtype, one on each of some GPUs, in the same order.

    Returns:
        None where NCCL is not installed or cannot add these.
    """
    backends: tuple[CudaBackend, ...] = tuple([h.backend for h in groups[0]])  # type: ignore[misc]
    numbers = tuple([b.limits.number for b in backends])
    fits = len(set(numbers)) == len(numbers) > 1 and all(
        group[0].dtype.name in _DTYPES and tuple([h.backend for h in group]) == backends
        for group in groups
    )
    library = nccl() if fits else None
    if library is None:
        return None
    made: list[Handle] = []
    first = backends[0]
    given: list[tuple[list[MemoryHandle], MemoryHandle, int]] = []
    for backend in backends[1:]:
        _follow(first, backend)
    for group in groups:
        parts = [b.in_order(h) for b, h in zip(backends, group, strict=True)]
        out = first.empty(Aval(group[0].shape, group[0].dtype))
        made.append(out)
        if math.prod(out.shape):
            given.append((parts, out, math.prod(out.shape)))
    with _held(backends), told(first.device, "values of several GPUs were added"):
        communicators = _communicators(numbers)
        library.groupStart()
        try:
            for parts, out, count in given:
                kind = getattr(library, _DTYPES[out.dtype.name])
                for communicator, backend, part in zip(communicators, backends, parts, strict=True):
                    backend.enter()
                    communicator.reduce(
                        part.address, out.address, count, kind, library.NCCL_SUM, 0,
                        backend.stream.ptr,
                    )  # fmt: skip
        finally:
            library.groupEnd()
    return made


@cache
def _communicators(numbers: tuple[int, ...]) -> Sequence[Any]:
    """NCCL's, one for each GPU of a set; making them takes a second."""
    library = nccl()
    assert library is not None
    found: Sequence[Any] = library.NcclCommunicator.initAll(list(numbers))
    return found


@cache
def _enable_access(to: int, of: int) -> None:
    """Lets the GPU that the thread speaks to read another's memory directly, where the machine has
    a way between them."""
    runtime = cupy().cuda.runtime
    if to == of or not runtime.deviceCanAccessPeer(to, of):
        return  # the driver copies by the host's memory
    try:
        runtime.deviceEnablePeerAccess(of)
    except runtime.CUDARuntimeError as error:
        if _ALREADY not in str(error):
            raise


def _follow(target: CudaBackend, source: CudaBackend) -> None:
    """What is made at the target from now on may depend on checks of the source."""
    if target.checks is not None and source.checks is not None:
        target.checks.follow(source.checks)


def _wait(later: CudaBackend, earlier: CudaBackend) -> None:
    """What is put into one stream from now on comes after what is in another."""
    earlier.enter()
    event = cupy().cuda.Event(block=False, disable_timing=True)
    event.record(earlier.stream)
    later.enter()
    later.stream.wait_event(event)


_meeting = renewed(sys.modules[__name__], "_meeting")
"""Of whoever holds the streams of several devices: two who took them in turn would wait forever."""


@contextmanager
def _held(backends: Sequence[CudaBackend]) -> Generator[None, None, None]:
    """Some devices' streams, for one thread."""
    with ExitStack() as stack:
        stack.enter_context(_meeting)
        for backend in backends:
            stack.enter_context(backend.lock)
        yield
