"""Pooling layers over one and two axes."""

from __future__ import annotations

from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike

from ._arguments import Sizes, sizes
from .module import Module


class _Pool(Module):
    _axes: ClassVar[int]

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
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = sizes(type(self).__name__, "dilation", dilation, self._axes)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "dilation": self.dilation}


class MaxPool1d(_MaxPool):
    """The largest element of each window along the last axis.

    Args:
        kernel_size: of the window.
        stride: from window to window; `kernel_size` if not given.
        padding: minus infinities on both sides.
        dilation: between the elements of a window.
        ceil_mode: whether a last window may stand partly outside.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool1d
    >>> MaxPool1d(2)(it.asarray([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[3.0, 2.0]]]
    """

    _axes = 1

    def forward(self, x: TensorLike) -> Tensor:
        pooled: Tensor = it.max_pool1d(x, self.kernel_size, **self._options())
        return pooled


class MaxPool2d(_MaxPool):
    """The largest element of each window over the last two axes; arguments as `MaxPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import MaxPool2d
    >>> MaxPool2d(2)(it.ones((1, 3, 8, 6))).shape
    (1, 3, 4, 3)
    """

    _axes = 2

    def forward(self, x: TensorLike) -> Tensor:
        pooled: Tensor = it.max_pool2d(x, self.kernel_size, **self._options())
        return pooled


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

    def forward(self, x: TensorLike) -> Tensor:
        return it.avg_pool1d(x, self.kernel_size, **self._options())


class AvgPool2d(_AvgPool):
    """The mean of each window over the last two axes; arguments as `AvgPool1d`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import AvgPool2d
    >>> AvgPool2d(2)(it.ones((1, 3, 8, 6))).shape
    (1, 3, 4, 3)
    """

    _axes = 2

    def forward(self, x: TensorLike) -> Tensor:
        return it.avg_pool2d(x, self.kernel_size, **self._options())
