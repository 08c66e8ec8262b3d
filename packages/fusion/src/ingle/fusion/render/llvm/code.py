"""Scalar code as LLVM IR over vectors of lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, cast

from ...kernel.code import (
    COMPARISONS,
    COMPOSITE,
    FLOATS,
    HALVES,
    INTEGERS,
    SIZES,
    UNSIGNED,
    Code,
    Instruction,
    bits_of,
)
from ...kernel.expand import expand, function_code
from ..leaves import LEAVES, Environment
from .contiguous_gather import CONTIGUOUS_GATHER
from .operations import SPECIAL, permute
from .targets import Target
from .text import (
    Values,
    Writer,
    constant,
    memory_type,
    scalar_type,
    suffix,
    value_type,
    vector_type,
)


class ContiguousGathers(Environment, Protocol):
    """An environment along the inner axis, where gathers may be contiguous."""

    def contiguous_gather(self, operand: int, dtype: str, offset: str) -> str: ...


class CodeRenderer:
    """Renders code for a number of lanes of a target into a writer."""

    def __init__(self, writer: Writer, target: Target, lanes: int) -> None:
        self.writer = writer
        self.target = target
        self.lanes = lanes
        self._typed: dict[str, str] = {}

    def native(self, name: str, dtype: str, source: str) -> bool:
        """Whether the target computes an operation (on arguments of `source`) by itself."""
        return native(self.target, self.lanes, name, dtype, source)

    def expand(self, code: Code, roots: Iterable[int]) -> tuple[Code, tuple[int, ...]]:
        """The code in terms of what the target has."""
        return expand(code, roots, self.native)

    def type(self, dtype: str) -> str:
        """The type of a value in every lane."""
        found = self._typed.get(dtype)
        if found is None:
            found = self._typed[dtype] = value_type(dtype, self.lanes)
        return found

    def render(
        self,
        code: Code,
        environment: Environment,
        values: list[str | None] | None = None,
        places: Iterable[int] | None = None,
    ) -> list[str | None]:
        """Writes the instructions at `places` (all, if None) and returns all operands.

        Args:
            code: expanded for this renderer.
            values: operands that are known already, by position; filled and returned.
        """
        known: list[str | None] = [None] * len(code) if values is None else values
        for at in range(len(code)) if places is None else places:
            if known[at] is None:
                arguments = [known[a] or "" for a in code[at].args]
                known[at] = self._instruction(code, code[at], arguments, environment)
        return known

    def _instruction(
        self, code: Code, at: Instruction, args: Values, environment: Environment
    ) -> str:
        name, dtype, places, value = at
        if name == "constant":
            return constant(value, dtype, self.lanes)
        leaf = _LEAVES.get(name)
        if leaf is not None:
            return leaf(environment, at, args)
        if name in _PLAIN:
            return self._plain(name, dtype, args)
        source = code[places[0]].dtype if places else dtype
        if name in COMPARISONS:
            return self.compare(name, source, args[0], args[1])
        if name == "cast":
            return self._cast(dtype, source, args[0])
        if name == "bitcast":
            return self._convert("bitcast", dtype, source, args[0])
        if name == "select":
            return self.select(dtype, *args)
        if name == "table":
            return self.table(dtype, source, args[0], value)
        if name == "permute":
            return permute(self, dtype, args[0], value)
        if name == "fallback":
            return self._fallback(at, args, tuple([code[p].dtype for p in places[2:]]))
        if name == "argument":
            return f"%x{value}"
        special = SPECIAL.get(name)
        if special is None:
            raise ValueError(f"the LLVM renderer has no {name}")
        return special(self, dtype, args)

    def _plain(self, name: str, dtype: str, args: Values) -> str:
        on_float, on_signed, on_unsigned = _PLAIN[name]
        word = on_float if dtype in FLOATS else on_unsigned if dtype in UNSIGNED else on_signed
        return self.writer.let(name, f"{word} {self.type(dtype)} {', '.join(args)}")

    def select(self, dtype: str, condition: str, yes: str, no: str) -> str:
        """Of two values by a condition."""
        kind = self.type(dtype)
        mask = self.type("bool")
        return self.writer.let("sel", f"select {mask} {condition}, {kind} {yes}, {kind} {no}")

    def compare(self, name: str, dtype: str, a: str, b: str) -> str:
        """A comparison of values of a dtype."""
        if dtype in FLOATS:
            word = "fcmp " + ("une" if name == "ne" else "o" + name)
        else:
            sign = "" if name in ("eq", "ne") else "u" if dtype not in _SIGNED else "s"
            word = f"icmp {sign}{name}"
        return self.writer.let(name, f"{word} {self.type(dtype)} {a}, {b}")

    def intrinsic(self, name: str, dtype: str, *args: str) -> str:
        """An overloaded intrinsic of values of one dtype."""
        kind = self.type(dtype)
        full = f"llvm.{name}.{suffix(scalar_type(dtype), self.lanes)}"
        hint = name.split(".")[-1]
        return self.writer.call(hint, kind, full, *[f"{kind} {a}" for a in args])

    def _convert(self, word: str, dtype: str, source: str, value: str) -> str:
        old, new = self.type(source), self.type(dtype)
        if old == new:
            return value
        return self.writer.let("as", f"{word} {old} {value} to {new}")

    def _cast(self, dtype: str, source: str, value: str) -> str:
        if dtype == "bool":
            zero = constant(0, source, self.lanes)
            return self.compare("ne", source, value, zero)
        if source == "bool" and dtype in FLOATS:
            one = constant(bits_of(1, dtype), dtype, self.lanes)
            return self.select(dtype, value, one, constant(0, dtype, self.lanes))
        if source in HALVES or dtype in HALVES:
            return self._cast_half(dtype, source, value)
        if dtype in FLOATS:
            if source in FLOATS:
                word = "fpext" if SIZES[dtype] > SIZES[source] else "fptrunc"
            else:
                word = "uitofp" if source in UNSIGNED else "sitofp"
            return self._convert(word, dtype, source, value)
        if source in FLOATS:
            return self._float_to_integer(dtype, source, value)
        if SIZES[dtype] < SIZES[source]:
            return self._convert("trunc", dtype, source, value)
        return self._convert("sext" if source in _SIGNED else "zext", dtype, source, value)

    def _float_to_integer(self, dtype: str, source: str, value: str) -> str:
        if SIZES[dtype] < 4:
            wide = self._convert("fptosi", "int32", source, value)
            return self._convert("trunc", dtype, "int32", wide)
        return self._convert("fptoui" if dtype in UNSIGNED else "fptosi", dtype, source, value)

    def _cast_half(self, dtype: str, source: str, value: str) -> str:
        half, w = vector_type("half", self.lanes), self.writer
        bits, wide = self.type("float16"), self.type("float32")
        if source == "float16":
            narrow = w.let("half", f"bitcast {bits} {value} to {half}")
            return w.let("wide", f"fpext {half} {narrow} to {wide}")
        narrow = w.let("half", f"fptrunc {wide} {value} to {half}")
        return w.let("bits", f"bitcast {half} {narrow} to {bits}")

    def minmax(self, dtype: str, args: Values, larger: bool) -> str:
        """The larger or smaller of two; NaN if one is NaN."""
        a, b = args
        if dtype in INTEGERS:
            sign = "u" if dtype in UNSIGNED else "s"
            return self.intrinsic(f"{sign}{'max' if larger else 'min'}", dtype, a, b)
        if dtype == "bool":
            return self._plain("or" if larger else "and", dtype, args)
        # x86's max(a, b) is b if one is NaN, which leaves the case that only a is.
        chosen = self.select(dtype, self.compare("gt" if larger else "lt", dtype, a, b), a, b)
        missing = self.writer.let("nan", f"fcmp uno {self.type(dtype)} {a}, {a}")
        return self.select(dtype, missing, a, chosen)

    def table(self, dtype: str, source: str, index: str, entries: tuple[int, ...]) -> str:
        """The entries of a constant array in memory that indices choose."""
        kind, w = memory_type(dtype), self.writer
        array = f"[{len(entries)} x {kind}]"
        key = ("table", dtype, entries)
        if key not in w.globals:
            name = f"@{w.kernel}.table{len(w.globals)}"
            numbers = ", ".join(f"{kind} {constant(e, dtype, 1)}" for e in entries)
            w.globals[key] = (
                name,
                f"{name} = private unnamed_addr constant {array} [{numbers}], align 64",
            )
        name = w.globals[key][0]
        place = f"getelementptr {kind}, ptr {name}, {self.type(source)} {index}"
        return self.gather(dtype, w.let("entry", place), None)

    def gather(self, dtype: str, pointers: str, mask: str | None) -> str:
        """Loads from a pointer in every lane (where the mask is set)."""
        kind, w, lanes = memory_type(dtype), self.writer, self.lanes
        if lanes == 1:
            loaded = w.let("x", f"load {kind}, ptr {pointers}, align {SIZES[dtype]}")
        else:
            vector = vector_type(kind, lanes)
            loaded = w.call(
                "x",
                vector,
                f"llvm.masked.gather.{suffix(kind, lanes)}.v{lanes}p0",
                f"<{lanes} x ptr> {pointers}",
                f"i32 {SIZES[dtype]}",
                f"<{lanes} x i1> {mask or 'splat (i1 true)'}",
                f"{vector} zeroinitializer",
            )
        return self.as_value(dtype, loaded)

    def as_value(self, dtype: str, loaded: str) -> str:
        """What was loaded as a value: bytes become bools."""
        if dtype != "bool":
            return loaded
        kind = vector_type("i8", self.lanes)
        return self.writer.let(
            "flag", f"icmp ne {kind} {loaded}, {constant(0, 'int8', self.lanes)}"
        )

    def as_memory(self, dtype: str, value: str) -> str:
        """A value as it is stored: bools become bytes."""
        if dtype != "bool":
            return value
        bytes_type = vector_type("i8", self.lanes)
        return self.writer.let("byte", f"zext {self.type(dtype)} {value} to {bytes_type}")

    def any(self, mask: str) -> str:
        """Whether a condition holds in any lane."""
        if self.lanes == 1:
            return mask
        kind = self.type("bool")
        name = f"llvm.vector.reduce.or.v{self.lanes}i1"
        return self.writer.call("any", "i1", name, f"{kind} {mask}")

    def _fallback(self, at: Instruction, args: Values, dtypes: tuple[str, ...]) -> str:
        fast, condition = args[:2]
        kind = self.type(at.dtype)
        function = self._function(at.value, at.dtype, dtypes)
        given = ", ".join(f"{self.type(d)} {x}" for d, x in zip(dtypes, args[2:], strict=True))

        def far() -> Values:
            slow = self.writer.let("slow", f"call {kind} {function}({given})")
            return [self.select(at.dtype, condition, slow, fast)]

        rare = self.any(condition)
        return self.writer.when(rare, [(kind, fast)], far, rarely=True)[0]

    def _function(self, name: str, dtype: str, dtypes: tuple[str, ...]) -> str:
        """The name of a function of its own for a rare case, written if it is not there yet."""
        outer = self.writer
        key = ("function", name, dtypes, self.lanes)
        if key not in outer.globals:
            suffixes = [suffix(scalar_type(d), self.lanes) for d in dtypes]
            symbol = f"@{outer.kernel}.{name}.{'.'.join(suffixes)}"
            inner = Writer(outer.kernel)
            inner.declared, inner.globals = outer.declared, outer.globals
            renderer = CodeRenderer(inner, self.target, self.lanes)
            code, (root,) = renderer.expand(*function_code(name, dtypes))
            result = renderer.render(code, _NOTHING)[root]
            kind = self.type(dtype)
            given = ", ".join(f"{self.type(d)} %x{n}" for n, d in enumerate(dtypes))
            head = f"define internal {kind} {symbol}({given}) noinline cold nounwind {{\nentry:"
            lines = [head, *inner.lines, f"  ret {kind} {result}", "}"]
            outer.globals[key] = (symbol, "\n".join(lines))
        return outer.globals[key][0]


def native(target: Target, lanes: int, name: str, dtype: str, source: str) -> bool:
    """Whether a target computes an operation of the core; what it lacks is expanded."""
    if name in COMPOSITE:
        return False
    if name == "permute":
        return target.permute
    if name in ("floor", "ceil", "trunc", "round"):
        return target.rounding
    if name == "residue":
        return target.fma
    if name in ("scale", "scale_near"):
        return target.scale and lanes * SIZES[dtype] in (16, 32, 64)
    if name in ("quotient", "modulo"):
        # AVX-512 alone converts vectors of 64-bit integers to floats and back.
        return SIZES[dtype] == 8 and not (target.estimates and lanes > 1)
    if name == "cast" and (dtype in HALVES or source in HALVES) and dtype != source:
        return target.half and {dtype, source} == {"float16", "float32"}
    return True


class _Nothing:
    """An environment without leaves."""

    def _none(self, *_: object) -> str:
        raise ValueError("a function for a rare case has no leaf but its argument")

    load = gather = scalar = index = result = row = _none


_NOTHING = _Nothing()
_SIGNED = frozenset(d for d in INTEGERS if d not in UNSIGNED)


_PLAIN: dict[str, tuple[str, str, str]] = {
    "add": ("fadd", "add", "add"),
    "sub": ("fsub", "sub", "sub"),
    "mul": ("fmul", "mul", "mul"),
    "div": ("fdiv", "", ""),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
    "shl": ("", "shl", "shl"),
    "shr": ("", "ashr", "lshr"),
}


_LEAVES: Mapping[str, Callable[[Environment, Instruction, Sequence[str]], str]] = {
    **LEAVES,
    CONTIGUOUS_GATHER: lambda e, at, a: cast(ContiguousGathers, e).contiguous_gather(
        at.value, at.dtype, a[0]
    ),
}
