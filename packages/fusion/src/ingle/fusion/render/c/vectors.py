"""Flat maps whose work items load and store 16 bytes at a time.

A work item takes some vectors, a group's width apart, so that neighbours read neighbours: it loads
all of them before it computes, which keeps enough reads in flight, and an output in an input's
memory is written after that was read. Where an address is not aligned, and at the end, elements go
one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel.code import COMPOSITE, HALVES, SIZES
from ...kernel.nest import Map, Nest, is_copy, is_flat
from .dialect import VectorDialect
from .inner import InnerNest, RowPlace
from .prepared import VARYING
from .text import Scope

BYTES = 16
"""Of a load or store."""
_IN_FLIGHT, _IN_LONG_FLIGHT = 2, 4
"""Vectors of the smallest operand that a work item loads before it computes; the latter of half
types with functions, which compute for as long as memory takes to answer."""
MOST_REGISTERS = 64
"""For what is loaded and stored: more would leave room for few work items."""


def vector_elements(nest: Nest) -> int:
    """How many elements make a vector of a work item; 0 for a nest whose elements go one by one."""
    if not is_flat(nest) or is_copy(nest) or len(nest.stages) > 1:
        return 0
    stage = nest.stages[0]
    if not isinstance(stage, Map) or any(i.name == "gather" for i in stage.code):
        return 0
    if any(o.lane == "strided" or (o.output and o.lane != "unit") for o in nest.operands):
        return 0
    sizes = [SIZES[o.dtype] for o in nest.operands if o.lane == "unit"]
    return BYTES // min(sizes) if sizes else 0


def vectors_in_flight(nest: Nest) -> int:
    """How many vectors a work item takes."""
    each = vector_elements(nest)
    units = [o.dtype for o in nest.operands if o.lane == "unit"]
    registers = sum(each * SIZES[dtype] // 4 for dtype in units)
    computes = any(i.name in COMPOSITE for i in nest.stages[0].code)
    count = _IN_LONG_FLIGHT if computes and HALVES.issuperset(units) else _IN_FLIGHT
    return next((n for n in (count, _IN_FLIGHT) if registers * n <= MOST_REGISTERS), 1)


def vector_items(nest: Nest, count: int) -> int:
    """How many work items take the vectors of so many elements."""
    return -(-count // (vector_elements(nest) * vectors_in_flight(nest)))


@dataclass
class LoadedVector(RowPlace):
    """The environment of code whose operands were loaded.

    Attributes:
        part: where an element of the operand in braces is.
    """

    part: str = ""

    def load(self, operand: int, dtype: str) -> str:
        if self.owner.nest.operands[operand].lane != "unit":
            return super().load(operand, dtype)
        return self.owner.loaded(operand, self.part.format(operand))


class VectorNest(InnerNest):
    """Writes a flat map whose work items take vectors."""

    dialect: VectorDialect

    def __init__(self, nest: Nest, name: str, dialect: VectorDialect) -> None:
        super().__init__(nest, name, dialect)
        self._each, self._many = vector_elements(nest), vectors_in_flight(nest)
        self._units = [k for k, o in enumerate(nest.operands) if o.lane == "unit"]

    def body(self) -> Scope:
        one_by_one = super().body()
        each, many = self._each, self._many
        addresses = " | ".join([f"(uint64_t){self.pointer(k)}" for k in self._units])
        lane, group = self.dialect.lane, self.dialect.group
        self.head.add(
            f"const int64_t apart = (int64_t){self.dialect.width} * {each};",
            f"const int64_t first = {many} * apart * {group} + {lane} * {each};",
            f"const bool whole = first + {many - 1} * apart + {each} <= end",
            f"    && (({addresses}) & {BYTES - 1}) == 0;",
        )
        found = Scope()
        found.block("if (whole)", self._vectors())
        found.block("else", one_by_one)
        return found

    def _written(self, number: int, level: int, scope: Scope) -> None:
        # No output has the memory of what is the same everywhere: it is read before the stores.
        super()._written(number, level, self.head)

    def map_loop(self, start: str, stop: str, body: Scope, loop: Scope) -> None:
        part = Scope()
        part.add("const int64_t from = first + u * apart;")
        part.block(f"for (int64_t i = from; i < min(from + {self._each}, end); i++)", loop)
        body.block(f"for (int u = 0; u < {self._many}; u++)", part)

    def _vectors(self) -> Scope:
        """All loads, then the code of each element, then the stores of each vector."""
        stage, found = self.stages[0], Scope()
        read = {i.value for i in stage.code if i.name == "load"}
        loads, stores = Scope(), Scope()
        for k in self._units:
            dtype = self.nest.operands[k].dtype
            size, kind = SIZES[dtype] * self._each // BYTES, self.source.stored(dtype)
            union = f"union {{ uint4 whole[{size}]; {kind} at[{self._each}]; }}"
            found.add(f"{union} part{k}[{self._many}];")
            start = f"({self.pointer(k)} + first + u * apart)"
            word = f"{self.dialect.memory(k)}{{}}uint4 *"
            for n in range(size):
                if k in read:
                    loads.add(f"part{k}[u].whole[{n}] = (({word.format('const ')}){start})[{n}];")
                if self.nest.operands[k].output:
                    stores.add(f"(({word.format('')}){start})[{n}] = part{k}[u].whole[{n}];")
        element = Scope()
        element.add("const int64_t i = first + u * apart + n;")
        known = self.known[0]
        done = self.code.render(
            stage.code, LoadedVector(self, "i", "part{}[u].at[n]"), element, known,
            stage.places(VARYING),
        )  # fmt: skip
        for k, at in stage.stores:
            self.store(element, k, f"part{k}[u].at[n]", done[at])
        vector = Scope()
        vector.add("#pragma unroll")
        vector.block(f"for (int n = 0; n < {self._each}; n++)", element)
        vector.add(*stores.lines())
        for part in (loads, vector):
            found.add("#pragma unroll")
            found.block(f"for (int u = 0; u < {self._many}; u++)", part)
        return found
