"""Straight-line code of scalar expressions: what a kernel computes at one place.

A `Code` is a tuple of `Instruction`s in SSA form: an argument is the position of an earlier
instruction. Every instruction has one scalar dtype; a renderer turns it into a vector of lanes,
a C expression or whatever its target computes with. It is plain hashable data, so that a kernel's
identity is its content.

**Leaves** (no arguments unless said; what `value` holds):

| name | value | meaning |
|---|---|---|
| load | operand number | the operand's element at this place |
| gather | operand number | its element at an offset (the argument, int64, in elements) |
| scalar | scalar number | a number that the caller passes |
| constant | the bit pattern | see `bits_of` |
| index | axis number | the running index along that outer axis; -1: the inner axis; int64 |
| result | (stage, number) | a reduction's result in an earlier stage of this row |
| row | (stage, number) | a value that an earlier `Row` stage computed |
| table | tuple of bit patterns | the entry that the argument (int32 or int64) chooses |
| permute | 16 bit patterns | the entry that the lowest four bits of the argument (int32) choose |
| argument | number | an argument of a function that `fallback` names |

**Core operations**, which every renderer has. Both arguments and the result have the dtype of the
instruction unless said otherwise. Floats follow IEEE 754, round to nearest even, not contracted.

| names | dtypes | meaning |
|---|---|---|
| add sub mul neg abs | numbers | integers wrap around |
| min max | numbers | NaN if one is NaN |
| div sqrt floor ceil trunc round | floats | `round` takes the even one of two |
| fma | floats | a * b + c, rounded once or twice, whichever is faster |
| residue | floats | a * b - fl(a * b), exactly |
| scale | floats | a * 2**b, rounded once; b is whole |
| scale_near | floats | the same, cheaper: a finite a is 1/4 to 4 in size, b at most 248 \
(float64: 2040) |
| quotient modulo | integers | C's `/` and `%`; any number, but no trap, by 0 and on overflow |
| and or xor not | bool, integers | bit by bit |
| shl shr | integers | by b, 0 <= b < bits; `shr` of a signed one keeps the sign |
| eq ne lt le gt ge | result bool | of any one dtype; all but `ne` are false for NaN |
| select | any | condition (bool), then two of the dtype |
| cast | any | of another dtype; see below |
| bitcast | any but bool | the same bits as another dtype of the same size |
| fallback | any | (fast, condition, arguments...), value a function's name: where the condition \
holds, the result is that function of the arguments, which is rarely needed and never inlined |

A `cast` of a float to an integer truncates and is undefined outside the integer's range; of an
integer to a smaller one wraps; to bool compares with 0. A cast with the value `"implicit"` rounds
to a half type because an operation's result has that dtype; `CodeBuilder` drops it where the value
is widened again, unless it was told to be exact.

**Composite operations**, which `ingle.fusion.kernel.expand` writes in terms of the core where a
renderer has nothing better: see `COMPOSITE`.

float16 and bfloat16 occur in load, gather, table, constant, scalar, cast, bitcast and select only;
arithmetic on them is done in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ingle.tensor.dtypes import as_dtype


class Instruction(NamedTuple):
    """One operation: its name, the dtype of its result, argument positions, and an attribute."""

    name: str
    dtype: str
    args: tuple[int, ...] = ()
    value: Any = None


Code = tuple[Instruction, ...]

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
HALVES = frozenset({"float16", "bfloat16"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED
DTYPES = FLOATS | INTEGERS | {"bool"}
SIZES = {name: as_dtype(name).itemsize for name in sorted(DTYPES)}
"""Bytes of an element in memory; a bool is a byte."""

LEAVES = frozenset({"load", "scalar", "constant", "index", "result", "row", "argument"})
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})

_UNARY = "neg abs sqrt floor ceil trunc round not cast bitcast gather table permute"
_BINARY = (
    "add sub mul min max div residue scale scale_near quotient modulo and or xor shl shr "
    "eq ne lt le gt ge"
)
_UNARY_COMPOSITE = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc rsqrt sign inverse_normal "
    "short_exp short_exp2 short_ndtr short_reciprocal short_sigmoid short_tanh"
)
_BINARY_COMPOSITE = "floor_div rem pow atan2"

CORE: dict[str, int] = {
    **dict.fromkeys(sorted(LEAVES), 0),
    **dict.fromkeys(_UNARY.split(), 1),
    **dict.fromkeys(_BINARY.split(), 2),
    **dict.fromkeys(("fma", "select"), 3),
    "fallback": -1,
}
"""The core operations with the number of their arguments; -1: at least three."""

COMPOSITE: dict[str, int] = {
    **dict.fromkeys(_UNARY_COMPOSITE.split(), 1),
    **dict.fromkeys(_BINARY_COMPOSITE.split(), 2),
}
"""The composite operations with the number of their arguments."""

_ARITY = {**CORE, **COMPOSITE}


_FORMS = {"float32": Struct("<f"), "float64": Struct("<d")}
"""How Python writes floats: as NumPy does, but for numbers that are too large."""


def bits_of(value: bool | float, dtype: str) -> int:
    """The bit pattern of a number in a dtype, zero-extended: how constants and scalars are held.

    >>> hex(bits_of(1.0, "float32")), hex(bits_of(-1, "int16")), bits_of(-0.0, "float64") >> 63
    ('0x3f800000', '0xffff', 1)
    """
    form = _FORMS.get(dtype)
    if form is not None and type(value) is float:  # a rate is another number in each step
        try:
            return int.from_bytes(form.pack(value), "little")
        except OverflowError:  # it is infinity
            pass
    return _bits_of(type(value).__name__, _key(value), dtype, value)


def _key(value: Any) -> Any:
    return value.hex() if isinstance(value, float) else value  # -0.0 == 0.0, and NaN != NaN


@lru_cache(maxsize=4096)
def _bits_of(kind: str, key: Any, dtype: str, value: Any) -> int:
    if dtype == "bool":
        return int(bool(value))
    if dtype in INTEGERS:
        return int(value) & ((1 << 8 * SIZES[dtype]) - 1)
    with np.errstate(over="ignore"):
        array = np.asarray(value).astype(as_dtype(dtype).dtype)
    return int(array.view(f"u{SIZES[dtype]}"))


def number_of(bits: int, dtype: str) -> bool | int | float:
    """The number that a bit pattern stands for.

    >>> number_of(0x3F800000, "float32"), number_of(0xFFFF, "int16"), number_of(1, "bool")
    (1.0, -1, True)
    """
    if dtype == "bool":
        return bool(bits)
    if dtype in UNSIGNED:
        return bits
    width = 8 * SIZES[dtype]
    if dtype in SIGNED:
        return bits - (1 << width) if bits >> (width - 1) else bits
    return float(np.array(bits, f"u{SIZES[dtype]}").view(as_dtype(dtype).dtype))


class CodeBuilder:
    """Appends instructions, each only once (local value numbering), and simplifies a little.

    What it simplifies keeps every result bit for bit: casts to the same dtype, `x * 1`, `x - 0`,
    double negation, division by a power of two, selection between equals.

    Args:
        exact: keep the rounding to half types between operations.

    >>> b = CodeBuilder()
    >>> x = b.append("load", "float32", (), 0)
    >>> b.append("add", "float32", (x, x)) == b.append("add", "float32", (x, x))
    True
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.instructions: list[Instruction] = []
        self.exact = exact
        self._found: dict[Instruction, int] = {}

    def dtype(self, position: int) -> str:
        """The dtype of an instruction's result."""
        return self.instructions[position].dtype

    def append(self, name: str, dtype: str, args: tuple[int, ...] = (), value: Any = None) -> int:
        """The position of an instruction that computes this; raises ValueError for a bad one."""
        arity = _ARITY.get(name, "no such operation")
        if arity != len(args) and not (arity == -1 and len(args) >= 3):
            raise ValueError(f"{name} of {len(args)} arguments; expected: {arity}")
        simple = _SIMPLIFY.get(name)
        if simple is not None:
            known = simple(self, dtype, args)
            if known is not None:
                return known
        if name in _COMMUTATIVE and args[0] > args[1]:
            args = (args[1], args[0])
        instruction = Instruction(name, dtype, args, value)
        found = self._found.get(instruction)
        if found is None:
            found = self._found[instruction] = len(self.instructions)
            self.instructions.append(instruction)
        return found

    def constant(self, value: bool | float, dtype: str) -> int:
        """A number known when the kernel is made."""
        return self.append("constant", dtype, (), bits_of(value, dtype))

    def number(self, position: int) -> bool | int | float | None:
        """The number at a position, if it is a constant."""
        at = self.instructions[position]
        return number_of(at.value, at.dtype) if at.name == "constant" else None

    def load(self, operand: int, dtype: str) -> int:
        """The element of an operand at this place."""
        return self.append("load", dtype, (), operand)

    def cast(self, position: int, dtype: str) -> int:
        """A value in another dtype, rounded if need be."""
        return self.append("cast", dtype, (position,))

    def widen(self, position: int) -> int:
        """A half type as float32; other dtypes as they are."""
        return self.cast(position, "float32") if self.dtype(position) in HALVES else position

    def narrow(self, position: int, dtype: str) -> int:
        """A result as the dtype that its operation has, which later arithmetic may ignore."""
        if self.dtype(position) == dtype:
            return position
        return self.append("cast", dtype, (position,), "implicit")

    def settled(self, position: int) -> int:
        """A value rounded to its half type, as memory holds it, even if it is held wider here."""
        at = self.instructions[position]
        if at.name == "cast" and at.value == "implicit":
            return self.append("cast", at.dtype, at.args)
        return position

    def offers(self, name: str, dtype: str) -> bool:
        """Whether what the code is for has an instruction that makes another way worth taking."""
        return False

    def inline(
        self, code: Code, replace: Callable[[Instruction], int | None], start: int = 0
    ) -> list[int]:
        """Appends another code; `replace` may give the position that stands for an instruction.

        Returns the new position of each instruction of `code`.
        """
        places: list[int] = []
        for instruction in code[start:]:
            known = replace(instruction)
            if known is None:
                name, dtype, args, value = instruction
                known = self.append(name, dtype, tuple([places[a] for a in args]), value)
            places.append(known)
        return places

    def finish(self, *roots: int) -> tuple[Code, tuple[int, ...]]:
        """The instructions that the roots need, in order, and where the roots are among them."""
        return prune(tuple(self.instructions), roots)


