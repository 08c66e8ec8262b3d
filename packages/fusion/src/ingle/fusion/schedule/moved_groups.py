"""Groups of a layer, written for other layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from ..ir.layers import Spot
from ..ir.short_graph import UnlikeError
from ..lowering.operands import Argument
from .schedule import Call, HostStep, arguments_of, of_values


class LoweredGroup(NamedTuple):
    """The calls of a group of operations, which run one after the other.

    Attributes:
        nodes: the positions of those that it was made of, in order; groups run in the order of
            their first ones, as far as they can.
        needs: the first nodes of groups that run before it.
        calls: none, if nobody needs what it computes. They may compute other groups' nodes again.
    """

    nodes: tuple[int, ...]
    needs: tuple[int, ...]
    calls: tuple[Call | HostStep, ...]

    @property
    def first(self) -> int:
        return self.nodes[0]


Reference: TypeAlias = "int | Spot"
"""A node or a value: its number if it is in no layer, else its place in the layer with the number
of that among those that are there."""

Numbered: TypeAlias = Callable[[int], int]
"""The number of a layer in the whole graph, by that among those that are there."""


Piece: TypeAlias = "tuple[int, int]"
"""An operand of which a kernel takes all: the place of a node, and the operand's number there."""

Begins: TypeAlias = Callable[[Piece], int]
"""Where a piece begins in a layer, in elements."""


_new: Any = tuple.__new__
"""Makes named tuples in half the time."""


class _MovedCall(NamedTuple):
    """A call to be written for other layers.

    Attributes:
        call: as it is in its own.
        nodes, scalars, roots: what it computes, and the values that it is of.
        others: for each of its operands all but the root.
        pieces: for each of them whose piece it is, if that begins elsewhere in each layer; empty
            if there is none.
    """

    call: Call | HostStep
    nodes: Sequence[Reference]
    scalars: Sequence[Reference]
    roots: Sequence[Reference]
    others: Sequence[tuple[Any, ...]]
    pieces: Sequence[Piece | None]

    def others_at(self, begins: Begins | None) -> Sequence[tuple[Any, ...]]:
        """The same where pieces begin elsewhere."""
        if begins is None or not self.pieces:
            return self.others
        return [
            other if piece is None else (other[0], begins(piece), *other[2:])
            for other, piece in zip(self.others, self.pieces, strict=True)
        ]


class MovedGroup:
    """A group of a layer, of which `at` makes those of other layers.

    Args:
        group: the group.
        node, value: what is referred to by the numbers in it.
        nodes, values: of the whole graph, by place and layer.
        pieces: for operands of calls, by the numbers of both, whose pieces they are, where these
            begin elsewhere in each layer.
    """

    def __init__(
        self, group: LoweredGroup, node: Callable[[int], Reference],
        value: Callable[[int], Reference], nodes: Mapping[Spot, int], values: Mapping[Spot, int],
        pieces: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._nodes, self._values = nodes, values
        self._own = [node(p) for p in group.nodes]
        self._needs = [node(p) for p in group.needs]
        self._calls = [_moved(call, node, value) for call in group.calls]
        for number in {number for number, _ in pieces}:
            count = len(self._calls[number].roots)
            own = [pieces.get((number, operand)) for operand in range(count)]
            self._calls[number] = self._calls[number]._replace(pieces=own)

    def at(self, whole: Numbered, begins: Begins | None = None) -> LoweredGroup:
        """The group of another layer.

        Args:
            whole: says which each of the layers that are there is.
            begins: says where the other layer's pieces begin; None if they begin where they do.

        Raises:
            UnlikeError: that layer has no such nodes or values.
        """
        own, needs = (_found(those, self._nodes, whole) for those in (self._own, self._needs))
        calls = tuple([self._call(call, whole, begins) for call in self._calls])
        return LoweredGroup(own, needs, calls)

    def _call(self, moved: _MovedCall, whole: Numbered, begins: Begins | None) -> Call | HostStep:
        nodes = _found(moved.nodes, self._nodes, whole)
        if isinstance(moved.call, HostStep):
            return HostStep(*nodes)
        roots = _found(moved.roots, self._values, whole)
        pairs = zip(roots, moved.others_at(begins), strict=True)
        arguments = [_new(Argument, (root, *others)) for root, others in pairs]
        return of_values(moved.call, arguments, _found(moved.scalars, self._values, whole), nodes)


def _moved(
    call: Call | HostStep, node: Callable[[int], Reference], value: Callable[[int], Reference]
) -> _MovedCall:
    if isinstance(call, HostStep):
        return _MovedCall(call, [node(call.position)], (), (), (), ())
    arguments = arguments_of(call)
    return _MovedCall(
        call, [node(p) for p in call.nodes], [value(v) for v in call.scalars],
        [value(a.root) for a in arguments], [a[1:] for a in arguments], (),
    )  # fmt: skip


def _found(
    references: Sequence[Reference], those: Mapping[Spot, int], whole: Numbered
) -> tuple[int, ...]:
    found: list[int] = []
    for reference in references:
        if isinstance(reference, int):
            found.append(reference)
            continue
        place, layer = reference
        number = those.get((place, whole(layer)))
        if number is None:
            raise UnlikeError
        found.append(number)
    return tuple(found)
