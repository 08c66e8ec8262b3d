"""The cells of a module: what is trained, and what is only kept."""

from __future__ import annotations

from typing import Any

from ingle.tensor import Cell, Tensor, asarray
from ingle.tensor.errors import DTypeError

from . import structure


class Parameter(Cell[Tensor]):
    """A differentiable cell: a module that it is assigned to trains it.

    Operations take it where they take a tensor; `value` reads and replaces what it holds.

    Args:
        value: the first value, a tensor or anything `asarray` takes.
        requires_grad: False freezes it: no gradient is recorded for it.

    Raises:
        DTypeError: the dtype has no gradients.

    >>> from ingle.nn import Parameter
    >>> w = Parameter([1.0, 2.0])
    >>> (w * w).sum().backward()[w].tolist()
    [2.0, 4.0]
    """

    __slots__ = ()

    def __init__(self, value: Any, requires_grad: bool = True) -> None:
        tensor = value if isinstance(value, Tensor) else asarray(value)
        if requires_grad and not tensor.dtype.is_inexact:
            raise DTypeError(
                f"Parameter: {tensor.dtype} has no gradients; cast with value.astype('float32'), "
                "pass requires_grad=False, or make it a Buffer"
            )
        super().__init__(tensor, differentiable=requires_grad)

    @property
    def data(self) -> Tensor:
        """The value without recording gradients; assigning writes, as to `value`."""
        return self.raw

    @data.setter
    def data(self, value: Tensor) -> None:
        self.value = value

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded for it; setting it freezes or unfreezes."""
        return self.differentiable

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and not self.dtype.is_inexact:
            raise DTypeError(f"requires_grad: {self.dtype} has no gradients")
        if self.differentiable is not bool(wanted):
            self.differentiable = bool(wanted)
            structure.assigned(self, "requires_grad", not wanted, bool(wanted))


class UninitializedParameter(Parameter):
    """A parameter of a lazy layer whose shape is not known yet; it becomes a `Parameter` in place.

    >>> from ingle import nn
    >>> layer = nn.LazyLinear(3)
    >>> type(layer.weight).__name__, layer.weight.shape
    ('UninitializedParameter', (0,))
    """

    __slots__ = ()


class Buffer(Cell[Tensor]):
    """A cell that a module keeps but does not train, such as a running mean.

    Args:
        value: the first value, a tensor or anything `asarray` takes.
        persistent: False leaves it out of `state_dict` and of saved files.

    >>> from ingle.nn import Buffer
    >>> Buffer([0.0, 1.0]).shape
    (2,)
    """

    __slots__ = ("persistent",)

    def __init__(self, value: Any, persistent: bool = True) -> None:
        super().__init__(value if isinstance(value, Tensor) else asarray(value))
        self.persistent = persistent


class UninitializedBuffer(Buffer):
    """A buffer of a lazy layer whose shape is not known yet; it becomes a `Buffer` in place.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> norm = nn.LazyBatchNorm1d()
    >>> isinstance(norm.running_mean, nn.UninitializedBuffer)
    True
    >>> norm(it.ones((4, 3))).shape, norm.running_mean.shape
    ((4, 3), (3,))
    """

    __slots__ = ()


def is_initialized(cell: Cell[Tensor]) -> bool:
    """Whether a cell of a module has its shape."""
    return not isinstance(cell, (UninitializedParameter, UninitializedBuffer))


def initialize(cell: Cell[Tensor], value: Tensor) -> None:
    """Gives a cell that has no shape yet a value, on its device and in its dtype."""
    held = cell.raw
    cell.rebind(value.detach().astype(held.dtype).to_device(held.device))
    cell.__class__ = Parameter if isinstance(cell, Parameter) else Buffer
