"""Writing C: types, constants, lines with declarations in front, and what a source includes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...kernel.code import HALVES, SIZES, UNSIGNED, number_of
from .dialect import Dialect

_TYPES = {
    "bool": "bool",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def value_type(dtype: str) -> str:
    """C's type of a value; half types are held as their bits."""
    return _TYPES[dtype]


def memory_type(dtype: str) -> str:
    """C's type of an element in memory; a bool is a byte."""
    return "uint8_t" if dtype == "bool" else _TYPES[dtype]


def unsigned_type(dtype: str) -> str:
    """The type in which an integer wraps around without being promoted to a signed one."""
    return "uint64_t" if SIZES[dtype] == 8 else "uint32_t"


def literal(bits: int, dtype: str) -> str:
    """A bit pattern as a constant of its type."""
    if dtype in HALVES:
        return f"UINT16_C(0x{bits:04x})"
    number = number_of(bits, dtype)
    if dtype == "bool":
        return "true" if number else "false"
    if dtype in ("float32", "float64"):
        return _float(float(number), dtype)
    return _integer(int(number), dtype)


def _integer(number: int, dtype: str) -> str:
    width = 8 * SIZES[dtype]
    if dtype in UNSIGNED:
        return f"UINT{width}_C({number})"
    if number == -(1 << (width - 1)):  # its digits alone are no number of the type
        return f"INT{width}_MIN"
    shown = f"INT64_C({abs(number)})" if width == 64 else str(abs(number))
    return f"(-{shown})" if number < 0 else shown


def _float(number: float, dtype: str) -> str:
    end = "f" if dtype == "float32" else ""
    if math.isnan(number):
        return f"({_TYPES[dtype]})NAN"
    sign = math.copysign(1, number) < 0
    if math.isinf(number):
        shown = f"({_TYPES[dtype]})INFINITY"
    else:
        # The shortest digits that mean this very number.
        exact = np.float32(abs(number)) if end else np.float64(abs(number))
        shown = f"{exact!s}{end}"
    return f"(-{shown})" if sign else shown


class Scope:
    """Lines of a block of C; names are declared in front of them, each once."""

    def __init__(self) -> None:
        self._declared: dict[str, str] = {}
        self._lines: list[str] = []

    def declare(self, name: str, declaration: str) -> str:
        """A name, declared at the beginning of the block if it is not there yet."""
        self._declared.setdefault(name, declaration)
        return name

    def add(self, *lines: str) -> None:
        """Appends lines."""
        self._lines += lines

    def block(self, head: str, body: Scope | Sequence[str]) -> None:
        """Appends a head with a block in braces."""
        lines = body.lines() if isinstance(body, Scope) else body
        self._lines += [f"{head} {{".lstrip(), *[f"    {line}" for line in lines], "}"]

    def lines(self) -> list[str]:
        """Declarations first."""
        return [*self._declared.values(), *self._lines]


class Source:
    """What stands in front of a kernel: helper functions, tables, functions for rare cases.

    Attributes:
        dialect: the language.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._parts: dict[str, str] = {}

    def need(self, name: str, text: str) -> str:
        """A name that the text, put in front of the kernel, defines."""
        self._parts.setdefault(name, text)
        return name

    def stored(self, dtype: str) -> str:
        """The type of an element of an array, which may share memory with ones of another."""
        kind = memory_type(dtype)
        name = f"stored_{kind.removesuffix('_t')}"
        return self.need(name, f"typedef {kind} INGLE_ALIAS {name};")

    def text(self, kernel: str) -> str:
        """The finished source around a kernel."""
        return "\n".join([self.dialect.preamble, *self._parts.values(), "", kernel, ""])
