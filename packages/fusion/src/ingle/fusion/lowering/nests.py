"""From a group to a nest: loop axes, operands, and the code of each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..grouping.group import Group
from ..grouping.two_stage_reduction import is_columns
from ..ir.broadcast_axes import GATHERED, is_gather
from ..ir.graph import Graph
from ..ir.views import View, Views
from ..kernel.code import FLOATS, HALVES, CodeBuilder
from ..kernel.lowering import reduction_of
from ..kernel.nest import (
    Map,
    Nest,
    Reduce,
    Row,
    Stage,
    accumulator_dtype,
    accumulators,
    result_dtype,
)
from .group_code import GroupCode
from .operands import NOWHERE, Argument, Operands, operands_of, scalars_of
from .rounding import code_builder
from .row_lengths import with_row_length


class NestCall(NamedTuple):
    """A nest with what it runs on.

    Attributes:
        nest: the kernel.
        arguments: for each of its operands.
        sizes: of the outer axes, and of the inner axis.
        strides: for each operand along these axes.
        scalars: the values that its scalars come from.
        nodes: positions of the operations that it computes.
        fixed: int64 that the nest takes as scalars behind those.
    """

    nest: Nest
    arguments: tuple[Argument, ...]
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    scalars: tuple[int, ...]
    nodes: tuple[int, ...]
    fixed: tuple[int, ...] = ()


def nest_builder(
    graph: Graph, views: Views, group: Group, inline: dict[int, int], stored: Sequence[int],
    placed: Mapping[int, View] = NOWHERE, turns: bool = False,
) -> NestBuilder | None:  # fmt: skip
    """The builder of a group's nest; None if the group has to be taken apart.

    Args:
        turns: whether maps over very short rows may go along a longer axis; see `turned`.
    """
    operands = operands_of(graph, views, group, inline, stored, placed, turns)
    if operands is None:
        return None
    return NestBuilder(graph, views, group, inline, stored, placed, operands)


class NestBuilder(GroupCode):
    """Builds the nest of one group of kind `"nest"`; made by `nest_builder`."""

    def __init__(
        self, graph: Graph, views: Views, group: Group, inline: dict[int, int],
        stored: Sequence[int], placed: Mapping[int, View], operands: Operands,
    ) -> None:  # fmt: skip
        super().__init__(graph, views, group, inline, stored, placed)
        self._columns = [v for v in stored if is_columns(graph.nodes[self._node_of[v]])]
        self._stored = [v for v in stored if v not in self._columns]
        self._scalars = scalars_of(graph, views, group, inline)
        self._fixed: list[int] = []
        self._stage_of: dict[int, int] = {}
        self._results: dict[int, tuple[int, int]] = {}
        self._rows: dict[int, tuple[int, int]] = {}
        self._stages: list[Stage] = []
        self._now = 0
        self._kept: dict[int, tuple[int, int]] = {}
        self._operands = operands

    def build(self) -> NestCall:
        """The nest and what it runs on."""
        last = max(self._level(v) for v in self._node_of)
        self._kept = self._keep()
        for level in range(last + 1):
            self._row_stage(level)
            self._row_pass(level)
        operands = tuple([self._operands.operand(k) for k in range(len(self._operands.arguments))])
        nest = Nest(
            self._operands.outer,
            operands,
            (*[self._aval(s).dtype.name for s in self._scalars], *["int64"] * len(self._fixed)),
            tuple(self._stages),
            self._operands.lanes,
        )
        o = self._operands
        nest = with_row_length(nest, o.sizes, o.strides)
        return NestCall(
            nest, tuple(o.arguments), o.sizes, o.strides, tuple(self._scalars),
            tuple(self._group.nodes), tuple(self._fixed),
        )  # fmt: skip

    # Stages --------------------------------------------------------------------------------

    def _level(self, value: int) -> int:
        """After how many reductions, one behind the other, a value can be computed."""
        known = self._stage_of.get(value)
        if known is None:
            node = self._graph.nodes[self._node_of[value]]
            roots = [self._views.of(a).root for a in node.args]
            own = [self._level(r) for r in roots if r in self._node_of]
            known = max(own, default=0) + (reduction_of(node.op) is not None)
            self._stage_of[value] = known
        return known

    def _is_row(self, value: int) -> bool:
        inner = self._group.inner
        if inner is None or value in self._columns:
            return False
        return inner.isdisjoint(c for c in self._group.coordinates[value] if c is not None)

    def _keep(self) -> dict[int, tuple[int, int]]:
        """Values of a row that are dear and needed again in a later pass over it.

        They are stored where an output of the same kind will lie, which nobody has read yet. For
        each its first pass and that output.
        """
        needed: dict[int, set[int]] = {}
        for value in self._node_of:
            position = self._node_of[value]
            reduced = reduction_of(self._graph.nodes[position].op) is not None
            if reduced or value in self._columns:
                source = self._views.of(self._graph.nodes[position].args[0]).root
                self._note_need(source, self._level(value) - reduced, needed)
            elif value in self._stored and not self._is_row(value):
                self._note_need(value, self._level(value), needed)
        free = [v for v in self._stored if v in self._node_of and not self._is_row(v)]
        kept: dict[int, tuple[int, int]] = {}
        for value, passes in needed.items():
            operation = self._graph.nodes[self._node_of[value]].op.operation
            if len(passes) < 2 or operation.traits.cost != "expensive":
                continue
            if value in self._stored:
                kept[value] = (min(passes), value)
                continue
            for output in free:
                same = self._aval(output).dtype is self._aval(value).dtype
                alike = self._group.coordinates[output] == self._group.coordinates[value]
                late = self._level(output) >= max(passes)
                if same and alike and late and needed.get(output, {0}) == {self._level(output)}:
                    free.remove(output)
                    kept[value] = (min(passes), output)
                    break
        return kept

    def _note_need(self, value: int, now: int, needed: dict[int, set[int]]) -> None:
        """Notes which values of a row a pass computes to get at this one."""
        if value not in self._node_of or self._is_row(value):
            return
        passes = needed.setdefault(value, set())
        if now in passes or reduction_of(self._graph.nodes[self._node_of[value]].op) is not None:
            return
        passes.add(now)
        for arg in self._graph.nodes[self._node_of[value]].args:
            self._note_need(self._views.of(arg).root, now, needed)

    def _row_stage(self, level: int) -> None:
        """What is computed once a row, as soon as the reductions before it are done."""
        values = [v for v in self._node_of if self._is_row(v) and self._level(v) == level]
        maps = [v for v in values if v not in self._results]
        stored = [v for v in values if v in self._stored]
        if not maps and not stored:
            return
        builder = code_builder()
        found = {v: self._emit(builder, v) for v in dict.fromkeys((*maps, *stored))}
        stores = [self._place_of(v) for v in stored]
        wide = [builder.widen(found[v]) for v in maps]
        code, roots = builder.finish(*[found[v] for v in stored], *wide)
        ends = roots[len(stored) :]
        number = len(self._stages)
        self._stages.append(
            Row(code, tuple(zip(stores, roots[: len(stored)], strict=True)), tuple(ends))
        )
        for j, v in enumerate(maps):
            self._rows[v] = (number, j)

    def _row_pass(self, level: int) -> None:
        """One run over the row: stores, and the reductions whose arguments are there."""
        stored = [v for v in self._stored if not self._is_row(v) and self._level(v) == level]
        reduced = [
            v
            for v, p in self._node_of.items()
            if reduction_of(self._graph.nodes[p].op) is not None and self._level(v) == level + 1
        ]
        columns = [v for v in self._columns if self._level(v) == level]
        self._now = level
        for part in self._apart(reduced):
            if stored or part or columns:
                self._one_pass(level, stored, part, columns)
            stored, columns = [], []

    def _apart(self, reduced: Sequence[int]) -> list[list[int]]:
        """Reductions that may share a pass: float sums whose blocks are equally long."""
        parts: dict[int, list[int]] = {}
        others: list[int] = []
        for value in reduced:
            op = self._graph.nodes[self._node_of[value]].op
            dtype = self._aval(value).dtype.name
            if reduction_of(op) == "sum" and dtype in FLOATS:
                parts.setdefault(accumulators(dtype), []).append(value)
            else:
                others.append(value)
        found = list(parts.values()) or [[]]
        found[0] = sorted(found[0] + others)
        return found

    def _one_pass(
        self, level: int, stored: list[int], reduced: Sequence[int], columns: list[int]
    ) -> None:
        builder = code_builder()
        kept = {v: o for v, (first, o) in self._kept.items() if first == level and v != o}
        ends = [self._emit(builder, v) for v in (*stored, *kept)]
        targets = [*stored, *kept.values(), *columns]
        for position in [self._node_of[v] for v in columns]:
            summed = self._graph.nodes[position].args[0]
            ends.append(self._argument(builder, position, summed, 0))
        combines = []
        for value in reduced:
            node = self._graph.nodes[self._node_of[value]]
            combine = reduction_of(node.op)
            assert combine is not None
            at = self._argument(builder, self._node_of[value], node.args[0], 0)
            if combine in ("sum", "prod"):
                at = builder.cast(at, self._aval(value).dtype.name)
            elif combine.startswith("arg"):
                at = builder.settled(at)
            elif combine in ("any", "all"):
                at = builder.cast(builder.settled(at), "bool")
            ends.append(builder.widen(at))
            combines.append(combine)
        code, roots = builder.finish(*ends)
        count = len(targets)
        places = [self._place_of(v) for v in targets]
        writes = tuple(zip(places, roots[:count], strict=True))
        cut = count - len(columns)
        stores, sums = writes[:cut], writes[cut:]
        number = len(self._stages)
        if reduced:
            pairs = tuple(zip(combines, roots[count:], strict=True))
            self._stages.append(Reduce(code, pairs, stores, sums))
            for j, value in enumerate(reduced):
                self._results[value] = (number, j)
        else:
            self._stages.append(Map(code, stores, sums))

    def _place_of(self, value: int) -> int:
        return self._operands.written[value]

    # Code ----------------------------------------------------------------------------------

    def _is_written(self, value: int) -> bool:
        return value in self._stored or value in self._kept

    def _known(self, builder: CodeBuilder, value: int) -> int | None:
        dtype = self._dtype(value)
        if value in self._results:
            stage, j = self._results[value]
            at = self._result(builder, value, stage, j)
            return builder.narrow(at, dtype) if dtype in HALVES else builder.cast(at, dtype)
        if value in self._rows:
            row = builder.append("row", accumulator_dtype(dtype), (), self._rows[value])
            return builder.narrow(row, dtype)
        if value in self._kept and self._now > self._kept[value][0] and not self._is_row(value):
            return builder.load(self._place_of(self._kept[value][1]), dtype)
        position = self._node_of[value]
        return self._gather(builder, position) if is_gather(self._graph, position) else None

    def _leading(self, builder: CodeBuilder, position: int) -> list[int]:
        if not self._operands.is_creation(position):
            return []
        (value,) = self._graph.nodes[position].results
        return [self._place(builder, self._operands.natural(value))]

    def _result(self, builder: CodeBuilder, value: int, stage: int, j: int) -> int:
        source = self._stages[stage]
        assert isinstance(source, Reduce)
        combine, at = source.reductions[j]
        return builder.append(
            "result", result_dtype(combine, source.code[at].dtype), (), (stage, j)
        )

    def _gather(self, builder: CodeBuilder, position: int) -> int:
        """The element that an index names. One that is out of range reads the nearest row: the
        plan finds it and raises."""
        node = self._graph.nodes[position]
        view, axis = self._views.of(node.args[GATHERED]), node.op.attributes["axis"]
        index = builder.cast(self._argument(builder, position, node.args[1], 1), "int64")

        def i64(name: str, *args: int) -> int:
            return builder.append(name, "int64", args)

        zero, size = builder.constant(0, "int64"), self._number(builder, view.shape[axis])
        below = builder.append("lt", "bool", (index, zero))
        index = i64("max", i64("select", below, i64("add", index, size), index), zero)
        index = i64("min", index, self._number(builder, view.shape[axis] - 1))
        step = self._number(builder, view.strides[axis])
        steps = Argument(view.root, self._operands.beside(position, view), view.offset)
        offset = i64("add", self._place(builder, steps), i64("mul", index, step))
        number = self._operands.arguments.index(self._operands.whole(view.root))
        return builder.append("gather", self._aval(view.root).dtype.name, (offset,), number)

    def _operand(self, user: int, view: View, number: int) -> Argument:
        return self._operands.argument(user, view, number)

    def _load(self, builder: CodeBuilder, argument: Argument) -> int:
        return builder.load(self._operands.arguments.index(argument), self._dtype(argument.root))

    def _steps(self, argument: Argument) -> list[tuple[int, int]]:
        steps = self._operands.place_steps[argument.strides]
        return [(step, axis if axis < len(steps) - 1 else -1) for axis, step in enumerate(steps)]

    def _number(self, builder: CodeBuilder, value: int) -> int:
        """A size or stride: an input of the kernel, unless what is simpler follows from it."""
        if value in (0, 1):
            return builder.constant(value, "int64")
        self._fixed.append(value)
        return builder.append("scalar", "int64", (), len(self._scalars) + len(self._fixed) - 1)
