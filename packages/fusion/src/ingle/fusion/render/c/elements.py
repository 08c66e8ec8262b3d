"""How kernels that are written by hand read and write elements, in any language of the family."""

from __future__ import annotations

from typing import NamedTuple

from ...kernel.nest import Nest, accumulator_dtype
from .code import CodeRenderer
from .dialect import Dialect
from .source import renderer
from .text import Source, value_type


class Widened(NamedTuple):
    """How a kernel written by hand reads floats as what sums are computed in.

    Attributes:
        helpers: what stands in front of it.
        kind, stored: the types of a value and of an element in memory.
        shown: the value of an element `x`.
    """

    helpers: str
    kind: str
    stored: str
    shown: str


def widened(dialect: Dialect, dtype: str) -> Widened:
    """How floats of a dtype are read."""
    return _widened(Source(dialect), dtype)


def rounded(dialect: Dialect, dtype: str) -> tuple[Widened, str]:
    """How floats of a dtype are read, and the element for a value `x`."""
    source = Source(dialect)
    back = _cast(source, dtype, accumulator_dtype(dtype))
    return _widened(source, dtype), back


def widened_beside(nest: Nest, name: str, dialect: Dialect, dtype: str) -> Widened:
    """How floats of a dtype are read by a kernel that calls a nest's function, which stands among
    the helpers."""
    function = renderer(nest, name, dialect)
    read = _widened(function.source, dtype)
    return read._replace(helpers=function.render())


def _widened(source: Source, dtype: str) -> Widened:
    stored, wide = source.stored(dtype), accumulator_dtype(dtype)
    shown = _cast(source, wide, dtype)
    return Widened(source.text(""), value_type(wide), stored, shown)


def _cast(source: Source, dtype: str, origin: str) -> str:
    return "x" if dtype == origin else CodeRenderer(source).cast(dtype, origin, "x")
