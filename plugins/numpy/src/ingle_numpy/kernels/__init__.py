"""Every kernel of the backend, by the operation's name."""

from collections.abc import Callable
from typing import Any

from . import contraction, creation, elementwise, movement, reduction

KERNELS: dict[str, Callable[..., Any]] = {
    **elementwise.KERNELS,
    **reduction.KERNELS,
    **movement.KERNELS,
    **contraction.KERNELS,
    **creation.KERNELS,
}
