"""Maps that read or write an operand across its rows: tiles in the memory of a group.

Neighbours along the inner axis lie far apart in such an operand, and neighbours along one of the
outer axes side by side. A group of work items takes a square of both axes: it loads the operand's
part of it as it lies, and computes with it the other way round. What is written so is put together
in a tile, too. Each element is computed as in a kernel without tiles, so no bit changes; whether
there are tiles follows from the strides of a launch, which are no part of the nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ...kernel.code import SIZES
from ...kernel.nest import Map, Nest, is_flat
from ...kernel.validation import validate
from ..leaves import Environment
from .dialect import GroupDialect
from .inner import InnerNest, RowPlace
from .prepared import FIXED, UNIFORM, VARYING
from .rows import place, product
from .text import Scope

LEAST = 16
"""Elements that both axes of a tile have to have for it to pay."""
_FAR = 8
"""Elements from which on neighbours lie far apart."""
_MOST_BYTES = 1 << 14
"""Of the tiles of a kernel: half of what each device gives a group."""


class Tiling(NamedTuple):
    """How a map's places are cut into tiles.

    Attributes:
        axis: the outer axis that tiles have besides the inner one.
        operands: those that lie across, by number.
        side: elements along each axis of a tile.
    """

    axis: int
    operands: tuple[int, ...]
    side: int


def tiling_of(nest: Nest, numbers: Sequence[int]) -> Tiling | None:
    """How a launch is cut into tiles; None where nothing lies across, or tiles do not pay.

    Args:
        nest: its kernel's.
        numbers: sizes, then strides, as `layout` says.
    """
    axes = nest.outer + 1
    sizes = numbers[:axes]
    if not _may_tile(nest) or sizes[-1] < LEAST:
        return None
    strides = [numbers[n : n + axes] for n in range(axes, axes * (1 + len(nest.operands)), axes)]
    best: Tiling | None = None
    for axis in range(nest.outer):
        if sizes[axis] < LEAST:
            continue
        across = [
            k for k, (operand, steps) in enumerate(zip(nest.operands, strides, strict=True))
            if operand.lane == "strided" and steps[axis] == 1 and abs(steps[-1]) >= _FAR
        ]  # fmt: skip
        if not across:
            continue
        side = 64 if all(SIZES[nest.operands[k].dtype] <= 2 for k in across) else 32
        bytes_of = [side * _line(side, nest.operands[k].dtype) for k in across]
        while sum(bytes_of) > _MOST_BYTES:
            del across[-1], bytes_of[-1]
        if best is None or len(across) > len(best.operands):
            best = Tiling(axis, tuple(across), side)
    return best


def tiles_of(nest: Nest, sizes: Sequence[int], tiling: Tiling) -> int:
    """How many tiles a launch has: its units of work, a group for each."""
    count = 1
    for axis, size in enumerate(sizes):
        count *= -(-size // tiling.side) if axis in (tiling.axis, nest.outer) else size
    return count


def tiled(
    nest: Nest, name: str, numbers: Sequence[int], dialect: GroupDialect, members: int
) -> tuple[str, int] | None:
    """The source of a kernel whose groups of so many work items take a tile each, and how many
    tiles a launch has; None where operands do not lie across its rows.

    Args:
        numbers: sizes, then strides, as `layout` says.
    """
    tiling = tiling_of(nest, numbers)
    if tiling is None:
        return None
    source = _source(nest, name, tiling, dialect, members)  # type: ignore[arg-type]  # by identity
    return source, tiles_of(nest, numbers[: nest.outer + 1], tiling)


@lru_cache(maxsize=1024)
def _source(nest: Nest, name: str, tiling: Tiling, dialect: GroupDialect, members: int) -> str:
    validate(nest)
    return TileNest(nest, name, tiling, dialect, members).render()


def _may_tile(nest: Nest) -> bool:
    stage = nest.stages[0]
    return (
        len(nest.stages) == 1 and isinstance(stage, Map) and not stage.columns
        and not is_flat(nest) and nest.lanes == "inner" and not (nest.scattered or nest.ragged)
        and not any(i.name == "gather" for i in stage.code)
        and all(operand.row_base is None for operand in nest.operands)
    )  # fmt: skip


def _line(side: int, dtype: str) -> int:
    """The bytes of a tile's row, so long that columns do not meet in one bank of memory."""
    return side * SIZES[dtype] + max(4, SIZES[dtype])


