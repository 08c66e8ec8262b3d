"""The tensor: a handle, and through it a shape, a dtype and a device."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dispatch
from .contract import Backend, Handle, Shape, capability
from .device import Device, backend_of
from .dtypes import DType
from .errors import ArgumentError, DTypeError, GradientError, ShapeError
from .exchange import Exchange
from .in_place import assigned, combined
from .later_arguments import with_advice
from .moving import moved
from .number_protocol import NumberProtocol
from .operators import Operators
from .ops.indexing.subscript import updated
from .plugins import require_transform
from .pytorch_methods import Elements, elements
from .repr import tensor_repr, tensor_str
from .temporaries import FEW, is_lost

if TYPE_CHECKING:
    from .gradients import Gradients


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Tensor]:
    """An operator such as `+=`, which rebinds the Python object on its left to the result."""

    def method(self: Tensor, other: Any) -> Tensor:
        handle = combined(self, function.__name__, other)
        result = function(self, other)._handle if handle is None else handle
        name = f"in-place {function.__name__}"
        if result.shape != self.shape:
            raise ShapeError(
                f"{name}: the result has shape {result.shape}, but x keeps its shape {self.shape}; "
                "write x = x OP y"
            )
        if result.dtype is not self.dtype:
            raise DTypeError(
                f"{name}: the result is {result.dtype}, but x keeps its dtype {self.dtype}; "
                "write x = x OP y, or cast y"
            )
        self._rebind(result)
        return self

    return method


class Tensor(NumberProtocol, Operators, Exchange):
    """An n-dimensional array on a device. Made by `asarray`, `zeros` and the operations.

    A tensor never changes: `x[i] = v` and `x += y` rebind this Python object to an updated
    value, and other objects keep theirs.

    >>> import ingle.tensor as it
    >>> x = it.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> y = x
    >>> x += 1.0
    >>> x.tolist(), y.sum(axis=0).tolist(), y.shape, y.dtype
    ([[2.0, 3.0], [4.0, 5.0]], [6.0, 8.0], (2, 2), float32)
    """

    __slots__ = ("__weakref__", "_handle")

    def __init__(self, handle: Handle) -> None:
        try:
            owned = handle.owned
        except AttributeError:
            raise ArgumentError(
                f"Tensor: it is made of a backend's handle, got {type(handle).__name__}; make a "
                "tensor of data with ingle.tensor.asarray(data), of a shape with zeros(shape)"
            ) from None
        self._handle = handle
        if owned is not None:
            owned.add(self)

    def _rebind(self, handle: Handle) -> None:
        """Another value for this Python object."""
        old = self._handle.owned
        if old is not None and old is not handle.owned:
            old.discard(self)
        self._handle = handle
        if handle.owned is not None:
            handle.owned.add(self)

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        return self._handle.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._handle.dtype

    @property
    def device(self) -> Device:
        """Where the tensor lives."""
        return self._handle.backend.device

    @property
    def backend(self) -> Backend:
        """The backend that executes operations on this tensor."""
        return self._handle.backend

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._handle.shape)

    @property
    def size(self) -> Elements:
        """The number of elements; `x.size(0)` is an axis's, as in PyTorch."""
        shape = self._handle.shape
        return elements(math.prod(shape), shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self.size * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array of the same shape and dtype; waits for them.

        >>> import ingle.tensor as it
        >>> it.arange(3).numpy()
        array([0, 1, 2])
        """
        handle = self._handle.detached()
        return handle.backend.download(handle)

    def begin_download(self) -> bool:
        """Has the device copy the values to the host once they are there, and waits for nothing.

        Whoever reads them later, as `numpy`, `tolist` and `item` do, waits for that copy alone, not
        for what the device was asked for in between: so a loop can ask for the next step, and look
        at what the one before has given while the device computes.

        Returns:
            Whether the device works by itself. Where it does not, nothing is on its way, and to ask
            for the next step first would only make this one's reader wait.

        >>> import ingle.tensor as it
        >>> x = it.asarray([1, 2], device="numpy")
        >>> x.begin_download()
        False
        >>> x.tolist()
        [1, 2]
        """
        handle = self._handle.detached()
        backend: Any = handle.backend
        found = capability(backend, "begin_download")
        if found:
            backend.begin_download(handle)
        return found

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a 0-d tensor."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number.

        Raises:
            ArgumentError: the tensor has several elements, or none.

        >>> import ingle.tensor as it
        >>> it.asarray([2.5]).item()
        2.5
        """
        handle = self._handle
        if handle.shape and math.prod(handle.shape) != 1:
            raise ArgumentError(
                f"item: needs a tensor of one element, got shape {self.shape} with {self.size}; "
                "reduce it first (x.sum(), x.mean()) or use x.tolist()"
            )
        return handle.item()

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Tensor:
        """The same values on another device; the tensor itself if it is there already.

        Gradients flow back through it, to the device that the tensor came from. Values take the
        nearest road: a copy from device to device, DLPack, memory that both read, the host.

        Raises:
            BackendError: there is no such device, or the values cannot be moved there.
        """
        target = backend_of(device)
        if target.device == self.device:
            return self
        return Tensor(moved(self._handle, target))

    def detach(self) -> Tensor:
        """The same value without any recording of gradients, at every level."""
        handle = self._handle.detached()
        return self if handle is self._handle else Tensor(handle)

    def require_grad(self) -> Tensor:
        """A tensor of the same value that gradients are recorded for.

        >>> import ingle.tensor as it
        >>> x = it.asarray(3.0).require_grad()
        >>> (x * x).backward()[x].item()
        6.0
        """
        return require_transform("require_grad", "require_grad")(self)  # type: ignore[no-any-return]

    def backward(self, cotangent: Tensor | None = None, *, create_graph: bool = False) -> Gradients:
        """The gradients of this tensor by everything it was computed from that wants one.

        Args:
            cotangent: the gradient of the final result by this tensor, of its shape; a tensor of
                one element needs none.
            create_graph: whether the gradients can be differentiated in turn.

        Raises:
            GradientError: nothing that led here records gradients, or the tensor has several
                elements and no cotangent was given; or Python goes down, without imports.
        """
        try:
            run = require_transform("backward", "backward")
            return run(self, cotangent, create_graph=create_graph)  # type: ignore[no-any-return]
        except ImportError as error:
            if not sys.is_finalizing():
                raise
            raise GradientError(
                "backward: Python goes down and has no imports any more, which gradients need; "
                "compute them in a function for atexit.register, not in a finalizer"
            ) from error

    if not TYPE_CHECKING:
        backward = with_advice(backward)

    def _number(self, to: str) -> Any:
        handle = self._handle
        if handle.shape and math.prod(handle.shape) != 1:
            cure = {"bool": "x.any() or x.all()", "round": "it.round(x)"}.get(to, "x.tolist()")
            raise ArgumentError(
                f"{to}(x): needs a tensor of one element, got shape {self.shape}; use {cure}"
            )
        return handle.item()

    def __bool__(self) -> bool:
        return bool(self._number("bool"))

    def __index__(self) -> int:
        if not self.dtype.is_integer or self.ndim:
            raise TypeError(
                f"only a 0-d integer tensor is an index, got {self.dtype} of shape {self.shape}"
            )
        return int(self.numpy().item())

    def __setitem__(self, key: Any, value: Any) -> None:
        if getrefcount(self) <= FEW and is_lost(self, 1):
            raise ArgumentError(
                "x[...] = value: x is a temporary tensor that nobody holds, and the write would be "
                "lost, since indexing and reading a cell make new tensors; write y[i, j] = value "
                "for y[i][j] = value, and cell[i] = value for cell.value[i] = value"
            )
        handle = assigned(self, key, value)
        self._rebind(updated(self, key, value)._handle if handle is None else handle)

    __iadd__ = _in_place(operator.add)
    __isub__ = _in_place(operator.sub)
    __imul__ = _in_place(operator.mul)
    __itruediv__ = _in_place(operator.truediv)
    __ifloordiv__ = _in_place(operator.floordiv)
    __imod__ = _in_place(operator.mod)
    __ipow__ = _in_place(operator.pow)
    __imatmul__ = _in_place(operator.matmul)
    __iand__ = _in_place(operator.and_)
    __ior__ = _in_place(operator.or_)
    __ixor__ = _in_place(operator.xor)
    __ilshift__ = _in_place(operator.lshift)
    __irshift__ = _in_place(operator.rshift)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d tensor has no length; its value is x.item()")
        return self.shape[0]

    def __repr__(self) -> str:
        return tensor_repr(self)

    def __str__(self) -> str:
        return tensor_str(self)

    def __copy__(self) -> Tensor:
        return Tensor(self._handle)

    def __deepcopy__(self, memo: object) -> Tensor:
        # Values never change: a second Python object is all that `x += y` could tell apart.
        return Tensor(self._handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.numpy(), str(self.device))

    __hash__ = object.__hash__


def _rebuild(values: np.ndarray, device: str) -> Tensor:
    """A pickled tensor: its values on its device; what was recorded of gradients is not kept."""
    return Tensor(backend_of(device).upload(values))


dispatch.install(Tensor)
