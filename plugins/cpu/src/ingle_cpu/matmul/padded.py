"""Images between zeros: tiles slide along them, and read windows without panels of these.

A unit of work copies what its windows see of each channel to the worker's memory, rows one behind
the other, with as many zeros between two of them as windows reach over the edge on one side. There
a window's place and its tap are a distance each: what the places of one tap see is one run of
memory, over the ends of rows, as it is in a panel, and nothing is copied once for each tap. In
return, places are counted with those that the zeros between rows have; tiles compute them and
nobody stores them.

    void pad_image(source, window, row, rows, pitch, zeros, channel, copy)

copies `rows` image rows of each channel from number `row` on, which may be outside of the image:
`pitch` elements from row to row, `zeros` in front of the first one, and `channel` bytes from
channel to channel, the rest of which become zeros, too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES, Windows
from ingle.fusion.device.llvm import Target, Values, scalar_type, vector_type

from ..jit.engine import IRSource
from .microkernel import LINE
from .panel_elements import PanelCode
from .window_args import WindowArgs, loaded_window_args, window_args

IMAGE_BYTES = 512 << 10
"""Of a unit's copy, if it can be cut so: it should stay in the second-level cache."""
MOST_BYTES = 1 << 20
"""Of the smallest possible unit."""


class Padded(NamedTuple):
    """How an image lies between zeros; in elements and rows.

    Attributes:
        channels: how many there are.
        pitch: from row to row.
        zeros: in front of the first row.
        low: the image row of the first place's uppermost tap.
        span: how many more rows a place sees.
        down, across: rows of places, and places in a row.
    """

    channels: int
    pitch: int
    zeros: int
    low: int
    span: int
    down: int
    across: int

    @property
    def columns(self) -> int:
        """Places, with those between the rows."""
        return (self.down - 1) * self.pitch + self.across

    def rows(self, columns: int) -> int:
        """The most image rows that so many neighbouring columns see."""
        return min(self.down, (columns + 2 * self.pitch - 2) // self.pitch) + self.span

    def channel(self, columns: int, size: int) -> int:
        """Bytes from channel to channel where a unit has so many columns.

        An odd number of cache lines, so that channels do not meet in few cache sets.
        """
        lines = -(-(self.zeros + self.rows(columns) * self.pitch) * size // LINE)
        return (lines | 1) * LINE

    def nbytes(self, columns: int, size: int) -> int:
        """Of the copy, with what tiles and copies may reach behind it."""
        behind = (self.zeros + 2 * self.pitch) * size + 2 * LINE
        return self.channels * self.channel(columns, size) + -(-behind // LINE) * LINE


def padded_of(windows: Windows, k: int, dtype: str) -> Padded | None:
    """How the image of windows would lie between zeros; None where windows do not slide along it.

    They slide where neighbouring places see neighbouring elements: of images with up to two axes
    that are walked without a step and lie row by row.
    """
    if windows.over_places or windows.turns > 1 or not k or not math.prod(windows.places):
        return None
    arg: WindowArgs[int] = window_args(windows, k, dtype)
    flat = arg.taps0 == arg.places0 == 1 and arg.start0 == 0 and arg.image0 > 0
    if not flat or arg.step1 != 1 or arg.step2 != 1 or arg.stride2 != SIZES[dtype]:
        return None
    up, down = _reach(arg.taps1, arg.spread1)
    left, right = _reach(arg.taps2, arg.spread2)
    low = arg.start2 - left
    high = arg.start2 + right + arg.places2 - 1
    zeros = max(0, -low)
    pitch = arg.image2 + max(zeros, high - arg.image2 + 1, 0)
    if pitch < arg.places2 or not arg.image1 or not arg.image2:
        return None
    return Padded(arg.channels, pitch, zeros, arg.start1 - up, up + down, arg.places1, arg.places2)


def _reach(taps: int, spread: int) -> tuple[int, int]:
    """How far the taps of an axis are before and behind the first one."""
    far = (taps - 1) * spread
    return max(0, -far), max(0, far)


def pad_source(dtype: str, target: Target) -> IRSource:
    """The module of `pad_image` for a dtype."""
    name = f"pad_image_{dtype}_{target.name}"
    return IRSource(_Pad(dtype, target, name).text(), (name,), reduced=False)


class _Pad(PanelCode):
    """Writes `pad_image`."""

    def text(self) -> str:
        w = self.writer
        self.arg = loaded_window_args(w, "%window")
        self.row_bytes = w.let("row", f"mul i64 %pitch, {self.to_size}")
        self.before = w.let("before", f"mul i64 %zeros, {self.to_size}")
        w.loop("channel", "0", self.arg.channels, "1", [], self._channel)
        w.do("ret void")
        parameters = "ptr %source, ptr %window, i64 %row, i64 %rows, i64 %pitch, i64 %zeros"
        head = f"define void @{self.name}({parameters}, i64 %channel, ptr %copy) nounwind {{\n"
        body = "\n".join([*w.lines, "}", *w.declared.values()])
        return f"{head}entry:\n{body}\n"

    def _at(self, pointer: str, distance: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def _times(self, a: str, b: str) -> str:
        return self.writer.let("product", f"mul i64 {a}, {b}")

    def _channel(self, c: str, _: Values) -> Values:
        """Each of its rows may write behind its end, where the next one begins."""
        w = self.writer
        source = self._at("%source", self._times(c, self.arg.channel))
        to = self._at("%copy", self._times(c, "%channel"))
        self._clear(to, self.before)
        first = self._at(to, self.before)

        def row(number: str, carried: Values) -> Values:
            (to,) = carried
            y = w.let("y", f"add i64 %row, {number}")
            inside = w.let("inside", f"icmp ult i64 {y}, {self.arg.image1}")
            seen = w.let("seen", f"select i1 {inside}, i64 {self.arg.image2}, i64 0")
            self._row(self._at(source, self._times(y, self.arg.stride1)), seen, to)
            return [self._at(to, self.row_bytes)]

        (end,) = w.loop("row", "0", "%rows", "1", [("ptr", first)], row)
        done = [w.let("place", f"ptrtoint ptr {p} to i64") for p in (end, to)]
        done_bytes = w.let("done", f"sub i64 {done[0]}, {done[1]}")
        self._clear(end, w.let("left", f"sub i64 %channel, {done_bytes}"))
        return []

    def _row(self, source: str, seen: str, to: str) -> None:
        w = self.writer

        def some(x: str, _: Values) -> Values:
            self._store(to, x, self._load(self._numbered(source, x), self.lanes), self.lanes)
            return []

        def rest(x: str, _: Values) -> Values:
            mask = self._mask(w.let("left", f"sub i64 {seen}, {x}"), self.lanes)
            value = self._load(self._numbered(source, x), self.lanes, mask)
            self._store(to, x, value, self.lanes)
            return []

        whole = w.let("whole", f"and i64 {seen}, {-self.lanes}")
        w.loop("some", "0", whole, str(self.lanes), [], some)
        w.loop("rest", whole, "%pitch", str(self.lanes), [], rest)

    def _clear(self, to: str, nbytes: str) -> None:
        w = self.writer
        vector = vector_type(scalar_type(self.made), self.lanes)

        def some(at: str, _: Values) -> Values:
            w.do(f"store {vector} zeroinitializer, ptr {self._at(to, at)}, align {self.to_size}")
            return []

        w.loop("clear", "0", nbytes, str(self.lanes * self.to_size), [], some)
