"""Core operations that are more than one instruction of LLVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...kernel.code import FLOATS, SIZES, UNSIGNED
from .avx512 import quotient, scale, sqrt
from .invariant_division import INVARIANT_DIVISION
from .text import Values, constant, scalar_type, suffix

if TYPE_CHECKING:
    from .code import CodeRenderer


def _neg(r: CodeRenderer, dtype: str, args: Values) -> str:
    if dtype in FLOATS:
        return r.writer.let("neg", f"fneg {r.type(dtype)} {args[0]}")
    return r.writer.let("neg", f"sub {r.type(dtype)} {constant(0, dtype, r.lanes)}, {args[0]}")


def _abs(r: CodeRenderer, dtype: str, args: Values) -> str:
    if dtype in FLOATS:
        return r.intrinsic("fabs", dtype, args[0])
    if dtype in UNSIGNED or dtype == "bool":
        return args[0]
    kind = r.type(dtype)
    name = f"llvm.abs.{suffix(scalar_type(dtype), r.lanes)}"
    return r.writer.call("abs", kind, name, f"{kind} {args[0]}", "i1 false")


def _not(r: CodeRenderer, dtype: str, args: Values) -> str:
    ones = constant(1 if dtype == "bool" else (1 << 8 * SIZES[dtype]) - 1, dtype, r.lanes)
    return r.writer.let("not", f"xor {r.type(dtype)} {args[0]}, {ones}")


def _fma(r: CodeRenderer, dtype: str, args: Values) -> str:
    if r.target.fma:
        return r.intrinsic("fma", dtype, *args)
    product = r.writer.let("mul", f"fmul {r.type(dtype)} {args[0]}, {args[1]}")
    return r.writer.let("fma", f"fadd {r.type(dtype)} {product}, {args[2]}")


def _residue(r: CodeRenderer, dtype: str, args: Values) -> str:
    kind = r.type(dtype)
    product = r.writer.let("mul", f"fmul {kind} {args[0]}, {args[1]}")
    return r.intrinsic("fma", dtype, *args, r.writer.let("neg", f"fneg {kind} {product}"))


def _divided(word: str, r: CodeRenderer, dtype: str, args: Values) -> str:
    """An integer quotient or remainder. Processors trap at a divisor of 0 and at the smallest
    number by -1, also in lanes that nobody asked for: such are divided by 1."""
    a, b = args
    kind, signed = r.type(dtype), dtype not in UNSIGNED
    bad = r.compare("eq", dtype, b, constant(0, dtype, r.lanes))
    if signed:
        bits = 8 * SIZES[dtype]
        lowest = r.compare("eq", dtype, a, constant(1 << (bits - 1), dtype, r.lanes))
        negated = r.compare("eq", dtype, b, constant((1 << bits) - 1, dtype, r.lanes))
        over = r.writer.let("over", f"and {r.type('bool')} {lowest}, {negated}")
        bad = r.writer.let("bad", f"or {r.type('bool')} {bad}, {over}")
    divisor = r.select(dtype, bad, constant(1, dtype, r.lanes), b)
    sign = "s" if signed else "u"
    return r.writer.let(word, f"{sign}{word} {kind} {a}, {divisor}")


def permute(r: CodeRenderer, dtype: str, index: str, entries: tuple[int, ...]) -> str:
    """The entry of 16 that the lowest four bits of an int32 choose."""
    if dtype != "float32" or not r.target.permute or r.lanes < 8:
        low = r.writer.let(
            "low", f"and {r.type('int32')} {index}, {constant(15, 'int32', r.lanes)}"
        )
        return r.table(dtype, "int32", low, entries)
    if r.lanes == 8:
        halves = [_numbers(entries[:8]), _numbers(entries[8:])]
        arguments = [f"<8 x float> {halves[0]}", f"<8 x i32> {index}", f"<8 x float> {halves[1]}"]
        return r.writer.call(
            "entry", "<8 x float>", "llvm.x86.avx512.vpermi2var.ps.256", *arguments
        )
    chosen = [_permuted(r, index, entries, start) for start in range(0, r.lanes, 16)]
    width = 16
    while len(chosen) > 1:
        order = ", ".join(f"i32 {n}" for n in range(2 * width))
        chosen = [
            r.writer.let(
                "entry",
                f"shufflevector <{width} x float> {a}, <{width} x float> {b}, "
                f"<{2 * width} x i32> <{order}>",
            )
            for a, b in zip(chosen[::2], chosen[1::2], strict=True)
        ]
        width *= 2
    return chosen[0]


def _permuted(r: CodeRenderer, index: str, entries: tuple[int, ...], start: int) -> str:
    """The entries for the 16 lanes from one on."""
    if r.lanes > 16:
        kind, order = r.type("int32"), ", ".join(f"i32 {n}" for n in range(start, start + 16))
        part = f"shufflevector {kind} {index}, {kind} poison, <16 x i32> <{order}>"
        index = r.writer.let("part", part)
    arguments = [f"<16 x float> {_numbers(entries)}", f"<16 x i32> {index}"]
    return r.writer.call("entry", "<16 x float>", "llvm.x86.avx512.permvar.sf.512", *arguments)


def _numbers(entries: Sequence[int]) -> str:
    return "<" + ", ".join(f"float {constant(e, 'float32', 1)}" for e in entries) + ">"


SPECIAL: dict[str, Callable[[CodeRenderer, str, Values], str]] = {
    "abs": _abs,
    "ceil": lambda r, d, a: r.intrinsic("ceil", d, *a),
    "floor": lambda r, d, a: r.intrinsic("floor", d, *a),
    "fma": _fma,
    "max": lambda r, d, a: r.minmax(d, a, larger=True),
    "min": lambda r, d, a: r.minmax(d, a, larger=False),
    "modulo": partial(_divided, "rem"),
    "neg": _neg,
    "not": _not,
    "quotient": partial(_divided, "div"),
    INVARIANT_DIVISION: quotient,
    "residue": _residue,
    "round": lambda r, d, a: r.intrinsic("roundeven", d, *a),
    "scale": scale,
    "scale_near": scale,
    "sqrt": sqrt,
    "trunc": lambda r, d, a: r.intrinsic("trunc", d, *a),
}
