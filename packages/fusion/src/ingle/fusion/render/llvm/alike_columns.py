"""What is the same in all columns, of nests whose lanes are columns: the row that an index names.

Where contiguous gathers ask for it, it is computed once at each inner index, by instructions on
single numbers, and serves all vectors of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...kernel.code import SIZES, Code
from ...kernel.nest import Nest
from .contiguous_gather import CONTIGUOUS_GATHER
from .prepared import UNIFORM, VARYING, Prepared
from .text import memory_type

if TYPE_CHECKING:
    from .outer import OuterNest


def column_levels(code: Code, nest: Nest) -> list[int]:
    """By position, VARYING for what differs from column to column, else UNIFORM."""
    levels: list[int] = []
    for at in code:
        level = max([levels[a] for a in at.args], default=UNIFORM)
        differs = (
            at.name in ("result", "row", CONTIGUOUS_GATHER)
            or (at.name == "load" and nest.operands[at.value].lane != "zero")
            or (at.name, at.value) == ("index", nest.outer - 1)
        )
        levels.append(VARYING if differs else level)
    return levels


class SharedCode(NamedTuple):
    """What all vectors of columns share at an inner index.

    Attributes:
        positions: what is computed for it, in order.
        offsets: what contiguous gathers take of these.
        own: what each vector computes by itself at an inner index.
        cost: how many instructions that is, without loads.
    """

    positions: tuple[int, ...]
    offsets: tuple[int, ...]
    own: tuple[int, ...]
    cost: int


def shared_of(stage: Prepared) -> SharedCode:
    """What the contiguous gathers of a stage ask for, and what is left."""
    code, kept, wanted = stage.code, set(stage.roots), set[int]()
    for p in reversed(range(len(code))):
        if p in wanted:
            wanted.update(code[p].args)
        if p in kept:
            (wanted if code[p].name == CONTIGUOUS_GATHER else kept).update(code[p].args)
    offsets = {code[p].args[0] for p in kept if code[p].name == CONTIGUOUS_GATHER}
    own = tuple([p for p in stage.places[VARYING] if p in kept])
    cost = sum(1 for p in own if code[p].name != "load")
    return SharedCode(tuple(sorted(wanted)), tuple(sorted(offsets)), own, cost)


@dataclass
class AlikePlace:
    """An inner index, for all columns: the environment of code for one lane."""

    owner: OuterNest
    walk: str

    def load(self, operand: int, dtype: str) -> str:
        r = self.owner
        place = r.walked(operand, self.walk)
        x = r.writer.let("x", f"load {memory_type(dtype)}, ptr {place}, align {SIZES[dtype]}")
        return r.single.as_value(dtype, x)

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        r = self.owner
        return r.gather_lanes(operand, r.base_pointers[operand], offset, r.single, None)

    def scalar(self, number: int, dtype: str) -> str:
        return self.owner.scalars[number]

    def index(self, axis: int) -> str:
        return self.walk if axis == -1 else self.owner.indices[axis]

    def result(self, stage: int, number: int) -> str:
        raise AssertionError("what reductions give differs from column to column")

    def row(self, stage: int, number: int) -> str:
        raise AssertionError("what is computed once a column differs from column to column")
