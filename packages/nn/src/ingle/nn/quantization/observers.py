"""Ranges of activations, gathered while batches pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError, OperandError

from ..module import Module
from ..parameter import Buffer
from .config import QuantizationConfig


class Observer(Module):
    """The base: passes on what it gets, and keeps its range in buffers.

    A subclass writes `observe(x)`, which changes buffers, and `range()`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import Buffer
    >>> from ingle.nn.quantization import Observer
    >>> class Newest(Observer):
    ...     def __init__(self):
    ...         self.ends = Buffer(it.zeros(2))
    ...     def observe(self, x):
    ...         self.ends.value = it.stack([it.min(x), it.max(x)])
    ...     def range(self):
    ...         return self.ends[0], self.ends[1]
    >>> observer = Newest()
    >>> _ = observer(it.asarray([1.0, -3.0]))
    >>> [end.item() for end in observer.range()]
    [-3.0, 1.0]
    """

    def observe(self, x: Tensor) -> None:
        """Takes a batch into account."""
        raise NotImplementedError(f"{type(self).__name__} must define observe")

    def range(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest number that codes are to stand for, both 0-d.

        Raises:
            OperandError: nothing was observed yet.
        """
        raise NotImplementedError(f"{type(self).__name__} must define range")

    def forward(self, x: Tensor) -> Tensor:
        self.observe(x.detach())
        return x


class MinMaxObserver(Observer):
    """The smallest and the largest number of all batches.

    >>> import ingle.tensor as it
    >>> from ingle.nn.quantization import MinMaxObserver
    >>> observer = MinMaxObserver()
    >>> for batch in ([0.0, 2.0], [-1.0, 1.0]):
    ...     x = observer(it.asarray(batch))
    >>> [v.item() for v in observer.range()]
    [-1.0, 2.0]
    """

    def __init__(self) -> None:
        self.min_val, self.max_val = Buffer(it.asarray(math.inf)), Buffer(it.asarray(-math.inf))

    def observe(self, x: Tensor) -> None:
        low, high = self._ends(x)
        self.min_val.value = it.minimum(self.min_val.raw, low)
        self.max_val.value = it.maximum(self.max_val.raw, high)

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if not x.dtype.is_floating or not x.size:
            raise OperandError(
                f"{type(self).__name__}: expected floats, at least one, got {x.dtype}"
                f"{list(x.shape)}"
            )
        wide = x.astype("float32")
        return it.min(wide).to_device(self.min_val.device), it.max(wide).to_device(
            self.min_val.device
        )

    def range(self) -> tuple[Tensor, Tensor]:
        return _seen(self, self.min_val.raw, self.max_val.raw)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val.raw.item():.4g}, max_val={self.max_val.raw.item():.4g}"


class MovingAverageMinMaxObserver(MinMaxObserver):
    """A moving average of the batches' smallest and largest numbers, as PyTorch's.

    Args:
        averaging_constant: the share of the newest batch.

    >>> import ingle.tensor as it
    >>> from ingle.nn.quantization import MovingAverageMinMaxObserver
    >>> observer = MovingAverageMinMaxObserver(0.5)
    >>> for batch in ([0.0, 2.0], [-1.0, 1.0]):
    ...     x = observer(it.asarray(batch))
    >>> [v.item() for v in observer.range()]
    [-0.5, 1.5]
    """

    def __init__(self, averaging_constant: float = 0.01) -> None:
        super().__init__()
        if not 0.0 < averaging_constant <= 1.0:
            raise ArgumentError(
                "MovingAverageMinMaxObserver: averaging_constant must be above 0, at most 1; got "
                f"{averaging_constant}"
            )
        self.averaging_constant = float(averaging_constant)

    def observe(self, x: Tensor) -> None:
        for buffer, new in zip((self.min_val, self.max_val), self._ends(x), strict=True):
            old = buffer.raw
            moved = old + self.averaging_constant * (new - old)
            buffer.value = it.where(it.isinf(old), new, moved)


