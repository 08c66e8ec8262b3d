"""A base for backends that run each operation at once: a table of kernels, and the rest composed.

For an operation the table is asked for a kernel of its name, then of its family. Where there is
none, its body runs in terms of other operations; where it has no body, it runs on the host through
the reference backend, which is announced once and counted, or refused if
`INGLE_HOST_FALLBACK=error`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from . import settings
from .callers import warn
from .contract import Aval, Handle, Scalar
from .device import Device, backend_of
from .dispatch import aval_of, execute_body
from .dtypes import DType, from_numpy_dtype
from .errors import BackendError, IngleError
from .operation import Op, infer

REFERENCE = "numpy"
"""The device whose backend computes what others lack."""

Road = Literal["native", "composed", "host", "missing"]
Kernel = Callable[..., Any]


class ArrayHandle(Handle):
    """A handle of one array object of the backend's library."""

    __slots__ = ("array",)

    backend: EagerBackend

    def __init__(self, backend: EagerBackend, array: Any, dtype: DType) -> None:
        self.backend = backend
        self.array = array
        self.shape = tuple(array.shape)
        self.dtype = dtype

    def item(self) -> Any:
        return self.backend.item(self)

    def ensure(self) -> None:
        if self.backend.settles:
            self.backend.settle(self.array)


class HostFallbackWarning(UserWarning):
    """An operation ran on the host because the backend has no kernel for it."""


