"""What kernels in C share: arguments, walking over units of work, stages by what they depend on."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel.code import SIZES
from ...kernel.nest import Map, Nest, Reduce, Row, Stage, accumulators, columns_of, layout
from . import helpers
from .code import CodeRenderer, expanded
from .dialect import Dialect, is_vectorized
from .machine_conversions import with_machine_conversions
from .prepared import UNIFORM, Prepared
from .reductions import Partial
from .text import Scope, Source, value_type


class NestRenderer:
    """Common parts; `c_inner` and `c_outer` derive from it.

    Attributes:
        head: declarations at the beginning of the function.
        unit: what is declared for each unit of work.
        counted: a cast to the type in which places are counted; none for that of sizes.
    """

    counted = ""

    def __init__(self, nest: Nest, name: str, dialect: Dialect) -> None:
        self.nest = nest
        self.name = name
        self.dialect = dialect
        self.source = Source(dialect)
        self.code = CodeRenderer(self.source)
        self.layout = layout(nest)
        self.head = Scope()
        self.unit = Scope()
        self.stages = [self._prepare(stage) for stage in nest.stages]
        self.known: list[dict[int, str]] = [{} for _ in self.stages]

    def render(self) -> str:
        """The source."""
        body = self.body()
        lines = [
            *self._comment(),
            *self.opening(),
            *[f"    {line}" for line in self.head.lines()],
            *[f"    {line}" for line in body.lines()],
            "}",
        ]
        return self.source.text("\n".join(lines))

    def opening(self) -> Sequence[str]:
        """The kernel's head, its brace, and what makes `begin` and `end`."""
        return self.dialect.opening(self.nest, self.name)

    def body(self) -> Scope:
        """The loops, after everything that is declared in front of them is in `head`."""
        raise NotImplementedError

    def _comment(self) -> list[str]:
        nest = self.nest
        stages = ", ".join(_described(s) for s in nest.stages)
        along = "the inner axis" if nest.lanes == "inner" else "the last outer axis"
        axes = "1 outer axis" if nest.outer == 1 else f"{nest.outer} outer axes"
        lines = [f"/* {axes}, side by side along {along}: {stages}."]
        for k, operand in enumerate(nest.operands):
            side = "written" if operand.output else "read"
            lines.append(f"   {self._pointer_name(k)}: {operand.dtype}, {side}, {operand.lane}")
        return [*lines, "*/"]

    # -- preparing ---------------------------------------------------------------------------

    def level(self, name: str, value: object) -> int:
        """The level of a leaf."""
        raise NotImplementedError

    def _prepare(self, stage: Stage) -> Prepared:
        targets = [k for k, _ in (*stage.stores, *columns_of(stage))]
        roots = [at for _, at in (*stage.stores, *columns_of(stage))]
        if isinstance(stage, Reduce):
            roots += [at for _, at in stage.reductions]
        elif isinstance(stage, Row):
            roots += stage.values
        code, found = expanded(stage.code, roots, self.dialect)
        levels: list[int] = []
        for at in code:
            level = max([levels[a] for a in at.args], default=UNIFORM)
            if at.name in ("load", "gather", "index", "result", "row"):
                level = max(level, self.level(at.name, at.value))
            levels.append(level)
        pairs = tuple(zip(targets, found, strict=False))
        stores, columns = pairs[: len(stage.stores)], pairs[len(stage.stores) :]
        ends = found[len(pairs) :]
        leaving = {*[at for _, at in stores], *_kept_as_they_are(stage, ends)}
        code = with_machine_conversions(code, leaving)
        return Prepared(stage, code, stores, columns, ends, tuple(levels))

    def partials(self, number: int, count: int | None = None) -> list[Partial]:
        """The reductions of a stage, with `count` partial results or as many as belong to them."""
        stage = self.stages[number]
        assert isinstance(stage.stage, Reduce)
        found = []
        pairs = zip(stage.stage.reductions, stage.ends, strict=True)
        for j, ((combine, _), at) in enumerate(pairs):
            dtype = stage.code[at].dtype
            name = f"{combine}_{number}_{j}"
            found.append(Partial(combine, dtype, name, at, count or accumulators(dtype)))
        return found

    # -- arguments ---------------------------------------------------------------------------

    def _pointer_name(self, k: int) -> str:
        return f"{'out' if self.nest.operands[k].output else 'in'}{k}"

    def pointer(self, k: int) -> str:
        """Where operand `k` begins."""
        operand, name = self.nest.operands[k], self._pointer_name(k)
        kind = self.source.stored(operand.dtype)
        const = "" if operand.output else "const "
        pointer = f"{self.dialect.memory(k)}{const}{kind} *"
        value = self.dialect.operand(k, pointer.strip())
        return self.head.declare(name, f"{pointer}const {name} = {value};")

    def _argument(self, place: int) -> str:
        return self.dialect.argument(place, self.nest)

    def size(self, axis: int) -> str:
        """The size of an outer axis."""
        name = f"size{axis}"
        return self.head.declare(name, f"const int64_t {name} = {self._argument(axis)};")

    def inner_size(self) -> str:
        """The size of the inner axis, without regard to ragged rows."""
        inner = self._argument(self.layout.inner)
        return self.head.declare("inner", f"const int64_t inner = {inner};")

    def stride(self, k: int, axis: int) -> str:
        """The stride of operand `k` along an outer axis, or the inner one (-1), in elements."""
        name = f"{self._pointer_name(k)}_{'step' if axis < 0 else f'step{axis}'}"
        stride = self._argument(self.layout.stride(k, axis))
        return self.head.declare(name, f"const int64_t {name} = {stride};")

    def scalar(self, number: int, dtype: str) -> str:
        """A number that the caller passes, from its bits."""
        name, kind = f"scalar{number}", value_type(dtype)
        bits = self.dialect.scalar(self.nest, number)
        if dtype in ("float32", "float64"):
            unsigned = f"uint{8 * SIZES[dtype]}"
            function = helpers.bitcast(self.source, dtype, unsigned)
            shown = f"{function}(({unsigned}_t){bits})"
        else:
            shown = f"({bits} & 1) != 0" if dtype == "bool" else f"({kind}){bits}"
        return self.head.declare(name, f"const {kind} {name} = {shown};")

    def length(self, first: str) -> str:
        """The inner size of a row; the last row of a ragged nest is shorter."""
        if not self.nest.ragged:
            return self.inner_size()
        shown = self._argument(self.layout.total)
        total = self.head.declare("total", f"const int64_t total = {shown};")
        shorter = f"{helpers.least(self.source)}(inner, {total} - {first} * {self.inner_size()})"
        return self.unit.declare("length", f"const int64_t length = {shorter};")

    def split(self, unit: str, axis: int, last: int) -> str:
        """The index along an outer axis of a unit of work; `last` is the last such axis."""
        kind = self.counted
        behind = " * ".join([f"{kind}{self.size(a)}" for a in range(axis + 1, last + 1)])
        unit, many = f"{kind}{unit}", axis + 1 < last
        shown = f"{unit} / ({behind})" if many else f"{unit} / {behind}" if behind else unit
        if axis:
            shown += f" % {kind}{self.size(axis)}"
        name = f"index{axis}"
        return self.unit.declare(name, f"const int64_t {name} = {shown};")

    # -- code --------------------------------------------------------------------------------

    def declared_pointer(self, k: int, name: str, pointer: str, terms: Sequence[str]) -> str:
        """A pointer into operand `k`, declared for each unit of work."""
        kind = self.source.stored(self.nest.operands[k].dtype)
        const = "" if self.nest.operands[k].output else "const "
        memory = self.dialect.memory(k)
        declaration = f"{memory}{const}{kind} *const {name} = {moved(pointer, terms)};"
        return self.unit.declare(name, declaration)

    def comment(self, number: int, scope: Scope) -> None:
        """Says what a stage does."""
        scope.add(f"/* Stage {number}: {_described(self.nest.stages[number])}. */")

    def loaded(self, k: int, place: str) -> str:
        """An element in memory as a value."""
        return f"{place} != 0" if self.nest.operands[k].dtype == "bool" else place

    def store(self, scope: Scope, k: int, place: str, value: str) -> None:
        """Stores a value; a bool as a byte."""
        if self.nest.operands[k].dtype != "bool":
            scope.add(f"{place} = {value};")
        elif is_vectorized(self.dialect):
            scope.add(f"{place} = {value} ? {self._one()} : 0;")
        else:
            scope.add(f"{place} = (uint8_t){value};")

    def _one(self) -> str:
        """A byte that compilers do not know. They would load a known one under a mask, from beside
        the code: where all of that is false, and nothing else in its page was ever read, processors
        with AVX-512 take hundreds of cycles for each load."""
        self.head.declare("truth", "const volatile uint8_t truth = 1;")
        return self.head.declare("one", "const uint8_t one = truth;")


def _described(stage: Stage) -> str:
    if isinstance(stage, Reduce):
        return " and ".join(combine for combine, _ in stage.reductions)
    return "map" if isinstance(stage, Map) else "once a row"


def _kept_as_they_are(stage: Stage, ends: Sequence[int]) -> Sequence[int]:
    """Of what is reduced or kept for the row, what may be a number of memory: not what is added."""
    if not isinstance(stage, Reduce):
        return ends
    pairs = zip(stage.reductions, ends, strict=True)
    return [at for (combine, _), at in pairs if combine in ("max", "min")]


def moved(pointer: str, terms: Sequence[str]) -> str:
    """A pointer some elements further; the sum first, since it may not leave the array."""
    offset = " + ".join(terms)
    return f"{pointer} + ({offset})" if len(terms) > 1 else f"{pointer} + {offset}"


def product(*factors: str) -> str:
    """A product without factors of 1; 0 if one of them is 0."""
    if "0" in factors:
        return "0"
    left = [f for f in factors if f != "1"]
    return " * ".join(left) or "1"


def place(pointer: str, *offsets: str) -> str:
    """An element at the sum of offsets."""
    return f"{pointer}[{' + '.join([o for o in offsets if o != '0']) or '0'}]"