class HistogramObserver(Observer):
    """Counts numbers in bins, and finds a range that leaves out the rarest.

    It reads values on the host, so it is for calibration, not for compiled functions.

    Args:
        method: `"percentile"` keeps that share of all numbers, and leaves out as many at each end;
            `"mse"` takes the range whose codes have the least squared error.
        percentile: for the method of that name.
        bins: how many there are, a multiple of 4. They reach equally far to both sides of 0, and
            twice as far as soon as a number lies outside.
        codes: how many codes the range is divided into, for `"mse"`.

    >>> import ingle.tensor as it
    >>> from ingle.nn.quantization import HistogramObserver
    >>> observer = HistogramObserver("percentile", 99.0)
    >>> x = observer(it.concat([it.linspace(-1.0, 1.0, 1000), it.asarray([50.0])]))
    >>> [round(v.item(), 1) for v in observer.range()]
    [-1.0, 1.0]
    """

    def __init__(
        self, method: str = "mse", percentile: float = 99.99, bins: int = 2048, codes: int = 256
    ) -> None:
        if method not in ("percentile", "mse"):
            raise ArgumentError(
                f"HistogramObserver: method must be 'percentile' or 'mse', got {method!r}"
            )
        if bins < 4 or bins % 4:
            raise ArgumentError(f"HistogramObserver: bins must be a multiple of 4, got {bins}")
        self.method, self.percentile, self.codes = method, float(percentile), int(codes)
        self.histogram = Buffer(it.zeros(bins, dtype="float64"))
        self.limit = Buffer(it.asarray(0.0, dtype="float64"))
        self.min_val, self.max_val = Buffer(it.asarray(math.inf)), Buffer(it.asarray(-math.inf))

    def observe(self, x: Tensor) -> None:
        values = x.astype("float64").numpy().ravel()
        if not values.size or not np.isfinite(values).all():
            raise OperandError(
                f"HistogramObserver: expected finite floats, at least one, got {x.dtype}"
                f"{list(x.shape)}"
                + (f" with {np.isfinite(values).sum()} finite" if values.size else "")
            )
        counts, limit = self.histogram.numpy().copy(), self.limit.raw.item()
        far = float(np.abs(values).max())
        if limit == 0.0:
            limit = far or 1e-30
        while far > limit:
            counts, limit = _widened(counts), 2.0 * limit
        counts += np.histogram(values, len(counts), (-limit, limit))[0]
        self.histogram.value = it.asarray(counts, device=self.histogram.device)
        self.limit.value = it.asarray(limit, dtype="float64", device=self.limit.device)
        for buffer, pick, new in (
            (self.min_val, it.minimum, values.min()), (self.max_val, it.maximum, values.max()),
        ):  # fmt: skip
            buffer.value = pick(buffer.raw, float(new))

    def range(self) -> tuple[Tensor, Tensor]:
        low, high = _seen(self, self.min_val.raw, self.max_val.raw)
        counts, limit = self.histogram.numpy(), self.limit.raw.item()
        edges = np.linspace(-limit, limit, len(counts) + 1)
        if self.method == "percentile":
            ends = _percentiles(counts, edges, self.percentile)
        else:
            ends = _least_error(counts, edges, (low.item(), high.item()), self.codes)
        # Bins reach a little beyond the numbers in them.
        found = max(ends[0], low.item()), min(ends[1], high.item())
        return it.asarray(found[0], device=low.device), it.asarray(found[1], device=low.device)

    def extra_repr(self) -> str:
        return f"method={self.method!r}, bins={self.histogram.shape[0]}"


def _widened(counts: Any) -> Any:
    """The same counts in bins of twice the width."""
    n = len(counts)
    out = np.zeros_like(counts)
    out[n // 4 : n // 4 + n // 2] = counts[0::2] + counts[1::2]
    return out


def _percentiles(counts: Any, edges: Any, percentile: float) -> tuple[float, float]:
    shares = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    tail = (1.0 - percentile / 100.0) / 2.0
    low = np.interp(tail, shares, edges)
    high = edges[::-1][np.searchsorted(-shares[::-1], -(1.0 - tail), side="right") - 1]
    return float(low), float(high)


def _least_error(
    counts: Any, edges: Any, ends: tuple[float, float], codes: int
) -> tuple[float, float]:
    """The share of the range whose codes have the least squared error at the bins' centers."""
    centers, best = (edges[1:] + edges[:-1]) / 2, (math.inf, ends)
    for share in np.linspace(1.0, 0.02, 99):
        low, high = min(ends[0] * share, 0.0), max(ends[1] * share, 0.0)
        scale = (high - low) / (codes - 1) or 1.0
        zero = np.rint(-low / scale)
        made = (np.clip(np.rint(centers / scale) + zero, 0, codes - 1) - zero) * scale
        error = float((counts * (made - centers) ** 2).sum())
        if error < best[0]:
            best = error, (low, high)
    return best[1]


def _seen(observer: Module, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    if not low._handle.base().abstract and math.isinf(low.item()):
        raise OperandError(
            f"{type(observer).__name__}: nothing was observed; call the prepared model on some "
            "batches first, or pass quantize(..., calibrate=batches)"
        )
    return low, high


def observer_of(config: QuantizationConfig, *, training: bool) -> Observer:
    """What finds the range of a layer's activations."""
    if training or config.activation_method == "moving":
        return MovingAverageMinMaxObserver()
    if config.activation_method == "minmax":
        return MinMaxObserver()
    return HistogramObserver(config.activation_method, config.percentile)