class EagerBackend:
    """Derive from it, fill `kernels`, and say how arrays come and go.

    A kernel takes `(op, *arrays)`, where a weak scalar arrives as a NumPy scalar of its dtype,
    and returns an array or a tuple of them. It is found by the operation's name or its family's.

    Attributes:
        name: of the backend, for messages.
        kernels: the table.
        dtypes: the names of dtypes that kernels handle, be it as operands or as what they return;
            None for all.
        host_fallbacks: how often each operation ran on the host.
        settles: whether kernels may fail after they have returned, since there is a `settle`.
    """

    name: str = "eager"
    level: int = 0
    kernels: Mapping[str, Kernel] = {}
    dtypes: frozenset[str] | None = None

    def __init__(self, device: Device) -> None:
        self.device = device
        self.host_fallbacks: Counter[str] = Counter()
        self._resolved: dict[Any, tuple[Road, Kernel | None]] = {}
        self._held: dict[tuple[Any, DType], bool] = {}
        self._refuses_nothing = type(self).supports is EagerBackend.supports
        self.settles = type(self).settle is not EagerBackend.settle

    def to_device_array(self, array: np.ndarray) -> Any:
        """A host array as an array of the backend's library, copied.

        It may be of any dtype of Ingle and any strides, negative and zero ones included, and be
        read-only.
        """
        raise NotImplementedError(self._unwritten("to_device_array(array)"))

    def to_host_array(self, array: Any) -> np.ndarray:
        """An array of the backend's library on the host."""
        raise NotImplementedError(self._unwritten("to_host_array(array)"))

    def _unwritten(self, method: str) -> str:
        return f"backend {self.name!r}: {type(self).__name__} has to define {method}"

    def synchronize(self) -> None:
        """Nothing to wait for, unless the library runs ahead."""

    def settle(self, array: Any) -> None:
        """Waits until an array has its value, and raises what went wrong meanwhile.

        For a library that runs ahead and may fail behind a call. It is asked before parameters and
        other state take the array, and of what a compiled function returns, so that a step that
        fails has changed nothing.
        """

    def __repr__(self) -> str:
        return f"<backend {self.name} on {self.device}>"

    def upload(self, array: np.ndarray) -> Handle:
        aval = Aval(array.shape, from_numpy_dtype(array.dtype))
        try:
            made = self.to_device_array(array)
        except Exception as error:
            self._explain(error, f"to_device_array of {aval}")
            raise
        if not _fits(made, aval) or not self._holds(made, aval.dtype):
            raise BackendError(self._moved_wrong("to_device_array", made, aval))
        return ArrayHandle(self, made, aval.dtype)

    def download(self, handle: Handle) -> np.ndarray:
        assert isinstance(handle, ArrayHandle)
        aval = Aval(handle.shape, handle.dtype)
        try:
            array = self.to_host_array(handle.array)
        except Exception as error:
            self._explain(error, f"to_host_array of {aval}")
            raise
        if not isinstance(array, np.ndarray) or not _fits(array, aval):
            raise BackendError(self._moved_wrong("to_host_array", array, aval))
        return array

    def _moved_wrong(self, method: str, got: Any, aval: Aval) -> str:
        return (
            f"backend {self.name!r}: {method} made {_shown(got)} of {aval}; it has to keep shape "
            "and dtype, and what comes to the host is a NumPy array"
        )

    def item(self, handle: ArrayHandle) -> Any:
        """The value of one element as a Python number; waits for it."""
        return self.download(handle).item()

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether a kernel of the backend's own serves; override to refuse single cases.

        Numbers that say where a piece begins are of no dtype that matters.
        """
        operation = op.operation
        known = operation.name in self.kernels or operation.traits.family in self.kernels
        if not known or self.dtypes is None:
            return known
        results = () if operation.traits.dynamic_shape else infer(op, avals)
        avals = avals[: operation.traits.starts]
        return self.dtypes.issuperset([a.dtype.name for a in (*avals, *results)])

    def road(self, op: Op, inputs: Sequence[Handle | Scalar | Aval]) -> Road:
        """How this backend computes an operation: the testkit's table asks."""
        return self.resolve(op, inputs)[0]

    def resolve(self, op: Op, inputs: Sequence[Any]) -> tuple[Road, Kernel | None]:
        """The road and, if native, the kernel; asked once for each op, shapes and dtypes."""
        operation = op.operation
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        if self._sees_starts(op, inputs) and self.supports(op, avals):
            kernel = self.kernels.get(operation.name)
            return "native", kernel or self.kernels[operation.traits.family or ""]
        if operation.body is not None:
            return "composed", None
        if self.device.name != REFERENCE:
            return "host", None
        return "missing", None

    def _sees_starts(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether kernels may see where a piece begins: numbers, or tensors of their dtypes."""
        first = op.operation.traits.starts
        if first is None or self.dtypes is None:
            return True
        return all(type(x) is Scalar or x.dtype.name in self.dtypes for x in inputs[first:])

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        key: Any = op
        # A backend that takes all dtypes and refuses nothing resolves by the operation alone.
        if self.dtypes is not None or not self._refuses_nothing:
            key = (op, *[(x.shape, x.dtype, type(x) is Scalar) for x in inputs])
        found = self._resolved.get(key)
        if found is None:
            if len(self._resolved) > 1 << 15:
                self._resolved.clear()
            found = self._resolved[key] = self.resolve(op, inputs)
        road, kernel = found
        if kernel is None:
            if road == "composed":
                return execute_body(op, inputs, self.device)
            if road == "host":
                return self._on_host(op, inputs)
            raise BackendError(
                f"backend {self.name!r} has no kernel for {_called(op, inputs)}, and it has no body"
            )
        arrays = [x.array() if type(x) is Scalar else x.array for x in inputs]  # type: ignore[union-attr]
        try:
            result = self.compute(kernel, op, arrays)
        except Exception as error:
            self._explain(error, f"the kernel of {_called(op, inputs)}")
            raise
        return self.wrap(op, result, inputs)

    def _explain(self, error: Exception, what: str) -> None:
        """Notes at a library's error where it comes from; ours say so themselves."""
        if not isinstance(error, IngleError):
            error.add_note(f"backend {self.name!r}: this was {what}")

    def compute(self, kernel: Kernel, op: Op, arrays: Sequence[Any]) -> Any:
        """Calls a kernel; override to do so in surroundings that the library needs."""
        return kernel(op, *arrays)

    def wrap(self, op: Op, result: Any, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """A kernel's result as handles, with the dtypes of the room's rule."""
        results = result if isinstance(result, tuple) else (result,)
        avals = infer(op, inputs)
        if len(results) != len(avals):
            raise BackendError(
                f"backend {self.name!r}: the kernel of {_called(op, inputs)} returned a tuple of "
                f"{len(results)}, and the operation's rule says {', '.join(map(str, avals))}; "
                "this is a mistake in the kernel"
            )
        for array, aval in zip(results, avals, strict=True):
            if not _fits(array, aval) or not self._holds(array, aval.dtype):
                raise BackendError(
                    f"backend {self.name!r}: the kernel of {_called(op, inputs)} returned "
                    f"{_shown(array)}, and the operation's rule says {aval}; this is a mistake in "
                    "the kernel"
                )
        return tuple(
            [ArrayHandle(self, array, a.dtype) for array, a in zip(results, avals, strict=True)]
        )

    def _holds(self, array: Any, dtype: DType) -> bool:
        """Whether an array is of a dtype, where its library has dtypes of its own.

        Which of them stands for it, the way to the host says, once for each pair: of a small
        array, or of this one where the library makes no such arrays of the host's.
        """
        own = getattr(array, "dtype", None)
        if own is None or isinstance(own, np.dtype):
            return True
        known = self._held.get((own, dtype))
        if known is None:
            try:
                probe = self.to_device_array(np.zeros(1, dtype.dtype))
            except Exception:  # a library's, for a dtype that it does not take
                probe = array
            if probe.dtype != own:
                probe = array
            found = self.to_host_array(probe).dtype == dtype.dtype
            known = self._held[own, dtype] = bool(found)
        return known

    def _on_host(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        name = op.operation.name
        what = _called(op, inputs)
        if not settings.runs_on_host():
            raise BackendError(
                f"backend {self.name!r} has no kernel for {what}, and INGLE_HOST_FALLBACK=error "
                "forbids to run it on the host; unset it, or give the backend a kernel"
            )
        if not self.host_fallbacks[name]:
            warn(
                f"backend {self.name!r} has no kernel for {what}: it runs on the host, with a copy "
                "there and back. Set INGLE_HOST_FALLBACK=error to find such places",
                HostFallbackWarning,
            )
        self.host_fallbacks[name] += 1
        return self._computed_by_host(op, inputs)

    def _computed_by_host(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        host = backend_of(REFERENCE)
        moved = [
            x if isinstance(x, Scalar) else host.upload(self.download(x)) for x in inputs
        ]  # fmt: skip
        return tuple(self.upload(host.download(h)) for h in host.execute(op, moved))


def _called(op: Op, inputs: Sequence[Handle | Scalar]) -> str:
    """The call, for messages."""
    return f"{op!r} on {', '.join(str(aval_of(x)) for x in inputs)}"


def _fits(array: Any, aval: Aval) -> bool:
    """Whether an array is what a rule says; its dtype as far as its library uses NumPy's."""
    shape, own = getattr(array, "shape", None), getattr(array, "dtype", None)
    if shape is None or tuple(shape) != aval.shape:
        return False
    return not isinstance(own, np.dtype) or own == aval.dtype.dtype


def _shown(got: Any) -> str:
    """What somebody returned in place of an array, for messages."""
    shape = getattr(got, "shape", None)
    if shape is None:
        return "None" if got is None else f"the {type(got).__name__} {got!r}"
    return f"{getattr(got, 'dtype', '?')}{list(shape)}"
