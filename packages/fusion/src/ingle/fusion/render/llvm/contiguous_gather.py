"""Gathers that read neighbouring elements in neighbouring lanes.

Such a gather's offset is the inner index plus what is the same along the row: a row of a table
that an index names. It becomes a `contiguous_gather`, an instruction of renderers alone: its
argument is the offset without the inner index, its value the operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import Code, Instruction

CONTIGUOUS_GATHER = "contiguous_gather"


def with_contiguous_gathers(
    code: Code, roots: tuple[int, ...], levels: Sequence[int], varying: int
) -> tuple[Code, tuple[int, ...]]:
    """The code with contiguous gathers instead of gathers where these serve.

    Args:
        levels: by position, how much a value varies; `varying` is that of the inner index.
    """
    terms_of = {p: _fixed_terms(code, p, levels, varying) for p in range(len(code))}
    if all(terms is None for terms in terms_of.values()):
        return code, roots
    kept: list[Instruction] = []
    place: dict[int, int] = {}
    for p, at in enumerate(code):
        terms = terms_of[p]
        if terms is None:
            kept.append(at._replace(args=tuple([place[a] for a in at.args])))
        else:
            kept.append(Instruction("constant", "int64", (), 0))
            for term in terms:
                kept.append(Instruction("add", "int64", (len(kept) - 1, place[term])))
            kept.append(Instruction(CONTIGUOUS_GATHER, at.dtype, (len(kept) - 1,), at.value))
        place[p] = len(kept) - 1
    return tuple(kept), tuple([place[r] for r in roots])


def _fixed_terms(code: Code, p: int, levels: Sequence[int], varying: int) -> list[int] | None:
    """What a gather's offset has beside one inner index, if all of that is fixed."""
    if code[p].name != "gather":
        return None
    terms = _terms(code, code[p].args[0])
    inner = [t for t in terms if (code[t].name, code[t].value) == ("index", -1)]
    fixed = [t for t in terms if levels[t] < varying]
    return fixed if len(inner) == 1 and len(fixed) == len(terms) - 1 else None


def _terms(code: Code, p: int) -> list[int]:
    at = code[p]
    if at.name != "add":
        return [p]
    return _terms(code, at.args[0]) + _terms(code, at.args[1])
