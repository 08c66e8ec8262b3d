"""Functions that generated C calls: what takes more than an operator, each put in when needed."""

from __future__ import annotations

from ...kernel.code import FLOATS, HALVES, SIZES, UNSIGNED, bits_of
from .text import Source, literal, value_type


def minmax(source: Source, dtype: str, larger: bool) -> str:
    """The larger or smaller of two; NaN if one is NaN."""
    kind, sign = value_type(dtype), ">" if larger else "<"
    name = f"{'max' if larger else 'min'}_{dtype}"
    chosen = f"a {sign} b ? a : b"
    body = [f"return {chosen};"]
    if dtype in FLOATS:
        own = f"INGLE_{name.upper()}"
        machines = [f"#ifdef {own}", f"return {own}(a, b);", "#endif"]
        body = [*machines, f"return a != a ? a : ({chosen});"]
    return source.need(name, _function(kind, name, f"{kind} a, {kind} b", body))


def fma(source: Source, dtype: str) -> str:
    """a * b + c, rounded once where the machine does that in one instruction."""
    kind = value_type(dtype)
    name, letter = f"fma_{dtype}", "F" if dtype == "float32" else ""
    text = (
        f"#ifdef FP_FAST_FMA{letter}\n#define {name} fma{letter.lower()}\n#else\n"
        + _function(kind, name, f"{kind} a, {kind} b, {kind} c", ["return a * b + c;"])
        + "\n#endif"
    )
    return source.need(name, text)


def residue(source: Source, dtype: str) -> str:
    """a * b - fl(a * b), exactly: by fma, or by Dekker's halves (Numer. Math. 18, 1971)."""
    kind = value_type(dtype)
    name, letter = f"residue_{dtype}", "F" if dtype == "float32" else ""
    parameters = f"{kind} a, {kind} b"
    halves: list[str] = []
    for x in "ab":
        halves += [
            f"const {kind} {x}_scaled = {x} * {'4097.0f' if letter else '134217729.0'};",
            f"const {kind} {x}_high = {x}_scaled - ({x}_scaled - {x});",
            f"const {kind} {x}_low = {x} - {x}_high;",
        ]
    halves.append(
        "return ((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low;"
    )
    fast = _function(kind, name, parameters, [f"return fma{letter.lower()}(a, b, -(a * b));"])
    text = f"#ifdef FP_FAST_FMA{letter}\n{fast}\n#else\n{_function(kind, name, parameters, halves)}"
    return source.need(name, f"{text}\n#endif")


def scale_near(source: Source, dtype: str) -> str:
    """x * 2**n of a whole float n, by two factors: n stands in the last places of a larger number,
    where finding it takes no conversion with its questions about what does not fit."""
    kind, width = value_type(dtype), 8 * SIZES[dtype]
    places, bias = (23, 127) if width == 32 else (52, 1023)
    to_bits = bitcast(source, f"int{width}", dtype)
    to_float = bitcast(source, dtype, f"uint{width}")
    bits = bits_of(1.5 * 2.0**places, dtype)
    large, pattern = literal(bits, dtype), literal(bits, f"int{width}")
    body = [
        f"const int{width}_t whole = {to_bits}(n + {large}) - {pattern};",
        "/* A number that is none has no exponent either, and stays none. */",
        f"const int{width}_t part = whole >> 1, rest = whole - part;",  # OpenCL has `half`
        f"const {kind} first = {to_float}((uint{width}_t)(part + {bias}) << {places});",
        f"return x * first * {to_float}((uint{width}_t)(rest + {bias}) << {places});",
    ]
    name = f"scale_near_{dtype}"
    return source.need(name, _function(kind, name, f"{kind} x, {kind} n", body))


def bitcast(source: Source, dtype: str, origin: str) -> str:
    """The same bits as another type of the same size."""
    new, old = value_type(dtype), value_type(origin)
    name = f"{new.removesuffix('_t')}_of_{old.removesuffix('_t')}_bits"
    body = [f"const union {{ {old} from; {new} to; }} bits = {{ x }};", "return bits.to;"]
    return source.need(name, _function(new, name, f"{old} x", body))


