"""A kernel of regions as it comes together: operands, numbers and places that are computed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.views import View
from ..kernel.code import CodeBuilder
from ..kernel.nest import Map, Row
from .operands import Argument


@dataclass
class NestDraft:
    """A kernel as it comes together; scalars of the graph come before `fixed` ones.

    Attributes:
        moved: the operand whose rows begin at a computed place.
    """

    sizes: tuple[int, ...]
    arguments: list[Argument]
    strides: list[tuple[int, ...]]
    dtypes: list[str]
    scalars: list[int]
    stages: list[Map | Row] = field(default_factory=list)
    fixed: list[int] = field(default_factory=list)
    moved: int | None = None

    def load(
        self, row: CodeBuilder, view: View, dtype: str, strides: tuple[int, ...] | None = None
    ) -> int:
        """The element of another operand in this row."""
        self.arguments.append(Argument(view.root, (), view.offset))
        self.strides.append(strides or (0,) * len(self.sizes))
        self.dtypes.append(dtype)
        return row.load(len(self.arguments) - 1, dtype)

    def number(self, row: CodeBuilder, value: int) -> int:
        """An int64 that another shape may change without another kernel."""
        self.fixed.append(value)
        return row.append("scalar", "int64", (), len(self.scalars) + len(self.fixed) - 1)

    def within(self, row: CodeBuilder, at: int, length: int, low: int, high: int) -> int:
        """An index counted from the front, moved between two limits: memory stays safe."""
        below = row.append("lt", "bool", (at, row.constant(0, "int64")))
        wrapped = row.append("add", "int64", (at, self.number(row, length)))
        at = row.append("select", "int64", (below, wrapped, at))
        at = row.append("max", "int64", (at, self.number(row, low)))
        return row.append("min", "int64", (at, self.number(row, high)))

    def begin(self, row: CodeBuilder, place: int, moved: int) -> None:
        """Has rows of an operand begin at a place."""
        code, values = row.finish(place)
        self.stages.insert(0, Row(code, values=values))
        self.moved = moved
