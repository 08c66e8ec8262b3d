"""Few rows in CUDA C++, each of which a block of many threads takes.

Where a row has a multiprocessor to itself, as the one row of a norm when a text is written token by
token, nothing hides what its threads wait for: a warp would take microseconds to go through some
thousand elements. Here a thread has a few vectors of neighbours, which it loads once and keeps, and
computes all that is done at each place. It asks for all of them at once, and for what nothing in
the plan writes, the weights of a norm, before it waits for the kernels in front of it. What is
summed it leaves in shared memory, where as many threads as there are partial results add it up,
block by block of the sums, in the order of all kernels. So bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...kernel.code import SIZES
from ...kernel.nest import BLOCK, Map, Nest, Reduce, Row, in_blocks, layout
from ...kernel.neutral import neutral_bits
from ...kernel.validation import validate
from .dialect import LateDialect
from .held_lengths import SHARED, SPAN, WARP, WHOLE, may_hold
from .inner import InnerNest, RowPlace, each
from .kept_values import is_written_again
from .prepared import FIXED, UNIFORM, VARYING
from .reductions import Partial, joined
from .text import Scope, literal, value_type
from .vectors import BYTES

_EACH = 8
"""Neighbours in a vector."""
_SHORTEST = 1024
"""Elements of a row from which on it pays, up to those that two warps hold: longer ones have a
kernel in which warps take whole blocks of sums."""
_MOST_THREADS = 512
_MOST_BYTES = 48 << 10
"""Of shared memory, which a block has for what is summed."""
_MOST_REGISTERS = 64
"""For what is held of a row."""
_LONGEST_CODE = 160
"""Instructions for an element, in all stages: they are written for each of a thread's elements."""
_WORDS = {16: "uint4", 8: "uint64_t"}
"""The type of a load, by its bytes."""


class Spread(NamedTuple):
    """How a block of threads takes a row.

    Attributes:
        threads: of a block.
        vectors: of a thread.
        early: operands that are asked for before the kernel waits.
    """

    threads: int
    vectors: int
    early: tuple[int, ...]


