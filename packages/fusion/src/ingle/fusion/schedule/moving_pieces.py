"""Pieces that begin further on in each layer, as what each turn of a loop takes of a sequence.

A kernel knows of such an operand where it begins. Where it does in other layers is asked of the
node whose piece it is: the same one of the other layer takes the other piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.graph import Node
from ..ir.short_graph import ShortGraph, UnlikeError
from ..ir.views import Views
from .moved_groups import Begins, LoweredGroup, Piece
from .schedule import HostStep, arguments_of


class MovingPieces:
    """The pieces of a short graph's layers and of those of the whole one.

    Args:
        short: the short graph.
        views, whole: of its values, and of those of the whole graph.
    """

    def __init__(self, short: ShortGraph, views: Views, whole: Views) -> None:
        self._short = short
        self._nodes = dict(zip(short.nodes, short.graph.nodes, strict=True))
        """Those of the short graph, which may read over what was left out."""
        self._views, self._whole = views, whole

    def in_whole(self, layer: int) -> Begins:
        """Where pieces begin in a layer of the whole graph."""
        return lambda piece: self._begin(self._short.whole.nodes, self._whole, layer, piece)

    def beside(self, by: int) -> Begins:
        """Where they begin in the short graph, so far from the layer that is written again."""
        layer = self._short.number_in_whole(self._short.steady + by)
        return lambda piece: self._begin(self._nodes, self._views, layer, piece)

    def _begin(
        self, nodes: Sequence[Node] | Mapping[int, Node], views: Views, layer: int, piece: Piece
    ) -> int:
        place, number = piece
        position = self._short.layers.nodes.get((place, layer))
        if position is None:
            raise UnlikeError
        return views.of(nodes[position].args[number]).offset

    def of(self, groups: Mapping[int, LoweredGroup]) -> dict[tuple[int, int], Piece]:
        """Whose pieces operands are, by the numbers of the call and of the operand.

        Args:
            groups: of the layer that is written again, and those that are like it in the layers
                beside, by how far these are from it.

        Raises:
            UnlikeError: an operand begins elsewhere, and it cannot be told why.
        """
        found: dict[tuple[int, int], Piece] = {}
        for number, calls in enumerate(zip(*[g.calls for g in groups.values()], strict=False)):
            if any(isinstance(call, HostStep) for call in calls):
                continue
            begins = [[a.offset for a in arguments_of(call)] for call in calls]
            if all(own == begins[0] for own in begins):
                continue
            for operand, offsets in enumerate(zip(*begins, strict=False)):
                if len({*offsets}) > 1:
                    positions = groups[0].calls[number].nodes  # type: ignore[union-attr]
                    piece = self._piece(positions, dict(zip(groups, offsets, strict=True)))
                    found[number, operand] = piece
        return found

    def _piece(self, positions: Sequence[int], offsets: Mapping[int, int]) -> Piece:
        """The operand of one of some nodes that begins where an operand of their kernel does."""
        begins = {by: self.beside(by) for by in offsets}
        for position in positions:
            spot = self._short.layers.node_spots.get(position)
            if spot is None:
                continue
            for number in range(len(self._nodes[position].args)):
                piece = spot[0], number
                if all(begins[by](piece) == offset for by, offset in offsets.items()):
                    return piece
        raise UnlikeError

    def check_over(self, groups: Sequence[LoweredGroup]) -> None:
        """Groups at the ends take no pieces over what was left out, as there are others between.

        Raises:
            UnlikeError: they do.
        """
        calls = [call for g in groups for call in g.calls if not isinstance(call, HostStep)]
        for position in {p for call in calls for p in call.nodes}:
            now, before = self._nodes[position].args, self._short.whole.nodes[position].args
            for a, b in zip(now, before, strict=True):
                if self._views.of(a).offset != self._whole.of(b).offset:
                    raise UnlikeError
