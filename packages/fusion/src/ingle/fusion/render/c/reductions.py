"""How partial results of reductions begin, grow and are folded together, in C."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel.code import FLOATS, SIZES
from ...kernel.neutral import neutral_bits
from ..reductions import Reduction
from . import helpers
from .code import CodeRenderer
from .text import Scope, literal, value_type


@dataclass(frozen=True, slots=True)
class Partial(Reduction):
    """The partial results of one reduction of a stage, as an array with its name.

    Attributes:
        name: of the array; `argmax` and `argmin` have the places in another one beside it, float
            sums the totals of blocks and their errors.
        at: the instruction that is reduced.
        many: how many partial results there are.
    """

    name: str
    at: int
    many: int

    @property
    def final(self) -> str:
        """The array that holds the results in the end."""
        if self.indexed:
            return f"{self.name}_place"
        return f"{self.name}_total" if self.compensated or self.totals else self.name

    def arrays(self) -> list[str]:
        """Declarations."""
        kind, n = value_type(self.dtype), self.many
        lines = [] if self.totals else [f"{kind} {self.name}[{n}];"]
        if self.indexed:
            lines.append(f"int64_t {self.name}_place[{n}];")
        if self.compensated or self.totals:
            lines.append(f"{kind} {self.name}_total[{n}], {self.name}_error[{n}];")
        return lines

    def clear(self, slot: str) -> list[str]:
        """A partial result that has seen nothing."""
        neutral = literal(neutral_bits(self.combine, self.dtype), self.dtype)
        lines = [] if self.totals else [f"{self.name}[{slot}] = {neutral};"]
        if self.indexed:
            lines.append(f"{self.name}_place[{slot}] = INT64_MAX;")
        if self.compensated or self.totals:
            zero = literal(0, self.dtype)
            lines.append(f"{self.name}_total[{slot}] = {neutral};")
            lines.append(f"{self.name}_error[{slot}] = {zero};")
        return lines

    def forget(self, slot: str) -> list[str]:
        """Begins another block."""
        neutral = literal(neutral_bits(self.combine, self.dtype), self.dtype)
        return [f"{self.name}[{slot}] = {neutral};"] if self.compensated else []

    def add(self, r: CodeRenderer, slot: str, value: str, index: str) -> list[str]:
        """Takes another element, with a larger index than those before."""
        old = f"{self.name}[{slot}]"
        if self.totals:
            return [self._two_sum(r, slot, value)]
        if not self.indexed:
            return [f"{old} = {joined(self, r, old, value)};"]
        better = helpers.better(r.source, self.dtype, self.combine == "argmax")
        place = f"{self.name}_place[{slot}]"
        return [
            f"const bool take_{self.name} = {better}({value}, {old});",
            f"{old} = take_{self.name} ? {value} : {old};",
            f"{place} = take_{self.name} ? {index} : {place};",
        ]

    def keep(self, r: CodeRenderer, slot: str) -> list[str]:
        """Adds what a block gave to the totals."""
        return [self._two_sum(r, slot, f"{self.name}[{slot}]")] if self.compensated else []

    def _two_sum(self, r: CodeRenderer, slot: str, value: str) -> str:
        function = helpers.two_sum(r.source, self.dtype)
        return f"{function}(&{self.name}_total[{slot}], &{self.name}_error[{slot}], {value});"

    def round(self, r: CodeRenderer, slot: str) -> list[str]:
        """Puts the errors to the totals."""
        if not self.compensated and not self.totals:
            return []
        total = f"{self.name}_total[{slot}]"
        function = helpers.with_error(r.source, self.dtype)
        return [f"{total} = {function}({total}, {self.name}_error[{slot}]);"]

    def fold(self, r: CodeRenderer, scope: Scope) -> None:
        """Folds the partial results in halves into the first one."""
        half = Scope()
        self.fold_half(r, half)
        scope.block(f"for (int64_t apart = {self.many // 2}; apart > 0; apart /= 2)", half)

    def fold_half(self, r: CodeRenderer, scope: Scope) -> None:
        """Folds each of the first `apart` partial results with the one so far behind it."""
        body = Scope()
        if self.indexed:
            body.add(*self.merge(r))
        else:
            array = self.final
            body.add(f"{array}[n] = {joined(self, r, f'{array}[n]', f'{array}[n + apart]')};")
        scope.block("for (int64_t n = 0; n < apart; n++)", body)

    def result(self, slot: str, length: str) -> str:
        """The result of the reduction of `length` elements."""
        found = f"{self.final}[{slot}]"
        if self.indexed:  # nothing was beyond the neutral value: all elements equal it
            return f"{found} == INT64_MAX ? 0 : {found}"
        if self.compensated or self.totals:  # the neutral -0.0 is no sum of nothing
            return f"{length} == 0 ? {literal(0, self.dtype)} : {found}"
        return found

    @property
    def result_type(self) -> str:
        return "int64_t" if self.indexed else value_type(self.dtype)

    def merge(self, r: CodeRenderer, prefix: str = "") -> list[str]:
        """Of equals the one with the smaller index; NaN equals NaN.

        Args:
            prefix: of the arrays' names.
        """
        better = helpers.better(r.source, self.dtype, self.combine == "argmax")
        name = f"{prefix}{self.name}"
        a, b = f"{name}[n]", f"{name}[n + apart]"
        first, second = f"{name}_place[n]", f"{name}_place[n + apart]"
        earlier = f"!{better}({a}, {b}) && {second} < {first}"
        return [
            f"if ({better}({b}, {a}) || ({earlier})) {{",
            f"    {a} = {b};",
            f"    {first} = {second};",
            "}",
        ]


def joined(reduction: Reduction, r: CodeRenderer, a: str, b: str) -> str:
    """Two values combined, without indices."""
    combine, dtype = reduction.combine, reduction.dtype
    if combine in ("max", "min"):
        return f"{helpers.minmax(r.source, dtype, combine == 'max')}({a}, {b})"
    sign = {"sum": "+", "prod": "*", "any": "|", "all": "&"}[combine]
    if dtype in FLOATS or dtype == "bool":
        return f"{a} {sign} {b}"
    wide = "uint64_t" if SIZES[dtype] == 8 else "uint32_t"
    return f"({value_type(dtype)})(({wide}){a} {sign} ({wide}){b})"
