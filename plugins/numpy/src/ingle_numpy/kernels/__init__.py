"""Every kernel of the backend, by the operation's name."""

from collections.abc import Callable
from typing import Any

from . import (
    classes,
    contraction,
    convolution,
    creation,
    elementwise,
    fourier,
    indexing,
    linear_algebra,
    movement,
    pooling,
    random,
    reduction,
    running,
    sorting,
)

KERNELS: dict[str, Callable[..., Any]] = {
    **elementwise.KERNELS,
    **reduction.KERNELS,
    **running.KERNELS,
    **sorting.KERNELS,
    **movement.KERNELS,
    **indexing.KERNELS,
    **contraction.KERNELS,
    **linear_algebra.KERNELS,
    **fourier.KERNELS,
    **creation.KERNELS,
    **random.KERNELS,
    **convolution.KERNELS,
    **pooling.KERNELS,
    **classes.KERNELS,
}
