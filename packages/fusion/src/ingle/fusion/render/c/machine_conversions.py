"""Conversions from and to half types by one instruction of the machine.

It gives a NaN the bits of the machine. Where a number is moved alone a NaN keeps its own bits;
where something is computed with it, or it is what was computed, it has the machine's in any case.
Such casts become instructions of renderers alone.
"""

from __future__ import annotations

from collections.abc import Collection

from ...kernel.code import COMPOSITE, HALVES, Code

WIDEN_TO_COMPUTE = "widen_to_compute"
"""A float16 as a float32 that arithmetic takes."""
NARROW_COMPUTED = "narrow_computed"
"""A float32 that arithmetic has made as a half type."""


def with_machine_conversions(code: Code, leaving: Collection[int]) -> Code:
    """The code with instructions for the casts that the machine may make, at the same positions.

    Args:
        leaving: the positions of what leaves the code with the bits that it has.
    """
    users: list[list[int]] = [[] for _ in code]
    for at, instruction in enumerate(code):
        for place in instruction.args:
            users[place].append(at)
    computed: list[bool] = []
    """Whether a NaN may have bits that a machine chose."""
    for name, _, args, _ in code:
        if name in _MOVES:
            computed.append(any(computed[at] for at in args[name == "select" :]))
        else:
            computed.append(name in _COMPUTED)
    hidden = [False] * len(code)
    """Whether no bits of a NaN leave the code as they are: something is computed with it."""
    for at in reversed(range(len(code))):
        hidden[at] = bool(users[at]) and at not in leaving
        for user in users[at]:
            name, dtype, *_ = code[user]
            moves = not computed[user] and (name == "cast" or name in _MOVES)
            if name == "bitcast" or (moves and (dtype in HALVES or not hidden[user])):
                hidden[at] = False
    found = list(code)
    for at, instruction in enumerate(code):
        if instruction.name == "cast":
            (place,) = instruction.args
            origin, dtype = code[place].dtype, instruction.dtype
            if dtype in HALVES and origin == "float32" and computed[place]:
                found[at] = instruction._replace(name=NARROW_COMPUTED)
            elif (dtype, origin) == ("float32", "float16") and hidden[at]:
                found[at] = instruction._replace(name=WIDEN_TO_COMPUTE)
    return tuple(found)


_COMPUTED = COMPOSITE.keys() | {"add", "sub", "mul", "div", "fma", "sqrt", "min", "max"}
"""Of floats: what makes NaN of the machine's bits."""
_MOVES = frozenset({"select", "neg", "abs"})
"""What leaves the bits of a NaN, all but the sign."""