def spread_of(
    nest: Nest, numbers: Sequence[int], processors: int, steady: Container[int] = ()
) -> Spread | None:
    """How blocks take the rows of a launch; None where its rows are many, short or of a kind that
    cannot be held.

    Args:
        nest: its kernel's.
        numbers: sizes, then strides, as `layout` says.
        processors: multiprocessors of the GPU.
        steady: operands that nothing in the plan writes.
    """
    places, axes = layout(nest), range(nest.outer)
    if not _may_spread(nest):
        return None
    length, count = numbers[places.inner], math.prod(numbers[: nest.outer])
    if not _SHORTEST <= length <= SHARED or length % _EACH or not 0 < count <= processors:
        return None
    along = [k for k, operand in enumerate(nest.operands) if operand.lane == "unit"]
    if any(numbers[places.stride(k, axis)] % _EACH for k in along for axis in axes):
        return None
    threads = min(1 << (-(-length // _EACH) - 1).bit_length(), _MOST_THREADS)
    vectors = -(-length // (_EACH * threads))
    found = Spread(threads, vectors, tuple([k for k in _given(nest) if k in steady]))
    if _shared_bytes(nest, found) > _MOST_BYTES:
        return None
    held = sum([_EACH * SIZES[nest.operands[k].dtype] for k in along]) * vectors // 4
    code = sum([len(stage.code) for stage in nest.stages])
    if held > _MOST_REGISTERS or code * vectors > _LONGEST_CODE:
        return None
    return found


def _shared_bytes(nest: Nest, spread: Spread) -> int:
    """Of what all sums of a row leave in shared memory, each place and each block of sums."""
    elements = spread.vectors * _EACH * spread.threads
    each_ = 4 * (elements + -(-elements // WHOLE) * SPAN)
    return each_ * sum([len(s.reductions) for s in nest.stages if isinstance(s, Reduce)])


def _given(nest: Nest) -> list[int]:
    """The operands along rows that a nest reads before it stores any."""
    stored: set[int] = set()
    found: list[int] = []
    for stage in nest.stages:
        read = {i.value for i in stage.code if i.name == "load"} - stored
        found += [
            k
            for k, operand in enumerate(nest.operands)
            if operand.lane == "unit" and k in read and k not in found
        ]
        stored |= {k for k, _ in stage.stores}
    return found


def _may_spread(nest: Nest) -> bool:
    """Whether rows are of a kind of which a thread holds a part: they are gone over again, or wait
    for places that they hold, as losses do for what is known of their classes."""
    if not may_hold(nest, gathers=True) or in_blocks(nest):
        return False
    gathers = any(i.name == "gather" for stage in nest.stages for i in stage.code)
    return gathers or any(isinstance(stage, Map) for stage in nest.stages)


def spread_rows(nest: Nest, name: str, dialect: LateDialect, spread: Spread) -> str:
    """The source of a kernel whose blocks take a row each."""
    validate(nest)
    return _SpreadNest(nest, name, dialect, spread).render()


@dataclass
class _SpreadPlace(RowPlace):
    """The environment of code whose operands of each place are in registers."""

    def load(self, operand: int, dtype: str) -> str:
        if self.owner.nest.operands[operand].lane != "unit":
            return super().load(operand, dtype)
        assert isinstance(self.owner, _SpreadNest)
        return self.owner.loaded(operand, self.owner.in_register(operand))


class _SpreadNest(InnerNest):
    """Writes a kernel whose blocks of threads take a row each."""

    dialect: LateDialect

    def __init__(self, nest: Nest, name: str, dialect: LateDialect, spread: Spread) -> None:
        super().__init__(nest, name, dialect)
        self._spread, self._aligned = spread, True
        self._given = _given(nest)
        self._along = [k for k, operand in enumerate(nest.operands) if operand.lane == "unit"]

    def body(self) -> Scope:
        for number in range(len(self.stages)):
            self._written(number, UNIFORM, self.head)
        uniform, ways = list(self.known), []
        for self._aligned in (True, False):
            self.known, stages = list(uniform), Scope()
            for k in self._along:
                stages.add(f"{self._union(k)} held{k}[{self._spread.vectors}];")
            self._ask(stages, [k for k in self._given if k in self._spread.early])
            stages.add(self.dialect.after_others)
            self._ask(stages, [k for k in self._given if k not in self._spread.early])
            for number in range(len(self.stages)):
                self._spread_stage(number, stages)
            ways.append(stages)
        row, found = Scope(), Scope()
        row.add(*self.unit.lines())
        sizes: dict[int, list[str]] = {}
        for k in self._along:
            word = min(BYTES, _EACH * SIZES[self.nest.operands[k].dtype])
            sizes.setdefault(word, []).append(f"(uint64_t){self.pointer(k)}")
        aligned = [f"(({' | '.join(of)}) & {word - 1}) == 0" for word, of in sizes.items()]
        row.block(f"if ({' && '.join(aligned) or 'true'})", ways[0])
        row.block("else", ways[1])
        found.add(
            f"const int part = threadIdx.x % {WARP};",
            f"const int64_t first = threadIdx.x * {_EACH};",
        )
        found.block("for (int64_t unit = begin; unit < end; unit++)", row)
        return found

    def _ask(self, scope: Scope, operands: Sequence[int]) -> None:
        """Asks for the vectors of some operands."""
        if operands:
            loads = Scope()
            for k in operands:
                loads.add(*self._load(k))
            self._vectors(scope, loads)

    # -- stages ------------------------------------------------------------------------------

    def _spread_stage(self, number: int, rows: Scope) -> None:
        prepared, body = self.stages[number], Scope()
        self._written(number, FIXED, body)
        self.comment(number, rows)
        if isinstance(prepared.stage, Row):
            self._once(number, body, rows)
            return
        partials = self.partials(number) if prepared.ends else []
        for p in partials:
            kind = value_type(p.dtype)
            count = self._spread.threads * self._spread.vectors * _EACH
            shared = f"alignas({BYTES}) {self.dialect.local} {kind} at_{p.name}[{count}];"
            self.head.declare(f"at_{p.name}", shared)
        if partials:
            body.add(self.dialect.local_barrier)
        self._vectors(body, self._code_of_vector(number, partials))
        if partials:
            self._add_up(number, partials, body, rows)
        rows.block("", body)

    def _code_of_vector(self, number: int, partials: list[Partial]) -> Scope:
        """The code of a vector's elements, and its stores."""
        prepared, vector, element = self.stages[number], Scope(), Scope()
        element.add("const int64_t i = from + n;")
        done = self.code.render(
            prepared.code,
            _SpreadPlace(self, "i"),
            element,
            self.known[number],
            prepared.places(VARYING),
        )
        for k, at in prepared.stores:
            self.store(element, k, f"held{k}[v].at[n]", done[at])
        for p in partials:
            element.add(f"at_{p.name}[i] = {done[p.at]};")
        vector.add("#pragma unroll")
        vector.block(f"for (int n = 0; n < {_EACH}; n++)", element)
        for k, _ in prepared.stores:
            if not is_written_again(self.stages, number, k):
                vector.add(*self._store(k))
        return vector

    def _vectors(self, scope: Scope, body: Scope) -> None:
        """Something for each vector of a thread, `v`, that the row has, from a place on."""
        one, threads = Scope(), self._spread.threads
        one.add(f"const int64_t from = first + v * {threads * _EACH};")
        one.block(f"if (from < {self.inner_size()})", body)
        scope.add("#pragma unroll")
        scope.block(f"for (int v = 0; v < {self._spread.vectors}; v++)", one)

    def store_once(self, body: Scope, stores: list[tuple[int, str]]) -> None:
        only = Scope()
        for k, value in stores:
            self.store(only, k, self.element(k, "0"), value)
        body.block("if (threadIdx.x == 0)", only)
        body.add(self.dialect.barrier)

    # -- reductions --------------------------------------------------------------------------

    def _add_up(self, number: int, partials: list[Partial], body: Scope, rows: Scope) -> None:
        """Adds up what the threads have left in shared memory, and has each know the results."""
        threads = self._spread.threads
        blocks = -(-threads * self._spread.vectors * _EACH // WHOLE)
        slots, element, there = Scope(), Scope(), Scope()
        element.add(f"const int i = at / {SPAN} * {WHOLE} + k * {SPAN} + at % {SPAN};")
        for p in partials:
            kind, name = value_type(p.dtype), f"of_{p.name}"
            self.head.declare(name, f"{self.dialect.local} {kind} {name}[{blocks * SPAN}];")
            one = Partial(p.combine, p.dtype, p.name, p.at, 1)
            slots.add(f"{kind} {p.name}[1];", *_begun(one, "0"))
            there.add(*one.add(self.code, "0", f"at_{p.name}[i]", "i"))
        element.block(f"if (i < {self.inner_size()})", there)
        slots.add("#pragma unroll")
        slots.block(f"for (int k = 0; k < {BLOCK}; k++)", element)
        slots.add(*[f"of_{p.name}[at] = {p.name}[0];" for p in partials])
        body.add(self.dialect.local_barrier)
        body.block(f"for (int at = threadIdx.x; at < {blocks * SPAN}; at += {threads})", slots)
        body.add(self.dialect.local_barrier)
        for j, p in enumerate(partials):
            self._fold(p, blocks, body)
            self._outside(rows, p.result_type, f"result_{number}_{j}")
            body.add(f"result_{number}_{j} = {p.result('0', self.inner_size())};")

    def _fold(self, p: Partial, blocks: int, body: Scope) -> None:
        """Folds what blocks gave, by each warp, whose threads have two partial results."""
        body.add(*p.arrays())
        each(body, 2, p.clear("n"))
        block = Scope()
        given = f"of_{p.name}[block * {SPAN} + n * {WARP} + part]"
        if p.compensated:
            each(block, 2, [f"{p.name}[n] = {given};", *p.keep(self.code, "n")])
        else:
            each(block, 2, [f"{p.name}[n] = {joined(p, self.code, f'{p.name}[n]', given)};"])
        here = f"block < {blocks} && block * {WHOLE} < {self.inner_size()}"
        body.block(f"for (int block = 0; {here}; block++)", block)
        if p.compensated:
            each(body, 2, p.round(self.code, "n"))
        kind, value = value_type(p.dtype), f"{p.final}[0]"
        wide = "(int)" if p.dtype == "bool" else ""
        body.add(f"{value} = {joined(p, self.code, value, f'{p.final}[1]')};", "#pragma unroll")
        body.block(f"for (int apart = {WARP // 2}; apart > 0; apart /= 2)", [
            f"const {kind} from_other = "
            f"({kind})__shfl_down_sync(0xffffffffu, {wide}{value}, apart);",
            f"{value} = {joined(p, self.code, value, 'from_other')};",
        ])  # fmt: skip
        body.add(f"{value} = ({kind})__shfl_sync(0xffffffffu, {wide}{value}, 0);")

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        """Those that a thread of each warp holds in the end."""
        return super().partials(number, 2)

    # -- vectors -----------------------------------------------------------------------------

    def _union(self, k: int) -> str:
        dtype = self.nest.operands[k].dtype
        word, count = self._word(k)
        return f"union {{ {word} whole[{count}]; {self.source.stored(dtype)} at[{_EACH}]; }}"

    def _word(self, k: int) -> tuple[str, int]:
        """The type of a load of an operand, and how many make a vector."""
        nbytes = _EACH * SIZES[self.nest.operands[k].dtype]
        return _WORDS[min(nbytes, BYTES)], max(1, nbytes // BYTES)

    def _load(self, k: int) -> list[str]:
        if not self._aligned:
            place = self.element(k, "(from + n)")
            return ["#pragma unroll", f"for (int n = 0; n < {_EACH}; n++)",
                    f"    held{k}[v].at[n] = {place};"]  # fmt: skip
        word, count = self._word(k)
        start = f"((const {word} *)({self.row_pointer(k)} + from))"
        return [f"held{k}[v].whole[{n}] = {start}[{n}];" for n in range(count)]

    def _store(self, k: int) -> list[str]:
        if not self._aligned:
            place = self.element(k, "(from + n)")
            return [f"for (int n = 0; n < {_EACH}; n++)", f"    {place} = held{k}[v].at[n];"]
        word, count = self._word(k)
        start = f"(({word} *)({self.row_pointer(k)} + from))"
        return [f"{start}[{n}] = held{k}[v].whole[{n}];" for n in range(count)]

    def in_register(self, k: int) -> str:
        """An element that a thread holds."""
        return f"held{k}[v].at[n]"


def _begun(p: Partial, slot: str) -> list[str]:
    """A partial result of a block that has seen nothing."""
    return [f"{p.name}[{slot}] = {literal(neutral_bits(p.combine, p.dtype), p.dtype)};"]
