"""Maps over rows with sums over these in CUDA C++: a thread goes down a block of rows.

It takes up to 16 bytes of each row, as where nothing is summed, and adds to sums of its own in
registers, row after row. So the gradient of a bias is summed where what it sums is computed. There
are as many threads as blocks of rows have vectors. Rows that begin elsewhere than at multiples of a
vector, and the last part of a row, are loaded and stored element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.nest import BLOCK, Map, Nest, in_blocks
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from . import helpers
from .dialect import Dialect
from .prepared import FIXED, UNIFORM, VARYING
from .row_vectors import RowVectorNest, fitting_vector, vectors_of_row
from .short_rows import COUNTED
from .text import Scope, literal
from .vectors import LoadedVector

_VECTOR, _THREADS = 8, 256
"""Columns that a thread has of half types, and threads that a multiprocessor wants at least."""
_MOST_SUMS = 2


def block_vector_elements(nest: Nest, numbers: Sequence[int]) -> int:
    """How many neighbours of each row a thread takes of a launch; 0 where rows are taken in another
    way. Arguments are those of `row_vector_elements`."""
    if not in_blocks(nest) or not all(isinstance(s, Map) for s in nest.stages):
        return 0
    return fitting_vector(nest, numbers)


def threads_of_blocks(numbers: Sequence[int], each: int) -> int:
    """How many threads take a launch's vectors."""
    rows, columns = numbers[:2]
    return -(-rows // BLOCK) * -(-columns // each)


def sums_beside_maps(rows: int, columns: int, processors: int) -> int:
    """How many sums over rows a kernel adds that goes by places: none where it would leave
    processors without threads, or rows are no vectors."""
    threads = rows // BLOCK * columns // _VECTOR
    return _MOST_SUMS if not columns % _VECTOR and threads >= processors * _THREADS else 0


def block_vectors(nest: Nest, name: str, dialect: Dialect, each: int, item: str) -> str:
    """The source of such a kernel; arguments are those of `row_vectors`."""
    validate(nest)
    return _BlockVectorNest(nest, name, dialect, each, item).render()


class _BlockVectorNest(RowVectorNest):
    """Writes a kernel whose threads take a vector of each row of a block."""

    def body(self) -> Scope:
        self._written(0, UNIFORM, self.head)
        each, inner, stage = self._each, self.inner_size(), self.stages[0]
        fixed, row, block, found = Scope(), Scope(), Scope(), Scope()
        self._written(0, FIXED, fixed)
        loads, element, stores = Scope(), Scope(), Scope()
        read = {i.value for i in stage.code if i.name == "load"}
        summed = [k for k, _ in stage.columns]
        for k in self._along:
            if k in summed:
                continue
            loads.add(self.declared_vector(k))
            words, parts = self._whole_and_parts(k, f"({self.row_pointer(k)} + first)")
            if k in read:
                whole = [f"part{k}.{mine} = {theirs};" for mine, theirs in words]
                parts_of = [f"if ({n} < last_of_row) part{k}.{a} = {b};" for n, a, b in parts]
                loads.block("if (whole)", whole)
                loads.block("else", parts_of)
            if self.nest.operands[k].output:
                whole = [f"{theirs} = part{k}.{mine};" for mine, theirs in words]
                parts_of = [f"if ({n} < last_of_row) {b} = part{k}.{a};" for n, a, b in parts]
                stores.block("if (whole)", whole)
                stores.block("else", parts_of)
        element.add("const int64_t i = first + n;")
        done = self.code.render(
            stage.code, LoadedVector(self, "i", "part{}.at[n]"), element, self.known[0],
            stage.places(VARYING),
        )  # fmt: skip
        for k, at in stage.stores:
            self.store(element, k, f"part{k}.at[n]", done[at])
        for k, at in stage.columns:
            element.add(f"part{k}.at[n] += {done[at]};")
        row.add(*self.unit.lines(), *fixed.lines(), *loads.lines(), "#pragma unroll")
        row.block(f"for (int n = 0; n < {each}; n++)", element)
        row.add(*stores.lines())
        clear, write = Scope(), Scope()
        for k in summed:
            dtype = self.nest.operands[k].dtype
            block.add(self.declared_vector(k))
            clear.add(f"part{k}.at[n] = {literal(neutral_bits('sum', dtype), dtype)};")
            words, parts = self._whole_and_parts(k, f"({self._sums(k)} + first)")
            write.block("if (whole)", [f"{theirs} = part{k}.{mine};" for mine, theirs in words])
            write.block("else", [f"if ({n} < last_of_row) {b} = part{k}.{a};" for n, a, b in parts])
        block.add("#pragma unroll")
        block.block(f"for (int n = 0; n < {each}; n++)", clear)
        last = f"{helpers.least(self.source)}((piece + 1) * {BLOCK}, {self.size(0)})"
        block.add(f"const int64_t last = {last};")
        block.block(f"for (int64_t unit = piece * {BLOCK}; unit < last; unit++)", row)
        block.add(*write.lines())
        row_of = vectors_of_row(inner, each)
        found.add(
            f"const int64_t first = {COUNTED}{self._item} % {row_of} * {each};",
            f"const int64_t last_of_row = {inner} - first;",
            f"const bool whole = {each} <= last_of_row && ({self.unaligned()}) == 0;",
        )
        found.block("for (int64_t piece = begin; piece < end; piece++)", block)
        return found

    def _whole_and_parts(
        self, k: int, start: str
    ) -> tuple[list[tuple[str, str]], list[tuple[int, str, str]]]:
        """A vector of an operand by words, and by elements: members, and places in memory."""
        word, words = self.words(k)
        const = "" if self.nest.operands[k].output else "const "
        whole = [(f"whole[{n}]", f"(({const}{word} *){start})[{n}]") for n in range(words)]
        return whole, [(n, f"at[{n}]", f"{start}[{n}]") for n in range(self._each)]
