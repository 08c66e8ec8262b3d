"""Cells: the one mutable thing. Parameters, buffers, optimizer state and generators are cells.

Reads and writes pass through the current `Scope`, if there is one: its writes are committed
together when it ends, or not at all when it raises. Transforms, checkpointing and
`optimizer.step` use scopes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .contract import Shape
from .device import Device
from .dtypes import DType
from .errors import BatchError, DTypeError, OperandError, ShapeError
from .locks import Lock
from .number_protocol import NumberProtocol
from .operators import CellOperators, Operators
from .ops.indexing.subscript import updated
from .plugins import transform
from .pytorch_methods import Elements
from .tensor import Tensor
from .transactions import current_scope, note_replaced

T = TypeVar("T")


class Cell(NumberProtocol, CellOperators, Operators, Generic[T]):
    """Holds one value that changes: a tensor, or a Python number such as a counter.

    A cell counts once by identity, however many paths lead to it (tied weights). Operations take
    cells where they take tensors and read them. One that holds a number computes like the number.

    Args:
        value: the first value. A tensor's shape and dtype stay; use `rebind` to change them.
        differentiable: whether a read shows a tensor that gradients are recorded for.

    >>> import ingle.tensor as it
    >>> c = it.Cell(it.asarray([1.0, 2.0]))
    >>> c.value = c + 1.0
    >>> c.value.tolist()
    [2.0, 3.0]
    """

    __slots__ = ("__weakref__", "_value", "differentiable", "version")

    _value: T
    step_lock: Lock | None = None
    """Held by a thread that steps the cell, from its read to the write that follows from it."""

    def __init__(self, value: T, *, differentiable: bool = False) -> None:
        self._value = _lowered(value)
        self.differentiable = differentiable
        self.version = 0

    @property
    def value(self) -> T:
        """The value now; gradients are recorded for it if the cell is differentiable."""
        scope = current_scope()
        value: T = self._value if scope is None else scope.read(self)
        if self.differentiable:
            lift = transform("lift")
            if lift is not None:
                return lift(self, value)  # type: ignore[no-any-return]
        return _shown(value)

    @value.setter
    def value(self, value: T) -> None:
        old = self.raw
        if isinstance(old, Tensor):
            self._check(old, value)
        self.rebind(value)

    @property
    def raw(self) -> T:
        """The value now, without recording gradients."""
        scope = current_scope()
        return _shown(self._value if scope is None else scope.read(self))

    def rebind(self, value: T) -> None:
        """Replaces the value, whatever its shape, dtype and device."""
        value = _lowered(value)
        scope = current_scope()
        if scope is None:
            note_replaced(self, value)
            self._store(value)
        else:
            scope.writes[self] = value

    def __ingle_tensor__(self) -> Tensor:
        # Each operation reads its cells by this: one that holds a tensor gets it without a detour.
        if not self.differentiable:
            scope = current_scope()
            kept: Any = self._value if scope is None else scope.read(self)
            if type(kept) is Tensor:
                return Tensor(kept._handle)
        value = self.value
        if not isinstance(value, Tensor):
            raise OperandError(f"a cell that holds {value!r} is no tensor operand")
        return value

    @property
    def shape(self) -> Shape:
        """The shape of the tensor that the cell holds."""
        return self._kept().shape

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor that the cell holds."""
        return self._kept().dtype

    @property
    def device(self) -> Device:
        """The device of the tensor that the cell holds."""
        return self._held().device

    @property
    def ndim(self) -> int:
        """The number of axes of the tensor that the cell holds."""
        return self._held().ndim

    @property
    def size(self) -> Elements:
        """The number of elements of the tensor that the cell holds."""
        return self._held().size

    @property
    def nbytes(self) -> int:
        """The number of bytes of the tensor that the cell holds."""
        return self._held().nbytes

    def detach(self) -> Tensor:
        """The tensor that the cell holds, without recording gradients."""
        return self._held()

    def numpy(self) -> np.ndarray:
        """The values of the tensor that the cell holds, as a NumPy array; see `Tensor.numpy`."""
        return self._held().numpy()

    def item(self) -> Any:
        """What the cell holds as a Python number: a number, or a tensor of one element."""
        number = self._plain()
        return self._held().item() if number is None else number

    def tolist(self) -> Any:
        """What the cell holds as nested lists of Python numbers, or as one number."""
        number = self._plain()
        return self._held().tolist() if number is None else number

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        number = self._plain()
        if number is None:
            return self._held().__array__(dtype, copy)
        return np.array(number, dtype, copy=True if copy is None else copy)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value = updated(self._held(), key, value)  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._held())

    def _plain(self) -> Any:
        value = self.raw
        return value if isinstance(value, (bool, int, float, complex)) else None

    def _number(self, to: str) -> Any:
        value = self.raw
        if isinstance(value, Tensor):
            return value._number(to)
        number = self._plain()
        if number is None:
            raise OperandError(f"{to}(cell): the cell holds no number but {value!r}")
        return number

    def __bool__(self) -> bool:
        holds_truth = isinstance(self.raw, Tensor) or self._plain() is not None
        return bool(self._number("bool")) if holds_truth else True

    def __index__(self) -> int:
        number = self._plain()
        return self._held().__index__() if number is None else operator.index(number)

    def __str__(self) -> str:
        value = self.raw
        single = value.ndim == 0 if isinstance(value, Tensor) else self._plain() is not None
        return str(value) if single else repr(self)

    def _held(self) -> Tensor:
        return _shown(self._kept())

    def _kept(self) -> Tensor:
        """The cell's own tensor, to look at; `_held` is for other hands."""
        scope = current_scope()
        value: Any = self._value if scope is None else scope.read(self)
        if not isinstance(value, Tensor):
            raise OperandError(f"a cell that holds {value!r} has no shape, dtype or device")
        return value

    __hash__ = object.__hash__

    def _store(self, value: T) -> None:
        self._value = value
        self.version += 1

    def _check(self, old: Any, new: Any) -> None:
        if not isinstance(new, Tensor):
            raise OperandError(
                f"this cell holds a tensor, got {type(new).__name__}; use asarray(...)"
            )
        if old.shape != new.shape:
            raise ShapeError(
                f"this cell holds shape {old.shape}, got {new.shape}; "
                "use cell.rebind(value) to change its shape"
            )
        if old.dtype is not new.dtype:
            raise DTypeError(
                f"this cell holds {old.dtype}, got {new.dtype}; cast with value.astype(...) or use "
                "cell.rebind(value)"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


def _lowered(value: T) -> T:
    if not isinstance(value, Tensor):
        return value
    handle = value._handle
    if handle.backend.level:
        handle = handle.detached()
    if handle.base() is not handle:
        raise BatchError(
            f"a cell cannot hold a tensor of shape {value.shape} that differs among the elements "
            "of a vmap; return it instead, or write outside"
        )
    return Tensor(handle)  # type: ignore[return-value]


def _shown(value: T) -> T:
    # `x += y` rebinds a Tensor object: a cell's own must not be in anyone else's hands.
    return Tensor(value._handle) if isinstance(value, Tensor) else value  # type: ignore[return-value]


def raw_values(cells: Sequence[Cell[Any]]) -> list[Any]:
    """What `raw` of each cell is; where reads go is looked up once for all of them.

    Args:
        cells: hold what they show: a counter of an optimizer, which another cell may count for,
            is none.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.cell import raw_values
    >>> raw_values([it.Cell(1), it.Cell("two")])
    [1, 'two']
    """
    scope = current_scope()
    held = [c._value for c in cells] if scope is None else scope.read_each(cells)
    return [_shown(value) for value in held]
