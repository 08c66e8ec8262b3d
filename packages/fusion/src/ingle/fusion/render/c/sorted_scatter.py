"""Scatters on GPUs: updates are sorted by where they go, and each element adds up its own.

A group of work items that walks all updates to find those of its part of the result reads every
index once more. Instead, each update gets a key: the place in the result where it begins, and its
number behind that. Groups sort a few keys each by counting which are less; passes merge the sorted
runs, where each key finds its place by bisection. Then a work item for each element of each update
looks whether its update is the first one at its place, and combines all of these, in the order of
their numbers: that of a nest's own kernel, so no bit follows from how the work is cut. No two keys
are equal, so sorting is stable, and nothing is written by two work items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ...kernel.nest import Map, Nest, Operand, Row
from ...kernel.validation import validate
from .dialect import Dialect, GroupDialect
from .inner import InnerNest, RowPlace
from .prepared import FIXED, UNIFORM, VARYING
from .rows import place
from .text import Scope, Source

LEAST = 512
"""Elements of all updates from which on it pays to sort: up to there one launch takes less time
than several."""
_RUNS = 8
"""Sorted runs that a pass merges."""
_AHEAD = 16
"""Updates that a work item asks memory for before it combines the first one."""
_MOST = 1 << 32
"""Places, updates, and elements of all of them: each counts in 32 bits."""
_KEY = Operand("uint64")
_ALIGNED = 256
"""Bytes at which each list begins."""


class ScatterLaunch(NamedTuple):
    """A kernel of such a scatter, ready to be launched behind the one before it.

    Attributes:
        source: of a kernel whose units of work are work items, or groups of them.
        own: how many operands of the nest come first.
        lists: where in scratch memory the lists of keys begin that come behind, in bytes.
        scratch: bytes of that memory.
        numbers: sizes, then strides, as `layout` says.
        scalars: whether the nest's scalars are behind the numbers.
        units: of work.
        group: work items of a group that takes a unit; 0 where each work item takes one.
    """

    source: str
    own: int
    lists: tuple[int, ...]
    scratch: int
    numbers: tuple[int, ...]
    scalars: bool
    units: int
    group: int = 0


def updates_of(nest: Nest, sizes: Sequence[int]) -> int:
    """How many updates a launch of a scattered nest has."""
    return math.prod(sizes[1:-1])


def sorted_scatter(
    nest: Nest, name: str, numbers: Sequence[int], alone: Dialect, groups: GroupDialect,
    members: int,
) -> list[ScatterLaunch]:  # fmt: skip
    """The kernels that do what a scattered nest does; none where its own one does better.

    Args:
        nest: of any kind.
        name: of each kernel.
        numbers: sizes, then strides, as `layout` says.
        alone: spells kernels whose work items have nothing to do with one another.
        groups: spells those of groups.
        members: work items of a group.
    """
    sizes = numbers[: nest.outer + 1]
    if not _may_sort(nest):
        return []
    count, elements = updates_of(nest, sizes), math.prod(sizes[1:])
    if elements < LEAST or max(elements, sizes[0] + 1) >= _MOST:
        return []
    own, with_list = len(nest.operands), (*numbers, *(0,) * (nest.outer + 1))
    # By identity, which caches take dialects by.
    keys = _keys_source(nest, name, groups, members)  # type: ignore[arg-type]
    merge = _merge_source(name, alone)  # type: ignore[arg-type]
    combine = _combine_source(nest, name, alone)  # type: ignore[arg-type]
    other = -(-8 * count // _ALIGNED) * _ALIGNED
    scratch, at, run = 2 * other, 0, members
    blocks = -(-count // members)
    found = [ScatterLaunch(keys, own, (at,), scratch, with_list, True, blocks, members)]
    while run < count:
        merged = (run, count, 0, 0, 0, 0)
        found.append(ScatterLaunch(merge, 0, (at, other - at), scratch, merged, False, count))
        run, at = run * _RUNS, other - at
    return [*found, ScatterLaunch(combine, own, (at,), scratch, with_list, True, elements)]


def _may_sort(nest: Nest) -> bool:
    """Whether a nest adds one operand, or a number, to rows of its output, and nothing else."""
    if not nest.scattered or len(nest.stages) != 2 or nest.lanes != "inner" or nest.ragged:
        return False
    first, last = nest.stages
    if not isinstance(first, Row) or first.stores or not isinstance(last, (Map, Row)):
        return False
    leaves = {i.name for i in last.code} & {"gather", "index", "row", "result"}
    stored = [k for k, _ in last.stores]
    return not leaves and stored == [0] and not (isinstance(last, Map) and last.columns)


@lru_cache(maxsize=1024)
def _keys_source(nest: Nest, name: str, dialect: GroupDialect, members: int) -> str:
    validate(nest)
    listed = nest._replace(operands=(*nest.operands, _KEY._replace(output=True)))
    return _KeysNest(listed, name, dialect, members).render()


@lru_cache(maxsize=1024)
def _combine_source(nest: Nest, name: str, dialect: Dialect) -> str:
    validate(nest)
    return _CombineNest(nest._replace(operands=(*nest.operands, _KEY)), name, dialect).render()


@lru_cache(maxsize=64)
def _merge_source(name: str, dialect: Dialect) -> str:
    """A kernel that merges sorted runs of keys, by their length and the number of keys."""
    nest = Nest(1, (_KEY, _KEY._replace(output=True)), (), ())
    source = Source(dialect)
    kind = f"{dialect.memory(0)}const uint64_t *"
    out = f"{dialect.memory(1)}uint64_t *"
    lines = [
        f"/* Each of {_RUNS} sorted runs side by side becomes a part of one. */",
        *dialect.opening(nest, name),
        f"""\
    {kind}const keys = {dialect.operand(0, kind.strip())};
    {out}const merged = {dialect.operand(1, out.strip())};
    const int64_t run = {dialect.argument(0, nest)}, count = {dialect.argument(1, nest)};
    if (begin < end) {{
        const uint64_t key = keys[begin];
        const int64_t own = (uint32_t)begin / (uint32_t)run, first = own / {_RUNS} * {_RUNS};
        int64_t to = begin - (own - first) * run;
        for (int64_t other = first; other < first + {_RUNS}; other++) {{
            const int64_t start = other * run;
            int64_t low = start, high = start + run < count ? start + run : count;
            while (other != own && low < high) {{
                const int64_t middle = (low + high) / 2;
                if (keys[middle] < key)
                    low = middle + 1;
                else
                    high = middle;
            }}
            to += low - start;
        }}
        merged[to] = key;
    }}""",
        "}",
    ]
    return source.text("\n".join(lines))


class _KeysNest(InnerNest):
    """Writes the kernel that gives each update its key, and sorts as many as a group has members.

    The list of keys is the nest's last operand.
    """

    dialect: GroupDialect
    counted = "(uint32_t)"

    def __init__(self, nest: Nest, name: str, dialect: GroupDialect, members: int) -> None:
        super().__init__(nest, name, dialect)
        self._members = members

    def body(self) -> Scope:
        members, last = self._members, self.nest.outer - 1
        count = " * ".join([self.size(a) for a in range(1, self.nest.outer)]) or "1"
        self.head.add(f"{self.dialect.local} uint64_t own[{members}];")
        self._written(0, UNIFORM, self.head)
        code, stage = Scope(), self.stages[0]
        self._written(0, FIXED, code)
        done = self.code.render(
            stage.code, RowPlace(self), code, self.known[0], stage.places(VARYING)
        )
        terms = [f"{self.split('unit', a, last)} * {self.stride(0, a)}" for a in range(1, last + 1)]
        at = " + ".join([done[stage.ends[0]], *terms])
        code.add(f"key = (uint64_t)({at}) << 32 | (uint64_t)unit;")
        one, found = Scope(), Scope()
        one.add(*self.unit.lines(), *code.lines())
        there, keys = Scope(), self.pointer(len(self.nest.operands) - 1)
        there.add(f"{keys}[begin * {members} + rank] = key;")
        found.add(
            f"const int64_t lane = {self.dialect.lane}, unit = begin * {members} + lane;",
            f"const int64_t count = {count};",
            "uint64_t key = ~UINT64_C(0);",
        )
        found.block("if (unit < count)", one)
        found.add("own[lane] = key;", self.dialect.local_barrier, "int rank = 0;")
        found.block(f"for (int n = 0; n < {members}; n++)", ["rank += own[n] < key;"])
        found.block("if (unit < count)", there)
        return found


class _Held(RowPlace):
    """The environment of code that combines an element with what was loaded for it."""

    def load(self, operand: int, dtype: str) -> str:
        return self.owner.loaded(operand, f"ahead{operand}[n]" if operand else "held")


class _CombineNest(InnerNest):
    """Writes the kernel that combines updates, whose keys are the nest's last operand."""

    counted = "(uint32_t)"

    def body(self) -> Scope:
        keys, (operands, last) = self.pointer(len(self.nest.operands) - 1), self._operands()
        count = " * ".join([self.size(a) for a in range(1, self.nest.outer)]) or "1"
        self._written(last, UNIFORM, self.head)
        stage, turn, loads, own = self.stages[last], Scope(), Scope(), Scope()
        for k in operands:
            kind = self.source.stored(self.nest.operands[k].dtype)
            turn.add(f"{kind} ahead{k}[{_AHEAD}];")
            loads.add(f"ahead{k}[n] = {self.element(k, 'i')};")
        loaded = ["const int64_t unit = (int64_t)(uint32_t)key[n];", *self.unit.lines()]
        places = [p for p, level in enumerate(stage.levels) if level in (FIXED, VARYING)]
        done = self.code.render(stage.code, _Held(self, "i"), own, self.known[last], places)
        ((_, root),) = stage.stores
        self.store(own, 0, "held", done[root])
        turn.add(f"uint64_t key[{_AHEAD}];")
        self._each(turn, [f"key[n] = from + n < count ? {keys}[from + n] : ~UINT64_C(0);"])
        if operands:
            self._each(turn, [*loaded, *loads.lines()], "key[n] >> 32 == place")
        self._each(turn, own.lines(), "key[n] >> 32 == place")
        turn.block(f"if (key[{_AHEAD - 1}] >> 32 != place)", ["break;"])
        return self._guarded(keys, count, turn)

    def _each(self, turn: Scope, lines: Sequence[str], condition: str = "") -> None:
        """What is done for each update that is taken at once."""
        body = Scope()
        if condition:
            body.block(f"if ({condition})", [*lines])
        else:
            body.add(*lines)
        turn.add("#pragma unroll")
        turn.block(f"for (int n = 0; n < {_AHEAD}; n++)", body)

    def _operands(self) -> tuple[list[int], int]:
        """What is loaded for each update, and the number of the stage."""
        last = len(self.stages) - 1
        code = self.stages[last].code
        read = {i.value for i in code if i.name == "load" and isinstance(i.value, int)}
        return sorted(read - {0}), last

    def _guarded(self, keys: str, count: str, turn: Scope) -> Scope:
        """The first update at each place takes all of them."""
        found, first, body = Scope(), Scope(), Scope()
        kind = self.source.stored(self.nest.operands[0].dtype)
        lane = self.nest.operands[0].lane
        step = {"unit": "i", "zero": "0"}.get(lane) or f"i * {self.stride(0, -1)}"
        target = place(self.pointer(0), "(int64_t)place", step)
        first.add(f"{kind} held = {target};")
        first.block(f"for (int64_t from = position; from < count; from += {_AHEAD})", turn)
        first.add(f"{target} = held;")
        body.add(
            f"const int64_t count = {count};",
            f"const int64_t position = (uint32_t)begin / (uint32_t){self.inner_size()};",
            f"const int64_t i = (uint32_t)begin % (uint32_t){self.inner_size()};",
            f"const uint64_t place = {keys}[position] >> 32;",
        )
        body.block(f"if (position == 0 || {keys}[position - 1] >> 32 != place)", first)
        found.block("if (begin < end)", body)
        return found
