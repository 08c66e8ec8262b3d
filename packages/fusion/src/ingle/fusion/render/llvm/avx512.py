"""What AVX-512 has for floats: scaling, and roots and quotients by multiply-adds.

A root or a quotient in 16 lanes keeps the one unit that computes them busy for some ten cycles.
Multiply-adds, of which two are begun in a cycle, give the same bits from an estimate or an inverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...kernel.code import SIZES, bits_of
from .invariant_division import DOUBLED
from .text import Values, constant

if TYPE_CHECKING:
    from .code import CodeRenderer

_HALF_TO_TWO = 1
"""getmant's interval from 1/2 to 2, beside which the exponent is even."""
_SPECIAL_ROOTS = 0x03130121
"""fixupimm's digits, from the lowest on for quiet NaN, signalling NaN, 0, 1, -inf, inf, numbers
below and above 0: 0 keeps the computed root, 1 takes x, 2 its quiet NaN, 3 a new NaN."""


def scale(r: CodeRenderer, dtype: str, args: Values) -> str:
    """a * 2**b, b rounded down to a whole number."""
    kind, bits = r.type(dtype), 8 * SIZES[dtype] * r.lanes
    name = f"llvm.x86.avx512.mask.scalef.{'ps' if dtype == 'float32' else 'pd'}.{bits}"
    mask = f"i{max(r.lanes, 8)} -1"
    rounding = ["i32 4"] if bits == 512 else []
    a, b = (f"{kind} {x}" for x in args)
    return r.writer.call("scale", kind, name, a, b, f"{kind} poison", mask, *rounding)


def sqrt(r: CodeRenderer, dtype: str, args: Values) -> str:
    """The square root of a mantissa, scaled by half its exponent.

    From any estimate of 14 bits a step of Newton's leads to a root and half an inverse root that
    are off by a unit in the last place at most. From all of these the last step, whose residue is
    exact, comes to the nearest float32, for each of the 2**24 mantissas.
    """
    (x,) = args
    if not (r.target.estimates and dtype == "float32" and r.lanes in (8, 16)):
        return r.intrinsic("sqrt", dtype, x)
    half = constant(bits_of(0.5, dtype), dtype, r.lanes)
    m = _masked(r, "getmant", x, f"i32 {_HALF_TO_TWO}")
    y = _rsqrt14(r, m)
    root, inverse = _product(r, m, y), _product(r, y, half)
    error = _minus(r, inverse, root, half)
    root = r.intrinsic("fma", dtype, root, error, root)
    inverse = r.intrinsic("fma", dtype, inverse, error, inverse)
    root = r.intrinsic("fma", dtype, _minus(r, root, root, m), inverse, root)
    exponent = r.intrinsic("fma", dtype, _masked(r, "getexp", x), half, half)
    return _special_root(r, scale(r, dtype, [root, exponent]), x)


def quotient(r: CodeRenderer, dtype: str, args: Values) -> str:
    """A quotient from the inverse of the divisor; see `quotients`.

    With the inverse rounded to nearest this is the nearest float32 for all divisors: a computed
    quotient is off by 1.5 units in the last place before the correction, and by so little behind
    it that only quotients right beside the middle of two float32 could come out wrong. These can
    be listed for every divisor, and are right.
    """
    a, b, inverse, least, count = args
    kind, words, w = r.type(dtype), r.type("uint32"), r.writer
    first = _product(r, a, inverse)
    negative = r.intrinsic("fma", dtype, b, first, w.let("neg", f"fneg {kind} {a}"))
    near = _minus(r, negative, inverse, first)
    bits = w.let("bits", f"bitcast {kind} {a} to {words}")
    size = w.let("size", f"shl {words} {bits}, {constant(1, 'uint32', r.lanes)}")
    beyond = w.let("beyond", f"sub {words} {size}, {constant(DOUBLED, 'uint32', r.lanes)}")
    some = r.compare("ge", "uint32", size, least)
    outside = r.compare("ge", "uint32", beyond, count)
    far = r.any(w.let("far", f"and {r.type('bool')} {some}, {outside}"))
    divided = w.when(far, [(kind, near)], lambda: [w.let("div", f"fdiv {kind} {a}, {b}")],
                     rarely=True)  # fmt: skip
    return divided[0]


def _product(r: CodeRenderer, a: str, b: str) -> str:
    return r.writer.let("mul", f"fmul {r.type('float32')} {a}, {b}")


def _minus(r: CodeRenderer, a: str, b: str, c: str) -> str:
    """c - a * b, rounded once."""
    negated = r.writer.let("neg", f"fneg {r.type('float32')} {a}")
    return r.intrinsic("fma", "float32", negated, b, c)


def _masked(r: CodeRenderer, name: str, x: str, *arguments: str) -> str:
    """One of AVX-512's instructions that can leave lanes out, with all of them."""
    kind, bits = r.type("float32"), 32 * r.lanes
    rounding = ["i32 4"] if bits == 512 else []
    return r.writer.call(
        name, kind, f"llvm.x86.avx512.mask.{name}.ps.{bits}",
        f"{kind} {x}", *arguments, f"{kind} zeroinitializer", f"i{r.lanes} -1", *rounding,
    )  # fmt: skip


def _rsqrt14(r: CodeRenderer, x: str) -> str:
    kind = r.type("float32")
    name = f"llvm.x86.avx512.rsqrt14.ps.{32 * r.lanes}"
    zero = f"{kind} zeroinitializer"
    return r.writer.call("rsqrt", kind, name, f"{kind} {x}", zero, f"i{r.lanes} -1")


def _special_root(r: CodeRenderer, root: str, x: str) -> str:
    """The root, or what it is where x has none or is its own."""
    kind, bits = r.type("float32"), 32 * r.lanes
    table = f"{r.type('int32')} splat (i32 {_SPECIAL_ROOTS})"
    rounding = ["i32 4"] if bits == 512 else []
    return r.writer.call(
        "root", kind, f"llvm.x86.avx512.mask.fixupimm.ps.{bits}",
        f"{kind} {root}", f"{kind} {x}", table, "i32 0", f"i{r.lanes} -1", *rounding,
    )  # fmt: skip