def prune(code: Code, roots: Iterable[int]) -> tuple[Code, tuple[int, ...]]:
    """Only what the roots need, renumbered; equal work gives equal code."""
    roots = tuple(roots)
    needed = [False] * len(code)
    for root in roots:
        needed[root] = True
    for at in range(len(code) - 1, -1, -1):
        if needed[at]:
            for a in code[at].args:
                needed[a] = True
    place: dict[int, int] = {}
    kept: list[Instruction] = []
    for at, instruction in enumerate(code):
        if needed[at]:
            place[at] = len(kept)
            args = tuple([place[a] for a in instruction.args])
            kept.append(instruction._replace(args=args))
    return tuple(kept), tuple(place[r] for r in roots)


def text(code: Code) -> str:
    """The code for people, an instruction a line.

    >>> b = CodeBuilder()
    >>> x = b.load(0, "float32")
    >>> print(text(b.finish(b.append("mul", "float32", (x, b.constant(2, "float32"))))[0]))
    0: float32 load 0
    1: float32 constant 2.0
    2: float32 mul #0 #1
    """
    lines = []
    for at, (name, dtype, args, value) in enumerate(code):
        shown: Any = number_of(value, dtype) if name == "constant" else value
        parts = [f"{at}:", dtype, name, *(f"#{a}" for a in args)]
        if shown is not None:
            parts.append(f"[{len(shown)} entries]" if name == "table" else str(shown))
        lines.append(" ".join(parts))
    return "\n".join(lines)


