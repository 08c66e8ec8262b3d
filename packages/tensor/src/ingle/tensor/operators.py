"""Operators and methods that tensors and cells share: each is a room's function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from . import ops
from .dispatch import is_sparse
from .errors import AxisError, OperandError
from .later_arguments import without_advice
from .numpy_functions import function_of_arrays, universal
from .ops.indexing.subscript import IndexedUpdate, getitem
from .pytorch_methods import PyTorchMethods

if TYPE_CHECKING:
    from .contract import Shape
    from .tensor import Tensor

Binary = Callable[[Any, Any], "Tensor"]
_MIRRORS: dict[np.ufunc, str] = {
    np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__", np.floor_divide: "__rfloordiv__", np.remainder: "__rmod__",
    np.power: "__rpow__",
}  # fmt: skip
"""Methods of the operand on the right, by what NumPy computes for the sign."""
_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


_SEQUENCES = (list, tuple, str, bytes, bytearray)
"""What `*` repeats, and is not meant to beside a tensor."""


def _operator(function: Callable[..., Tensor], python: Binary, mirror: str) -> Binary:
    """`self OP other`; leaves it to `other` if that is a stranger with an operator of its own."""
    plain: Callable[..., Tensor] = without_advice(function)
    repeats = mirror == "__rmul__"

    def method(self: Any, other: Any) -> Any:
        try:
            return plain(self, other)
        except OperandError:
            a, b = _number_in(self), _number_in(other)
            if a is not self or b is not other:
                return python(a, b)
            if is_array(other) or not hasattr(type(other), mirror):
                raise
            if repeats and isinstance(other, _SEQUENCES):
                raise
            return NotImplemented

    return method


def _mirrored(function: Callable[..., Tensor], python: Binary) -> Binary:
    plain: Callable[..., Tensor] = without_advice(function)

    def method(self: Any, other: Any) -> Tensor:
        try:
            return plain(other, self)
        except OperandError:
            number = _number_in(self)
            if number is self:
                raise
            return python(other, number)

    return method


def is_array(x: object) -> bool:
    """Whether it is another library's array: it could compute too, and would mix the two."""
    if isinstance(x, (np.ndarray, np.generic)) or hasattr(type(x), "__dlpack__"):
        return True
    return is_sparse(x)


def _number_in(x: Any) -> Any:
    """The number that a cell holds; anything else as it is."""
    held = x._plain() if isinstance(x, CellOperators) else None
    return x if held is None else held


