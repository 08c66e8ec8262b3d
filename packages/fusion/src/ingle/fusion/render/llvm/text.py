"""Writing LLVM IR: names, types, constants, blocks, loops."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from ...kernel.code import FLOATS, number_of

Values = list[str]

_TYPES = {
    "bool": "i1",
    "float16": "i16",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_SUFFIXES = {"float": "f32", "double": "f64", "ptr": "p0"}


def scalar_type(dtype: str) -> str:
    """LLVM's type of one value; half types are held as their bits."""
    return _TYPES[dtype]


def value_type(dtype: str, lanes: int) -> str:
    """LLVM's type of a value in every lane."""
    return _TYPES[dtype] if lanes == 1 else f"<{lanes} x {_TYPES[dtype]}>"


def memory_type(dtype: str) -> str:
    """LLVM's type of an element in memory."""
    return "i8" if dtype == "bool" else _TYPES[dtype]


def suffix(kind: str, lanes: int) -> str:
    """How overloaded intrinsics name a type, as in `v16f32`."""
    scalar = _SUFFIXES.get(kind, kind)
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def vector_type(kind: str, lanes: int) -> str:
    """A vector of a type by LLVM's name; the type itself for one lane."""
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def constant(bits: int, dtype: str, lanes: int) -> str:
    """A bit pattern as an operand."""
    if dtype in ("float32", "float64"):
        shown = _float(bits, dtype)
    elif dtype == "bool":
        shown = "true" if bits else "false"
    else:
        shown = str(bits if dtype in FLOATS else int(number_of(bits, dtype)))
    return shown if lanes == 1 else f"splat ({_TYPES[dtype]} {shown})"


def _float(bits: int, dtype: str) -> str:
    if dtype == "float32":  # LLVM writes it as a double
        bits = struct.unpack("<Q", struct.pack("<d", number_of(bits, dtype)))[0]
    return f"0x{bits:016X}"


class Writer:
    """Lines of one LLVM module with one kernel, and helpers to write them.

    Attributes:
        block: the label of the block that is being written.
        declared: declarations of intrinsics by name.
        globals: definitions beside the kernel (tables, functions for rare cases), by content.
        attributes: of the kernel's function.
    """

    def __init__(self, name: str) -> None:
        self.kernel = name
        self.lines: list[str] = []
        self.block = "entry"
        self.declared: dict[str, str] = {}
        self.globals: dict[object, tuple[str, str]] = {}
        self.attributes = ""
        self._count = 0

    def name(self, hint: str) -> str:
        """A fresh name."""
        self._count += 1
        return f"%{hint}.{self._count}"

    def let(self, hint: str, right: str) -> str:
        """Writes `name = right` and returns the name."""
        self._count += 1
        name = f"%{hint}.{self._count}"
        self.lines.append(f"  {name} = {right}")
        return name

    def do(self, line: str) -> None:
        """Writes an instruction without a result."""
        self.lines.append(f"  {line}")

    def comment(self, line: str) -> None:
        """Writes a remark."""
        self.lines.append(f"  ; {line}")

    def call(self, hint: str, result: str, intrinsic: str, *arguments: str) -> str:
        """Calls an intrinsic; arguments are `type operand`."""
        self._declare(result, intrinsic, arguments)
        return self.let(hint, f"call {result} @{intrinsic}({', '.join(arguments)})")

    def call_nothing(self, intrinsic: str, *arguments: str) -> None:
        """Calls an intrinsic that returns nothing."""
        self._declare("void", intrinsic, arguments)
        self.do(f"call void @{intrinsic}({', '.join(arguments)})")

    def _declare(self, result: str, intrinsic: str, arguments: Sequence[str]) -> None:
        if intrinsic not in self.declared:
            types = ", ".join(_type_of(a) for a in arguments)
            self.declared[intrinsic] = f"declare {result} @{intrinsic}({types})"

    def label(self, hint: str) -> str:
        """A fresh label."""
        self._count += 1
        return f"{hint}.{self._count}"

    def start(self, label: str) -> None:
        """Begins a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def splat(self, hint: str, kind: str, value: str, lanes: int) -> str:
        """A scalar in every lane."""
        if lanes == 1:
            return value
        vector = f"<{lanes} x {kind}>"
        first = self.let(hint, f"insertelement {vector} poison, {kind} {value}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.let(hint, f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def loop(
        self,
        hint: str,
        start: str,
        stop: str,
        step: str,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, Values], Values],
    ) -> Values:
        """`for (i = start; i < stop; i += step)` over int64, carrying values.

        Args:
            carried: (type, initial value) for each.
            body: from the index and the carried values to their next values.

        Returns:
            The carried values behind the loop.
        """
        before, head, inside, after = self.block, *map(self.label, (hint, "body", "end"))
        self.do(f"br label %{head}")
        self.start(head)
        index = self.name("i")
        names = [self.name("carried") for _ in carried]
        mark = len(self.lines)
        self.lines += [""] * (1 + len(carried))
        more = self.let("more", f"icmp slt i64 {index}, {stop}")
        self.do(f"br i1 {more}, label %{inside}, label %{after}")
        self.start(inside)
        news = body(index, names)
        following = self.let("next", f"add i64 {index}, {step}")
        latch = self.block
        self.do(f"br label %{head}")
        phis = [("i64", index, start, following)]
        phis += [
            (t, name, first, new)
            for (t, first), name, new in zip(carried, names, news, strict=True)
        ]
        for at, (kind, name, first, new) in enumerate(phis):
            incoming = f"[ {first}, %{before} ], [ {new}, %{latch} ]"
            self.lines[mark + at] = f"  {name} = phi {kind} {incoming}"
        self.start(after)
        return names

    def when(
        self,
        condition: str,
        otherwise: Sequence[tuple[str, str]],
        body: Callable[[], Values],
        *,
        rarely: bool = False,
    ) -> Values:
        """Values that the body computes if the condition holds, else the given (type, value)."""
        before, inside, after = self.block, self.label("then"), self.label("end")
        weights = ", !prof !0" if rarely else ""
        self.do(f"br i1 {condition}, label %{inside}, label %{after}{weights}")
        self.start(inside)
        news = body()
        latch = self.block
        self.do(f"br label %{after}")
        self.start(after)
        return [
            self.let("merged", f"phi {kind} [ {old}, %{before} ], [ {new}, %{latch} ]")
            for (kind, old), new in zip(otherwise, news, strict=True)
        ]

    def module(self) -> str:
        """The finished text."""
        header = f"define void @{self.kernel}(ptr %pointers, ptr %args, i64 %begin, i64 %end, "
        parts = [definition for _, definition in self.globals.values()]
        head = f"{header}i64 %worker) {self.attributes}".rstrip()
        parts += [f"{head} {{", "entry:", *self.lines, "}"]
        parts += self.declared.values()
        parts.append('!0 = !{!"branch_weights", i32 1, i32 2000}')
        return "\n".join(parts) + "\n"


def _type_of(argument: str) -> str:
    """The type in `type operand`, where a type may contain spaces."""
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    return argument.split(" ", 1)[0]
