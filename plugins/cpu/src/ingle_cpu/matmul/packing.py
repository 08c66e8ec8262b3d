"""An operand and its panels: how many, how large, and where they lie."""

from __future__ import annotations

import math
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES
from ingle.tensor.static_values import largest

from .problem import three
from .tile import Form, compute_dtype


class Packing(NamedTuple):
    """An operand and its panels.

    Attributes:
        dtype: of the operand in memory.
        batch, strides: sizes of the batch axes; bytes along them, along k and along i.
        extent: its rows (of a) or columns (of b).
        depth: of k, in elements of panels.
        width, last: of panels and of the last one.
        form: of the elements of panels.
    """

    dtype: str
    batch: tuple[int, ...]
    strides: tuple[int, ...]
    extent: int
    depth: int
    width: int
    last: int
    form: Form = "single"

    @property
    def panels(self) -> int:
        return -(-self.extent // self.width)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Batch sizes; axes along which the operand repeats are packed once."""
        steps = self.steps
        n = three(self.batch)
        return tuple(n if s else 1 for n, s in zip(n, steps, strict=True))  # type: ignore[return-value]

    @property
    def steps(self) -> tuple[int, int, int]:
        """Bytes along three batch axes."""
        given = self.strides[: len(self.batch)]
        first, second, third = (0,) * (3 - len(given)) + given
        return first, second, third

    @property
    def matrix(self) -> int:
        """Bytes of a packed matrix."""
        numbers = (largest(self.panels - 1, 0) * self.width + self.last) * self.depth
        return -(-numbers * SIZES[compute_dtype(self.dtype)] // 64) * 64

    @property
    def nbytes(self) -> int:
        """Bytes of all packed matrices."""
        return largest(64, math.prod(self.sizes) * self.matrix)

    @property
    def packed_steps(self) -> tuple[int, int, int]:
        """Bytes along three batch axes of what was packed; 0 where it repeats."""
        found = []
        one = self.matrix
        for n, step in zip(reversed(self.sizes), reversed(self.steps), strict=True):
            found.append(one if step else 0)
            one *= n
        third, second, first = found
        return first, second, third
