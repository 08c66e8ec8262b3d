"""Sums over rows in CUDA C++ beside what is computed row by row, by four warps for some rows.

A thread adds its columns' elements row after row, so that few threads have work: as many as there
are columns in a block of `BLOCK` rows. Here the warps of a group take four rows at a time. First
each of them finds the sums of one row, in the order of all kernels, as it would alone. They meet,
and each then takes a quarter of the columns of all four rows: it computes what is stored, and adds
what is summed over rows in their order. The second time a row is read it is near.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import BLOCK, Map, Nest, columns_of, in_blocks
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from . import helpers
from .dialect import GroupDialect
from .held import HeldNest
from .held_lengths import SPAN, STEP, WARP, WHOLE, Holding, may_hold
from .pairs import WORDS
from .prepared import UNIFORM, Prepared
from .text import Scope, literal

_WARPS = 4
"""Of a group, and rows that it takes at a time."""
GROUP = _WARPS * WARP
_MOST_REGISTERS = 64
"""For sums over rows."""


def shares_pieces(nest: Nest, sizes: Sequence[int]) -> bool:
    """Whether four warps take a block of rows of a launch of these sizes."""
    length = sizes[-1]
    if not in_blocks(nest) or not may_hold(nest) or not 0 < length <= WHOLE or length % STEP:
        return False
    first = _first_map(nest)
    if not all(isinstance(stage, Map) for stage in nest.stages[first:]):
        return False
    columns = sum(len(columns_of(s)) for s in nest.stages)
    return 0 < columns * 2 * (length // STEP) <= _MOST_REGISTERS


def shared_pieces(nest: Nest, name: str, dialect: GroupDialect, length: int) -> str:
    """The source of a kernel for rows of a length."""
    validate(nest)
    return _PieceNest(nest, name, dialect, Holding(length, length)).render()


def _first_map(nest: Nest) -> int:
    maps = [n for n, stage in enumerate(nest.stages) if isinstance(stage, Map)]
    return maps[0] if maps else len(nest.stages)


class _PieceNest(HeldNest):
    """Writes a kernel whose groups take a block of rows, four at a time."""

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect, holding: Holding) -> None:
        super().__init__(nest, name, dialect, holding)
        self._held, self._kept = [], [{} for _ in self.stages]
        self._streams, self._takes_next, self._sums_in_registers = False, False, True
        self._holding, self._aligned = True, True
        self._all, self._first = self.stages, _first_map(nest)
        self._found: dict[str, str] = {}
        self._row_pairs, self._own_pairs = self._pairs, self._pairs // _WARPS

    def body(self) -> Scope:
        for number in range(len(self.stages)):
            self._written(number, UNIFORM, self.head)
        aligned = self._all_pieces()
        self._aligned = False
        apart = self._all_pieces()
        found = Scope()
        found.add(
            f"const int warp = threadIdx.x / {WARP}, part = threadIdx.x % {WARP};",
            "const bool alone = true, first = part == 0;",
            f"const int64_t own = warp * {self._own_pairs * SPAN} + 2 * part;",
        )
        found.block(f"if ({self._condition()})", aligned)
        found.block("else", apart)
        return found

    def _all_pieces(self) -> Scope:
        """The loop over blocks of rows."""
        least = helpers.least(self.source)
        alone, own = self._row_sums(), self._own_columns()
        row, part, four, piece, found = Scope(), Scope(), Scope(), Scope(), Scope()
        row.add("const int64_t unit = four + warp, from = 2 * part;")
        row.add(*self.unit.lines(), *alone.lines())
        part.add("const int64_t from = own;", *self.unit.lines())
        for name, kind in self._found.items():
            self.head.declare(f"of_{name}", f"{self.dialect.local} {kind} of_{name}[{_WARPS}];")
            row.block("if (first)", [f"of_{name}[warp] = {name};"])
            part.add(f"const {kind} {name} = of_{name}[unit - four];")
        part.add(*own.lines())
        four.block("if (four + warp < last)", row)
        four.add(self.dialect.barrier, f"const int64_t stop = {least}(four + {_WARPS}, last);")
        four.block("for (int64_t unit = four; unit < stop; unit++)", part)
        four.add(self.dialect.barrier)
        clear, write = Scope(), Scope()
        for k in self._sums_of:
            nothing = literal(neutral_bits("sum", "float32"), "float32")
            piece.add(f"{self.union(k)} sums{k}[{self._own_pairs}];")
            clear.add(f"sums{k}[q].at[0] = sums{k}[q].at[1] = {nothing};")
            write.add(*self._stored(k, f"({self._sums(k)} + own + q * {SPAN})", f"sums{k}[q]"))
        self.in_chunks(piece, self._own_pairs, clear)
        piece.add(f"const int64_t last = {least}((piece + 1) * {BLOCK}, {self.size(0)});")
        piece.block(f"for (int64_t four = piece * {BLOCK}; four < last; four += {_WARPS})", four)
        self.in_chunks(piece, self._own_pairs, write)
        found.block("for (int64_t piece = begin; piece < end; piece++)", piece)
        return found

    def _row_sums(self) -> Scope:
        """What a warp finds of a whole row."""
        self._pairs = self._row_pairs
        own = [s._replace(stores=self._stores(s, False), columns=()) for s in self._early()]
        return self._written_stages(own)

    def _own_columns(self) -> Scope:
        """What is stored or summed over rows, of a quarter of a row's columns."""
        self._pairs = self._own_pairs
        again = [s._replace(stores=self._stores(s, True), ends=()) for s in self._early()]
        return self._written_stages([*again, *self._all[self._first :]])

    def _early(self) -> list[Prepared]:
        """The stages that fold rows, or follow from that alone."""
        return self._all[: self._first]

    def _stores(self, stage: Prepared, places: bool) -> tuple[tuple[int, int], ...]:
        """What a stage stores: of each place of a row, or of rows as a whole."""
        lanes = self.nest.operands
        return tuple([(k, at) for k, at in stage.stores if (lanes[k].lane == "unit") == places])

    def _written_stages(self, stages: list[Prepared]) -> Scope:
        self.stages, found = stages, Scope()
        self.known = list(self._known_uniform)
        for number, stage in enumerate(stages):
            if stage.stores or stage.columns or stage.ends:
                self._held_stage(number, found)
        self.stages = self._all
        return found

    def ahead_pairs(self, number: int) -> int:
        return self._pairs if self._pairs == self._own_pairs else super().ahead_pairs(number)

    def _outside(self, rows: Scope, kind: str, name: str) -> None:
        super()._outside(rows, kind, name)
        self._found[name] = kind

    # -- pairs that may begin anywhere -------------------------------------------------------

    def load_pair(self, into: str, k: int, place: str) -> str:
        if self._aligned:
            return super().load_pair(into, k, place)
        row = self.row_pointer(k)
        return f"{into}.at[0] = {row}[{place}], {into}.at[1] = {row}[{place} + 1];"

    def store_pair(self, k: int, place: str, pair: str) -> str:
        return " ".join(self._stored(k, f"({self.row_pointer(k)} + {place})", pair))

    def _stored(self, k: int, place: str, pair: str) -> list[str]:
        """A pair stored at a pointer."""
        if self._aligned:
            return [f"*({WORDS[SIZES[self.nest.operands[k].dtype]]} *){place} = {pair}.whole;"]
        return [f"{place}[{n}] = {pair}.at[{n}];" for n in range(2)]
