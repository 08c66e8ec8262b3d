"""Arguments of a kernel that are numbers, not buffers."""

from __future__ import annotations

from typing import Any

import numpy as np


def set_bytes(kernel: Any, place: int, numbers: np.ndarray) -> None:
    """Sets the argument at a place to the bytes of an array.

    `Kernel.set_arg` asks a value whether it is a buffer, an image, a sampler, a queue and more,
    catching an exception each time, before it takes its bytes: some 50 microseconds, several times
    what all else about a launch takes. `Kernel.set_args` calls the function that takes bytes at
    once, as done here.
    """
    kernel._set_arg_buf(place, numbers)
