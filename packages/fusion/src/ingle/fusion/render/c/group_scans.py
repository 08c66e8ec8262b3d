"""Running results along rows that a group of work items takes, in the order of one walker.

A group takes a piece of a row at a time: each work item loads its elements, next to its
neighbours', and puts what is folded into local memory. Sums and products of floats are then folded
there by one work item, place by place, since their bits hang on the order; what does not depend on
it, integers and extremes, each work item folds for neighbouring places, and the last results of all
are folded in steps of 1, 2, 4 and so on. What a piece gives goes on into the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import FLOATS
from ...kernel.nest import Nest, runs
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from . import helpers
from .code import CodeRenderer
from .dialect import GroupDialect
from .prepared import FIXED
from .reductions import joined
from .scans import RowScan, Runner, runners_of
from .text import Scope, literal, value_type

MEMBERS = 64
"""Work items of a group."""
SHORTEST = 32
"""Elements of a row from which on a group takes it: most of one would idle, and a work item alone
is soon done."""
_EACH = 8
"""Elements that a work item has of a piece."""


def groups_run(nest: Nest) -> bool:
    """Whether a nest gives running results along rows that groups may take."""
    return nest.lanes == "inner" and runs(nest)


def runs_alone(nest: Nest, sizes: Sequence[int]) -> bool:
    """Whether the rows of a launch are too short for a group of work items each."""
    return groups_run(nest) and sizes[-1] < SHORTEST


def group_scan(nest: Nest, name: str, dialect: GroupDialect) -> str:
    """The source of a kernel whose rows are taken by a group each."""
    validate(nest)
    return GroupScan(nest, name, dialect).render()


class Shared(Runner):
    """A running reduction whose results are in local memory, one for each place of a piece.

    Where the result is the place of an extreme, the extremes themselves are in another array.
    """

    __slots__ = ()

    @property
    def names(self) -> list[str]:
        """What a result consists of."""
        return [self.best, self.name] if self.indexed else [self.name]

    def kind(self, name: str) -> str:
        """The type of a part of a result."""
        return "int64_t" if self.indexed and name == self.name else value_type(self.dtype)

    def neutral(self, name: str) -> str:
        """What changes nothing."""
        if self.indexed and name == self.name:
            return "0"
        return literal(neutral_bits(self.combine, self.dtype), self.dtype)

    @property
    def in_any_order(self) -> bool:
        """Whether its bits are the same however it is folded, from the first to the last."""
        return self.dtype not in FLOATS or self.combine in ("max", "min")

    def add(self, r: CodeRenderer, slot: str, value: str, index: str) -> list[str]:
        given = [value, index] if self.indexed else [value]
        return [f"all_{name}[own] = {what};" for name, what in zip(self.names, given, strict=True)]

    def joined_with(self, r: CodeRenderer, into: str, before: str, behind: str) -> list[str]:
        """The result of some places, and of those behind them.

        Args:
            into, before, behind: with {} where the name of a part goes.
        """
        names = self.names
        first, second = (x.format(names[0]) for x in (before, behind))
        if not self.indexed:
            return [f"{into.format(names[0])} = {joined(self, r, first, second)};"]
        function = helpers.minmax(r.source, self.dtype, self.combine == "argmax")
        places = [x.format(names[1]) for x in (before, behind)]
        return [  # of equals the last one
            f"const {value_type(self.dtype)} joined_best = {function}({first}, {second});",
            f"{into.format(names[1])} = {second} == joined_best ? {places[1]} : {places[0]};",
            f"{into.format(names[0])} = joined_best;",
        ]


class GroupScan(RowScan):
    """Writes running results along rows that groups take."""

    dialect: GroupDialect

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect) -> None:
        super().__init__(nest, name, dialect)
        self.head.declare("lane", f"const int lane = {dialect.lane};")

    def _stage(self, number: int, rows: Scope) -> None:
        self.comment(number, rows)
        self._written(number, FIXED, rows)
        if number == 0:
            self._shared = [
                Shared(p.combine, p.dtype, p.name, p.at, p.many) for p in runners_of(self, 0)
            ]
            self._loads = self._loop_body(0, "i", [*self._shared], "")
            return
        size, step = self.inner_size(), MEMBERS * _EACH
        turn = Scope()
        for p in self._shared:
            for name in p.names:
                local = f"{self.dialect.local} {p.kind(name)}"
                self.head.declare(f"all_{name}", f"{local} all_{name}[{step}];")
                rows.add(f"{p.kind(name)} carry_{name} = {p.neutral(name)};")
        self._places(turn, self._loads)
        turn.add(self.dialect.local_barrier)
        for p in self._shared:
            (self._in_parts if p.in_any_order else self._in_order)(p, turn)
        turn.add(self.dialect.local_barrier)
        done = Scope()
        for p in self._shared:
            done.add(f"const {p.kind(p.name)} {p.name} = all_{p.name}[own];")
        done.add(*self._loop_body(1, "i", [], "").lines())
        self._places(turn, done)
        rows.block(f"for (int64_t from = 0; from < {size}; from += {step})", turn)

    def _places(self, scope: Scope, body: Scope) -> None:
        """What is done for each place of a piece, by whoever has it.

        What is behind the row's end follows all of its results, and is never looked at.
        """
        place = Scope()
        place.add(f"const int own = n * {MEMBERS} + lane;", "const int64_t i = from + own;")
        place.block(f"if (i < {self.inner_size()})", body)
        scope.add("#pragma unroll")
        scope.block(f"for (int n = 0; n < {_EACH}; n++)", place)

    def _in_order(self, p: Shared, turn: Scope) -> None:
        """One work item folds all places."""
        places, alone = Scope(), Scope()
        places.add(
            *p.joined_with(self.code, "carry_{}", "carry_{}", "all_{}[k]"),
            *[f"all_{name}[k] = carry_{name};" for name in p.names],
        )
        least = helpers.least(self.source)
        alone.add(f"const int64_t left = {self.inner_size()} - from;")
        alone.add(f"const int stop = (int){least}(left, {MEMBERS * _EACH});", "#pragma unroll 8")
        alone.block("for (int k = 0; k < stop; k++)", places)
        turn.block("if (lane == 0)", alone)

    def _in_parts(self, p: Shared, turn: Scope) -> None:
        """Each work item folds its part of the places, and what comes before it onto these."""
        part, own, steps, ahead, behind = Scope(), Scope(), Scope(), Scope(), Scope()
        head = f"for (int k = lane * {_EACH}; k < (lane + 1) * {_EACH}; k++)"
        for name in p.names:
            local = f"{self.dialect.local} {p.kind(name)}"
            self.head.declare(f"ends_{name}", f"{local} ends_{name}[{MEMBERS}];")
            part.add(f"{p.kind(name)} run_{name} = {p.neutral(name)};")
        own.add(
            *p.joined_with(self.code, "run_{}", "run_{}", "all_{}[k]"),
            *[f"all_{name}[k] = run_{name};" for name in p.names],
        )
        part.block(head, own)
        part.add(*[f"ends_{name}[lane] = run_{name};" for name in p.names])
        part.add(self.dialect.local_barrier)
        ahead.add(*p.joined_with(self.code, "run_{}", "ends_{}[lane - apart]", "run_{}"))
        steps.block("if (lane >= apart)", ahead)
        steps.add(self.dialect.local_barrier)
        steps.add(*[f"ends_{name}[lane] = run_{name};" for name in p.names])
        steps.add(self.dialect.local_barrier)
        part.block(f"for (int apart = 1; apart < {MEMBERS}; apart *= 2)", steps)
        for name in p.names:
            before = f"lane ? ends_{name}[lane - 1] : {p.neutral(name)}"
            part.add(f"{p.kind(name)} until_{name} = {before};")
        part.block("", p.joined_with(self.code, "until_{}", "carry_{}", "until_{}"))
        behind.add(*p.joined_with(self.code, "all_{}[k]", "until_{}", "all_{}[k]"))
        part.block(head, behind)
        last = f"ends_{{}}[{MEMBERS - 1}]"
        part.block("", p.joined_with(self.code, "carry_{}", "carry_{}", last))
        turn.block("", part)
