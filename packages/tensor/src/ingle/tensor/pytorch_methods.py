"""Methods by PyTorch's names, of tensors and cells, for programs that come from there.

They are other spellings of functions of `ingle.tensor`. What has no method here is an
`AttributeError` that says what to write.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from . import ops
from .device import Device
from .dtypes import DType, as_dtype
from .errors import ArgumentError, AxisError, DTypeError, OperandError
from .ops._rules import as_int
from .static_values import SymbolicInt

if TYPE_CHECKING:
    from .contract import Shape
    from .tensor import Tensor

# The methods `int` and `bool` stand before the classes in the body of theirs.
Int: TypeAlias = int
Bool: TypeAlias = bool

_FUNCTIONS = """
acos acosh add allclose angle asin asinh atan atan2 atanh bincount bitwise_and bitwise_left_shift
bitwise_or bitwise_right_shift bitwise_xor ceil copysign corrcoef cosh count_nonzero cummax cummin
deg2rad diag diag_embed diff digamma divide erfc erfinv exp2 expm1 floor floor_divide fmax fmin
fmod gcd greater greater_equal hardshrink heaviside hypot i0 igamma igammac isclose isfinite isinf
isnan kron kthvalue lcm lerp less less_equal lgamma log10 log1p log2 log_softmax logaddexp
logcumsumexp logical_and logical_not logical_or logical_xor logit masked_select matmul maximum
median minimum mode multiply nan_to_num nanmean nansum negative nextafter not_equal outer pow
prelu quantile rad2deg reciprocal relu remainder rot90 sigmoid signbit sinc sinh subtract tan
tensor_split tril triu trunc xlogy
"""
_SPELLINGS = {
    "absolute": "abs", "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative",
    "true_divide": "divide", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "mm": "matmul", "bmm": "matmul", "mv": "matmul",
    "clamp": "clip", "cumsum": "cumulative_sum", "cumprod": "cumulative_prod",
    "unbind": "unstack", "movedim": "moveaxis", "swapdims": "swapaxes", "transpose": "swapaxes",
    "unsqueeze": "expand_dims",
    **{name: name for name in _FUNCTIONS.split()},
}  # fmt: skip

_SUM, _DIFFERENCE = ("alpha", "x + {0} * y"), ("alpha", "x - {0} * y")
_QUOTIENT = ("rounding_mode", 'floor_divide(x, y) for "floor", trunc(x / y) for "trunc"')
_OPTIONS = {
    "add": _SUM, "sub": _DIFFERENCE, "subtract": _DIFFERENCE, "div": _QUOTIENT,
    "divide": _QUOTIENT, "true_divide": _QUOTIENT,
}  # fmt: skip
"""Of methods an argument of PyTorch's that the functions do not have, and what to write."""


