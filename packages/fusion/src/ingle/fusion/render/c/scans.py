"""Running results along the inner axis, as C: one place after the other."""

from __future__ import annotations

from ...kernel.nest import Reduce
from ...kernel.neutral import neutral_bits
from . import helpers
from .code import CodeRenderer
from .inner import InnerNest
from .outer import OuterNest
from .prepared import FIXED, VARYING
from .reductions import Partial, joined
from .rows import NestRenderer
from .text import Scope, literal, value_type


class Runner(Partial):
    """One running reduction: a variable with the result so far, or an array of `many` columns.

    Where the result is the place of an extreme, the extreme itself is in another one.
    """

    __slots__ = ()

    @property
    def best(self) -> str:
        """What has the fold itself."""
        return f"best_of_{self.name}" if self.indexed else self.name

    def arrays(self) -> list[str]:
        size = f"[{self.many}]" if self.many else ""
        lines = [f"{value_type(self.dtype)} {self.best}{size};"]
        return [*lines, f"int64_t {self.name}{size};"] if self.indexed else lines

    def clear(self, slot: str) -> list[str]:
        neutral = literal(neutral_bits(self.combine, self.dtype), self.dtype)
        lines = [f"{self._at(self.best, slot)} = {neutral};"]
        return [*lines, f"{self._at(self.name, slot)} = 0;"] if self.indexed else lines

    def add(self, r: CodeRenderer, slot: str, value: str, index: str) -> list[str]:
        best, place = self._at(self.best, slot), self._at(self.name, slot)
        if not self.indexed:
            return [f"{best} = {joined(self, r, best, value)};"]
        function = helpers.minmax(r.source, self.dtype, self.combine == "argmax")
        return [
            f"{best} = {function}({best}, {value});",
            f"{place} = {value} == {best} ? {index} : {place};",
        ]

    def _at(self, name: str, slot: str) -> str:
        return f"{name}[{slot}]" if self.many else name


def runners_of(nest: NestRenderer, count: int) -> list[Partial]:
    """Their names are those by which the second stage knows the results."""
    stage = nest.stages[0]
    assert isinstance(stage.stage, Reduce)
    pairs = enumerate(zip(stage.stage.reductions, stage.ends, strict=True))
    return [
        Runner(combine, stage.code[at].dtype, f"result_0_{j}", at, count)
        for j, ((combine, _), at) in pairs
    ]


class RowScan(InnerNest):
    """Writes running results along rows."""

    def level(self, name: str, value: object) -> int:
        return VARYING if name == "result" else super().level(name, value)

    def _stage(self, number: int, rows: Scope) -> None:
        self.comment(number, rows)
        self._written(number, FIXED, rows)
        if number == 0:
            self._loop = Scope()
            for runner in (runners := runners_of(self, 0)):
                rows.add(*runner.arrays(), *runner.clear(""))
            self._loop.add(*self._loop_body(0, "i", runners, "").lines())
            return
        self._loop.add(*self._loop_body(1, "i", [], "").lines())
        rows.block(f"for (int64_t i = 0; i < {self.inner_size()}; i++)", self._loop)


class ColumnScan(OuterNest):
    """Writes running results down columns."""

    def _stage(self, number: int, stages: Scope) -> None:
        self.comment(number, stages)
        if number == 0:
            self._body, clear = Scope(), Scope()
            for runner in (runners := runners_of(self, self.columns)):
                stages.add(*runner.arrays())
                clear.add(*runner.clear(self.slot))
            stages.block(self.each_column, clear)
            self._body.add(*self._columns(0, "i", runners).lines())
            return
        self._body.add(*self._columns(1, "i", []).lines())
        walk = Scope()
        self._over(walk, self._body)
        stages.block(f"for (int64_t i = 0; i < {self.inner_size()}; i++)", walk)
