"""A weight and its turned taps, which convolutions from patches multiply by: how many, how large.

Plans on disk hold what is here, so that they need no writer of kernels.
"""

from __future__ import annotations

from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES
from ingle.tensor import settings

from .plan import aligned
from .winograd_form import FORMS

WINOGRAD = "winograd"
"""How b is packed then, in a `Choice`."""
APART = 5 * 64
"""Bytes between one of the matrices and the next: all are written at once, and those that lie
some pages apart would meet in the same cache sets."""


class TapsPacking(NamedTuple):
    """A weight and its turned taps.

    Attributes:
        taps: along an axis.
        rows: features of a panel, which are those of a tile.
        features, channels: of the weight.
        row, tap: bytes from feature to feature, and from tap to tap.
        flipped: whether taps go backwards.
    """

    taps: int
    rows: int
    features: int
    channels: int
    row: int
    tap: int
    flipped: bool

    @property
    def nbytes(self) -> int:
        """Of all matrices."""
        return FORMS[self.taps].numbers * taps_matrix(self.rows, self.features, self.channels)


def taps_matrix(rows: int, features: int, channels: int) -> int:
    """Bytes from one of the matrices to the next, whose panels have some rows."""
    return aligned(-(-features // rows) * rows * channels * SIZES["float32"]) + APART


def is_wanted() -> bool:
    """Whether fewer multiplications may make other errors: not with `INGLE_CPU_WINOGRAD=0`."""
    return settings.switch("INGLE_CPU_WINOGRAD", default=True)
