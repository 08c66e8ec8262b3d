"""Scalar code as statements of C: one constant for each instruction, named by what it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ...kernel.code import (
    COMPOSITE,
    FLOATS,
    HALVES,
    INTEGERS,
    SIZES,
    UNSIGNED,
    Code,
    CodeBuilder,
    Instruction,
)
from ...kernel.expand import Native, expand, function_code
from ..leaves import LEAVES, Environment
from . import helpers
from .dialect import Dialect, functions_of
from .machine_conversions import NARROW_COMPUTED, WIDEN_TO_COMPUTE
from .text import Scope, Source, literal, memory_type, unsigned_type, value_type


def native(name: str, dtype: str, source: str) -> bool:
    """Whether C, with its mathematical library and the helpers, has an operation of the code."""
    return name not in COMPOSITE and name not in ("scale", "permute")


@lru_cache(maxsize=8)
def _native_to(functions: frozenset[str]) -> Native:
    """Whether a dialect has an operation of the code, or such a function in its place."""

    def found(name: str, dtype: str, source: str) -> bool:
        return (name in functions and dtype == "float32") or native(name, dtype, source)

    return found


def expanded(code: Code, roots: Iterable[int], dialect: Dialect) -> tuple[Code, tuple[int, ...]]:
    """The code in terms of what a dialect of C has."""
    return expand(code, roots, _native_to(functions_of(dialect)))


class CodeRenderer:
    """Writes code as C into scopes.

    Args:
        source: takes the helper functions and tables that the code needs.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._count = 0

    def render(
        self,
        code: Code,
        environment: Environment,
        scope: Scope,
        known: dict[int, str],
        places: Iterable[int],
        rare: bool = True,
    ) -> dict[int, str]:
        """Writes the instructions at `places` and returns all expressions by position.

        Args:
            code: in terms of what the dialect has.
            known: expressions of positions that were written before.
            rare: whether a rare case may be among what is computed.
        """
        found = dict(known)
        for at in places:
            if at in found:
                continue
            instruction = code[at]
            if instruction.name == "constant":
                found[at] = literal(instruction.value, instruction.dtype)
                continue
            if instruction.name == "fallback" and not rare:
                found[at] = found[instruction.args[0]]
                continue
            args = [found[a] for a in instruction.args]
            shown = self._expression(code, instruction, args, environment)
            if instruction.name not in _NAMED_ALREADY:
                shown = self._named(scope, instruction, shown)
            found[at] = shown
        return found

    def _named(self, scope: Scope, at: Instruction, shown: str) -> str:
        self._count += 1
        hint = f"x{at.value}" if at.name == "load" else _HINTS.get(at.name, at.name)
        name = f"{hint}_{self._count}"
        scope.add(f"const {value_type(at.dtype)} {name} = {shown};")
        return name

    def _expression(
        self, code: Code, at: Instruction, args: Sequence[str], environment: Environment
    ) -> str:
        name, dtype, places, value = at
        leaf = LEAVES.get(name)
        if leaf is not None:
            return leaf(environment, at, args)
        origin = code[places[0]].dtype if places else dtype
        match name:
            case "argument":
                return f"x{value}"
            case "cast":
                return self.cast(dtype, origin, args[0])
            case "bitcast":
                return self._bitcast(dtype, origin, args[0])
            case "select":
                return f"{args[0]} ? {args[1]} : {args[2]}"
            case "table":
                return f"{self._table(dtype, value)}[{args[0]}]"
            case "permute":
                return f"{self._table(dtype, value)}[{args[0]} & 15]"
            case "fallback":
                function = self._function(value, tuple([code[p].dtype for p in places[2:]]))
                return f"{args[1]} ? {function}({', '.join(args[2:])}) : {args[0]}"
        if name == NARROW_COMPUTED:
            return f"{helpers.narrow_computed(self.source, dtype)}({args[0]})"
        if name == WIDEN_TO_COMPUTE:
            return f"{helpers.widen_to_compute(self.source)}({args[0]})"
        if name in _COMPARISONS:
            return f"{args[0]} {_COMPARISONS[name]} {args[1]}"
        if dtype in FLOATS:
            return self._float(name, dtype, args)
        if dtype == "bool":
            return self._bool(name, args)
        return self._integer(name, dtype, args)

    def _float(self, name: str, dtype: str, args: Sequence[str]) -> str:
        if name in _OPERATORS:
            return f"{args[0]} {_OPERATORS[name]} {args[1]}"
        if name == "neg":
            return f"-{args[0]}"
        if name in COMPOSITE:
            return f"{self._machines(name, dtype)}({args[0]})"
        if name in _LIBRARY:
            return f"{_LIBRARY[name]}{'f' if dtype == 'float32' else ''}({args[0]})"
        function = _FUNCTIONS.get(name)
        if function is not None:
            return f"{function(self.source, dtype)}({', '.join(args)})"
        return self._minmax(name, dtype, args)

    def _minmax(self, name: str, dtype: str, args: Sequence[str]) -> str:
        if name not in ("min", "max"):
            raise ValueError(f"the C renderer has no {name} of {dtype}")
        return f"{helpers.minmax(self.source, dtype, name == 'max')}({args[0]}, {args[1]})"

    def _bool(self, name: str, args: Sequence[str]) -> str:
        if name == "not":
            return f"!{args[0]}"
        sign = {"and": "&", "or": "|", "xor": "^", "min": "&", "max": "|"}.get(name)
        if sign is None:
            raise ValueError(f"the C renderer has no {name} of bool")
        return f"{args[0]} {sign} {args[1]}"

    def _integer(self, name: str, dtype: str, args: Sequence[str]) -> str:
        """In an unsigned type that is not promoted, so that it wraps around."""
        kind, wide = value_type(dtype), unsigned_type(dtype)
        wrapped = [f"({wide}){a}" for a in args]
        match name:
            case "add" | "sub" | "mul" | "and" | "or" | "xor":
                return f"({kind})({wrapped[0]} {_OPERATORS[name]} {wrapped[1]})"
            case "shl":
                return f"({kind})({wrapped[0]} << {args[1]})"
            case "shr":
                return f"({kind})({args[0]} >> {args[1]})"
            case "quotient" | "modulo":
                function = helpers.divided(self.source, dtype, name)
                return f"{function}({args[0]}, {args[1]})"
            case "neg":
                return f"({kind})(0 - {wrapped[0]})"
            case "not":
                return f"({kind})~{wrapped[0]}"
            case "abs":
                negated = f"({kind})(0 - {wrapped[0]})"
                return args[0] if dtype in UNSIGNED else f"{args[0]} < 0 ? {negated} : {args[0]}"
        return self._minmax(name, dtype, args)

    def cast(self, dtype: str, origin: str, value: str) -> str:
        """A value of another dtype."""
        if origin in HALVES:
            wide = f"{helpers.widen(self.source, origin)}({value})"
            return wide if dtype == "float32" else self.cast(dtype, "float32", wide)
        if dtype in HALVES:
            if origin not in FLOATS or (dtype, origin) == ("bfloat16", "float64"):
                origin, value = "float32", f"(float){value}"
            return f"{helpers.narrow(self.source, dtype, origin)}({value})"
        if dtype == "bool":
            return f"{value} != 0"
        if origin in FLOATS and dtype in INTEGERS:
            wide = dtype if SIZES[dtype] >= 4 else "int32"
            whole = f"{helpers.to_integer(self.source, wide, origin)}({value})"
            return whole if wide == dtype else f"({value_type(dtype)}){whole}"
        return f"({value_type(dtype)}){value}"

    def _bitcast(self, dtype: str, origin: str, value: str) -> str:
        new, old = value_type(dtype), value_type(origin)
        if new == old:
            return value
        if "float" not in (new, old) and "double" not in (new, old):
            return f"({new}){value}"
        return f"{helpers.bitcast(self.source, dtype, origin)}({value})"

    def _table(self, dtype: str, entries: tuple[int, ...]) -> str:
        kind = memory_type(dtype)
        shown = [literal(e, dtype) for e in entries]
        rows = [", ".join(shown[at : at + 4]) for at in range(0, len(shown), 4)]
        numbers = ",\n    ".join(rows)
        definition = f"[{len(entries)}] = {{\n    {numbers},\n}};"
        name = f"table_{hash_of(definition)}"
        return self.source.need(name, f"{self.source.dialect.table} {kind} {name}{definition}")

    def _function(self, name: str, dtypes: tuple[str, ...]) -> str:
        """A function for a rare case, written if it is not there yet."""
        code, (root,) = expanded(*function_code(name, dtypes), self.source.dialect)
        kind, symbol = value_type(code[root].dtype), f"{name}_{dtypes[0]}"
        parameters = ", ".join([f"{value_type(d)} x{n}" for n, d in enumerate(dtypes)])
        lines = self._returned(code, root)
        text = "\n".join([f"static {kind} {symbol}({parameters})", "{", *lines, "}"])
        return self.source.need(symbol, text)

    def _machines(self, name: str, dtype: str) -> str:
        """A function that the machine may have, and as a polynomial if it has none."""
        builder = CodeBuilder()
        argument = builder.append("argument", dtype, (), 0)
        code, (root,) = expand(*builder.finish(builder.append(name, dtype, (argument,))), native)
        kind, symbol = value_type(dtype), f"{name}_{dtype}"
        own = f"INGLE_{symbol.upper()}"
        head = [f"static inline {kind} {symbol}({kind} x0)", "{", f"#ifdef {own}"]
        lines = self._returned(code, root)
        text = "\n".join([*head, f"    return {own}(x0);", "#else", *lines, "#endif", "}"])
        return self.source.need(symbol, text)

    def _returned(self, code: Code, root: int) -> list[str]:
        """The lines of a function's body, which computes a code of its arguments."""
        scope = Scope()
        done = CodeRenderer(self.source).render(code, _NOTHING, scope, {}, range(len(code)))
        scope.add(f"return {done[root]};")
        return [f"    {line}" for line in scope.lines()]


def hash_of(text: str) -> str:
    """A short name for a text, the same in every process."""
    total = 0
    for letter in text.encode():
        total = (total * 1000003 ^ letter) & 0xFFFFFFFF
    return f"{total:08x}"


class _Nothing:
    """An environment without leaves."""

    def _none(self, *_: object) -> str:
        raise ValueError("a function for a rare case has no leaves but its arguments")

    load = gather = scalar = index = result = row = _none


_NOTHING = _Nothing()
_NAMED_ALREADY = frozenset({"scalar", "index", "result", "row", "argument"})
_HINTS = {"and": "both", "or": "either", "xor": "differ", "not": "inverse", "cast": "as",
          WIDEN_TO_COMPUTE: "as", NARROW_COMPUTED: "as",
          "bitcast": "bits", "select": "chosen", "table": "entry", "gather": "found",
          "fallback": "safe", "min": "smaller", "max": "larger"}  # fmt: skip
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_FUNCTIONS = {
    "fma": helpers.fma, "residue": helpers.residue, "scale_near": helpers.scale_near
}  # fmt: skip
_LIBRARY = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint",
            "abs": "fabs"}  # fmt: skip
