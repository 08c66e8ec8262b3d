"""The contract of backends, which every operation passes through.

A backend is any object with the methods of `Backend`. It never sees user types: it gets an `Op`
(an operation with its static attributes) and handles of its own making or weak scalars, and gives
handles back. Decorators (autodiff, fusion, routing) are backends that hold backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .dtypes import DType

if TYPE_CHECKING:
    from .device import Device
    from .memory import Owners
    from .operation import Op

CONTRACT_VERSION = 1
"""Raised when a backend written for the older contract would no longer work."""

Shape = tuple[int, ...]


class Aval(NamedTuple):
    """What is known of a value before it is computed.

    >>> from ingle.tensor import float32
    >>> from ingle.tensor.programs import Aval
    >>> Aval((2, 3), float32)
    Aval(shape=(2, 3), dtype=float32)
    """

    shape: Shape
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_LARGEST = {kind: float(np.finfo(kind).max) for kind in (np.float16, np.float32, np.complex64)}
"""Of the dtypes that hold less than Python's numbers do."""


class Scalar:
    """A Python number as an operand, typed when it was recorded; it never widens a dtype."""

    __slots__ = ("dtype", "value")

    shape: Shape = ()
    backend: Backend | None = None
    """A scalar is at home everywhere."""

    def __init__(self, value: bool | float | complex, dtype: DType) -> None:
        self.value = value
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Scalar({self.value!r}, {self.dtype})"

    def array(self) -> Any:
        """The number as a NumPy scalar of its dtype; beyond what that holds it is infinite."""
        kind, value = self.dtype.dtype.type, self.value
        largest = _LARGEST.get(kind)
        if largest is None or (type(value) is not complex and -largest <= value <= largest):  # type: ignore[operator]
            return kind(value)
        with np.errstate(over="ignore"):  # where NumPy warns, at a line that is not the user's
            return kind(value)


class Handle:
    """What a backend returns: one value on one device. Backends derive from it.

    Attributes:
        backend: which made it and can execute on it.
        shape, dtype: as for tensors. How the bytes lie in memory is the backend's own affair.
        owned: the ledger of the holders of the buffer, where it may be written in place; else None.
            Tensors enter themselves. Whoever else keeps a handle that he did not make, beyond the
            call that it came with, says `handle.owned.share()`.
        abstract: whether there is no value, since what makes it is only being traced.
        pending_in: the recording that it waits in for its value, if one knows public calls there by
            the numbers of what they take; see `prepared.Recording`.
    """

    __slots__ = ("backend", "dtype", "shape")

    abstract: bool = False
    pending_in: Any = None
    owned: Owners | None = None

    backend: Backend
    shape: Shape
    dtype: DType

    def detached(self) -> Handle:
        """The same value without any recording of gradients; decorators that record override it."""
        return self

    def replaces(self, old: Handle, cell: object) -> None:
        """A cell that held another value holds this one from now on. Those that are computed later,
        and may fail, remember how the cell gets back what it held; others are there by now."""
        self.ensure()

    def ensure(self) -> None:
        """Waits until the value is there and raises what went wrong, where an operation may fail
        after it has returned; asked before state takes the value. Others have nothing to do."""

    def item(self) -> Any:
        """The value of one element as a Python number, without any recording; waits for it."""
        handle = self.detached()
        return handle.backend.download(handle).item()

    def base(self) -> Handle:
        """The handle under those of all decorators, with the axes of batches in front."""
        return self

    @property
    def owners(self) -> int | None:
        """How many tensors, views and exports hold the buffer; None where nobody counts them,
        and then it is never written."""
        return None if self.owned is None else len(self.owned)


