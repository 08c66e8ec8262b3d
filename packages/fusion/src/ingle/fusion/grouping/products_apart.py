"""Which operations behind a product stay out of its kernel.

A library computes products, adds a bias and rounds. All else that follows is a kernel of its own
anyway, which may as well be that of what comes next: the sum of a residual branch is computed where
a norm folds it, instead of being written and read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from ..ir.graph import Graph
from ..ir.views import Views
from ..passes.concat_of_pads import ADDITION
from .contraction_loops import window_loops
from .group import Group

StaysOut: TypeAlias = Callable[[Group, int], bool]
"""Whether a node, by its position, stays out of a product's group."""


def stays_out(graph: Graph, views: Views, device: object) -> StaysOut:
    """What a device's library leaves to other kernels.

    Args:
        graph: with composites expanded.
        views: of its values.
        device: its `products_apart(dtype, terms)` says whether there is a library for products of a
            dtype, of so many terms, that adds a row to each of a product's and does no more.
    """
    apart: Callable[[str, int], bool] | None = getattr(device, "products_apart", None)
    if apart is None:
        return lambda group, position: False

    def found(group: Group, position: int) -> bool:
        product = graph.nodes[group.nodes[0]]
        (value,) = product.results
        shape, dtype = graph.values[value].aval
        terms = graph.values[product.args[0]].aval.shape[-1:]
        if window_loops(product.op, shape) is not None or not apart(dtype.name, math.prod(terms)):
            return False
        return len(group.nodes) > 1 or not adds_row(graph, views, value, position)

    return found


def adds_row(graph: Graph, views: Views, value: int, position: int) -> bool:
    """Whether a node adds to each row of a value the same one, of its dtype."""
    node = graph.nodes[position]
    if node.op is not ADDITION:
        return False
    others = [a for a in node.args if views.of(a).root != value]
    if (
        len(others) != 1
        or graph.values[node.results[0]].aval.dtype != graph.values[value].aval.dtype
    ):
        return False
    shape, dtype = graph.values[others[0]].aval
    columns = graph.values[value].aval.shape[-1]
    return dtype == graph.values[value].aval.dtype and (
        shape[-1:] == (columns,) and math.prod(shape) == columns
    )
