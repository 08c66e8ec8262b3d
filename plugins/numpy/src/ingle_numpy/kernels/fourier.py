"""Fourier transforms, by NumPy's pocketfft, which keeps single precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingle.tensor.operation import Op


def _transform(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(op: Op, x: np.ndarray) -> Any:
        return function(x, **op.attributes)

    return kernel


KERNELS: dict[str, Callable[..., Any]] = {
    "fftn": _transform(np.fft.fftn),
    "ifftn": _transform(np.fft.ifftn),
    "irfft": _transform(np.fft.irfft),
    "rfft": _transform(np.fft.rfft),
}
