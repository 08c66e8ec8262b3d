"""Values of a loop's elements without their rare cases, and whether there are some.

A `fallback` is a branch to a function that is not inlined. Compilers that take many elements at a
time test each of them for it, which takes longer than all else: a sine six times, a remainder
twenty. So a loop computes some elements as if none were a rare case, into an array, with a flag.
Unless that was raised, as nearly always, another one takes what is in the array; else it computes
all again, with the branches. Nothing is stored before that is known, since a result may lie in an
operand's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...kernel.code import Code
from ..leaves import Environment
from .code import CodeRenderer
from .dialect import is_vectorized
from .prepared import VARYING, Prepared
from .text import Scope, value_type

PART = 256
"""Elements of a row that are taken at a time: several registers of any dtype, and little beside the
first cache. A multiple of the partial results of each reduction."""


class Apart(NamedTuple):
    """A loop's elements without rare cases.

    Attributes:
        declared: the flag, and arrays for the values.
        body: computes those of an element.
        values: of it, by position.
    """

    declared: list[str]
    body: Scope
    values: dict[int, str]


def apart(
    renderer: CodeRenderer, stage: Prepared, place: Environment, known: Mapping[int, str],
    slot: str, many: int,
) -> Apart | None:  # fmt: skip
    """The elements of a stage without rare cases; None if it has none, or where loops of the
    dialect take one element at a time anyway.

    Args:
        place: where an element is.
        known: expressions of positions that do not vary.
        slot: the number of the element among those that are taken at a time.
        many: how many that are.
    """
    code = stage.code
    conditions = [code[at].args[1] for at in _needed(code, stage.roots) if _rare(stage, at)]
    if not conditions or not is_vectorized(renderer.source.dialect):
        return None
    body = Scope()
    places = [
        at for at in _needed(code, [*stage.roots, *conditions]) if stage.levels[at] == VARYING
    ]
    done = renderer.render(code, place, body, dict(known), places, rare=False)
    declared, values = ["int rare = 0;"], dict(known)
    for at in sorted({at for at in stage.roots if stage.levels[at] == VARYING}):
        declared.append(f"{value_type(code[at].dtype)} near_{at}[{many}];")
        values[at] = f"near_{at}[{slot}]"
        body.add(f"{values[at]} = {done[at]};")
    body.add(f"rare |= {' | '.join(dict.fromkeys([done[at] for at in conditions]))};")
    return Apart(declared, body, values)


def _rare(stage: Prepared, at: int) -> bool:
    return stage.code[at].name == "fallback" and stage.levels[at] == VARYING


def _needed(code: Code, roots: Iterable[int]) -> list[int]:
    """The positions that roots depend on where no element is a rare case, in order."""
    found: set[int] = set()
    left = list(roots)
    while left:
        at = left.pop()
        if at not in found:
            found.add(at)
            instruction = code[at]
            left += instruction.args[:1] if instruction.name == "fallback" else instruction.args
    return sorted(found)
