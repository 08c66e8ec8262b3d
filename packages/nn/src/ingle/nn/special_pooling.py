"""Pooling to a size, at random places, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from ._arguments import Sizes, sizes
from .module import Module
from .parameter import Buffer

OutputSize = int | None | Sequence[int | None]


class _Adaptive(Module):
    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: OutputSize) -> None:
        n = self._axes
        given = (output_size,) * n if not isinstance(output_size, Sequence) else output_size
        if len(given) != n or any(
            g is not None and (not isinstance(g, int) or g < 0) for g in given
        ):
            raise ArgumentError(
                f"{type(self).__name__}: output_size must be an integer of at least 0 or None, to "
                f"keep the size, or {n} of these, got {output_size!r}"
            )
        self.output_size = output_size

    def _sizes(self, x: Tensor) -> tuple[int, ...]:
        n, given = self._axes, self.output_size
        if x.ndim < n + 1:
            axes = ", ".join(("depth", "height", "width")[-n:] if n > 1 else ("length",))
            raise ShapeError(
                f"{type(self).__name__}: x must be (batch, channels, {axes}) or (channels, {axes})"
                f", got shape {x.shape}"
            )
        wanted = given if isinstance(given, Sequence) else (given,) * n
        return tuple(s if w is None else w for w, s in zip(wanted, x.shape[-n:], strict=True))

    def forward(self, x: TensorLike) -> Any:
        x = it.asarray(x)
        return self._function(x, self._sizes(x))

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means of as many windows along the last axis as the result has elements.

    Args:
        output_size: of the result; None for that of the input.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveAvgPool1d
    >>> AdaptiveAvgPool1d(2)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[2.0, 1.0]]]
    """

    _axes = 1
    _function = staticmethod(it.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """`AdaptiveAvgPool1d` over the last two axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveAvgPool2d
    >>> AdaptiveAvgPool2d((1, None))(it.ones((2, 3, 5, 7))).shape
    (2, 3, 1, 7)
    """

    _axes = 2
    _function = staticmethod(it.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    """`AdaptiveAvgPool1d` over the last three axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveAvgPool3d
    >>> AdaptiveAvgPool3d(2)(it.ones((1, 3, 5, 7, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _axes = 3
    _function = staticmethod(it.adaptive_avg_pool3d)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = bool(return_indices)

    def forward(self, x: TensorLike) -> Any:
        x = it.asarray(x)
        return self._function(x, self._sizes(x), return_indices=self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Maxima of as many windows along the last axis as the result has elements.

    Args:
        output_size: of the result; None for that of the input.
        return_indices: whether to return also where they are.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveMaxPool1d
    >>> AdaptiveMaxPool1d(2)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[3.0, 2.0]]]
    """

    _axes = 1
    _function = staticmethod(it.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """`AdaptiveMaxPool1d` over the last two axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveMaxPool2d
    >>> AdaptiveMaxPool2d(2)(it.ones((2, 3, 5, 7))).shape
    (2, 3, 2, 2)
    """

    _axes = 2
    _function = staticmethod(it.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """`AdaptiveMaxPool1d` over the last three axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AdaptiveMaxPool3d
    >>> AdaptiveMaxPool3d(2)(it.ones((1, 3, 5, 7, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _axes = 3
    _function = staticmethod(it.adaptive_max_pool3d)


class _Fractional(Module):
    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        *,
        _random_samples: TensorLike | None = None,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        self.kernel_size = sizes(name, "kernel_size", kernel_size, self._axes)
        if (output_size is None) is (output_ratio is None):
            raise ArgumentError(f"{name}: give either output_size or output_ratio")
        ratios = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,)
        if output_ratio is not None and not all(r is not None and 0 < r < 1 for r in ratios):
            raise ArgumentError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")
        self.output_size, self.output_ratio = output_size, output_ratio
        self.return_indices, self.generator = bool(return_indices), generator
        # PyTorch saves these places, too.
        self._random_samples = None if _random_samples is None else Buffer(_random_samples)

    def forward(self, x: TensorLike) -> Any:
        return self._function(
            x, self.kernel_size, output_size=self.output_size, output_ratio=self.output_ratio,
            return_indices=self.return_indices, samples=self._random_samples,
            generator=self.generator,
        )  # fmt: skip

    def extra_repr(self) -> str:
        where = f"output_size={self.output_size}"
        if self.output_size is None:
            where = f"output_ratio={self.output_ratio}"
        return f"kernel_size={self.kernel_size}, {where}"


class FractionalMaxPool2d(_Fractional):
    """Maxima of windows at random places, to any smaller size; Graham (arXiv 1412.6071).

    Args:
        kernel_size: of the windows.
        output_size: of the result, or
        output_ratio: its size as a part of the input's.
        return_indices: whether to return also where they are.
        generator: where places are drawn from; the default generator if not given.

    >>> import ingle.tensor as it
    >>> from ingle.nn import FractionalMaxPool2d
    >>> FractionalMaxPool2d(2, output_ratio=0.75)(it.ones((1, 3, 8, 12))).shape
    (1, 3, 6, 9)
    """

    _axes = 2
    _function = staticmethod(it.fractional_max_pool2d)


class FractionalMaxPool3d(_Fractional):
    """`FractionalMaxPool2d` over the last three axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import FractionalMaxPool3d
    >>> FractionalMaxPool3d(2, output_size=3)(it.ones((1, 3, 5, 6, 7))).shape
    (1, 3, 3, 3, 3)
    """

    _axes = 3
    _function = staticmethod(it.fractional_max_pool3d)


class _MaxUnpool(Module):
    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        name, n = type(self).__name__, self._axes
        self.kernel_size = sizes(name, "kernel_size", kernel_size, n)
        self.stride = sizes(name, "stride", kernel_size if stride is None else stride, n)
        self.padding = sizes(name, "padding", padding, n, 0)

    def forward(
        self, x: TensorLike, indices: TensorLike, output_size: Sequence[int] | None = None
    ) -> Tensor:
        wanted = None if output_size is None else tuple(output_size)[-self._axes :]
        return self._function(
            x, indices, self.kernel_size, stride=self.stride, padding=self.padding,
            output_size=wanted,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima back to where `MaxPool1d` found them; zeros elsewhere.

    Args:
        kernel_size, stride, padding: of the pooling.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool1d, MaxUnpool1d
    >>> y, where = MaxPool1d(2, return_indices=True)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]]))
    >>> MaxUnpool1d(2)(y, where).tolist()
    [[[0.0, 3.0, 2.0, 0.0]]]
    """

    _axes = 1
    _function = staticmethod(it.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """`MaxUnpool1d` over the last two axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool2d, MaxUnpool2d
    >>> MaxUnpool2d(2)(*MaxPool2d(2, return_indices=True)(it.ones((1, 3, 4, 6)))).shape
    (1, 3, 4, 6)
    """

    _axes = 2
    _function = staticmethod(it.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """`MaxUnpool1d` over the last three axes.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool3d, MaxUnpool3d
    >>> MaxUnpool3d(2)(*MaxPool3d(2, return_indices=True)(it.ones((1, 3, 4, 6, 2)))).shape
    (1, 3, 4, 6, 2)
    """

    _axes = 3
    _function = staticmethod(it.max_unpool3d)
