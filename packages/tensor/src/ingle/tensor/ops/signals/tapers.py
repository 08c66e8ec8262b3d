"""Window functions: the weights of the samples of a frame.

They are made of a few numbers once, on the host in float64, and so are equal on every backend.
Harris: On the use of windows for harmonic analysis (1978) compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...device import Device
from ...dtypes import default_float
from ...errors import DTypeError
from .._guarding import guarded
from .._rules import MOST, as_size, dtype_argument
from ..creation.conversion import asarray

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def hann_window(
    window_length: int,
    *,
    periodic: bool = True,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """`(1 - cos(2 * pi * i / n)) / 2` for i from 0, where n is the window's length.

    Args:
        window_length: how many weights.
        periodic: one period, for frames that follow one another; else n is one less, so that the
            window is symmetric.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.hann_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return _window("hann_window", np.hanning, window_length, periodic, dtype, device)


@guarded
def hamming_window(
    window_length: int,
    *,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """`alpha - beta * cos(2 * pi * i / n)` for i from 0, where n is the window's length.

    Args:
        window_length: how many weights.
        periodic: see `hann_window`.
        alpha, beta: the two weights.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.hamming_window(2, dtype="float64").tolist()
    [0.08000000000000002, 1.0]
    """

    def values(n: int) -> np.ndarray:
        return alpha - beta * np.cos(2 * np.pi * np.arange(n) / max(n - 1, 1))

    return _window("hamming_window", values, window_length, periodic, dtype, device)


@guarded
def blackman_window(
    window_length: int,
    *,
    periodic: bool = True,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """`0.42 - 0.5 * cos(2 * pi * i / n) + 0.08 * cos(4 * pi * i / n)` for i from 0.

    Args:
        window_length: how many weights.
        periodic: see `hann_window`.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> [round(w, 6) for w in it.blackman_window(4).tolist()]
    [0.0, 0.34, 1.0, 0.34]
    """

    def values(n: int) -> np.ndarray:
        return np.maximum(np.blackman(n), 0.0)  # rounding leads below 0 at the ends

    return _window("blackman_window", values, window_length, periodic, dtype, device)


@guarded
def bartlett_window(
    window_length: int,
    *,
    periodic: bool = True,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """A triangle: from 0 straight up to 1 and down again.

    Args:
        window_length: how many weights.
        periodic: see `hann_window`.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.bartlett_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return _window("bartlett_window", np.bartlett, window_length, periodic, dtype, device)


@guarded
def kaiser_window(
    window_length: int,
    *,
    periodic: bool = True,
    beta: float = 12.0,
    dtype: object = None,
    device: Device | str | None = None,
) -> Tensor:
    """`I0(beta * sqrt(1 - (2 * i / n - 1) ** 2)) / I0(beta)` with the Bessel function I0.

    Args:
        window_length: how many weights.
        periodic: see `hann_window`.
        beta: the larger, the wider the main lobe and the lower the others.
        dtype: a float dtype; the default float dtype if not given.
        device: where to put them; the default device if not given.

    >>> import ingle.tensor as it
    >>> it.kaiser_window(4, beta=0.0).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def values(n: int) -> np.ndarray:
        return np.kaiser(n, beta)

    return _window("kaiser_window", values, window_length, periodic, dtype, device)


def _window(
    name: str,
    values: Callable[[int], np.ndarray],
    window_length: int,
    periodic: bool,
    dtype: object,
    device: Device | str | None,
) -> Tensor:
    size = as_size(window_length, name, "window_length", most=MOST)
    to = dtype_argument(dtype, name, default_float)
    if not to.is_floating:
        raise DTypeError(f"{name}: dtype must be a float dtype, got {to}")
    if size == 1:
        return asarray([1.0], dtype=to, device=device)
    weights = values(size + 1)[:size] if periodic else values(size)
    return asarray(np.asarray(weights, np.float64), dtype=to, device=device)
