"""A decorator that watches what a public function asks of a backend, or expands a composite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.dispatch import execute_body, highest, wrap
from ingle.tensor.operation import Op, Operation, infer

ABOVE_ALL = 1 << 20
"""Its level: above every transform, so that it sees whole operations first."""


class WatchedHandle(Handle):
    """A handle of a lower level that passes through a `Capture`."""

    __slots__ = ("inner",)

    def __init__(self, backend: Capture, inner: Handle) -> None:
        self.backend = backend
        self.inner = inner
        self.shape = inner.shape
        self.dtype = inner.dtype


class Capture:
    """Checks every result's shape and dtype against the room's rule and notes every operation.

    Args:
        backend: the backend below.
        expand: an operation that is run through its body, whatever kernels and rules it has.
    """

    def __init__(self, backend: Backend, *, expand: Operation | None = None) -> None:
        self.inner = backend
        self.name = f"capture({backend.name})"
        self.device = backend.device
        self.level = ABOVE_ALL
        self.expand = expand
        self.ops: list[tuple[Op, tuple[Aval, ...]]] = []

    @property
    def operations(self) -> list[Operation]:
        """The operations that ran, in order."""
        return [op.operation for op, _ in self.ops]

    def enter(self, x: Tensor) -> Tensor:
        """The tensor as an input that is watched."""
        return wrap(WatchedHandle(self, x._handle))

    @staticmethod
    def leave(x: Tensor) -> Tensor:
        """A result without the watching."""
        handle = x._handle
        return wrap(handle.inner) if isinstance(handle, WatchedHandle) else x

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        inner = [x.inner if isinstance(x, WatchedHandle) else x for x in inputs]
        self.ops.append((op, tuple(Aval(x.shape, x.dtype) for x in inputs)))
        if op.operation is self.expand:
            outputs = execute_body(op, inner, self.device)
        else:
            backend = (
                highest(op, inner) if any(isinstance(x, Handle) for x in inner) else self.inner
            )
            outputs = backend.execute(op, inner)
        if not op.operation.traits.dynamic_shape:
            self._check(op, inputs, outputs)
        return tuple(WatchedHandle(self, h) for h in outputs)

    @staticmethod
    def _check(op: Op, inputs: Sequence[Handle | Scalar], outputs: Sequence[Handle]) -> None:
        expected = infer(op, inputs)
        got = tuple(Aval(h.shape, h.dtype) for h in outputs)
        assert got == expected, (
            f"{op!r} returned {', '.join(map(str, got))}; "
            f"its rule says {', '.join(map(str, expected))}"
        )

    def upload(self, array: np.ndarray) -> Handle:
        return self.inner.upload(array)

    def download(self, handle: Handle) -> np.ndarray:
        while isinstance(handle, WatchedHandle):
            handle = handle.inner
        return handle.backend.download(handle)

    def synchronize(self) -> None:
        self.inner.synchronize()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)
