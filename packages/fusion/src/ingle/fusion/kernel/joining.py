"""Nests of which a device may take several small launches as one."""

from __future__ import annotations

from .nest import Nest, Reduce, is_flat


def joins(nest: Nest) -> bool:
    """Whether launches of a nest may be joined: it is flat or adds up sums of blocks, and all that
    it touches is known."""
    gathers = any(i.name == "gather" for stage in nest.stages for i in stage.code)
    one = is_flat(nest) or _adds_up(nest)
    return one and not gathers and all(o.row_base is None for o in nest.operands)


def _adds_up(nest: Nest) -> bool:
    """Whether a nest adds up sums of blocks, each of its few columns for itself."""
    reductions = [c for s in nest.stages if isinstance(s, Reduce) for c, _ in s.reductions]
    return nest.lanes == "outer" and bool(reductions) and set(reductions) == {"totals"}