def _unary(function: Callable[..., Tensor], python: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        number = _number_in(self)
        return function(self) if number is self else python(number)

    return method


def _refused(sign: str) -> Callable[[Any, Any], Never]:
    def method(self: Any, other: Any) -> Never:
        raise OperandError(
            f"`cell {sign}= x` would put a tensor in the cell's place, and the cell would keep "
            f"its value; write `cell.value = cell {sign} x`"
        )

    return method


class CellOperators:
    """Operators where a cell is no tensor: in place, which it refuses, and of what it holds."""

    __slots__ = ()

    def _plain(self) -> Any:
        """The Python number that is held, if it is one; else None."""
        return None

    __neg__ = _unary(ops.negative, operator.neg)
    __pos__ = _unary(ops.positive, operator.pos)
    __abs__ = _unary(ops.abs, abs)
    __invert__ = _unary(ops.bitwise_invert, operator.invert)

    __iadd__ = _refused("+")
    __isub__ = _refused("-")
    __imul__ = _refused("*")
    __itruediv__ = _refused("/")
    __ifloordiv__ = _refused("//")
    __imod__ = _refused("%")
    __ipow__ = _refused("**")
    __imatmul__ = _refused("@")
    __iand__ = _refused("&")
    __ior__ = _refused("|")
    __ixor__ = _refused("^")
    __ilshift__ = _refused("<<")
    __irshift__ = _refused(">>")


class Operators(PyTorchMethods):
    """What can be done with a tensor or a cell."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions are the operations of their names, in `array + tensor` as well.

        NumPy itself would make an array of a parameter, which records no gradient.

        >>> import numpy as np
        >>> import ingle.tensor as it
        >>> np.sqrt(it.asarray([4.0, 9.0])).tolist()
        [2.0, 3.0]
        """
        if method == "__call__" and not options and len(inputs) == 2:
            mirror = _MIRRORS.get(ufunc)
            if mirror is not None and isinstance(inputs[0], np.generic):
                # A number of NumPy's before a sign, such as `np.float32(2) * x`.
                return getattr(inputs[1], mirror)(inputs[0])
        if ufunc.__name__ in _COMPARISONS:
            # These hand NumPy's own numbers on as arrays without axes.
            inputs = tuple([x[()] if isinstance(x, np.ndarray) else x for x in inputs])
        plain = tuple([_number_in(x) for x in inputs])
        if any(isinstance(x, Operators) for x in (*plain, *options.get("out", ()))):
            return universal(ops, ufunc, method, plain, options)
        return getattr(ufunc, method)(*plain, **options)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:
        """NumPy's other functions are operations, too, with NumPy's arguments.

        >>> import numpy as np
        >>> import ingle.tensor as it
        >>> np.stack([it.zeros(2), it.ones(2)], axis=1).tolist()
        [[0.0, 1.0], [0.0, 1.0]]
        """
        return function_of_arrays(function, args, options, Operators, _number_in)

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...

    __add__: Binary = _operator(ops.add, operator.add, "__radd__")
    __radd__: Binary = _mirrored(ops.add, operator.add)
    __sub__: Binary = _operator(ops.subtract, operator.sub, "__rsub__")
    __rsub__: Binary = _mirrored(ops.subtract, operator.sub)
    __mul__: Binary = _operator(ops.multiply, operator.mul, "__rmul__")
    __rmul__: Binary = _mirrored(ops.multiply, operator.mul)
    __truediv__: Binary = _operator(ops.divide, operator.truediv, "__rtruediv__")
    __rtruediv__: Binary = _mirrored(ops.divide, operator.truediv)
    __floordiv__: Binary = _operator(ops.floor_divide, operator.floordiv, "__rfloordiv__")
    __rfloordiv__: Binary = _mirrored(ops.floor_divide, operator.floordiv)
    __mod__: Binary = _operator(ops.remainder, operator.mod, "__rmod__")
    __rmod__: Binary = _mirrored(ops.remainder, operator.mod)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    __pow__: Binary = _operator(ops.pow, operator.pow, "__rpow__")
    __rpow__: Binary = _mirrored(ops.pow, operator.pow)
    __matmul__: Binary = _operator(ops.matmul, operator.matmul, "__rmatmul__")
    __rmatmul__: Binary = _mirrored(ops.matmul, operator.matmul)
    __and__: Binary = _operator(ops.bitwise_and, operator.and_, "__rand__")
    __rand__: Binary = _mirrored(ops.bitwise_and, operator.and_)
    __or__: Binary = _operator(ops.bitwise_or, operator.or_, "__ror__")
    __ror__: Binary = _mirrored(ops.bitwise_or, operator.or_)
    __xor__: Binary = _operator(ops.bitwise_xor, operator.xor, "__rxor__")
    __rxor__: Binary = _mirrored(ops.bitwise_xor, operator.xor)
    __lshift__: Binary = _operator(ops.bitwise_left_shift, operator.lshift, "__rlshift__")
    __rlshift__: Binary = _mirrored(ops.bitwise_left_shift, operator.lshift)
    __rshift__: Binary = _operator(ops.bitwise_right_shift, operator.rshift, "__rrshift__")
    __rrshift__: Binary = _mirrored(ops.bitwise_right_shift, operator.rshift)

    __lt__: Binary = _operator(ops.less, operator.lt, "__gt__")
    __le__: Binary = _operator(ops.less_equal, operator.le, "__ge__")
    __gt__: Binary = _operator(ops.greater, operator.gt, "__lt__")
    __ge__: Binary = _operator(ops.greater_equal, operator.ge, "__le__")
    __eq__ = _operator(ops.equal, operator.eq, "__eq__")  # type: ignore[assignment]
    __ne__ = _operator(ops.not_equal, operator.ne, "__ne__")  # type: ignore[assignment]

    __neg__ = ops.negative
    __pos__ = ops.positive
    __abs__ = ops.abs
    __invert__ = ops.bitwise_invert

    abs = ops.abs
    all = ops.all
    any = ops.any
    argmax = ops.argmax
    argmin = ops.argmin
    argsort = ops.argsort
    astype = ops.astype
    broadcast_to = ops.broadcast_to
    chunk = ops.chunk
    expand_dims = ops.expand_dims
    flatten = ops.flatten
    flip = ops.flip
    masked_fill = ops.masked_fill
    moveaxis = ops.moveaxis
    nonzero = ops.nonzero
    permute_dims = ops.permute_dims
    repeat = ops.repeat
    roll = ops.roll
    split = ops.split
    squeeze = ops.squeeze
    swapaxes = ops.swapaxes
    take = ops.take
    tile = ops.tile
    unstack = ops.unstack
    clip = ops.clip
    conj = ops.conj
    cos = ops.cos
    cumulative_prod = ops.cumulative_prod
    cumulative_sum = ops.cumulative_sum
    erf = ops.erf
    exp = ops.exp
    log = ops.log
    logsumexp = ops.logsumexp
    max = ops.max
    mean = ops.mean
    min = ops.min
    prod = ops.prod
    round = ops.round
    rsqrt = ops.rsqrt
    sign = ops.sign
    sin = ops.sin
    softmax = ops.softmax
    sort = ops.sort
    sqrt = ops.sqrt
    square = ops.square
    std = ops.std
    sum = ops.sum
    tanh = ops.tanh
    topk = ops.topk
    var = ops.var

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, given as one tuple or as several sizes."""
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape)  # type: ignore[arg-type]

    def ravel(self) -> Tensor:
        """All elements along one axis, in row-major order."""
        return ops.reshape(self, (-1,))  # type: ignore[arg-type]

    def __getitem__(self, key: Any) -> Tensor:
        return getitem(self, key)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a 0-d tensor cannot be iterated; its value is x.item()")
        return iter(ops.unstack(self))  # type: ignore[arg-type]

    def __contains__(self, value: Any) -> bool:
        """Whether any element equals a number or a tensor that broadcasts, as in NumPy."""
        found = ops.equal(self, value)  # type: ignore[arg-type]
        return bool(ops.any(found))

    @property
    def at(self) -> IndexedUpdate:
        """`x.at[key].set(v)`, `.add(v)` and so on: copies with the indexed elements changed.

        See `IndexedUpdate`: set, apply, add, subtract, multiply, divide, max, min, and get.

        >>> import ingle.tensor as it
        >>> it.zeros(3).at[[0, 2, 2]].add(1).tolist()
        [1.0, 0.0, 2.0]
        """
        return IndexedUpdate(self)  # type: ignore[arg-type]

    @property
    def T(self) -> Tensor:  # noqa: N802 (the standard's name)
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            raise AxisError(
                f"T: needs 2 axes, got shape {self.shape}; use x.mT or permute_dims(x, axes)"
            )
        return ops.permute_dims(self, (1, 0))  # type: ignore[arg-type]

    @property
    def mT(self) -> Tensor:  # noqa: N802 (the standard's name)
        """The last two axes swapped: the transpose of each matrix of a stack."""
        n = len(self.shape)
        if n < 2:
            raise AxisError(f"mT: needs at least 2 axes, got shape {self.shape}")
        return ops.permute_dims(self, (*range(n - 2), n - 1, n - 2))  # type: ignore[arg-type]
