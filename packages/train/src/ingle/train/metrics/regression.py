"""How far predicted numbers are from what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.errors import ShapeError

from .base import Doubles, Mean, Metric, check_same, doubles


class MAE(Mean):
    """The mean absolute error over all elements.

    Outputs and targets have the same shape, any; sums are made in float64.

    Raises:
        ShapeError: the shapes differ; nothing is broadcast.

    >>> import ingle.tensor as it
    >>> from ingle.train import MAE
    >>> mae = MAE()
    >>> mae.update(it.asarray([1.0, 2.0]), it.asarray([1.0, 4.0]), 0.0)
    >>> mae.compute()
    1.0
    """

    name = "mae"

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_same("MAE", outputs, targets)
        self.total += float(np.abs(doubles(outputs) - doubles(targets)).sum())
        self.count += targets.size


class MSE(Mean):
    """The mean squared error over all elements.

    Outputs and targets have the same shape, any; sums are made in float64.

    Raises:
        ShapeError: the shapes differ; nothing is broadcast.

    >>> import ingle.tensor as it
    >>> from ingle.train import MSE
    >>> mse = MSE()
    >>> mse.update(it.asarray([1.0, 2.0]), it.asarray([1.0, 4.0]), 0.0)
    >>> mse.compute()
    2.0
    """

    name = "mse"

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_same(type(self).__name__, outputs, targets)
        self.total += float(((doubles(outputs) - doubles(targets)) ** 2).sum())
        self.count += targets.size


class RMSE(MSE):
    """The square root of the mean squared error over all elements, of all batches together.

    Raises:
        ShapeError: the shapes differ; nothing is broadcast.

    >>> import ingle.tensor as it
    >>> from ingle.train import RMSE
    >>> rmse = RMSE()
    >>> rmse.update(it.asarray([1.0, 2.0]), it.asarray([4.0, 6.0]), 0.0)
    >>> round(rmse.compute(), 4)
    3.5355
    """

    name = "rmse"

    def compute(self) -> float:
        return float(np.sqrt(super().compute()))


class R2(Metric):
    """The coefficient of determination, 1 - sum((y - f)**2) / sum((y - mean(y))**2).

    Outputs and targets have the shape (samples,) or (samples, ...); of several numbers a sample
    there is one R2 each, and the value is their mean. The deviations of batches are merged as by
    Chan, Golub and LeVeque (1983), so that targets far from 0 lose no digits. Constant targets
    have the R2 1 where they are met, 0 elsewhere, as scikit-learn has it; fewer than two samples
    give NaN.

    Raises:
        ShapeError: the shapes differ, or there is no axis of samples.

    >>> import ingle.tensor as it
    >>> from ingle.train import R2
    >>> r2 = R2()
    >>> r2.update(it.asarray([2.5, 0.0, 2.0, 8.0]), it.asarray([3.0, -0.5, 2.0, 7.0]), 0.0)
    >>> round(r2.compute(), 4)
    0.9486
    """

    name = "r2"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self.mean = self.spread = self.missed = np.zeros(0)

    def update(self, outputs: Tensor, targets: Tensor, loss: float) -> None:
        check_same("R2", outputs, targets)
        rows = len(targets) if targets.shape else 1
        wanted, found = doubles(targets).reshape(rows, -1), doubles(outputs).reshape(rows, -1)
        if not self.count:
            self.mean = self.spread = self.missed = np.zeros(wanted.shape[1])
        self._same_width(wanted)
        if not rows:
            return
        mean, count = wanted.mean(axis=0), self.count + rows
        away = mean - self.mean
        self.spread = (
            self.spread + ((wanted - mean) ** 2).sum(axis=0) + away**2 * (self.count * rows / count)
        )
        self.mean = self.mean + away * (rows / count)
        self.missed = self.missed + ((wanted - found) ** 2).sum(axis=0)
        self.count = count

    def _same_width(self, wanted: Doubles) -> None:
        if wanted.shape[1] != len(self.mean):
            raise ShapeError(
                f"R2: a sample had {len(self.mean)} numbers until now, this batch has "
                f"{wanted.shape[1]} each; use one R2 for each kind of batch"
            )

    def compute(self) -> float:
        if self.count < 2:
            return float("nan")
        constant = self.spread == 0
        share = self.missed / np.where(constant, 1.0, self.spread)
        each = np.where(constant, np.where(self.missed == 0, 1.0, 0.0), 1.0 - share)
        return float(each.mean())

    def state(self) -> dict[str, Any]:
        arrays = {key: getattr(self, key).tolist() for key in ("mean", "spread", "missed")}
        return {"count": self.count, **arrays}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.count = int(state["count"])
        self.mean, self.spread, self.missed = (
            np.array(state[key], np.float64) for key in ("mean", "spread", "missed")
        )
