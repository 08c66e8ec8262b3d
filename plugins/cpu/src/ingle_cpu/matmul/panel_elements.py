"""Elements of panels: their forms, and the code that reads numbers and writes them as elements."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.fusion.device.kernels import SIZES, CodeBuilder
from ingle.fusion.device.llvm import (
    CodeRenderer,
    Writer,
    memory_type,
    scalar_type,
    suffix,
    vector_type,
)
from ingle.fusion.device.targets import Target

from .tile import compute_dtype


class PanelCode:
    """Reading numbers as they are multiplied, and writing them to a panel.

    Args:
        dtype: of the source; what is made of it is in `compute_dtype`.
        name: of the kernel.
    """

    def __init__(self, dtype: str, target: Target, name: str) -> None:
        self.dtype = dtype
        self.made = compute_dtype(dtype)
        self.target = target
        self.name = name
        self.from_size = SIZES[dtype]
        self.to_size = SIZES[self.made]
        self.lanes = target.width // self.to_size
        self.masks = target.width == 64
        self.writer = Writer(name)

    def _load(self, place: str, lanes: int, mask: str | None = None) -> str:
        """Some numbers as they are multiplied."""
        return self._widened(self._stored(place, lanes, mask), lanes)

    def _stored(self, place: str, lanes: int, mask: str | None) -> str:
        """Some numbers as they are in memory."""
        w, kind = self.writer, memory_type(self.dtype)
        vector = vector_type(kind, lanes)
        if mask is None:
            return w.let("x", f"load {vector}, ptr {place}, align {self.from_size}")
        return w.call(
            "x", vector, f"llvm.masked.load.{suffix(kind, lanes)}.p0", f"ptr {place}",
            f"i32 {self.from_size}", f"<{lanes} x i1> {mask}", f"{vector} zeroinitializer",
        )  # fmt: skip

    def _widened(self, value: str, lanes: int) -> str:
        return converted(self.writer, self.target, value, lanes, (self.dtype, self.made))

    def _numbered(self, pointer: str, number: str) -> str:
        """The place of a number in a run of the source."""
        kind = memory_type(self.dtype)
        return self.writer.let("from", f"getelementptr {kind}, ptr {pointer}, i64 {number}")

    def _store(
        self, panel: str, number: str, value: str, lanes: int, mask: str | None = None
    ) -> None:
        """Stores some numbers from a number of a run of the panel on."""
        w, kind = self.writer, scalar_type(self.made)
        vector = vector_type(kind, lanes)
        place = w.let("to", f"getelementptr {kind}, ptr {panel}, i64 {number}")
        if mask is None:
            w.do(f"store {vector} {value}, ptr {place}, align {self.to_size}")
            return
        w.call_nothing(
            f"llvm.masked.store.{suffix(kind, lanes)}.p0", f"{vector} {value}", f"ptr {place}",
            f"i32 {self.to_size}", f"<{lanes} x i1> {mask}",
        )  # fmt: skip

    def _evens(self, parts: Sequence[str]) -> str:
        """Every second number of two vectors."""
        vector = vector_type(scalar_type(self.made), self.lanes)
        even = order_text([2 * n for n in range(self.lanes)])
        pair = f"shufflevector {vector} {parts[0]}, {vector} {parts[1]}"
        return self.writer.let("even", f"{pair}, <{self.lanes} x i32> <{even}>")

    def _mask(self, left: str, lanes: int) -> str:
        """The first `left` lanes."""
        w = self.writer
        some = w.call("some", "i64", "llvm.smax.i64", f"i64 {left}", "i64 0")
        few = w.call("few", "i64", "llvm.smin.i64", f"i64 {some}", f"i64 {lanes}")
        every = w.splat("few", "i8", w.let("few", f"trunc i64 {few} to i8"), lanes)
        numbers = ", ".join(f"i8 {n}" for n in range(lanes))
        return w.let("mask", f"icmp ult <{lanes} x i8> <{numbers}>, {every}")


def converted(w: Writer, target: Target, value: str, lanes: int, dtypes: tuple[str, str]) -> str:
    """Some numbers of the first dtype as it is in memory, or as numbers are computed, as the second
    one; a single number is no vector."""
    if dtypes[0] == dtypes[1]:
        return value
    builder = CodeBuilder()
    root = builder.cast(builder.load(0, dtypes[0]), dtypes[1])
    renderer = CodeRenderer(w, target, lanes)
    code, (place,) = renderer.expand(tuple(builder.instructions), (root,))
    found = renderer.render(code, _Loaded(value))[place]
    assert found is not None
    return found


def order_text(order: Sequence[int]) -> str:
    """The elements of a constant vector that puts others in an order."""
    return ", ".join(f"i32 {n}" for n in order)


def turned(w: Writer, lines: Sequence[str], vector: str) -> list[str]:
    """A square of numbers transposed, as many vectors as each has lanes: blocks of 1, 2, 4 …
    change places."""
    lanes, found, size = len(lines), list(lines), 1
    while size < lanes:
        for i in range(lanes):
            if i & size:
                continue
            pair = f"shufflevector {vector} {found[i]}, {vector} {found[i + size]}"
            upper = [n + lanes - size if n & size else n for n in range(lanes)]
            lower = [n + lanes if n & size else n + size for n in range(lanes)]
            found[i], found[i + size] = (
                w.let("turned", f"{pair}, <{lanes} x i32> <{order_text(order)}>")
                for order in (upper, lower)
            )
        size *= 2
    return found


class _Loaded:
    """An environment whose only leaf was loaded already."""

    def __init__(self, value: str) -> None:
        self.value = value

    def load(self, operand: int, dtype: str) -> str:
        return self.value

    def _none(self, *_: object) -> str:
        raise ValueError("a conversion has no leaf but its operand")

    gather = scalar = index = result = row = _none
