"""How many numbers patches of convolutions are turned into, by how many taps there are."""

from __future__ import annotations

from typing import NamedTuple


class PatchForm(NamedTuple):
    """An axis of a convolution from patches, two results of which come from one patch.

    Three taps take four multiplications for these, two take three. Five are three and two beside
    them, as sums of results: six multiplications would do, but for values of polynomials at numbers
    other than 0, 1 and -1, whose errors are twice those of the sums that define the results.

    Attributes:
        parts: taps that are turned together, three or two.
        turning, back: cycles in which a channel of a patch is turned, and a feature of it back.
    """

    parts: tuple[int, ...]
    turning: float
    back: float

    @property
    def taps(self) -> int:
        return sum(self.parts)

    @property
    def patch(self) -> int:
        """Elements of a patch."""
        return self.taps + 1

    @property
    def values(self) -> int:
        """What these are turned into."""
        return sum(taps + 1 for taps in self.parts)

    @property
    def numbers(self) -> int:
        """That a patch is turned into along both axes: so many matrices there are."""
        return self.values**2


FORMS = {
    3: PatchForm((3,), turning=6.0, back=4.5),
    5: PatchForm((3, 2), turning=20.0, back=26.0),
}
"""By taps along each axis."""
