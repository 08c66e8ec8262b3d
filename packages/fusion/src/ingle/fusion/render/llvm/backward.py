"""Loads and stores of elements that lie in reverse order, by one vector turned round.

Lane 0 has the last element of the vector. Nothing is touched that a mask leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...kernel.code import SIZES
from .text import memory_type, suffix, vector_type

if TYPE_CHECKING:
    from .code import CodeRenderer


def load(r: CodeRenderer, dtype: str, pointer: str, mask: str | None) -> str:
    """The elements 0, -1, -2, … from a pointer on (where the mask is set), one for each lane."""
    w, lanes = r.writer, r.lanes
    kind, align = memory_type(dtype), SIZES[dtype]
    vector, place = vector_type(kind, lanes), _first(r, kind, pointer)
    if mask is None:
        loaded = w.let("x", f"load {vector}, ptr {place}, align {align}")
    else:
        loaded = w.call(
            "x", vector, f"llvm.masked.load.{suffix(kind, lanes)}.p0", f"ptr {place}",
            f"i32 {align}", f"<{lanes} x i1> {_turned(r, 'i1', mask)}", f"{vector} zeroinitializer",
        )  # fmt: skip
    return r.as_value(dtype, _turned(r, kind, loaded))


def store(r: CodeRenderer, dtype: str, pointer: str, value: str, mask: str | None) -> None:
    """Stores lanes (where the mask is set) to the elements 0, -1, -2, … from a pointer on."""
    w, lanes = r.writer, r.lanes
    kind, align = memory_type(dtype), SIZES[dtype]
    vector, place = vector_type(kind, lanes), _first(r, kind, pointer)
    turned = _turned(r, kind, value)
    if mask is None:
        w.do(f"store {vector} {turned}, ptr {place}, align {align}")
        return
    w.call_nothing(
        f"llvm.masked.store.{suffix(kind, lanes)}.p0", f"{vector} {turned}", f"ptr {place}",
        f"i32 {align}", f"<{lanes} x i1> {_turned(r, 'i1', mask)}",
    )  # fmt: skip


def _first(r: CodeRenderer, kind: str, pointer: str) -> str:
    """Where the last lane's element lies."""
    return r.writer.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {1 - r.lanes}")


def _turned(r: CodeRenderer, kind: str, value: str) -> str:
    numbers = ", ".join(f"i32 {n}" for n in reversed(range(r.lanes)))
    vector = f"<{r.lanes} x {kind}>"
    pair = f"shufflevector {vector} {value}, {vector} poison"
    return r.writer.let("turned", f"{pair}, <{r.lanes} x i32> <{numbers}>")
