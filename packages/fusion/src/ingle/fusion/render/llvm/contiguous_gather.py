"""Gathers that read neighbouring elements in neighbouring lanes.

Such a gather's offset is the index of the lanes' axis plus what is the same in all lanes: a row of
a table that an index names. It becomes a `contiguous_gather`, an instruction of renderers alone,
whose argument is the offset without the lanes' index, and its value the operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import Code, Instruction

CONTIGUOUS_GATHER = "contiguous_gather"


def with_contiguous_gathers(
    code: Code, roots: tuple[int, ...], levels: Sequence[int], varying: int, axis: int
) -> tuple[Code, tuple[int, ...]]:
    """The code with contiguous gathers instead of gathers where these serve.

    Args:
        levels: by position, how much a value varies along the lanes; `varying` is that of the
            index of their axis.
        axis: that of the lanes.
    """
    terms_of = {p: _fixed_terms(code, p, levels, varying, axis) for p in range(len(code))}
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


def _fixed_terms(
    code: Code, p: int, levels: Sequence[int], varying: int, axis: int
) -> list[int] | None:
    """What a gather's offset has beside one index of the lanes, if all of that is fixed."""
    if code[p].name != "gather":
        return None
    terms = _terms(code, code[p].args[0])
    along = [t for t in terms if (code[t].name, code[t].value) == ("index", axis)]
    fixed = [t for t in terms if levels[t] < varying]
    return fixed if len(along) == 1 and len(fixed) == len(terms) - 1 else None


def _terms(code: Code, p: int) -> list[int]:
    at = code[p]
    if at.name != "add":
        return [p]
    return _terms(code, at.args[0]) + _terms(code, at.args[1])
