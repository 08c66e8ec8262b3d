"""The code that computes the values of a group at one place of its loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ingle.tensor.contract import Aval

from ..grouping.group import Group
from ..ir.graph import Graph
from ..ir.views import View, Views
from ..kernel.code import CodeBuilder
from ..kernel.lowering import lower
from .operands import NOWHERE, Argument, nodes_by_result, number_in


class GroupCode(ABC):
    """What the builders of nests and of epilogues share: they differ in loops and operands.

    Args:
        graph, views: that the group is of.
        group: whose values are computed.
        inline: values that are computed wherever they are needed (functions of the place alone),
            with the positions of their nodes.
        stored: the values that others need, in order.
        placed: of these the ones that lie in another value, with where.
    """

    def __init__(
        self, graph: Graph, views: Views, group: Group, inline: dict[int, int],
        stored: Sequence[int], placed: Mapping[int, View] = NOWHERE,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._views = views
        self._group = group
        self._inline = inline
        self._placed = placed
        self._stored = list(stored)
        self._node_of = nodes_by_result(graph, group)
        self._scalars: list[int] = []
        self._memo: tuple[CodeBuilder | None, dict[int, int]] = (None, {})

    @abstractmethod
    def _known(self, builder: CodeBuilder, value: int) -> int | None:
        """The instruction of a value that the loops have computed before; None for others."""

    @abstractmethod
    def _operand(self, user: int, view: View, number: int) -> Argument:
        """How argument `number` of the node at position `user` lies along the loops."""

    @abstractmethod
    def _load(self, builder: CodeBuilder, argument: Argument) -> int:
        """The element of an operand."""

    @abstractmethod
    def _steps(self, argument: Argument) -> Sequence[tuple[int, int]]:
        """Strides of an operand with the loops that they are along, as `index` numbers these."""

    @abstractmethod
    def _number(self, builder: CodeBuilder, value: int) -> int:
        """A size or stride."""

    def _is_written(self, value: int) -> bool:
        """Whether a value goes to memory, and is read there by others or later."""
        return value in self._stored

    def _leading(self, builder: CodeBuilder, position: int) -> list[int]:
        """What the code of a node takes before its arguments."""
        return []

    def _aval(self, value: int) -> Aval:
        return self._graph.values[value].aval

    def _dtype(self, value: int) -> str:
        return self._aval(value).dtype.name

    def _emit(self, builder: CodeBuilder, value: int) -> int:
        """The instruction that computes a value of the group here.

        What is in memory, too, is rounded as it is there: it must be one value.
        """
        if builder is not self._memo[0]:
            self._memo = (builder, {})
        known = self._memo[1].get(value)
        if known is None:
            known = self._emit_new(builder, value)
            if self._is_written(value) or value in self._group.rounded:
                known = builder.settled(known)
            self._memo[1][value] = known
        return known

    def _emit_new(self, builder: CodeBuilder, value: int) -> int:
        known = self._known(builder, value)
        if known is not None:
            return known
        position = self._node_of[value]
        node = self._graph.nodes[position]
        args = [self._argument(builder, position, a, i) for i, a in enumerate(node.args)]
        if node.op.operation.name == "reshape":
            return args[0]
        args[:0] = self._leading(builder, position)
        return lower(node.op, builder, args, self._aval(value))

    def _argument(self, builder: CodeBuilder, user: int, value: int, number: int) -> int:
        view = self._views.of(value)
        number_at = number_in(builder, self._graph, view.root, self._scalars)
        if number_at is not None:
            return number_at
        if view.root in self._node_of:
            return self._emit(builder, view.root)
        argument = self._operand(user, view, number)
        if view.root in self._inline:
            return self._created(builder, user, argument)
        return self._load(builder, argument)

    def _created(self, builder: CodeBuilder, user: int, argument: Argument) -> int:
        """A value that is a function of its place, which follows from the loops' indices."""
        node = self._graph.nodes[self._inline[argument.root]]
        args = [self._argument(builder, user, a, i) for i, a in enumerate(node.args)]
        args.insert(0, self._place(builder, argument))
        return lower(node.op, builder, args, self._aval(argument.root))

    def _place(self, builder: CodeBuilder, argument: Argument) -> int:
        """The index of an element in C order, from the loops' indices."""
        flat = self._number(builder, argument.offset)
        for step, loop in self._steps(argument):
            if step:
                index = builder.append("index", "int64", (), loop)
                part = builder.append("mul", "int64", (index, self._number(builder, step)))
                flat = builder.append("add", "int64", (flat, part))
        return flat
