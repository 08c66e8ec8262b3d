"""Divisions of many numbers by one, which is the same along the walk.

Such a division becomes a quotient, an instruction of renderers alone: with the inverse of the
divisor, computed once, a product and two multiply-adds round as the division does, as long as
nothing on the way is too small or too large.

What it asks of a dividend besides are two uint32, `least` and `count`. With d as the bits of the
dividend shifted left by one, without its sign, it has to be divided the long way if `d >= least`
(it is not 0) and `d - DOUBLED >= count` (it is out of range), all as unsigned integers. For a
divisor out of range both are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...kernel.code import Code, Instruction, bits_of

INVARIANT_DIVISION = "quotient_by"
"""Its arguments: the dividend, the divisor, its inverse, `least` and `count`."""
_SMALLEST, _LARGEST = (bits_of(2.0**n, "float32") for n in (-100, 100))
"""Between which the size of a dividend may be, if it is not 0."""
_FIRST, _LAST = (bits_of(2.0**n, "float32") for n in (-24, 24))
"""Between which a divisor may be: no quotient leaves the normal numbers then, no residue is
rounded, and a dividend of -0.0 keeps its sign."""
DOUBLED = 2 * _SMALLEST


def with_invariant_divisions(
    code: Code, roots: tuple[int, ...], levels: Sequence[int], varying: int
) -> tuple[Code, tuple[int, ...]]:
    """The code with quotients instead of float32 divisions where these serve.

    Args:
        levels: by position, how much a value varies; `varying` is that along the walk.
    """
    served = {
        p
        for p, at in enumerate(code)
        if (at.name, at.dtype) == ("div", "float32")
        and levels[at.args[0]] == varying > levels[at.args[1]]
    }
    if not served:
        return code, roots
    kept: list[Instruction] = []
    place: list[int] = []
    prepared: dict[int, tuple[int, int, int]] = {}
    for p, at in enumerate(code):
        args = tuple([place[a] for a in at.args])
        if p in served:
            divisor = args[1]
            if divisor not in prepared:
                prepared[divisor] = _prepare(kept, divisor)
            at = Instruction(INVARIANT_DIVISION, at.dtype, (*args, *prepared[divisor]))
        else:
            at = at._replace(args=args)
        kept.append(at)
        place.append(len(kept) - 1)
    return tuple(kept), tuple([place[r] for r in roots])


def _prepare(kept: list[Instruction], divisor: int) -> tuple[int, int, int]:
    """Appends the inverse of a divisor, and what dividends must be."""

    def append(name: str, dtype: str, *args: int, value: Any = None) -> int:
        kept.append(Instruction(name, dtype, args, value))
        return len(kept) - 1

    def number(bits: int, dtype: str = "uint32") -> int:
        return append("constant", dtype, value=bits)

    inverse = append("div", "float32", number(bits_of(1.0, "float32"), "float32"), divisor)
    beyond = append("sub", "uint32", append("bitcast", "uint32", divisor), number(_FIRST))
    near = append("lt", "bool", beyond, number(_LAST - _FIRST + 1))
    least = append("select", "uint32", near, number(1), number(0))
    count = append("select", "uint32", near, number(2 * (_LARGEST - _SMALLEST) + 1), number(0))
    return inverse, least, count
