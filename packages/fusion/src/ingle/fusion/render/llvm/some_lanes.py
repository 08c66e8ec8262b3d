"""Loads and stores of some lanes of a vector, also of elements for which a machine has none.

Below AVX-512 no instruction loads some of a vector's bytes or of its pairs of bytes. LLVM makes a
branch for each lane. Few branches are quick, since processors foresee the end of rows of one
length; many take twice as long as what is behind them, and LLVM longer than all the rest of a
kernel. There the words are loaded that such elements lie in: whole ones of eight bytes at multiples
of eight, none of which reaches into a page where no element is. Stores, which may touch nothing
else, go element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .text import Values, Writer, suffix, vector_type

if TYPE_CHECKING:
    from .targets import Target

WORD = 8
"""Bytes that are loaded at once."""
NARROW = 4
"""Elements of fewer bytes may go by words."""
MANY = 32
"""Lanes from which on they do."""


class FirstLanes(NamedTuple):
    """Which lanes a mask leaves: the first ones, of some vectors after each other.

    Attributes:
        few: how many lanes of all vectors, an int64.
        before: how many lanes are in the vectors before this one.
    """

    few: str
    before: int


class SomeLanes:
    """Writes loads and stores of vectors where a mask is set."""

    def __init__(self, writer: Writer, target: Target, lanes: int) -> None:
        self.writer = writer
        self.lanes = lanes
        self._by_words = not target.masks
        self._known: dict[str, FirstLanes] = {}

    def note(self, masks: Sequence[str], few: str) -> None:
        """Is told masks that leave the first lanes, of all of some vectors after each other."""
        if self._by_words and len(masks) * self.lanes >= MANY:
            for number, mask in enumerate(masks):
                self._known[mask] = FirstLanes(few, number * self.lanes)

    def load(self, kind: str, size: int, place: str, mask: str) -> str:
        """Loads elements of some bytes from a place; other lanes are 0."""
        first = self._first(size, mask)
        if first is not None:
            return self._load_words(kind, size, place, mask, first)
        vector = vector_type(kind, self.lanes)
        return self.writer.call(
            "x", vector, f"llvm.masked.load.{suffix(kind, self.lanes)}.p0", f"ptr {place}",
            f"i32 {size}", f"<{self.lanes} x i1> {mask}", f"{vector} zeroinitializer",
        )  # fmt: skip

    def store(self, kind: str, size: int, place: str, value: str, mask: str) -> None:
        """Stores elements of some bytes to a place."""
        first = self._first(size, mask)
        if first is not None:
            self._store_each(kind, size, place, value, first)
            return
        self.writer.call_nothing(
            f"llvm.masked.store.{suffix(kind, self.lanes)}.p0",
            f"{vector_type(kind, self.lanes)} {value}", f"ptr {place}", f"i32 {size}",
            f"<{self.lanes} x i1> {mask}",
        )  # fmt: skip

    def _first(self, size: int, mask: str) -> FirstLanes | None:
        return self._known.get(mask) if size < NARROW else None

    def _load_words(self, kind: str, size: int, place: str, mask: str, first: FirstLanes) -> str:
        w, vector = self.writer, vector_type(kind, self.lanes)
        count = self._count(first, 0, self.lanes)
        length = self._op("mul", count, str(size)) if size > 1 else count
        address = w.let("address", f"ptrtoint ptr {place} to i64")
        aside = self._op("and", address, str(WORD - 1))
        # Where no lane is left the place may be no memory at all; what is loaded is not used.
        none = w.let("none", f"icmp eq i64 {count}, 0")
        begin = w.call("begin", "ptr", "llvm.ptrmask.p0.i64", f"ptr {place}", f"i64 {-WORD}")
        begin = w.let("begin", f"select i1 {none}, ptr %pointers, ptr {begin}")
        end = self._op("sub", self._op("add", aside, length), "1")
        last = self._op("and", end, str(-WORD))
        last = w.let("last", f"select i1 {none}, i64 0, i64 {last}")
        needed = max(1, self.lanes * size // WORD)
        words = [self._word(begin, last, n) for n in range(needed + 1)]
        bits = self._op("shl", aside, "3")
        parts = [
            w.call("part", "i64", "llvm.fshr.i64", f"i64 {high}", f"i64 {low}", f"i64 {bits}")
            for low, high in pairwise(words)
        ]
        loaded = self._of_words(parts, vector, size)
        taken = f"select <{self.lanes} x i1> {mask}, {vector} {loaded}, {vector} zeroinitializer"
        return w.let("x", taken)

    def _word(self, begin: str, last: str, number: int) -> str:
        """One of the words from a place on, or the last one."""
        w = self.writer
        if number:
            far = w.call("far", "i64", "llvm.umin.i64", f"i64 {number * WORD}", f"i64 {last}")
            begin = w.let("place", f"getelementptr i8, ptr {begin}, i64 {far}")
        return w.let("word", f"load i64, ptr {begin}, align {WORD}")

    def _of_words(self, words: Values, vector: str, size: int) -> str:
        """A vector of words that follow each other."""
        w, bits = self.writer, 8 * size * self.lanes
        if bits < 8 * WORD:
            part = w.let("part", f"trunc i64 {words[0]} to i{bits}")
            return w.let("x", f"bitcast i{bits} {part} to {vector}")
        held, kind = "poison", f"<{len(words)} x i64>"
        for at, word in enumerate(words):
            held = w.let("words", f"insertelement {kind} {held}, i64 {word}, i64 {at}")
        return w.let("x", f"bitcast {kind} {held} to {vector}")

    def _store_each(self, kind: str, size: int, place: str, value: str, first: FirstLanes) -> None:
        w, each = self.writer, min(self.lanes, WORD // size)
        words, held = self.lanes // each, f"i{8 * size * each}"
        parts = vector_type(held, words)
        packed = w.let("words", f"bitcast {vector_type(kind, self.lanes)} {value} to {parts}")
        for start in range(0, self.lanes, each):
            word = packed
            if words > 1:
                word = w.let("word", f"extractelement {parts} {packed}, i64 {start // each}")
            to = w.let("place", f"getelementptr {kind}, ptr {place}, i64 {start}")

            def one(i: str, rest: Values, to: str = to) -> Values:
                at = w.let("place", f"getelementptr {kind}, ptr {to}, i64 {i}")
                element = w.let("element", f"trunc {held} {rest[0]} to {kind}")
                w.do(f"store {kind} {element}, ptr {at}, align {size}")
                return [w.let("word", f"lshr {held} {rest[0]}, {8 * size}")]

            count = self._count(first, start, each)
            w.loop("elements", "0", count, "1", [(held, word)], one)

    def _count(self, first: FirstLanes, start: int, most: int) -> str:
        """How many lanes there are from a vector's lane `start` on, or the most of them."""
        w, count, before = self.writer, first.few, first.before + start
        if before:
            count = w.call("left", "i64", "llvm.usub.sat.i64", f"i64 {count}", f"i64 {before}")
        return w.call("left", "i64", "llvm.umin.i64", f"i64 {count}", f"i64 {most}")

    def _op(self, name: str, a: str, b: str) -> str:
        return self.writer.let(name, f"{name} i64 {a}, {b}")
