"""Lines of operands in a lane's registers: where they are, and how they are loaded; see
`line_rows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...kernel.code import SIZES
from ...kernel.nest import Nest
from .dialect import LateDialect
from .inner import InnerNest, RowPlace
from .line_lengths import Lines
from .text import Scope
from .vectors import BYTES

_WORDS = {16: "uint4", 8: "uint64_t", 4: "uint32_t", 2: "uint16_t"}
"""The type of a load, by its bytes."""


@dataclass
class LinePlace(RowPlace):
    """The environment of code whose operands of each place are in registers."""

    def load(self, operand: int, dtype: str) -> str:
        if self.owner.nest.operands[operand].lane != "unit":
            return super().load(operand, dtype)
        assert isinstance(self.owner, LineBuffers)
        return self.owner.loaded(operand, self.owner.in_register(operand))


class LineBuffers(InnerNest):
    """What a kernel knows of the lines that its lanes hold."""

    def __init__(self, nest: Nest, name: str, dialect: LateDialect, lines: Lines) -> None:
        super().__init__(nest, name, dialect)
        self._lines = lines
        self._buffer: int | None = None

    def _buffers(self, k: int) -> str:
        """Where lines of an operand are on their way to, those of these steps and of the next."""
        return f"{self._union(k)} line{k}[2][{self._lines.steps * self._vectors(k)}];"

    def _vectors(self, k: int) -> int:
        """How many rows of an operand a lane takes at once."""
        return self._lines.vectors if k in self._lines.shared else 1

    def _of_each(self, k: int, scope: Scope, lines: Sequence[str]) -> None:
        """Something for each row of an operand that a lane takes at once."""
        if self._vectors(k) == 1:
            scope.add(*lines)
        else:
            unrolled(scope, "v", self._vectors(k), lines)

    def _line(self, k: int, buffer: int | None) -> str:
        """A line in registers: in a buffer that of a step `q`, of several vectors that of `v`."""
        many = self._vectors(k)
        if buffer is None:
            return f"line{k}[{'0' if many == 1 else 'v'}]"
        return f"line{k}[{buffer}][{'q' if many == 1 else f'q * {many} + v'}]"

    def _start_of(self, k: int) -> str:
        """Where the row of an operand begins that belongs to the line, or to a vector `v`."""
        if self._vectors(k) == 1:
            return self.row_pointer(k)
        return f"({self.pointer(k)} + v * {self.stride(k, self._lines.along)})"

    def _words(self, k: int, into: str, place: str) -> list[str]:
        """Loads a lane's elements of a step in words of up to 16 bytes."""
        nbytes = self._lines.each * SIZES[self.nest.operands[k].dtype]
        word, count = _WORDS[min(nbytes, BYTES)], max(1, nbytes // BYTES)
        start = f"((const {word} *)({self._start_of(k)} + {place}))"
        places = [f"{start}[{n}]" for n in range(count)]
        if k not in self._lines.shared:
            places = [f"INGLE_READ_ONCE({place})" for place in places]
        return [f"{into}.whole[{n}] = {place};" for n, place in enumerate(places)]

    def _union(self, k: int) -> str:
        dtype, lanes = self.nest.operands[k].dtype, self._lines.each
        nbytes = lanes * SIZES[dtype]
        word, count = _WORDS[min(nbytes, BYTES)], max(1, nbytes // BYTES)
        words = f"uint32_t words[{nbytes // 4}]; " if nbytes >= 4 else ""
        return f"union {{ {word} whole[{count}]; {words}{self.source.stored(dtype)} at[{lanes}]; }}"

    def in_register(self, k: int) -> str:
        """An element of a line; of halves from the word of both, which takes one instruction with
        the conversion behind it."""
        line = self._line(k, self._buffer)
        if SIZES[self.nest.operands[k].dtype] != 2:
            return f"{line}.at[n]"
        return f"(uint16_t)({line}.words[n / 2] >> n % 2 * 16)"


def unrolled(scope: Scope, name: str, count: int, body: Scope | Sequence[str]) -> None:
    """Something for each of a few, without a branch."""
    scope.add("#pragma unroll")
    scope.block(f"for (int {name} = 0; {name} < {count}; {name}++)", body)
