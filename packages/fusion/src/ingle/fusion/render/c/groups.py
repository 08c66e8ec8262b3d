"""Nests for groups of work items that share a row: the wide family, in the narrow one's order.

Element `i` of a row goes to partial result `i % W`, as everywhere. So a group of work items, of
which each takes every `G`-th element with `G` a divisor of `W`, adds in the same order: a work item
holds `W / G` partial results, which are folded in halves over local memory. Maps go along the row
the same way, so that neighbours read neighbours. What is computed once a row every work item
computes for itself, and the first one stores it. With lanes along an outer axis each work item has
a column of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import (
    BLOCK,
    COLUMNS,
    NARROW,
    WIDE,
    Nest,
    Reduce,
    Row,
    accumulators,
    in_blocks,
    is_flat,
    runs,
    unit_columns,
    units,
)
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from ..leaves import Environment
from . import helpers
from .dialect import GroupDialect
from .group_scans import MEMBERS, group_scan, groups_run
from .inner import InnerNest, RowPlace, each
from .outer import OuterNest
from .prepared import VARYING
from .reductions import Partial, joined
from .scans import ColumnScan
from .text import Scope, literal, value_type

MOST = 64
"""Work items of a group."""
_AT_ONCE = 4
"""Elements that a work item asks memory for before it computes with the first one."""
_MOST_ROWS = 32
"""The same down a column."""
_MOST_TOTALS = 128
"""The same of sums that are added up, and registers for them."""
_WORTH_IT = 4
"""Bytes of an element from which on a kernel waits for memory, not for arithmetic: half types are
computed in float32, to and from which each element is converted."""
_MOST_REGISTERS = 32
"""For what was loaded: more would leave room for few work items."""
_LONGEST_CODE = 400
"""Instructions of all elements that are taken at once: longer code takes too long to compile."""


def group_size(nest: Nest) -> int:
    """How many work items make a group."""
    if nest.lanes == "outer":
        return NARROW
    if groups_run(nest):
        return MEMBERS
    found = [MOST]
    for stage in nest.stages:
        if isinstance(stage, Reduce):
            found += [accumulators(stage.code[at].dtype) for _, at in stage.reductions]
    return min(found)


def groups_of_unit(nest: Nest, columns: int) -> int:
    """How many groups take a unit of work, whose columns are shared out where it has many.

    Args:
        columns: the size of the last outer axis.
    """
    return unit_columns(columns) // NARROW if nest.lanes == "outer" else 1


def group_item(nest: Nest, group: str, columns: str) -> str:
    """The number of the range of units that a group takes.

    Args:
        group: the number of the group.
        columns: the size of the last outer axis.
    """
    if nest.lanes == "inner":
        return group
    return f"({group} / ({columns} < {WIDE} ? 1 : {COLUMNS // NARROW}))"


def is_wide(nest: Nest) -> bool:
    """Whether groups of work items take a nest's units; else each takes one alone."""
    return not is_flat(nest)


def grouped(nest: Nest, name: str, dialect: GroupDialect) -> str:
    """The source of a kernel whose units of work are taken by groups of work items."""
    validate(nest)
    if nest.lanes == "outer":
        return (ColumnScanNest if runs(nest) else ColumnNest)(nest, name, dialect).render()
    if groups_run(nest):
        return group_scan(nest, name, dialect)
    return GroupNest(nest, name, dialect).render()


class _Columns(OuterNest):
    """A column for each work item of the groups that take a unit of work.

    Attributes:
        together: columns of a group.
    """

    dialect: GroupDialect

    together = NARROW
    columns = 1
    slot = "0"
    each_column = ""
    _are_ahead = False

    def body(self) -> Scope:
        found = super().body()
        part = f"{self.dialect.group} % ({self._span()} / {self.together})"
        self.head.add(f"const int64_t column = {part} * {self.together} + {self.dialect.lane};")
        return found

    def _over(self, scope: Scope, body: Scope) -> None:
        scope.block("", body)

    def _walk(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str
    ) -> None:
        count = self._rows_at_once(number)
        if count == 1:
            super()._walk(number, partials, scope, start, stop)
            return
        scope.add(f"int64_t from = {start};")
        while count > 1:
            whole = self._together(number, partials, count)
            scope.block(f"for (; from + {count} <= {stop}; from += {count})", whole)
            count = _MOST_ROWS if count > _MOST_ROWS else 1
        super()._walk(number, partials, scope, "from", stop)

    def _together(self, number: int, partials: list[Partial], count: int) -> Scope:
        """So many elements, all of which are asked for before anything is computed."""
        whole, loads = Scope(), Scope()
        for k in sorted(self._loads(number)):
            whole.add(f"{self.source.stored(self.nest.operands[k].dtype)} ahead{k}[{count}];")
            loads.add(f"ahead{k}[n] = {self.element(k, '(from + n)')};")
        self._are_ahead = True
        done = self._columns(number, "(from + n)", partials)
        self._are_ahead = False
        for part in (loads, done):
            whole.add("#pragma unroll")
            whole.block(f"for (int n = 0; n < {count}; n++)", part)
        return whole

    def _loads(self, number: int) -> set[int]:
        code = self.stages[number].code
        return {i.value for i in code if i.name == "load" and isinstance(i.value, int)}

    def loaded(self, k: int, place: str) -> str:
        return super().loaded(k, f"ahead{k}[n]" if self._are_ahead else place)

    def _rows_at_once(self, number: int) -> int:
        """How many elements down a column a work item asks for before it computes with the first
        one, and stores anything: an output may lie in the memory of an input, place by place."""
        stage, loads = self.stages[number], self._loads(number)
        if not loads or any(i.name == "gather" for i in stage.code):
            return 1
        if stage.stores and not isinstance(stage.stage, Reduce):
            return 1
        # Sums of sums have few columns: nothing but a column's own loads is under way.
        is_alone = isinstance(stage.stage, Reduce) and stage.stage.reductions[0][0] == "totals"
        count, registers = (_MOST_ROWS, _MOST_REGISTERS) if not is_alone else (_MOST_TOTALS,) * 2
        while count > 1 and (
            count * len(loads) > registers or count * len(stage.code) > _LONGEST_CODE
        ):
            count //= 2
        return count

    def guarded(self, stages: Scope) -> Scope:
        own = Scope()
        own.block("if (column < width)", stages)
        return own


