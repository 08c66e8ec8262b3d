"""What a plan needs to know to run a contraction."""

from __future__ import annotations

from typing import NamedTuple

from ..jit.engine import Code


class EntrySpec(NamedTuple):
    """A kernel call of a plan.

    Attributes:
        function: its address.
        pointers: what its pointers point at: `"a"`, `"b"`, `"scratch 0"`, `"operand 0"` and so on.
        args: int64 each.
        units, grain: of work.
        independent: it needs nothing from the entry before it.
        code: what it calls that does not stay in memory by itself.
        addresses: places among `args` that are addresses of code.
    """

    function: int
    pointers: tuple[str, ...]
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
