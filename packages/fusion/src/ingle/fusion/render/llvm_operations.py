"""Core operations that are more than one instruction of LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..kernel.code import FLOATS, SIZES, UNSIGNED
from .llvm_text import Values, constant, scalar_type, suffix

if TYPE_CHECKING:
    from .llvm_code import CodeRenderer


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


def _scale(r: CodeRenderer, dtype: str, args: Values) -> str:
    kind = r.type(dtype)
    letter, mask = ("ps", "i16") if dtype == "float32" else ("pd", "i8")
    name = f"llvm.x86.avx512.mask.scalef.{letter}.512"
    a, b = (f"{kind} {x}" for x in args)
    return r.writer.call("scale", kind, name, a, b, f"{kind} poison", f"{mask} -1", "i32 4")


SPECIAL: dict[str, Callable[[CodeRenderer, str, Values], str]] = {
    "abs": _abs,
    "ceil": lambda r, d, a: r.intrinsic("ceil", d, *a),
    "floor": lambda r, d, a: r.intrinsic("floor", d, *a),
    "fma": _fma,
    "max": lambda r, d, a: r.minmax(d, a, larger=True),
    "min": lambda r, d, a: r.minmax(d, a, larger=False),
    "neg": _neg,
    "not": _not,
    "residue": _residue,
    "round": lambda r, d, a: r.intrinsic("roundeven", d, *a),
    "scale": _scale,
    "sqrt": lambda r, d, a: r.intrinsic("sqrt", d, *a),
    "trunc": lambda r, d, a: r.intrinsic("trunc", d, *a),
}