class Elements(int):
    """How many elements there are: a number, and PyTorch's method `x.size()` for its shape.

    >>> import ingle.tensor as it
    >>> x = it.zeros((2, 3))
    >>> x.size, x.size(), x.size(-1)
    (6, (2, 3), 3)
    """

    shape: Shape

    def __call__(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        found = as_int(dim, "size", "dim")
        if not -len(self.shape) <= found < len(self.shape):
            raise AxisError(f"size: dim={found} is out of range for shape {self.shape}")
        return self.shape[found]

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


def elements(count: int, shape: Shape) -> Elements:
    """A number of elements that knows the shape; of a size that stands for many, that alone."""
    if isinstance(count, SymbolicInt):
        return count  # type: ignore[return-value]
    made = Elements(count)
    made.shape = shape
    return made


class _Foreign:
    """An attribute that PyTorch's tensors have and these do not: who writes it is told the same as
    who reads it. Python asks `__getattr__` after an `AttributeError` of a descriptor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, thing: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(self._name)

    def __set__(self, thing: Any, value: object) -> None:
        thing.__getattr__(self._name)


class PyTorchMethods:
    """See the module; functions of the same meaning are found by `__getattr__`."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> DType: ...
        @property
        def device(self) -> Device: ...

    else:
        requires_grad, grad, data = _Foreign(), _Foreign(), _Foreign()

        def __getattr__(self, name: str) -> Any:
            function = getattr(ops, _SPELLINGS.get(name, "_"), None)
            if function is not None:
                method = function.__get__(self)
                return _refusing(method, name) if name in _OPTIONS else method
            raise AttributeError(_missing(self, name), name=name, obj=self)

    @property
    def real(self) -> Tensor:
        """The real part."""
        return ops.real(self)  # type: ignore[arg-type]

    @property
    def imag(self) -> Tensor:
        """The imaginary part of a complex tensor."""
        return ops.imag(self)  # type: ignore[arg-type]

    def view(self, *shape: Any) -> Tensor:
        """The same elements in another shape, or with a dtype their bytes as that dtype."""
        if len(shape) == 1 and not isinstance(shape[0], (Int, Sequence)):
            return ops.bitcast(self, shape[0])  # type: ignore[arg-type]
        return _reshaped(self, shape)

    def view_as(self, other: Tensor) -> Tensor:
        """The same elements in the shape of another tensor."""
        return _reshaped(self, (_like("view_as", other).shape,))

    reshape_as = view_as

    def permute(self, *dims: Any) -> Tensor:
        """The axes in another order: `permute_dims`."""
        axes = dims[0] if len(dims) == 1 and not isinstance(dims[0], Int) else dims
        return ops.permute_dims(self, axes)  # type: ignore[arg-type]

    def t(self) -> Tensor:
        """The transpose of a matrix; a vector or number as it is."""
        return ops.permute_dims(self, tuple(range(len(self.shape)))[::-1])  # type: ignore[arg-type]

    def expand(self, *sizes: Any) -> Tensor:
        """Broadcast to a shape, in which -1 keeps a size: `broadcast_to`."""
        wanted = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], Int) else sizes
        extra = len(wanted) - len(self.shape)
        if extra < 0 or -1 in wanted[:extra]:
            raise ArgumentError(
                f"expand: sizes {wanted} do not fit shape {self.shape}; they are those of the "
                "result, with -1 for a size that stays"
            )
        shape = tuple(
            self.shape[i - extra] if n == -1 else n for i, n in enumerate(wanted)
        )  # fmt: skip
        return ops.broadcast_to(self, shape)  # type: ignore[arg-type]

    def expand_as(self, other: Tensor) -> Tensor:
        """Broadcast to the shape of another tensor."""
        return ops.broadcast_to(self, _like("expand_as", other).shape)  # type: ignore[arg-type]

    def dim(self) -> Int:
        """The number of axes; `x.ndim`."""
        return len(self.shape)

    ndimension = dim

    def numel(self) -> Int:
        """The number of elements; `x.size`."""
        return Int(self.size)  # type: ignore[attr-defined]

    nelement = numel

    def element_size(self) -> Int:
        """The bytes of an element; `x.dtype.itemsize`."""
        return self.dtype.itemsize

    def is_floating_point(self) -> Bool:
        """Whether the dtype is a float; `x.dtype.is_floating`."""
        return self.dtype.is_floating

    def is_complex(self) -> Bool:
        """Whether the dtype is complex; `x.dtype.is_complex`."""
        return self.dtype.is_complex

    def to(
        self, *to: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
        copy: bool = False,
    ) -> Tensor:  # fmt: skip
        """Another dtype, device or both: `astype` and `to_device`.

        Args:
            to: a dtype, a device, or a tensor whose dtype and device are meant.
            dtype, device: the same by name.
            non_blocking, copy: PyTorch's, without a meaning here: what waits is what needs a
                value, and nobody can tell a tensor from its copy.

        >>> import ingle.tensor as it
        >>> it.asarray([1, 2]).to("float64").dtype
        float64
        """
        for wanted in to:
            if hasattr(type(wanted), "__ingle_tensor__") or hasattr(wanted, "_handle"):
                dtype, device = wanted.dtype, wanted.device
            elif isinstance(wanted, Device):
                device = wanted
            else:
                try:
                    dtype = as_dtype(wanted)
                except DTypeError:
                    if not isinstance(wanted, str):
                        raise
                    device = wanted
        x: Tensor = ops.asarray(self)
        x = x if device is None else x.to_device(device)
        return x if dtype is None else ops.astype(x, dtype)

    def type_as(self, other: Tensor) -> Tensor:
        """Cast to the dtype of another tensor."""
        return ops.astype(self, _like("type_as", other).dtype)  # type: ignore[arg-type]

    def float(self) -> Tensor:
        """Cast to float32."""
        return ops.astype(self, "float32")  # type: ignore[arg-type]

    def double(self) -> Tensor:
        """Cast to float64."""
        return ops.astype(self, "float64")  # type: ignore[arg-type]

    def half(self) -> Tensor:
        """Cast to float16."""
        return ops.astype(self, "float16")  # type: ignore[arg-type]

    def bfloat16(self) -> Tensor:
        """Cast to bfloat16."""
        return ops.astype(self, "bfloat16")  # type: ignore[arg-type]

    def long(self) -> Tensor:
        """Cast to int64."""
        return ops.astype(self, "int64")  # type: ignore[arg-type]

    def int(self) -> Tensor:
        """Cast to int32."""
        return ops.astype(self, "int32")  # type: ignore[arg-type]

    def bool(self) -> Tensor:
        """Cast to bool."""
        return ops.astype(self, "bool")  # type: ignore[arg-type]

    def cpu(self) -> Tensor:
        """The tensor where it is: devices of the host need no move to be read; see `x.numpy()`."""
        return ops.asarray(self)

    def contiguous(self) -> Tensor:
        """The tensor as it is: how bytes lie in memory is the backend's affair."""
        return ops.asarray(self)

    def clone(self) -> Tensor:
        """A tensor of the same value; since values never change, nothing is copied."""
        return ops.positive(self)  # type: ignore[arg-type]

    def amax(self, dim: Any = None, keepdim: Any = False) -> Tensor:
        """The largest elements along axes: `max`."""
        return ops.max(self, axis=dim, keepdims=keepdim)  # type: ignore[arg-type]

    def amin(self, dim: Any = None, keepdim: Any = False) -> Tensor:
        """The smallest elements along axes: `min`."""
        return ops.min(self, axis=dim, keepdims=keepdim)  # type: ignore[arg-type]

    def gather(self, dim: Any, index: Tensor) -> Tensor:
        """The elements that a tensor of indices names along an axis: `take_along_axis`."""
        return ops.take_along_axis(self, index, axis=dim)  # type: ignore[arg-type]

    def index_select(self, dim: Any, index: Tensor) -> Tensor:
        """Slices along an axis: `take`."""
        return ops.take(self, index, axis=dim)  # type: ignore[arg-type]


