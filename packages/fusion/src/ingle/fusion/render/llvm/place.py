"""Where the lanes of vector code stand along the inner axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...kernel.code import SIZES
from .code import CodeRenderer
from .text import memory_type, scalar_type

if TYPE_CHECKING:
    from .inner import InnerNest


@dataclass
class InnerPlace:
    """Where lanes are: the environment of code along the inner axis.

    Attributes:
        start: inner index of lane 0 of vector 0; None: where nothing varies.
        ahead: which vector after that one.
        mask: the lanes that exist; None: all.
    """

    owner: InnerNest
    renderer: CodeRenderer
    start: str | None = None
    ahead: int = 0
    mask: str | None = None

    def load(self, operand: int, dtype: str) -> str:
        r, nest = self.owner, self.owner.nest
        base = r.row_pointers[operand]
        if self.renderer.lanes == 1:
            value = r.writer.let(
                "x", f"load {memory_type(dtype)}, ptr {base}, align {SIZES[dtype]}"
            )
            return self.renderer.as_value(dtype, value)
        if nest.operands[operand].lane == "zero" or self.start is None:
            return r.load_lanes(operand, base, None)
        return r.load_lanes(operand, r.at(operand, self.start), self.mask, self.ahead)

    def gather(self, operand: int, dtype: str, offset: str) -> str:
        r = self.owner
        base = r.row_pointers[operand]
        return r.gather_lanes(operand, base, offset, self.renderer, self.mask)

    def contiguous_gather(self, operand: int, dtype: str, offset: str) -> str:
        r = self.owner
        assert self.start is not None
        return r.contiguous_gather(operand, offset, self.start, self.ahead, self.mask)

    def scalar(self, number: int, dtype: str) -> str:
        r, lanes = self.owner, self.renderer.lanes
        return r.writer.splat("scalar", scalar_type(dtype), r.scalars[number], lanes)

    def index(self, axis: int) -> str:
        r, lanes = self.owner, self.renderer.lanes
        if axis >= 0:
            return r.writer.splat("index", "i64", r.indices[axis], lanes)
        assert self.start is not None
        return r.numbers_from(r.further(self.start, self.ahead))

    def result(self, stage: int, number: int) -> str:
        return self._kept(self.owner.results[stage, number])

    def row(self, stage: int, number: int) -> str:
        return self._kept(self.owner.kept[stage, number])

    def _kept(self, found: tuple[str, str]) -> str:
        dtype, value = found
        lanes = self.renderer.lanes
        return self.owner.writer.splat("kept", scalar_type(dtype), value, lanes)
