"""Loads and stores of every nth element, for a small n, by vectors of neighbours.

Gathers and scatters take an access to memory for each lane. Vectors of neighbours, n of them, hold
every nth element of as many places as a vector has lanes, which shuffles bring together. Nothing is
touched that lies behind the last of these elements, and nothing is written between them. Where the
elements between every second one are those of another output, a shuffle puts both in turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...kernel.code import SIZES
from .text import Values, memory_type, suffix, vector_type

if TYPE_CHECKING:
    from .code import CodeRenderer


def load(r: CodeRenderer, dtype: str, n: int, pointer: str, mask: str | None) -> str:
    """The elements 0, n, 2n, … from a pointer on (where the mask is set), one for each lane."""
    w, lanes = r.writer, r.lanes
    kind, align = memory_type(dtype), SIZES[dtype]
    vector = vector_type(kind, lanes)
    starts = _starts(lanes, n)
    if mask is None:
        # The last vector begins earlier, so that it ends with the last element.
        starts[-1] = (lanes - 1) * n + 1 - lanes
    masks = [None] * len(starts) if mask is None else _spread_masks(r, n, mask)
    parts: list[_Part] = []
    for number, (start, each) in enumerate(zip(starts, masks, strict=True)):
        place = pointer
        if start:
            place = w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {start}")
        if each is None:
            value = w.let("x", f"load {vector}, ptr {place}, align {align}")
        else:
            value = w.call(
                "x", vector, f"llvm.masked.load.{suffix(kind, lanes)}.p0", f"ptr {place}",
                f"i32 {align}", f"<{lanes} x i1> {each}", f"{vector} zeroinitializer",
            )  # fmt: skip
        held = [lane for lane in range(lanes) if lane * n // lanes == number]
        parts.append((value, {lane: lane * n - start for lane in held}))
    return r.as_value(dtype, _joined(r, kind, parts))


_Part = tuple[str, dict[int, int]]
"""A vector, and where in it the elements of some lanes are."""


def _joined(r: CodeRenderer, kind: str, parts: list[_Part]) -> str:
    """The elements of all parts, each in its lane; of pairs first, so that none waits for all."""
    while len(parts) > 1:
        pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        parts = [_pair(r, kind, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0][0]


def _pair(r: CodeRenderer, kind: str, a: _Part, b: _Part) -> _Part:
    places = {**a[1], **{lane: r.lanes + place for lane, place in b[1].items()}}
    taken = [places.get(lane) for lane in range(r.lanes)]
    return _shuffled(r, kind, a[0], b[0], taken), {lane: lane for lane in places}


def store(r: CodeRenderer, dtype: str, n: int, pointer: str, value: str, mask: str | None) -> None:
    """Stores lanes (where the mask is set) to the elements 0, n, 2n, … from a pointer on."""
    w, lanes = r.writer, r.lanes
    kind = memory_type(dtype)
    vector = vector_type(kind, lanes)
    masks = _spread_masks(r, n, mask or "splat (i1 true)")
    for start, each in zip(_starts(lanes, n), masks, strict=True):
        place = pointer
        if start:
            place = w.let("place", f"getelementptr {kind}, ptr {pointer}, i64 {start}")
        spread = _shuffled(r, kind, value, "poison", _spread(lanes, n, start))
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


def _starts(lanes: int, n: int) -> list[int]:
    """Where vectors of neighbours begin that hold every nth element; there is one in each."""
    return list(range(0, (lanes - 1) * n + 1, lanes))


def _spread_masks(r: CodeRenderer, n: int, mask: str) -> Values:
    """A mask's lanes as every nth one of some masks."""
    return [
        _shuffled(r, "i1", mask, "zeroinitializer", _spread(r.lanes, n, start))
        for start in _starts(r.lanes, n)
    ]


def _spread(lanes: int, n: int, start: int) -> list[int]:
    """The lanes that are every nth element of a vector, with lane 0 of something else between."""
    return [at // n if at % n == 0 else lanes for at in range(start, start + lanes)]


def _shuffled(r: CodeRenderer, kind: str, a: str, b: str, taken: Iterable[int | None]) -> str:
    numbers = ", ".join("i32 poison" if n is None else f"i32 {n}" for n in taken)
    vector = f"<{r.lanes} x {kind}>"
    pair = f"shufflevector {vector} {a}, {vector} {b}"
    return r.writer.let("half", f"{pair}, <{r.lanes} x i32> <{numbers}>")