class _InTile(RowPlace):
    """The environment of code whose operands partly lie in tiles."""

    owner: TileNest

    def load(self, operand: int, dtype: str) -> str:
        if operand in self.owner.tiling.operands:
            return self.owner.loaded(operand, self.owner.in_tile(operand))
        return super().load(operand, dtype)


class TileNest(InnerNest):
    """Writes such a kernel. Its unit of work is a tile.

    Args:
        nest, name, dialect: see `NestRenderer`.
        tiling: of the launch.
        members: work items of a group.
    """

    dialect: GroupDialect

    def __init__(
        self, nest: Nest, name: str, tiling: Tiling, dialect: GroupDialect, members: int
    ) -> None:
        super().__init__(nest, name, dialect)
        self.tiling = tiling
        self._members = members

    def split(self, unit: str, axis: int, last: int) -> str:
        return f"at{axis}"

    def place_at(self, index: str) -> Environment:
        return _InTile(self, index)

    def in_tile(self, k: int) -> str:
        """The element of an operand's tile for a place."""
        return f"tile{k}[column * {self._row(k)} + row]"

    def body(self) -> Scope:
        stage, found = self.stages[0], Scope()
        self._written(0, UNIFORM, self.head)
        stores = [k for k, _ in stage.stores if k in self.tiling.operands]
        loads = [k for k in self.tiling.operands if not self.nest.operands[k].output]
        for k in self.tiling.operands:
            kind = self.source.stored(self.nest.operands[k].dtype)
            self.head.add(
                f"{self.dialect.local} {kind} tile{k}[{self.tiling.side * self._row(k)}];"
            )
        self._place(found)
        moves = Scope()
        for k in loads:
            moves.add(f"{self.in_tile(k)} = {self._across(k)};")
        if loads:
            found.block(self._over(), self._inside("row", moves))
            found.add(self.dialect.local_barrier)
        found.block(self._over(), self._inside("column", self._element()))
        if stores:
            found.add(self.dialect.local_barrier)
            back = Scope()
            for k in stores:
                back.add(f"{self._across(k)} = {self.in_tile(k)};")
            found.block(self._over(), self._inside("row", back))
        body = Scope()
        body.block("if (begin < end)", found)
        return body

    def _row(self, k: int) -> int:
        """Elements from a tile's row to the next."""
        dtype = self.nest.operands[k].dtype
        return _line(self.tiling.side, dtype) // SIZES[dtype]

    def _place(self, scope: Scope) -> None:
        """Where the tile lies."""
        side, axis = self.tiling.side, self.tiling.axis
        scope.add("int64_t rest = begin;")
        for name, size in (("column", self.inner_size()), ("row", self.size(axis))):
            scope.add(
                f"const int64_t {name}s = ({size} + {side - 1}) / {side};",
                f"const int64_t first_{name} = rest % {name}s * {side};",
                f"rest /= {name}s;",
            )
        for other in reversed([a for a in range(self.nest.outer) if a != axis]):
            scope.add(f"const int64_t at{other} = rest % {self.size(other)};")
            scope.add(f"rest /= {self.size(other)};")

    def _over(self) -> str:
        places = self.tiling.side * self.tiling.side
        return f"for (int n = {self.dialect.lane}; n < {places}; n += {self._members})"

    def _inside(self, fast: str, body: Scope) -> Scope:
        """What is done at each place of a tile that there is, where neighbours are so along an
        axis."""
        side, axis, found = self.tiling.side, self.tiling.axis, Scope()
        slow = "row" if fast == "column" else "column"
        found.add(
            f"const int {fast} = n % {side}, {slow} = n / {side};",
            f"const int64_t at{axis} = first_row + row, i = first_column + column;",
        )
        found.block(f"if (at{axis} < {self.size(axis)} && i < {self.inner_size()})", body)
        return found

    def _across(self, k: int) -> str:
        """The element in memory of an operand that lies across."""
        axis = self.tiling.axis
        terms = [
            f"at{a}" if a == axis else product(f"at{a}", self.stride(k, a))
            for a in range(self.nest.outer)
        ]
        return place(self.pointer(k), *terms, product("i", self.stride(k, -1)))

    def _element(self) -> Scope:
        stage, element = self.stages[0], Scope()
        places = [p for p, own in enumerate(stage.levels) if own in (FIXED, VARYING)]
        done = self.code.render(stage.code, self.place_at("i"), element, self.known[0], places)
        for k, at in stage.stores:
            where = self.in_tile(k) if k in self.tiling.operands else self.element(k, "i")
            self.store(element, k, where, done[at])
        found = Scope()
        found.add(*self.unit.lines(), *element.lines())
        return found