@runtime_checkable
class Backend(Protocol):
    """The contract. `level` is 0 for hardware and for decorators that do not differentiate."""

    name: str
    device: Device
    level: int

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs one operation. Its inputs were checked; shapes and dtypes fit the room's rule."""
        ...

    def upload(self, array: np.ndarray) -> Handle:
        """Copies a host array to the device."""
        ...

    def download(self, handle: Handle) -> np.ndarray:
        """Waits for the value and returns it as a host array, which nobody writes afterwards."""
        ...

    def synchronize(self) -> None:
        """Waits until everything that was asked for is done."""
        ...

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether there is a kernel of its own for these shapes and dtypes. Pure; cached."""
        ...


CAPABILITIES = {
    "prepare": "prepare(graph) -> Executable: a planned graph as one callable; fusion asks",
    "copy": "copy(handle, backend) -> Handle | None: from device to device without the host, None "
    "where there is no such road; asked of both ends of a move",
    "reduce": "reduce(groups) -> list of handles | None: the sum of each group of values, one of "
    "each of several devices in the same order, at the first one's device, whose backend is asked; "
    "None where there is no such road",
    "to_dlpack": "to_dlpack(handle, *, stream, max_version, dl_device, copy): a capsule",
    "from_dlpack": "from_dlpack(producer, *, copy) -> Handle: of what speaks DLPack",
    "dlpack_device": "dlpack_device() -> (kind, number): where `to_dlpack` exports",
    "memory": "memory() -> Pool: statistics, limit, strategy and release of a device's memory",
    "reuse": "reuse(op, inputs, place, owner) -> Handle: execute, into the buffer of inputs[place] "
    "if `owner` is its only holder, else into a new one with a ledger of its own",
    "defers": "defers() -> bool: whether operations are only recorded at this moment, so that "
    "an operation of many parts (the trait `inlined`) takes no longer than any other",
    "expand": "expand(op, inputs) -> tuple of handles: execute, of an operation that is a program "
    "(`call_program`): where operations wait, each step waits as one that came by itself",
    "adopt": "adopt(array) -> Handle: a host array without a copy, if the device can read it",
    "move": "move(handle, backend) -> Handle: of decorators: what they hold on another device",
    "receive": "receive(handle) -> Handle: of decorators: a value of another device, brought here",
    "stage": "stage(array) -> Handle: `upload` by way of host memory that the device reads by "
    "itself (pinned), so that nobody waits for the copy; the array may be written afterwards",
    "begin_download": "begin_download(handle): begins to copy a value to the host once it is "
    "there, and waits for nothing; `download` of this handle waits for that copy alone then",
    "gauges": "gauges() -> dict of floats: what the device says of itself now, as far as it can: "
    "'use' (the share of time in which it worked of late, 0 to 1), 'used' and 'total' (bytes of "
    "its memory, whoever has them), 'temperature' (degrees Celsius), 'power' (watts)",
    "ready": "ready(op, inputs) -> callable | None: what runs an operation on operands of these "
    "shapes and dtypes with nothing looked up, `(op, inputs) -> handles`, or None where operands "
    "lie in memory as it does not take them; asked once the operation has run",
    "road": "road(op, inputs) -> 'native', 'composed', 'host' or 'missing': how it is computed",
}
"""The optional methods of a backend, asked for by name with `capability`."""


GAUGES = ("use", "used", "total", "temperature", "power")
"""What the capability `gauges` may tell of a device."""


def capability(backend: Backend, name: str) -> bool:
    """Whether a backend offers one of `CAPABILITIES`; a name that is not there is a mistake."""
    if name not in CAPABILITIES:
        raise KeyError(f"no capability {name!r}; the contract knows {', '.join(CAPABILITIES)}")
    return callable(getattr(backend, name, None))


def offered(backend: Backend, name: str) -> Any | None:
    """An optional method of a backend, or else of the one that it stands before; None if neither
    offers it.

    Args:
        backend: hardware, or a decorator, which holds another backend as `inner`.
        name: one of `CAPABILITIES`.
    """
    asked: Any = backend
    while asked is not None:
        if capability(asked, name):
            return getattr(asked, name)
        asked = getattr(asked, "inner", None)
    return None
