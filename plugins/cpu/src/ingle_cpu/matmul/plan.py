"""What a plan needs to know to run a contraction."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..jit.engine import Code


class Pointer(NamedTuple):
    """What a pointer of an entry points at.

    Attributes:
        role: an operand of the product, panels of one that were made before, scratch memory, or an
            operand of the epilogue.
        number: which of those.
    """

    role: Literal["a", "b", "panels", "scratch", "operand"]
    number: int = 0


A, B, PANELS = Pointer("a"), Pointer("b"), Pointer("panels")


def aligned(nbytes: int) -> int:
    """As many bytes, up to the end of a cache line."""
    return -(-nbytes // 64) * 64


class EntrySpec(NamedTuple):
    """A kernel call of a plan.

    Attributes:
        function: its address.
        pointers: what its pointers point at.
        args: int64 each.
        units, grain: of work.
        independent: it needs nothing from the entry before it.
        code: what it calls that does not stay in memory by itself.
        addresses: places among `args` that are addresses of code.
    """

    function: int
    pointers: tuple[Pointer, ...]
    args: tuple[int, ...]
    units: int
    grain: int
    independent: bool = False
    code: tuple[Code, ...] = ()
    addresses: tuple[int, ...] = ()


class Contraction(NamedTuple):
    """The entries of a contraction, in order, and the scratch memory they share.

    Attributes:
        scratch: bytes of each scratch buffer; each starts at a multiple of 64.
    """

    entries: tuple[EntrySpec, ...]
    scratch: tuple[int, ...]
