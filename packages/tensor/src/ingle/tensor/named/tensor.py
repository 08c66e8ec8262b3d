"""A tensor and the names of its axes, which operators align their operands by."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import ops
from ..device import Device
from ..dispatch import TensorLike, handle_of, wrap
from ..dtypes import DType
from ..errors import ArgumentError, AxisError, OperandError, ShapeError
from ..gradients import Gradients
from ..tensor import Tensor

Names: TypeAlias = str | Iterable[str]
"""Names of axes: strings, or one string with spaces between them."""


def named(x: TensorLike, names: Names) -> NamedTensor:
    """A tensor with names for its axes.

    Args:
        x: a tensor.
        names: a different one for each axis, as a string with spaces or a sequence; a name is a
            Python identifier.

    Raises:
        AxisError: the names are not as many as the axes, or not different.

    >>> import ingle.tensor as it
    >>> from ingle.tensor import named
    >>> named.named(it.zeros((2, 3)), "batch feature").names
    ('batch', 'feature')
    """
    return NamedTensor(wrap(handle_of(x, "named")), names_of(names))


def _binary(function: Callable[[Any, Any], Tensor], swapped: bool = False) -> Any:
    def method(self: NamedTensor, other: Any) -> NamedTensor:
        return apply(function, other, self) if swapped else apply(function, self, other)

    return method


def _reduction(function: Callable[..., Tensor]) -> Any:
    def method(
        self: NamedTensor, names: Names | None = None, /, *, keepdims: bool = False, **options: Any
    ) -> NamedTensor:
        return self.reduce(function, names, keepdims=keepdims, **options)

    method.__doc__ = f"`{function.__name__}` over the axes of some names, or over all axes."
    return method


class NamedTensor:
    """A tensor and the names of its axes. Made by `named`.

    Operators align their operands by name: the result has the axes of the left one in their
    order, and behind them those that only the right one has. Numbers and 0-d tensors fit
    everything; other plain tensors must be named first.

    Attributes:
        tensor: the plain tensor.
        names: of its axes, in their order.
    """

    __slots__ = ("names", "tensor")

    # NumPy must leave `array + named` to the operators here.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, tensor: Tensor, names: tuple[str, ...]) -> None:
        if len(names) != tensor.ndim:
            raise AxisError(
                f"named: {len(names)} names {names} for a tensor of {tensor.ndim} axes, shape "
                f"{tensor.shape}"
            )
        for n in names:
            if not isinstance(n, str) or not n.isidentifier():
                raise AxisError(f"named: a name must be a Python identifier, got {n!r}")
            if names.count(n) > 1:
                raise AxisError(f"named: the name {n!r} comes twice in {names}")
        self.tensor = tensor
        self.names = names

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis by its name."""
        return dict(zip(self.names, self.tensor.shape, strict=True))

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.tensor.dtype

    @property
    def device(self) -> Device:
        """Where the tensor lives."""
        return self.tensor.device

    def __repr__(self) -> str:
        sizes = "".join(f"{n}={size}, " for n, size in self.sizes.items())
        return f"named({sizes}dtype={self.dtype}, device={self.device.name})"

    def axis(self, name: str) -> int:
        """The place of an axis; an `AxisError` that lists the names for an unknown one."""
        if name not in self.names:
            raise AxisError(f"named: there is no axis {name!r} among {self.names}")
        return self.names.index(name)

    def rename(self, mapping: Mapping[str, str] | None = None, /, **names: str) -> NamedTensor:
        """The same tensor with other names for some axes.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> named.named(it.zeros((2, 3)), "a b").rename(a="c").names
        ('c', 'b')
        """
        changes = {**(mapping or {}), **names}
        for n in changes:
            self.axis(n)
        return NamedTensor(self.tensor, tuple(changes.get(n, n) for n in self.names))

    def align_to(self, names: Names, /) -> NamedTensor:
        """The axes in another order; a name that is new becomes an axis of size 1.

        Args:
            names: all names of the tensor, and any others.

        Raises:
            AxisError: the names leave out an axis.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> named.named(it.zeros((2, 3)), "a b").align_to("b new a").tensor.shape
        (3, 1, 2)
        """
        wanted = names_of(names)
        lost = [n for n in self.names if n not in wanted]
        if lost:
            raise AxisError(
                f"align_to: {wanted} leaves out the axes {lost} of {self.names}; reduce, select or "
                "drop them first"
            )
        order = tuple(self.axis(n) for n in wanted if n in self.names)
        sizes = self.sizes
        moved = ops.permute_dims(self.tensor, order)
        return NamedTensor(ops.reshape(moved, tuple(sizes.get(n, 1) for n in wanted)), wanted)

    def drop(self, names: Names, /) -> NamedTensor:
        """The tensor without some axes of size 1.

        Raises:
            ShapeError: an axis has another size.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> named.named(it.zeros((1, 3)), "a b").drop("a").names
        ('b',)
        """
        gone = names_of(names)
        for n in gone:
            if self.tensor.shape[self.axis(n)] != 1:
                raise ShapeError(
                    f"drop: axis {n!r} has size {self.sizes[n]}, and only axes of size 1 can be "
                    "dropped; reduce or select it"
                )
        kept = {n: size for n, size in self.sizes.items() if n not in gone}
        return NamedTensor(ops.reshape(self.tensor, tuple(kept.values())), tuple(kept))

    def merge(self, names: Names, new: str, /) -> NamedTensor:
        """Several axes as one, in the order in which they are named, in the place of the first.

        Raises:
            ArgumentError: there is no name.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> named.named(it.zeros((2, 3, 4)), "a b c").merge("c a", "d").sizes
        {'b': 3, 'd': 8}
        """
        gone = names_of(names)
        if not gone:
            raise ArgumentError("merge: needs at least one axis")
        at = self.axis(gone[0])
        rest = [n for n in self.names if n not in gone]
        before = [n for n in self.names[:at] if n not in gone]
        order = (*before, *gone, *rest[len(before) :])
        sizes = self.sizes
        merged = {n: sizes[n] for n in before} | {new: math.prod(sizes[n] for n in gone)}
        shape = (*merged.values(), *(sizes[n] for n in rest[len(before) :]))
        x = ops.reshape(self.align_to(order).tensor, shape)
        return NamedTensor(x, (*before, new, *rest[len(before) :]))

    def unmerge(self, name: str, /, **sizes: int) -> NamedTensor:
        """One axis as several, of which one size may be -1.

        Raises:
            ShapeError: the axis does not split into these sizes.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> named.named(it.zeros((2, 6)), "a b").unmerge("b", row=2, column=-1).sizes
        {'a': 2, 'row': 2, 'column': 3}
        """
        at, size = self.axis(name), self.sizes[name]
        known = math.prod(n for n in sizes.values() if n != -1)
        open_sizes = [n for n, s in sizes.items() if s == -1]
        if len(open_sizes) > 1 or (size % known if known and open_sizes else known != size):
            raise ShapeError(f"unmerge: axis {name!r} of size {size} does not split into {sizes}")
        found = [size // known if n == -1 else n for n in sizes.values()]
        shape = (*self.tensor.shape[:at], *found, *self.tensor.shape[at + 1 :])
        names = (*self.names[:at], *sizes, *self.names[at + 1 :])
        return NamedTensor(ops.reshape(self.tensor, shape), names)

    def select(self, **indices: Any) -> NamedTensor:
        """Elements along axes by their names: a number drops the axis, a slice or list keeps it.

        Raises:
            ShapeError: the indices have several axes.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> x = named.named(it.asarray([[1, 2, 3], [4, 5, 6]]), "row column")
        >>> x.select(row=1, column=[2, 0]).tensor.tolist()
        [6, 4]
        """
        x = self
        for name, index in indices.items():
            at = x.axis(name)
            if isinstance(index, (list, tuple, np.ndarray, Tensor)):
                found = ops.take(x.tensor, index, axis=at)
                grown = found.ndim - x.tensor.ndim
                if grown > 0:
                    raise ShapeError(
                        f"select: indices of axis {name!r} have {grown + 1} axes, but one name"
                    )
            else:
                found = x.tensor[(slice(None),) * at + (index,)]
                grown = found.ndim - x.tensor.ndim
            names = x.names if grown == 0 else (*x.names[:at], *x.names[at + 1 :])
            x = NamedTensor(found, names)
        return x

    def apply(self, function: Callable[..., Tensor], /, **options: Any) -> NamedTensor:
        """An elementwise function of the tensor: `x.apply(it.gelu)`."""
        return apply(function, self, **options)

    def reduce(
        self,
        function: Callable[..., Any],
        names: Names | None = None,
        /,
        *,
        keepdims: bool = False,
        **options: Any,
    ) -> NamedTensor:
        """A function that takes `axis` and `keepdims`, over the axes of some names or over all.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> named.named(it.ones((2, 3)), "a b").reduce(it.logsumexp, "b").names
        ('a',)
        """
        gone = self.names if names is None else names_of(names)
        axes = tuple(self.axis(n) for n in gone)
        axis = axes[0] if len(axes) == 1 else axes
        out = function(self.tensor, axis=axis, keepdims=keepdims, **options)
        return NamedTensor(out, tuple(n for n in self.names if keepdims or n not in gone))

    def along(self, function: Callable[..., Tensor], name: str, /, **options: Any) -> NamedTensor:
        """A function that takes `axis` and keeps it, such as `softmax` or `sort`.

        >>> import ingle.tensor as it
        >>> from ingle.tensor import named
        >>> x = named.named(it.asarray([[1, 2], [3, 4]]), "row column")
        >>> x.along(it.cumulative_sum, "row").tensor.tolist()
        [[1, 2], [4, 6]]
        """
        return NamedTensor(function(self.tensor, axis=self.axis(name), **options), self.names)

    sum = _reduction(ops.sum)
    mean = _reduction(ops.mean)
    prod = _reduction(ops.prod)
    max = _reduction(ops.max)
    min = _reduction(ops.min)
    any = _reduction(ops.any)
    all = _reduction(ops.all)
    var = _reduction(ops.var)
    std = _reduction(ops.std)
    argmax = _reduction(ops.argmax)
    argmin = _reduction(ops.argmin)

    def softmax(self, name: str, /) -> NamedTensor:
        """`softmax` along the axis of a name."""
        return self.along(ops.softmax, name)

    def astype(self, dtype: DType | str, /) -> NamedTensor:
        """The values in another dtype."""
        return NamedTensor(self.tensor.astype(dtype), self.names)

    def require_grad(self) -> NamedTensor:
        """A tensor that gradients are recorded for; they are found by its `.tensor`."""
        return NamedTensor(self.tensor.require_grad(), self.names)

    def backward(self, cotangent: NamedTensor | None = None) -> Gradients:
        """The gradients of this tensor; see `Tensor.backward`."""
        g = None if cotangent is None else cotangent.align_to(self.names).tensor
        return self.tensor.backward(g)

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
        return self.tensor.item()

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, axes in the order of the names."""
        return self.tensor.numpy()

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __neg__(self) -> NamedTensor:
        return apply(ops.negative, self)

    def __abs__(self) -> NamedTensor:
        return apply(ops.abs, self)

    def __invert__(self) -> NamedTensor:
        return apply(ops.bitwise_invert, self)

    __add__ = _binary(operator.add)
    __radd__ = _binary(operator.add, swapped=True)
    __sub__ = _binary(operator.sub)
    __rsub__ = _binary(operator.sub, swapped=True)
    __mul__ = _binary(operator.mul)
    __rmul__ = _binary(operator.mul, swapped=True)
    __truediv__ = _binary(operator.truediv)
    __rtruediv__ = _binary(operator.truediv, swapped=True)
    __floordiv__ = _binary(operator.floordiv)
    __mod__ = _binary(operator.mod)
    __pow__ = _binary(operator.pow)
    __rpow__ = _binary(operator.pow, swapped=True)
    __and__ = _binary(operator.and_)
    __or__ = _binary(operator.or_)
    __xor__ = _binary(operator.xor)
    __lt__ = _binary(operator.lt)
    __le__ = _binary(operator.le)
    __gt__ = _binary(operator.gt)
    __ge__ = _binary(operator.ge)
    __eq__ = _binary(operator.eq)
    __ne__ = _binary(operator.ne)


def apply(function: Callable[..., Any], /, *operands: Any, **options: Any) -> NamedTensor:
    """An elementwise function of operands that are aligned by name.

    Args:
        function: of as many tensors or numbers, that broadcasts them.
        operands: named tensors, and numbers or 0-d tensors.
        options: for the function.

    Raises:
        ShapeError: the function is not elementwise.

    >>> import ingle.tensor as it
    >>> from ingle.tensor import named
    >>> a, b = named.named(it.zeros(2), "a"), named.named(it.ones(3), "b")
    >>> named.apply(it.maximum, a, b).sizes
    {'a': 2, 'b': 3}
    """
    sizes = joint_sizes("apply", [x for x in operands if isinstance(x, NamedTensor)])
    names = tuple(sizes)
    plain = [_aligned(x, names) for x in operands]
    out = function(*plain, **options)
    if not isinstance(out, Tensor) or out.shape != tuple(sizes.values()):
        shown = getattr(function, "__name__", function)
        raise ShapeError(
            f"apply: {shown} is not elementwise: from axes {sizes} it made "
            f"{getattr(out, 'shape', type(out).__name__)}; use reduce or along, or x.tensor"
        )
    return NamedTensor(out, names)


def names_of(names: Names) -> tuple[str, ...]:
    """Names one by one, of which none comes twice."""
    found = tuple(names.split()) if isinstance(names, str) else tuple(names)
    for n in found:
        if found.count(n) > 1:
            raise AxisError(f"named: the name {n!r} comes twice in {found}")
    return found


def joint_sizes(name: str, tensors: Sequence[NamedTensor]) -> dict[str, int]:
    """The axes of all tensors by name, in the order in which they come, after broadcasting."""
    sizes: dict[str, int] = {}
    for x in tensors:
        if not isinstance(x, NamedTensor):
            raise OperandError(f"{name}: needs named tensors, got {type(x).__name__}")
        for n, size in x.sizes.items():
            known = sizes.setdefault(n, size)
            if size != known and 1 not in (size, known):
                raise ShapeError(
                    f"{name}: axis {n!r} has the sizes {known} and {size} in "
                    f"{' and '.join(str(t.sizes) for t in tensors)}"
                )
            sizes[n] = size if known == 1 else known
    return sizes


def _aligned(x: Any, names: tuple[str, ...]) -> Any:
    if isinstance(x, NamedTensor):
        return x.align_to(names).tensor
    if isinstance(x, Tensor) and x.ndim:
        raise OperandError(
            f"named: a plain tensor of shape {x.shape} has no names for its axes to be matched by; "
            'write named(x, "...")'
        )
    return x
