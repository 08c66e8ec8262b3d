"""Rows of a few elements, each of which a work item takes alone: a group would mostly idle.

A partial result has one element at most, and the others nothing, which changes no sum. So as many
partial results as a row has elements give the bits of all of them.
"""

from __future__ import annotations

from ...kernel.nest import Nest, Reduce, accumulators, in_blocks, runs
from ...kernel.validation import validate
from .dialect import Dialect
from .groups import is_wide
from .inner import InnerNest
from .reductions import Partial
from .text import Scope

COUNTS = (2, 4, 8)
"""Elements of a row at most, of the kernels that there are."""


def elements_alone(nest: Nest, length: int) -> int:
    """For how many elements the kernel is written whose work items take rows of a length alone;
    0 where groups take them."""
    if not is_wide(nest) or nest.lanes != "inner" or nest.scattered or runs(nest):
        return 0
    if in_blocks(nest) or nest.ragged or not nest.outer or not 0 < length <= COUNTS[-1]:
        return 0
    many = [
        accumulators(stage.code[at].dtype)
        for stage in nest.stages if isinstance(stage, Reduce)
        for _, at in stage.reductions
    ]  # fmt: skip
    found = next(n for n in COUNTS if length <= n)
    return found if found <= min(many, default=found) else 0


def short_rows(nest: Nest, name: str, dialect: Dialect, count: int) -> str:
    """The source of a kernel for rows of up to so many elements, one for each work item."""
    validate(nest)
    return ShortRowsNest(nest, name, dialect, count).render()


class ShortRowsNest(InnerNest):
    """Writes a kernel whose partial results stay in registers, as all loops are unrolled."""

    def __init__(self, nest: Nest, name: str, dialect: Dialect, count: int) -> None:
        super().__init__(nest, name, dialect)
        self._count = count

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        return super().partials(number, self._count)

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        self._unrolled(body, "i", start, stop, loop)

    def fold(self, p: Partial, body: Scope) -> None:
        apart = self._count // 2
        while apart:
            half = Scope()
            half.add(f"const int64_t apart = {apart};")
            p.fold_half(self.code, half)
            body.block("", half)
            apart //= 2

    def _elements(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str
    ) -> None:
        lane = Scope()
        lane.add(f"const int64_t i = {start} + lane;")
        lane.add(*self._loop_body(number, "i", partials, "lane").lines())
        self._unrolled(scope, "lane", "0", f"{stop} - {start}", lane)

    def _unrolled(self, scope: Scope, index: str, start: str, stop: str, loop: Scope) -> None:
        guarded = Scope()
        guarded.block(f"if ({index} < {stop})", loop)
        scope.add("#pragma unroll")
        head = f"for (int64_t {index} = {start}; {index} < {self._count}; {index}++)"
        scope.block(head, guarded)
