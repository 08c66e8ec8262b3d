"""Nests of which a device may take several small launches as one."""

from __future__ import annotations

from .nest import Nest, Reduce, is_flat


def joins(nest: Nest) -> bool:
    """Whether launches of a nest may be joined: all that it writes is known."""
    gathers = any(i.name == "gather" for stage in nest.stages for i in stage.code)
    return not nest.scattered and not gathers


def is_for_many(nest: Nest) -> bool:
    """Whether a nest is of the kind of which plans have many launches that may come last: it is
    flat or adds up sums of blocks."""
    known = all(operand.row_base is None for operand in nest.operands)
    return known and joins(nest) and (is_flat(nest) or _adds_up(nest))


def _adds_up(nest: Nest) -> bool:
    """Whether a nest adds up sums of blocks, each of its few columns for itself."""
    reductions = [c for s in nest.stages if isinstance(s, Reduce) for c, _ in s.reductions]
    return nest.lanes == "outer" and bool(reductions) and set(reductions) == {"totals"}
