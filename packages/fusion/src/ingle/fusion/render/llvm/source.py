"""Nests as LLVM IR: text with explicit vectors that needs no pass pipeline."""

from __future__ import annotations

from ...kernel.nest import Dots, Nest, extends, folds, runs
from ...kernel.validation import validate
from .across import AcrossNest, goes_across
from .dots import DotsNest
from .extending import ExtendNest
from .folds import FoldNest
from .inner import InnerNest
from .outer import OuterNest
from .scans import ColumnScan, RowScan
from .short_rows import ShortNest
from .targets import Target
from .tiles import TiledNest, is_tiled


def render(nest: Nest, name: str, target: Target) -> str:
    """The module of one kernel, a function `name` with the kernels' signature.

    Args:
        nest: is validated; ValueError says what is wrong with it.
        name: of the function.
        target: what vectors there are; see `targets`.
    """
    validate(nest)
    if runs(nest):
        return (ColumnScan if nest.lanes == "outer" else RowScan)(nest, name, target).render()
    if isinstance(nest.stages[0], Dots):
        return DotsNest(nest, name, target).render()
    if folds(nest):
        return FoldNest(nest, name, target).render()
    if extends(nest):
        return ExtendNest(nest, name, target).render()
    if nest.lanes == "outer":
        return OuterNest(nest, name, target).render()
    if is_tiled(nest):
        return TiledNest(nest, name, target).render()
    if goes_across(nest, target):
        return AcrossNest(nest, name, target).render()
    return (ShortNest if nest.row_length else InnerNest)(nest, name, target).render()