def to_integer(source: Source, dtype: str, origin: str) -> str:
    """A float truncated; what does not fit becomes a number, which one is not said."""
    kind, old, width = value_type(dtype), value_type(origin), 8 * SIZES[dtype]
    end = "f" if origin == "float32" else ""
    low, high = f"(-{2.0 ** (width - 1)!r}{end})", f"{2.0 ** (width - 1)!r}{end}"
    fits, other = f"x >= {low} && x < {high}", literal(1 << (width - 1), dtype)
    if dtype in UNSIGNED:
        fits, other = f"x > (-1.0{end}) && x < {2.0**width!r}{end}", literal(0, dtype)
    name = f"{dtype}_of_{origin}"
    body = [
        f"const bool fits = {fits};",
        f"const {kind} whole = ({kind})(fits ? x : 0);",
        f"return fits ? whole : {other};",
    ]
    return source.need(name, _function(kind, name, f"{old} x", body))


def widen(source: Source, dtype: str) -> str:
    """A half type as float32, exactly."""
    to_float = bitcast(source, "float32", "uint32")
    if dtype == "bfloat16":
        body = [f"return {to_float}((uint32_t)x << 16);"]
    else:
        to_bits = bitcast(source, "uint32", "float32")
        body = [
            "const uint32_t sign = (uint32_t)(x & 0x8000) << 16;",
            "const uint32_t rest = (uint32_t)(x & 0x7fff);",
            *_by_machine("WIDENED", dtype, "rest <= 0x7c00"),
            "/* Below 0x0400 it is that many steps of 2**-24; above, another bias. */",
            f"const uint32_t small = {to_bits}((float)rest * 0x1p-24f);",
            "const uint32_t normal = (rest << 13) + (UINT32_C(112) << 23);",
            "/* Infinity, or a NaN, which becomes a quiet one. */",
            "const uint32_t special = (rest << 13) | UINT32_C(0x7f800000)",
            "                       | (rest > 0x7c00 ? UINT32_C(0x400000) : 0);",
            "const uint32_t bits = rest < 0x0400 ? small : rest < 0x7c00 ? normal : special;",
            f"return {to_float}(sign | bits);",
        ]
    name = f"float32_of_{dtype}"
    return source.need(name, _function("float", name, "uint16_t x", body))


def narrow(source: Source, dtype: str, origin: str) -> str:
    """A float as a half type, to the nearest, of two to the even one; a NaN keeps its bits."""
    if origin == "float64":
        return _narrow_double(source)
    to_bits = bitcast(source, "uint32", "float32")
    body = [f"const uint32_t bits = {to_bits}(x);"]
    if dtype == "bfloat16":
        body += [
            "if (x != x)",
            "    return (uint16_t)((bits >> 16) | 0x40);",
            *_by_machine("ROUNDED", dtype),
            "return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);",
        ]
    else:
        to_float = bitcast(source, "float32", "uint32")
        body += [
            "const uint32_t sign = (bits >> 16) & 0x8000;",
            "const uint32_t rest = bits & UINT32_C(0x7fffffff);",
            "if (rest > UINT32_C(0x7f800000))",
            "    return (uint16_t)(sign | 0x7e00 | ((rest >> 13) & 0x1ff));",
            *_by_machine("ROUNDED", dtype),
            "if (rest >= UINT32_C(0x477ff000)) /* rounds to 2**16 or more */",
            "    return (uint16_t)(sign | 0x7c00);",
            "if (rest >= UINT32_C(0x38800000)) /* a normal number */",
            "    return (uint16_t)(sign | ((rest - (UINT32_C(112) << 23) + 0xfff"
            " + ((rest >> 13) & 1)) >> 13));",
            "/* Steps of 2**-24: adding 1.5 * 2**-1 leaves as many bits as there are. */",
            f"return (uint16_t)(sign | ({to_bits}({to_float}(rest) + 0.75f)"
            " - UINT32_C(0x3f400000)));",
        ]
    name = f"{dtype}_of_float32"
    return source.need(name, _function("uint16_t", name, "float x", body))


