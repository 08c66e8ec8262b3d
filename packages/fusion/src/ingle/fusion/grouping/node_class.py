"""Roles of nodes: how the scheduler treats each node of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from ..ir.graph import Graph
from ..ir.regions import ASSEMBLED, PRODUCTS, is_assembly
from ..ir.views import Views
from ..kernel.lowering import extends_rows, is_fold, reduction_of, scan_of, sort_of
from ..support.time_slices import tick
from .two_stage_reduction import is_columns

Role: TypeAlias = Literal[
    "map", "gather", "reduce", "columns", "copy", "contraction", "assembly", "inline", "view",
    "host",
]  # fmt: skip


def roles_of(graph: Graph, views: Views, can_lower: Callable[[int], bool]) -> list[Role]:
    """The role of each node.

    Args:
        graph: with composites expanded.
        views: of the graph's values.
        can_lower: whether the kernels know the operation at a position on its dtypes.
    """
    found = []
    for position in range(len(graph.nodes)):
        tick("finding roles", 2)
        found.append(_role(graph, views, position, can_lower))
    return found


def _role(graph: Graph, views: Views, position: int, can_lower: Callable[[int], bool]) -> Role:
    node = graph.nodes[position]
    traits = node.op.operation.traits
    avals = [graph.values[v].aval for v in (*node.args, *node.results)]
    results = len(node.results)
    needed = avals[-results:] if traits.access == "join" else avals
    if traits.dynamic_shape or any(0 in a.shape for a in needed):
        return "host"
    if views.is_view(node.results[0]):
        return "view"
    if is_columns(node):
        return "columns"
    if not can_lower(position):
        return "host"
    if traits.access in ASSEMBLED:
        return "assembly" if is_assembly(graph, position) else "host"
    if scan_of(node.op) is not None or sort_of(node.op) is not None:
        return "assembly"
    if is_fold(node.op) or extends_rows(node.op):
        return "assembly"
    if traits.family == "movement":
        return "copy" if node.op.operation.name == "reshape" else "host"
    if reduction_of(node.op) is not None:
        return "reduce"
    if traits.family in PRODUCTS:
        return "contraction"
    if traits.kind in ("creation", "random"):
        numbers = all(graph.values[a].kind in ("constant", "scalar") for a in node.args)
        return "inline" if numbers else "map"
    if traits.family == "gather":
        return "gather"
    return "map" if traits.kind == "elementwise" else "host"
