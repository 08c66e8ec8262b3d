"""Every kernel of the backend, by the operation's name."""

from collections.abc import Callable
from typing import Any

from . import (
    activations,
    alignments,
    attention,
    classes,
    contraction,
    convolution,
    creation,
    elementwise,
    elimination,
    fourier,
    indexing,
    linear_algebra,
    movement,
    normal,
    normalization,
    pooling,
    random,
    reduction,
    running,
    softmax,
    sorting,
    updates,
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
    **elimination.KERNELS,
    **fourier.KERNELS,
    **creation.KERNELS,
    **random.KERNELS,
    **normal.KERNELS,
    **convolution.KERNELS,
    **pooling.KERNELS,
    **classes.KERNELS,
    **updates.KERNELS,
    **activations.KERNELS,
    **alignments.KERNELS,
    **attention.KERNELS,
    **softmax.KERNELS,
    **normalization.KERNELS,
}
