"""Pairs of neighbours of a row, as a thread of a block of threads holds, loads and stores them."""

from __future__ import annotations

from ...kernel.code import SIZES
from ...kernel.nest import Nest
from .dialect import GroupDialect
from .groups import GroupNest
from .held_lengths import CHUNK, SPAN, Holding
from .text import Scope

WORDS = {1: "uint16_t", 2: "uint32_t", 4: "uint64_t", 8: "uint4"}
"""The type of both elements of a pair, by the bytes of one."""


class PairNest(GroupNest):
    """Writes loops over a thread's pairs of a row, `p` the first one of a chunk, `q` one in it."""

    dialect: GroupDialect

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect, holding: Holding) -> None:
        super().__init__(nest, name, dialect)
        self._capacity, self._length = holding.capacity, holding.length
        self._pairs = holding.capacity // SPAN

    def registers_of(self, operands: list[int]) -> int:
        """For a thread's part of a row of some operands."""
        sizes = [SIZES[self.nest.operands[k].dtype] for k in operands]
        return sum(2 * self._pairs * size // 4 for size in sizes)

    def chunks(self, scope: Scope, body: Scope, pairs: int = CHUNK) -> None:
        """Something for each chunk, or several of them, of pairs of a thread that the row has."""
        one = Scope()
        self.where_there(one, "p", body)
        scope.add("#pragma unroll")
        scope.block(f"for (int p = 0; p < {self._pairs}; p += {pairs})", one)

    def where_there(self, scope: Scope, pair: str, body: Scope) -> None:
        """Something for a pair, or a chunk that begins with it, if the row has it."""
        if self._length:
            scope.add(*body.lines())
        else:
            scope.block(f"if (from + {pair} * {SPAN} < {self.inner_size()})", body)

    def in_chunks(self, scope: Scope, pairs: int, body: Scope) -> None:
        """Something for each of some pairs, `q`, whose chunk the row has."""
        if pairs == CHUNK or self._length:
            scope.add("#pragma unroll")
            scope.block(f"for (int q = 0; q < {pairs}; q++)", body)
            return
        chunk, one = Scope(), Scope()
        one.add("#pragma unroll")
        one.block(f"for (int q = chunk; q < chunk + {CHUNK}; q++)", body)
        self.where_there(chunk, "(p + chunk)", one)
        scope.add("#pragma unroll")
        scope.block(f"for (int chunk = 0; chunk < {pairs}; chunk += {CHUNK})", chunk)

    def union(self, k: int) -> str:
        dtype = self.nest.operands[k].dtype
        return f"union {{ {WORDS[SIZES[dtype]]} whole; {self.source.stored(dtype)} at[2]; }}"

    def pair(self, k: int, place: str) -> str:
        """The pair of neighbours of an operand at an even place of the row."""
        operand = self.nest.operands[k]
        const = "" if operand.output else "const "
        kind = WORDS[SIZES[operand.dtype]]
        return f"*({const}{kind} *)({self.row_pointer(k)} + {place})"

    def load_pair(self, into: str, k: int, place: str) -> str:
        """Has the pair at an even place of the row in a union."""
        return f"{into}.whole = {self.pair(k, place)};"

    def store_pair(self, k: int, place: str, pair: str) -> str:
        """The reverse."""
        return f"{self.pair(k, place)} = {pair}.whole;"

    def aligned_pairs(self) -> list[str]:
        """Conditions of pairs that begin at multiples of their size."""
        units = [k for k, o in enumerate(self.nest.operands) if o.lane == "unit"]
        strides = [self.stride(k, a) for k in units for a in range(self.nest.outer)]
        found = [f"(({' | '.join(strides)}) & 1) == 0"] if strides else []
        for size in sorted({SIZES[self.nest.operands[k].dtype] for k in units}):
            those = [k for k in units if SIZES[self.nest.operands[k].dtype] == size]
            addresses = " | ".join([f"(uint64_t){self.pointer(k)}" for k in those])
            found.append(f"(({addresses}) & {2 * size - 1}) == 0")
        return found

    def guard(self) -> list[str]:
        """What keeps an element of a pair, `i`, within the row, where it may be outside of it."""
        return []