class ColumnNest(_Columns):
    """Writes a nest with lanes along an outer axis."""


def shared_reduction(nest: Nest) -> Reduce | None:
    """What goes down the columns of a nest whose threads may share them out; None of another."""
    first, *rest = nest.stages
    if nest.lanes != "outer" or nest.ragged or not isinstance(first, Reduce):
        return None
    return first if all(isinstance(stage, Row) for stage in rest) else None


def shared_blocks(nest: Nest, sizes: Sequence[int], together: int) -> int:
    """How many blocks of threads take a launch of these sizes, so many columns each."""
    return units(nest, sizes) * (unit_columns(sizes[-2]) // together)


class SharedColumnNest(ColumnNest):
    """Writes a nest of which `together` columns are shared out by the threads of a group. All of
    them go through the stages, since they meet at barriers, and the first ones store."""

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect) -> None:
        super().__init__(nest, name, dialect)
        self.each_column = f"if (threadIdx.x < {self.together} && column < width)"

    def guarded(self, stages: Scope) -> Scope:
        own = Scope()
        own.block(f"if (column - {self.dialect.lane} < width)", stages)
        return own


class ColumnScanNest(_Columns, ColumnScan):
    """Writes running results down columns."""


class _LoadedGroup(RowPlace):
    """The environment of code whose operands were loaded for some elements at once."""

    def load(self, operand: int, dtype: str) -> str:
        if self.owner.level("load", operand) != VARYING:
            return super().load(operand, dtype)
        return self.owner.loaded(operand, f"part{operand}")


