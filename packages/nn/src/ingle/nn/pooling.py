"""Pooling layers over one, two and three axes: maxima, means and p-norms of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor.argument_checks import number
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError

from ._arguments import Sizes, sizes
from .module import Module


class _Pool(Module):
    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool
    ) -> None:
        name, n = type(self).__name__, self._axes
        self.kernel_size = sizes(name, "kernel_size", kernel_size, n)
        self.stride = sizes(name, "stride", kernel_size if stride is None else stride, n)
        self.padding = sizes(name, "padding", padding, n, 0)
        self.ceil_mode = bool(ceil_mode)

    def _options(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "ceil_mode": self.ceil_mode}

    def forward(self, x: TensorLike) -> Any:
        return self._function(x, self.kernel_size, **self._options())

    def extra_repr(self) -> str:
        options = {"kernel_size": self.kernel_size, **self._options()}
        return ", ".join(f"{k}={v}" for k, v in options.items())


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = sizes(type(self).__name__, "dilation", dilation, self._axes)
        self.return_indices = bool(return_indices)

    def _options(self) -> dict[str, Any]:
        found = {**super()._options(), "dilation": self.dilation}
        return {**found, "return_indices": True} if self.return_indices else found


class MaxPool1d(_MaxPool):
    """The largest element of each window along the last axis.

    Args:
        kernel_size: of the window.
        stride: from window to window; `kernel_size` if not given.
        padding: minus infinities on both sides.
        dilation: between the elements of a window.
        return_indices: whether to return also where they are, for `MaxUnpool1d`.
        ceil_mode: whether a last window may stand partly outside.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool1d
    >>> MaxPool1d(2)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[3.0, 2.0]]]
    """

    _axes = 1
    _function = staticmethod(it.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of each window over the last two axes; arguments as `MaxPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool2d
    >>> MaxPool2d(2)(it.ones((1, 3, 8, 6))).shape
    (1, 3, 4, 3)
    """

    _axes = 2
    _function = staticmethod(it.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of each window over the last three axes; arguments as `MaxPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool3d
    >>> MaxPool3d(2)(it.ones((1, 3, 8, 6, 4))).shape
    (1, 3, 4, 3, 2)
    """

    _axes = 3
    _function = staticmethod(it.max_pool3d)


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = bool(count_include_pad)
        self.divisor_override = divisor_override

    def _options(self) -> dict[str, Any]:
        found = {**super()._options(), "count_include_pad": self.count_include_pad}
        if self.divisor_override is not None:
            found["divisor_override"] = self.divisor_override
        return found


class AvgPool1d(_AvgPool):
    """The mean of each window along the last axis.

    Args:
        kernel_size: of the window.
        stride: from window to window; `kernel_size` if not given.
        padding: zeros on both sides.
        ceil_mode: whether a last window may stand partly outside.
        count_include_pad: whether padding counts in the divisor.
        divisor_override: what sums are divided by instead.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AvgPool1d
    >>> AvgPool1d(2)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[2.0, 1.0]]]
    """

    _axes = 1
    _function = staticmethod(it.avg_pool1d)


class AvgPool2d(_AvgPool):
    """The mean of each window over the last two axes; arguments as `AvgPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AvgPool2d
    >>> AvgPool2d(2)(it.ones((1, 3, 8, 6))).shape
    (1, 3, 4, 3)
    """

    _axes = 2
    _function = staticmethod(it.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window over the last three axes; arguments as `AvgPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AvgPool3d
    >>> AvgPool3d(2)(it.ones((1, 3, 8, 6, 4))).shape
    (1, 3, 4, 3, 2)
    """

    _axes = 3
    _function = staticmethod(it.avg_pool3d)


class _LPPool(_Pool):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        name = type(self).__name__
        if not number(name, "norm_type", norm_type) > 0:
            raise ArgumentError(f"{name}: norm_type must be above 0, got {norm_type}")
        super().__init__(kernel_size, stride, 0, ceil_mode)
        self.norm_type = norm_type

    def forward(self, x: TensorLike) -> Any:
        options = {"stride": self.stride, "ceil_mode": self.ceil_mode}
        return self._function(x, self.norm_type, self.kernel_size, **options)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of each window along the last axis.

    Args:
        norm_type: p.
        kernel_size: of the window.
        stride: from window to window; `kernel_size` if not given.
        ceil_mode: whether a last window may stand partly outside.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LPPool1d
    >>> LPPool1d(1, 2)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[4.0, 2.0]]]
    """

    _axes = 1
    _function = staticmethod(it.lp_pool1d)


class LPPool2d(_LPPool):
    """The p-norm of each window over the last two axes; arguments as `LPPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LPPool2d
    >>> LPPool2d(2, 2)(it.ones((1, 3, 8, 6))).shape
    (1, 3, 4, 3)
    """

    _axes = 2
    _function = staticmethod(it.lp_pool2d)


class LPPool3d(_LPPool):
    """The p-norm of each window over the last three axes; arguments as `LPPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LPPool3d
    >>> LPPool3d(2, 2)(it.ones((1, 3, 8, 6, 4))).shape
    (1, 3, 4, 3, 2)
    """

    _axes = 3
    _function = staticmethod(it.lp_pool3d)
