"""The decorator: answers every operation with a promise, and runs what is needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.operation import Op

from .plans import Planner
from .recorder import LazyHandle, current
from .staging import Staging
from .stream import Stream


class _Streams(threading.local):
    """A stream for each thread."""

    def __init__(self, backend: Fusion, planner: Planner) -> None:
        self.mine = Stream(backend, planner)


class Fusion:
    """Records what it executes and runs it on the backend below when somebody needs a value.

    Args:
        backend: which computes; with a `prepare` it gets whole graphs, else single operations.
    """

    level = 0

    def __init__(self, backend: Backend) -> None:
        self.inner = backend
        self.name = f"fusion({backend.name})"
        self.device: Device = backend.device
        self.planner = Planner(backend)
        self._streams = _Streams(self, self.planner)

    def __repr__(self) -> str:
        return f"Fusion({self.inner!r})"

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        recorder = current.get()
        if recorder is None or recorder.backend is not self:
            recorder = self._streams.mine
            if op.operation.traits.dynamic_shape:
                return self._execute_now(op, inputs)
        return recorder.record(op, inputs)

    def defers(self) -> bool:
        """Whether operations wait here for others: not in a function that is being compiled."""
        recorder = current.get()
        return recorder is None or recorder.backend is not self

    def reuse(self, op: Op, inputs: Sequence[Handle | Scalar], place: int, owner: object) -> Handle:
        """Assigns in place, at once, where the backend below can.

        An assignment would be a copy in each plan. Arithmetic is recorded like any other: it
        costs less together with its neighbours than in place.
        """
        reuse = getattr(self.inner, "reuse", None)
        if reuse is None or op.operation.traits.kind == "elementwise" or not self.defers():
            return self.execute(op, inputs)[0]
        lowered = [x.computed() if isinstance(x, LazyHandle) else x for x in inputs]
        target = lowered[place]
        if isinstance(target, Handle) and target.owned is not None and len(target.owned) > 1:
            self.flush()  # what reads the old value may only be written down
        return self.known(reuse(op, lowered, place, owner))

    def _execute_now(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """For operations whose results have shapes that depend on values."""
        lowered = [x.computed() if isinstance(x, LazyHandle) else x for x in inputs]
        return tuple([self.known(h) for h in self.inner.execute(op, lowered)])

    def known(self, handle: Handle) -> LazyHandle:
        """A handle of the backend below as one of this."""
        lazy = LazyHandle.__new__(LazyHandle)
        lazy.backend = self
        lazy.shape = handle.shape
        lazy.dtype = handle.dtype
        lazy.recorder = None
        lazy.number = -1
        lazy.owned = handle.owned
        lazy.value = handle
        return lazy

    def upload(self, array: np.ndarray) -> Handle:
        return self._uploaded(self.inner.upload(array), array)

    def adopt(self, array: np.ndarray) -> Handle:
        """A handle of a host array without a copy, if the backend below can do that."""
        take = getattr(self.inner, "adopt", self.inner.upload)
        return self._uploaded(take(array), array)

    def _uploaded(self, handle: Handle, array: np.ndarray) -> Handle:
        recorder = current.get()
        if isinstance(recorder, Staging):
            recorder.uploaded(handle, array)
        return self.known(handle)

    def download(self, handle: Handle) -> np.ndarray:
        if isinstance(handle, LazyHandle):
            handle = handle.computed()
        return self.inner.download(handle)

    def flush(self) -> None:
        """Starts everything that this thread has asked for."""
        self._streams.mine.flush()

    def synchronize(self) -> None:
        self.flush()
        self.inner.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)
