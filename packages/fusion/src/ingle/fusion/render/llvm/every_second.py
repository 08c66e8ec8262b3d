"""Loads and stores of every second element by vectors of neighbours.

Gathers and scatters take an access to memory for each lane. Two vectors of neighbours hold every
second element of as many places, which a shuffle brings together. Nothing is touched that lies
behind the last of these elements, and nothing is written between them. Where the elements between
are those of another output, a shuffle puts both in turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...kernel.code import SIZES
from .text import Values, memory_type, suffix, vector_type

if TYPE_CHECKING:
    from .code import CodeRenderer


def load(r: CodeRenderer, dtype: str, pointer: str, mask: str | None) -> str:
    """The elements 0, 2, 4, … from a pointer on (where the mask is set), one for each lane."""
    w, lanes, half = r.writer, r.lanes, r.lanes // 2
    kind, align = memory_type(dtype), SIZES[dtype]
    vector = vector_type(kind, lanes)
    if mask is None:
        # The second vector begins an element earlier, so that it ends with the last one.
        far, second = lanes - 1, [2 * n + 1 for n in range(half, lanes)]
    else:
        far, second = lanes, [2 * n for n in range(half, lanes)]
    places = pointer, w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {far}")
    if mask is None:
        parts = [w.let("x", f"load {vector}, ptr {place}, align {align}") for place in places]
    else:
        parts = [
            w.call(
                "x", vector, f"llvm.masked.load.{suffix(kind, lanes)}.p0", f"ptr {place}",
                f"i32 {align}", f"<{lanes} x i1> {each}", f"{vector} zeroinitializer",
            )
            for place, each in zip(places, _spread_masks(r, mask), strict=True)
        ]  # fmt: skip
    taken = [*(2 * n for n in range(half)), *second]
    return r.as_value(dtype, _shuffled(r, kind, parts[0], parts[1], taken))


def store(r: CodeRenderer, dtype: str, pointer: str, value: str, mask: str | None) -> None:
    """Stores lanes (where the mask is set) to the elements 0, 2, 4, … from a pointer on."""
    w, lanes = r.writer, r.lanes
    kind = memory_type(dtype)
    vector = vector_type(kind, lanes)
    places = pointer, w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {lanes}")
    masks = _spread_masks(r, mask or "splat (i1 true)")
    for number, (place, each) in enumerate(zip(places, masks, strict=True)):
        spread = _shuffled(r, kind, value, "poison", _spread(lanes, number))
        w.call_nothing(
            f"llvm.masked.store.{suffix(kind, lanes)}.p0", f"{vector} {spread}", f"ptr {place}",
            f"i32 {SIZES[dtype]}", f"<{lanes} x i1> {each}",
        )  # fmt: skip


def store_turns(
    r: CodeRenderer, dtype: str, pointer: str, values: tuple[str, str], mask: str | None
) -> None:
    """Stores lanes of two values (where the mask is set) in turns, from a pointer on."""
    w, lanes = r.writer, r.lanes
    kind = memory_type(dtype)
    vector, align = vector_type(kind, lanes), SIZES[dtype]
    for number in (0, 1):
        first = number * (lanes // 2)
        taken = [first + n // 2 + lanes * (n % 2) for n in range(lanes)]
        place = pointer
        if number:
            place = w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {lanes}")
        both = _shuffled(r, kind, *values, taken)
        if mask is None:
            w.do(f"store {vector} {both}, ptr {place}, align {align}")
            continue
        each = _shuffled(r, "i1", mask, mask, taken)
        w.call_nothing(
            f"llvm.masked.store.{suffix(kind, lanes)}.p0", f"{vector} {both}", f"ptr {place}",
            f"i32 {align}", f"<{lanes} x i1> {each}",
        )  # fmt: skip


def _spread_masks(r: CodeRenderer, mask: str) -> Values:
    """A mask's lanes as every second one of two masks."""
    return [
        _shuffled(r, "i1", mask, "zeroinitializer", _spread(r.lanes, number)) for number in (0, 1)
    ]


def _spread(lanes: int, number: int) -> list[int]:
    """Half of the lanes as every second one, with lane 0 of something else between them."""
    first = number * (lanes // 2)
    return [first + n // 2 if n % 2 == 0 else lanes for n in range(lanes)]


def _shuffled(r: CodeRenderer, kind: str, a: str, b: str, taken: Iterable[int]) -> str:
    numbers = ", ".join(f"i32 {n}" for n in taken)
    vector = f"<{r.lanes} x {kind}>"
    pair = f"shufflevector {vector} {a}, {vector} {b}"
    return r.writer.let("half", f"{pair}, <{r.lanes} x i32> <{numbers}>")
