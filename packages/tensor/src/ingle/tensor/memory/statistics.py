"""What a pool says of itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import ArgumentError

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{0,18})?)\s*(?:([kmgt]?)(?:i?b)?)?", re.IGNORECASE)


def shown_bytes(nbytes: float) -> str:
    """Bytes as people read them: `1.5 MiB`."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def read_bytes(amount: int | str, name: str) -> int:
    """A number of bytes, or text such as `"2GiB"` or `"512M"` (of 1024 each)."""
    if isinstance(amount, str):
        found = _AMOUNT.fullmatch(amount.strip())
        if found:
            unit = _UNITS[(found[2] or "").lower()]
            return int(float(found[1]) * (1 << unit))
    elif isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0:
        return amount
    raise ArgumentError(
        f"{name}: expected a number of bytes, or text such as '2GiB' or '512MiB', got {amount!r}"
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """A block that is in use: its bytes, and what it is for.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.memory import Holder
    >>> print(Holder(4096, "matmul"))
    4.0 KiB matmul
    """

    nbytes: int
    label: str

    def __str__(self) -> str:
        return f"{shown_bytes(self.nbytes)} {self.label or '(unnamed)'}"


@dataclass(frozen=True, slots=True)
class Statistics:
    """A pool at one moment; sizes are in bytes.

    Attributes:
        strategy: its name.
        limit: the most that may be reserved, or None.
        in_use: what is lent.
        reserved: what was taken from the source, in use or kept for later.
        peak: the most that was ever in use.
        blocks: how many blocks are lent.
        allocations: how many were ever lent.
        hits: how many of these came from what was kept.
        by_size: for each size of block how many are lent and how many kept.
        largest: the largest blocks in use, with what they are for.

    >>> import ingle.tensor as it
    >>> x = it.zeros(1000, device="cpu")
    >>> found = it.memory.pool_of("cpu").statistics()
    >>> isinstance(found, it.memory.Statistics), found.in_use <= found.peak
    (True, True)
    """

    strategy: str
    limit: int | None
    in_use: int
    reserved: int
    peak: int
    blocks: int
    allocations: int
    hits: int
    by_size: dict[int, tuple[int, int]] = field(repr=False)
    largest: tuple[Holder, ...] = field(repr=False)

    @property
    def kept(self) -> int:
        """What is held for later, and `release` gives back."""
        return self.reserved - self.in_use

    def __str__(self) -> str:
        limit = "no limit" if self.limit is None else f"limit {shown_bytes(self.limit)}"
        rate = f"{100 * self.hits / self.allocations:.0f} %" if self.allocations else "none"
        lines = [
            f"strategy {self.strategy}, {limit}",
            f"in use   {shown_bytes(self.in_use)} in {self.blocks} blocks, at most "
            f"{shown_bytes(self.peak)}",
            f"reserved {shown_bytes(self.reserved)}, of it {shown_bytes(self.kept)} kept for later",
            f"lent     {self.allocations} times, {rate} from what was kept",
        ]
        return "\n".join([*lines, *(f"  {holder}" for holder in self.largest)])