def _reshaped(x: Any, shape: tuple[Any, ...]) -> Tensor:
    return ops.reshape(x, shape[0] if len(shape) == 1 else shape)


def _like(name: str, other: Any) -> Any:
    """A tensor, cell or array, whose shape or dtype is meant."""
    if hasattr(other, "shape") and hasattr(other, "dtype"):
        return other
    raise OperandError(f"{name}: other must be a tensor, got {type(other).__name__}")


def _refusing(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method, which says what to write for an option that only PyTorch's has."""
    option, told = _OPTIONS[name]

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        if option in options:
            value = options[option]
            raise ArgumentError(
                f"{name}: there is no {option}={value!r}; write {told.format(value)}"
            )
        return method(*args, **options)

    return call


_SIGNS = {
    "add_": "+", "sub_": "-", "subtract_": "-", "mul_": "*", "multiply_": "*", "div_": "/",
    "divide_": "/",
}  # fmt: skip


def _missing(x: object, name: str) -> str:
    said = f"{type(x).__name__} has no attribute {name!r}"
    if name.startswith("_") or sys.is_finalizing():  # Python has no imports any more
        return said
    from .numpy_names import ATTRIBUTES
    from .pytorch_names import answer

    told = f"write {ATTRIBUTES[name]}" if name in ATTRIBUTES else answer(name, "Tensor")
    if told is not None and name.endswith("_") and hasattr(x, "rebind"):
        told = _for_a_cell(name, told)
    return said if told is None else f"{said}; {told}"


def _for_a_cell(name: str, told: str) -> str:
    """What is written for a cell in place of a method that changes a tensor of PyTorch's: a new
    name for the result would leave the cell what it was."""
    if name == "requires_grad_":
        return "write x.requires_grad = False"
    code = f"x {_SIGNS[name]} y" if name in _SIGNS else told.rpartition("write x = ")[2]
    code = code.removeprefix("write ")
    if code == told or " = " in code or name == "detach_":
        return told
    return f"write x.value = {code}"