def narrow_computed(source: Source, dtype: str) -> str:
    """`narrow` of a float32 that arithmetic made: the bits of a NaN are the machine's anyway."""
    kept, name = narrow(source, dtype, "float32"), f"{dtype}_of_computed_float32"
    body = [*_by_machine("ROUNDED", dtype), f"return {kept}(x);"]
    return source.need(name, _function("uint16_t", name, "float x", body))


def widen_to_compute(source: Source) -> str:
    """`widen` of a float16 for arithmetic, which gives a NaN the bits of the machine."""
    kept, name = widen(source, "float16"), "computable_float32_of_float16"
    body = [*_by_machine("WIDENED", "float16"), f"return {kept}(x);"]
    return source.need(name, _function("float", name, "uint16_t x", body))


def _by_machine(what: str, dtype: str, where: str = "") -> list[str]:
    """The conversion as one instruction, where the language names it; it changes NaN's bits."""
    name, condition = f"INGLE_{what}_{dtype.upper()}", f"if ({where}) " if where else ""
    return [f"#ifdef {name}", f"{condition}return {name}(x);", "#endif"]


def _narrow_double(source: Source) -> str:
    """Over float32, rounded to odd, so that rounding again is rounding once."""
    to_bits = bitcast(source, "uint32", "float32")
    to_float = bitcast(source, "float32", "uint32")
    narrower = narrow(source, "float16", "float32")
    body = [
        "const float near = (float)x;",
        f"uint32_t bits = {to_bits}(near);",
        "if ((double)near != x && x == x) {",
        "    bits -= fabs((double)near) > fabs(x);",
        "    bits |= 1;",
        "}",
        f"return {narrower}({to_float}(bits));",
    ]
    name = "float16_of_float64"
    return source.need(name, _function("uint16_t", name, "double x", body))


def two_sum(source: Source, dtype: str) -> str:
    """Adds to a total and its error: Knuth's exact sum of two floats."""
    kind = value_type(dtype)
    name = f"add_exactly_{dtype}"
    body = [
        f"const {kind} sum = *total + value;",
        f"const {kind} part = sum - *total;",
        "*error = *error + ((*total - (sum - part)) + (value - part));",
        "*total = sum;",
    ]
    parameters = f"{kind} *total, {kind} *error, {kind} value"
    return source.need(name, _function("void", name, parameters, body))


def with_error(source: Source, dtype: str) -> str:
    """A total with its error, which is NaN beside infinities, and would turn -0.0 into 0.0."""
    kind = value_type(dtype)
    name = f"with_error_{dtype}"
    body = ["return error < 0 || error > 0 ? total + error : total;"]
    return source.need(name, _function(kind, name, f"{kind} total, {kind} error", body))


def divided(source: Source, dtype: str, name: str) -> str:
    """An integer quotient or remainder; by 1 where processors trap."""
    kind = value_type(dtype)
    bad = "b == 0"
    if dtype not in UNSIGNED:
        bad += f" || (a == {literal(1 << (8 * SIZES[dtype] - 1), dtype)} && b == -1)"
    sign = "/" if name == "quotient" else "%"
    body = [f"return ({kind})(a {sign} ({bad} ? 1 : b));"]
    symbol = f"{name}_{dtype}"
    return source.need(symbol, _function(kind, symbol, f"{kind} a, {kind} b", body))


def better(source: Source, dtype: str, larger: bool) -> str:
    """Whether a value replaces the best one: it is beyond it or NaN, and that is not NaN."""
    kind, name = value_type(dtype), f"{'above' if larger else 'below'}_{dtype}"
    result = f"value {'>' if larger else '<'} best"
    if dtype in FLOATS and dtype not in HALVES:
        result = f"!(value {'<=' if larger else '>='} best) && best == best"
    body = [f"return {result};"]
    return source.need(name, _function("bool", name, f"{kind} value, {kind} best", body))


def least(source: Source) -> str:
    """The smaller of two sizes."""
    parameters, body = "int64_t a, int64_t b", ["return a < b ? a : b;"]
    return source.need("least", _function("int64_t", "least", parameters, body))


def _function(kind: str, name: str, parameters: str, body: list[str]) -> str:
    lines = [f"static inline {kind} {name}({parameters})", "{", *[f"    {b}" for b in body], "}"]
    return "\n".join(lines)