class GroupNest(InnerNest):
    """Writes a kernel whose rows are taken by a group of work items each.

    A work item loads several of its elements before it computes with the first one, so that
    memory answers them together. It computes and stores them in the order of their places.

    Attributes:
        members: work items of a group; 0 for as many as suit the nest.
        worth_it: bytes of an element from which on several are loaded ahead.
    """

    dialect: GroupDialect
    members = 0
    worth_it = _WORTH_IT

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect) -> None:
        super().__init__(nest, name, dialect)
        self._group = self.members or group_size(nest)
        self._ahead, self._number = 1, 0
        self.head.declare("lane", f"const int64_t lane = {dialect.lane};")

    def rows_loop(self, row: Scope) -> tuple[str, Scope]:
        if in_blocks(self.nest):
            return "for (int64_t piece = begin; piece < end; piece++)", self._blocks(row)
        return super().rows_loop(row)

    def _blocks(self, row: Scope) -> Scope:
        block, least = Scope(), helpers.least(self.source)
        for stage in self.stages:
            for k, at in stage.columns:
                nothing = literal(neutral_bits("sum", stage.code[at].dtype), stage.code[at].dtype)
                clear = [f"{self._sums(k)}[i] = {nothing};"]
                block.block(self._along("0", self.inner_size()), clear)
        block.add(f"const int64_t last = {least}((piece + 1) * {BLOCK}, {self.size(0)});")
        block.block(f"for (int64_t unit = piece * {BLOCK}; unit < last; unit++)", row)
        return block

    def _along(self, start: str, stop: str) -> str:
        first = "lane" if start == "0" else f"{start} + lane"
        return f"for (int64_t i = {first}; i < {stop}; i += {self._group})"

    def place_at(self, index: str) -> Environment:
        return (_LoadedGroup if self._ahead > 1 else RowPlace)(self, index)

    def _stage(self, number: int, rows: Scope) -> None:
        self._ahead, self._number = self._at_once(number), number
        super()._stage(number, rows)
        self._ahead = 1

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        self._over_elements(self._number, start, stop, body, loop)

    def _loads(self, number: int) -> list[int]:
        """The operands of which a stage loads an element for each place."""
        code = self.stages[number].code
        read = {i.value for i in code if i.name == "load" and isinstance(i.value, int)}
        return sorted(k for k in read if self.level("load", k) == VARYING)

    def _at_once(self, number: int) -> int:
        """How many elements a work item takes at once: a power of two, 1 for one by one."""
        stage, loads = self.stages[number], self._loads(number)
        alone = isinstance(stage.stage, Row) or self.nest.scattered or stage.columns
        if alone or not loads or any(i.name == "gather" for i in stage.code):
            return 1
        sizes = [SIZES[self.nest.operands[k].dtype] for k in loads]
        if min(sizes) < self.worth_it:
            return 1
        count, registers = _AT_ONCE, sum(sizes) // 4
        while count > 1 and (
            count * registers > _MOST_REGISTERS or count * len(stage.code) > _LONGEST_CODE
        ):
            count //= 2
        held = self.partials(number) if stage.ends else []
        return count if all(count >= p.many for p in held) else 1

    def _over_elements(
        self, number: int, start: str, stop: str, scope: Scope, element: Scope
    ) -> None:
        """The code of an element, `i`, for each that a work item has between two places."""
        if self._ahead == 1:
            scope.block(self._along(start, stop), element)
            return
        first = "lane" if start == "0" else f"{start} + lane"
        step, turns, whole, rest = self._ahead * self._group, Scope(), Scope(), Scope()
        loads, own, alone = Scope(), Scope(), Scope()
        loads.add(f"const int64_t i = from + n * {self._group};")
        own.add(f"const int64_t i = from + n * {self._group};")
        alone.add(f"const int64_t n = (i - from) / {self._group};")
        for k in self._loads(number):
            kind = self.source.stored(self.nest.operands[k].dtype)
            whole.add(f"{kind} ahead{k}[{self._ahead}];")
            loads.add(f"ahead{k}[n] = {self.element(k, 'i')};")
            own.add(f"const {kind} part{k} = ahead{k}[n];")
            alone.add(f"const {kind} part{k} = {self.element(k, 'i')};")
        own.add(*element.lines())
        alone.add(*element.lines())
        for part in (loads, own):
            whole.add("#pragma unroll")
            whole.block(f"for (int n = 0; n < {self._ahead}; n++)", part)
        rest.block(f"for (int64_t i = from; i < {stop}; i += {self._group})", alone)
        turns.block(f"if (from + {step - self._group} < {stop})", whole)
        turns.block("else", rest)
        scope.block(f"for (int64_t from = {first}; from < {stop}; from += {step})", turns)

    def store_once(self, body: Scope, stores: list[tuple[int, str]]) -> None:
        # A later stage may read it, in every work item.
        only = Scope()
        for k, value in stores:
            self.store(only, k, self.element(k, "0"), value)
        body.block("if (lane == 0)", only)
        body.add(self.dialect.barrier)

    def _once(self, number: int, body: Scope, rows: Scope) -> None:
        if any(stage.stores for stage in self.stages[:number]):
            rows.add(self.dialect.barrier)
        super()._once(number, body, rows)

    # -- reductions --------------------------------------------------------------------------

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        """Those that one work item holds."""
        return [
            Partial(p.combine, p.dtype, p.name, p.at, p.many // self._group)
            for p in super().partials(number, count)
        ]

    def _elements(
        self, number: int, partials: list[Partial], scope: Scope, start: str, stop: str
    ) -> None:
        """Each element goes to the work item of its index modulo their count."""
        loop = Scope()
        if self._ahead == 1 and any(p.many > 1 for p in partials):
            loop.add(f"const int64_t turn = i / {self._group};")
        loop.add(*self._loop_body(number, "i", partials, "").lines())
        self._over_elements(number, start, stop, scope, loop)

    def slot(self, p: Partial, partials: list[Partial], lane: str) -> str:
        if p.many == 1:
            return "0"
        # All that is taken at once begins at a multiple of it: places are known when unrolled.
        return f"{'turn' if self._ahead == 1 else 'n'} & {p.many - 1}"

    def fold(self, p: Partial, body: Scope) -> None:
        """Folds the partial results of all work items over local memory; each gets the result."""
        whole = p.many * self._group
        names = [p.name, p.final] if p.indexed else [p.final]
        kinds = [value_type(p.dtype), "int64_t"] if p.indexed else [value_type(p.dtype)]
        for name, kind in zip(names, kinds, strict=True):
            self.head.declare(f"all_{name}", f"{self.dialect.local} {kind} all_{name}[{whole}];")
        body.add(self.dialect.local_barrier)
        each(body, p.many, [f"all_{x}[n * {self._group} + lane] = {x}[n];" for x in names])
        pair = Scope()
        first, second = f"all_{p.final}[n]", f"all_{p.final}[n + apart]"
        if p.indexed:
            pair.add(*p.merge(self.code, "all_"))
        else:
            pair.add(f"{first} = {joined(p, self.code, first, second)};")
        fold = Scope()
        fold.add(self.dialect.local_barrier)
        fold.block(f"for (int64_t n = lane; n < apart; n += {self._group})", pair)
        body.block(f"for (int64_t apart = {whole // 2}; apart > 0; apart /= 2)", fold)
        body.add(self.dialect.local_barrier, *[f"{x}[0] = all_{x}[0];" for x in names])
