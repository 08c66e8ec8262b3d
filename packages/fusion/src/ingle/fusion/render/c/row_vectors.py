"""Maps over rows whose work items load and store up to 16 bytes of a row at a time.

A work item takes neighbours along the inner axis: it loads them of every operand before it
computes, and finds its row once. Rows have to begin at multiples of a vector in each operand that
is read along them, which a launch's strides tell; whether memory does, the kernel asks. The last
vector of a row may be a part of one. Each element is computed as in a kernel without vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import Map, Nest, columns_of, is_flat, layout, runs
from ...kernel.validation import validate
from .dialect import Dialect
from .inner import InnerNest
from .prepared import VARYING
from .short_rows import COUNTED
from .text import Scope
from .vectors import BYTES, MOST_REGISTERS, LoadedVector

LEAST = 1 << 14
"""Elements from which on it pays to have a kernel for vectors."""
_MOST = 1 << 31
_FEWEST_BYTES = 4
"""Of a vector that pays."""
_WORDS = {16: "uint4", 8: "uint64_t", 4: "uint32_t", 2: "uint16_t", 1: "uint8_t"}


def row_vector_elements(nest: Nest, numbers: Sequence[int]) -> int:
    """How many neighbours a work item takes of a launch; 0 where it has no vectors.

    Args:
        nest: its kernel's.
        numbers: sizes, then strides, as `layout` says.
    """
    return 0 if columns_of(nest.stages[0]) else fitting_vector(nest, numbers)


def fitting_vector(nest: Nest, numbers: Sequence[int]) -> int:
    """The same, with sums over rows or without."""
    axes = nest.outer + 1
    if not _may_have_vectors(nest) or not LEAST <= math.prod(numbers[:axes]) < _MOST:
        return 0
    places = layout(nest)
    along = [k for k, operand in enumerate(nest.operands) if operand.lane == "unit"]
    apart = [numbers[places.stride(k, axis)] for k in along for axis in range(nest.outer)]
    sizes = [SIZES[nest.operands[k].dtype] for k in along]
    each = BYTES // min(sizes)
    while each * min(sizes) >= _FEWEST_BYTES:
        fits = sum(each * size for size in sizes) <= 4 * MOST_REGISTERS
        if fits and each <= numbers[places.inner] and not any(step % each for step in apart):
            return each if each > 1 else 0
        each //= 2
    return 0


def row_vector_items(numbers: Sequence[int], outer: int, each: int) -> int:
    """How many work items take a launch's vectors."""
    return math.prod(numbers[:outer]) * -(-numbers[outer] // each)


def row_vectors(nest: Nest, name: str, dialect: Dialect, each: int, item: str) -> str:
    """The source of such a kernel.

    Args:
        dialect: whose work items are numbered by the row of their vector.
        each: elements of a vector.
        item: the number of the vector that a work item takes.
    """
    validate(nest)
    return RowVectorNest(nest, name, dialect, each, item).render()


def vectors_of_row(inner: str, each: int) -> str:
    """How many vectors a row has."""
    return f"(({COUNTED}{inner} + {each - 1}) / {each})"


def row_of_vector(item: str, inner: str, each: int) -> str:
    """The number of the row of a work item's vector."""
    return f"({COUNTED}{item} / {vectors_of_row(inner, each)})"


def _may_have_vectors(nest: Nest) -> bool:
    stage = nest.stages[0]
    return (
        len(nest.stages) == 1 and isinstance(stage, Map)
        and not is_flat(nest) and nest.lanes == "inner" and nest.outer > 0
        and not (nest.scattered or nest.ragged or runs(nest))
        and not any(i.name == "gather" for i in stage.code)
        and all(o.row_base is None and (o.lane == "unit" or not o.output) for o in nest.operands)
        and any(o.output for o in nest.operands)
    )  # fmt: skip


class RowVectorNest(InnerNest):
    """Writes a kernel whose work items take a vector each."""

    counted = COUNTED

    def __init__(self, nest: Nest, name: str, dialect: Dialect, each: int, item: str) -> None:
        super().__init__(nest, name, dialect)
        self._each, self._item = each, item
        self._along = [k for k, o in enumerate(nest.operands) if o.lane == "unit"]

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        each, inner = self._each, self.inner_size()
        row = vectors_of_row(inner, each)
        body.add(f"const int64_t first = {COUNTED}{self._item} % {row} * {each};")
        whole, alone = f"first + {each} <= {inner} && ({self.unaligned()}) == 0", Scope()
        alone.block(f"for (int64_t i = first; i < min(first + {each}, {inner}); i++)", loop)
        body.block(f"if ({whole})", self._vector())
        body.block("else", alone)

    def unaligned(self) -> str:
        """What is 0 where all vectors are aligned in memory."""
        found = []
        for k in self._along:
            bytes_of = self._each * SIZES[self.nest.operands[k].dtype]
            found.append(f"((uint64_t){self.pointer(k)} & {min(bytes_of, BYTES) - 1})")
        return " | ".join(found)

    def words(self, k: int) -> tuple[str, int]:
        """The type of the words that a vector of an operand is loaded in, and how many it has."""
        bytes_of = SIZES[self.nest.operands[k].dtype] * self._each
        return _WORDS[min(bytes_of, BYTES)], max(1, bytes_of // BYTES)

    def declared_vector(self, k: int) -> str:
        """The declaration of a vector of an operand."""
        (word, words), kind = self.words(k), self.source.stored(self.nest.operands[k].dtype)
        return f"union {{ {word} whole[{words}]; {kind} at[{self._each}]; }} part{k};"

    def _vector(self) -> Scope:
        """All loads, then the code of each element, then the stores."""
        stage, found = self.stages[0], Scope()
        read = {i.value for i in stage.code if i.name == "load"}
        stores = Scope()
        for k in self._along:
            operand = self.nest.operands[k]
            word, words = self.words(k)
            found.add(self.declared_vector(k))
            start, memory = f"({self.row_pointer(k)} + first)", self.dialect.memory(k)
            for n in range(words):
                if k in read:
                    found.add(f"part{k}.whole[{n}] = (({memory}const {word} *){start})[{n}];")
                if operand.output:
                    stores.add(f"(({memory}{word} *){start})[{n}] = part{k}.whole[{n}];")
        element = Scope()
        element.add("const int64_t i = first + n;")
        done = self.code.render(
            stage.code, LoadedVector(self, "i", "part{}.at[n]"), element, self.known[0],
            stage.places(VARYING),
        )  # fmt: skip
        for k, at in stage.stores:
            self.store(element, k, f"part{k}.at[n]", done[at])
        found.add("#pragma unroll")
        found.block(f"for (int n = 0; n < {self._each}; n++)", element)
        found.add(*stores.lines())
        return found