_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "eq", "ne"})
Known = int | None


def _is(builder: CodeBuilder, position: int, value: float) -> bool:
    at = builder.instructions[position]
    return at.name == "constant" and at.value == bits_of(value, at.dtype)


def _cast(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    source = builder.instructions[args[0]]
    if source.dtype == dtype:
        return args[0]
    if source.name == "constant":
        number = number_of(source.value, source.dtype)
        if dtype in FLOATS or dtype == "bool" or source.dtype not in FLOATS:
            return builder.constant(number, dtype)
    if source.name == "cast" and source.value == "implicit" and not builder.exact:
        inner = source.args[0]
        if builder.dtype(inner) == dtype:
            return inner
    return None


def _neg(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    at = builder.instructions[args[0]]
    return at.args[0] if at.name == "neg" else None


def _not(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    at = builder.instructions[args[0]]
    return at.args[0] if at.name == "not" else None


def _add(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    neutral = -0.0 if dtype in FLOATS else 0
    if _is(builder, args[1], neutral):
        return args[0]
    return args[1] if _is(builder, args[0], neutral) else None


def _sub(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    return args[0] if _is(builder, args[1], 0) else None


def _mul(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    if _is(builder, args[1], 1):
        return args[0]
    return args[1] if _is(builder, args[0], 1) else None


def _div(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    if _is(builder, args[1], 1):
        return args[0]
    number = builder.number(args[1])
    if isinstance(number, float) and abs(number) in _EXACT_INVERSES:
        return builder.append("mul", dtype, (args[0], builder.constant(1 / number, dtype)))
    return None


_EXACT_INVERSES = frozenset(2.0**e for e in range(-100, 101))


def _shift(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    return args[0] if _is(builder, args[1], 0) else None


def _select(builder: CodeBuilder, dtype: str, args: tuple[int, ...]) -> Known:
    condition = builder.number(args[0])
    if condition is not None:
        return args[1] if condition else args[2]
    return args[1] if args[1] == args[2] else None


_SIMPLIFY: dict[str, Callable[[CodeBuilder, str, tuple[int, ...]], Known]] = {
    "add": _add,
    "cast": _cast,
    "div": _div,
    "mul": _mul,
    "neg": _neg,
    "not": _not,
    "select": _select,
    "shl": _shift,
    "shr": _shift,
    "sub": _sub,
}
