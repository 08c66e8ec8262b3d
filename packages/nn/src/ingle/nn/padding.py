"""Padding layers over the last one, two and three axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import Number, TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError

from .module import Module

Widths = int | Sequence[int]


class _Pad(Module):
    _axes: ClassVar[int]
    _mode: ClassVar[Literal["constant", "reflect", "edge", "circular"]] = "constant"

    def __init__(self, padding: Widths) -> None:
        count = 2 * self._axes
        given = tuple(padding) if isinstance(padding, Iterable) else (padding,) * count
        if len(given) != count or not all(isinstance(w, int) for w in given):
            raise ArgumentError(
                f"{type(self).__name__}: padding must be an integer or {count} of them, two for "
                f"each axis from the last, got {padding!r}"
            )
        self.padding = given
        self.value: Number = 0.0

    def forward(self, x: TensorLike) -> Tensor:
        x = it.asarray(x)
        if x.ndim < self._axes:
            raise ShapeError(
                f"{type(self).__name__}: x must have at least {self._axes} axes, got shape "
                f"{x.shape}"
            )
        pairs = [(self.padding[2 * i], self.padding[2 * i + 1]) for i in range(self._axes)]
        widths = (*((0, 0),) * (x.ndim - self._axes), *reversed(pairs))
        if self._mode != "constant":
            return it.pad(x, widths, mode=self._mode)
        return it.pad(x, widths, value=self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Widths, value: Number) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Adds a value around the last axis.

    Args:
        padding: how many elements before and behind, one number for all or two for each
            axis from the last; negative ones crop.
        value: of the new elements.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ConstantPad1d
    >>> ConstantPad1d(2, 7.0)(it.asarray([[1.0, 2.0, 3.0]])).tolist()
    [[7.0, 7.0, 1.0, 2.0, 3.0, 7.0, 7.0]]
    """

    _axes = 1


class ConstantPad2d(_ConstantPad):
    """Adds a value around the last two axes.

    The arguments are those of `ConstantPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ConstantPad2d
    >>> ConstantPad2d((1, 2, 0, 1), 0.5)(it.ones((1, 2, 3, 4))).shape
    (1, 2, 4, 7)
    """

    _axes = 2


class ConstantPad3d(_ConstantPad):
    """Adds a value around the last three axes.

    The arguments are those of `ConstantPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ConstantPad3d
    >>> ConstantPad3d((1, 1, 0, 1, 1, 0), 0.5)(it.ones((1, 2, 3, 3, 4))).shape
    (1, 2, 4, 4, 6)
    """

    _axes = 3


class ZeroPad1d(_Pad):
    """Adds zeros around the last axis.

    Args:
        padding: how many elements before and behind, one number for all or two for each
            axis from the last.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ZeroPad1d
    >>> ZeroPad1d(1)(it.asarray([[1.0, 2.0, 3.0]])).tolist()
    [[0.0, 1.0, 2.0, 3.0, 0.0]]
    """

    _axes = 1


class ZeroPad2d(_Pad):
    """Adds zeros around the last two axes.

    The arguments are those of `ZeroPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ZeroPad2d
    >>> ZeroPad2d((1, 2, 0, 1))(it.ones((1, 2, 3, 4))).shape
    (1, 2, 4, 7)
    """

    _axes = 2


class ZeroPad3d(_Pad):
    """Adds zeros around the last three axes.

    The arguments are those of `ZeroPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ZeroPad3d
    >>> ZeroPad3d((1, 1, 0, 1, 1, 0))(it.ones((1, 2, 3, 3, 4))).shape
    (1, 2, 4, 4, 6)
    """

    _axes = 3


class ReflectionPad1d(_Pad):
    """Reflects the last axis at the edges, which are not repeated.

    Args:
        padding: how many elements before and behind, one number for all or two for each
            axis from the last.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReflectionPad1d
    >>> ReflectionPad1d(1)(it.asarray([[1.0, 2.0, 3.0]])).tolist()
    [[2.0, 1.0, 2.0, 3.0, 2.0]]
    """

    _axes = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """Reflects the last two axes at the edges, which are not repeated.

    The arguments are those of `ReflectionPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReflectionPad2d
    >>> ReflectionPad2d((1, 2, 0, 1))(it.ones((1, 2, 3, 4))).shape
    (1, 2, 4, 7)
    """

    _axes = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """Reflects the last three axes at the edges, which are not repeated.

    The arguments are those of `ReflectionPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReflectionPad3d
    >>> ReflectionPad3d((1, 1, 0, 1, 1, 0))(it.ones((1, 2, 3, 3, 4))).shape
    (1, 2, 4, 4, 6)
    """

    _axes = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """Repeats the outermost elements of the last axis.

    Args:
        padding: how many elements before and behind, one number for all or two for each
            axis from the last.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReplicationPad1d
    >>> ReplicationPad1d(1)(it.asarray([[1.0, 2.0, 3.0]])).tolist()
    [[1.0, 1.0, 2.0, 3.0, 3.0]]
    """

    _axes = 1
    _mode = "edge"


class ReplicationPad2d(_Pad):
    """Repeats the outermost elements of the last two axes.

    The arguments are those of `ReplicationPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReplicationPad2d
    >>> ReplicationPad2d((1, 2, 0, 1))(it.ones((1, 2, 3, 4))).shape
    (1, 2, 4, 7)
    """

    _axes = 2
    _mode = "edge"


class ReplicationPad3d(_Pad):
    """Repeats the outermost elements of the last three axes.

    The arguments are those of `ReplicationPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import ReplicationPad3d
    >>> ReplicationPad3d((1, 1, 0, 1, 1, 0))(it.ones((1, 2, 3, 3, 4))).shape
    (1, 2, 4, 4, 6)
    """

    _axes = 3
    _mode = "edge"


class CircularPad1d(_Pad):
    """Goes on with the other end of the last axis.

    Args:
        padding: how many elements before and behind, one number for all or two for each
            axis from the last.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CircularPad1d
    >>> CircularPad1d(1)(it.asarray([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 1.0, 2.0, 3.0, 1.0]]
    """

    _axes = 1
    _mode = "circular"


class CircularPad2d(_Pad):
    """Goes on with the other end of the last two axes.

    The arguments are those of `CircularPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CircularPad2d
    >>> CircularPad2d((1, 2, 0, 1))(it.ones((1, 2, 3, 4))).shape
    (1, 2, 4, 7)
    """

    _axes = 2
    _mode = "circular"


class CircularPad3d(_Pad):
    """Goes on with the other end of the last three axes.

    The arguments are those of `CircularPad1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import CircularPad3d
    >>> CircularPad3d((1, 1, 0, 1, 1, 0))(it.ones((1, 2, 3, 3, 4))).shape
    (1, 2, 4, 4, 6)
    """

    _axes = 3
    _mode = "circular"
