"""Images between zeros: tiles slide along them, and read windows without panels of these.

A unit of work copies what its windows see of each channel to the worker's memory, rows one behind
the other, each with the zeros that windows see beside it. There a window's place and its tap are a
distance each: what a row of places sees of one tap is one run of memory, as it is in a panel, and
nothing is copied once for each tap. Where windows are two elements apart, a row of the copy has the
elements of even numbers first and then the others, so that a tap sees neighbours again.

Panels begin where a row of places does. Where a row has fewer places than a vector has lanes, some
rows one below the other count as one, and a panel has a vector for each: else there were too few
sums at a time. What the last panel of a row has behind its end is computed
as well, and takes the place of the next row's first results until that row is computed.

The copy of an image of a half type is float32, and rows of the matrix beside it are made that, too.

Where that would be much, the copy is *flat*: neighbouring rows of places see rows of the copy that
are neighbours, for which image rows that are several apart lie in planes of their own, as do
elements of a row; zeros at the end of a row are those at the beginning of the next one. Panels then
go over the ends of rows, and what they compute there is left out when tiles go to the result.

    void pad_image(source, window, row, rows, wide, origin, channel,
                   turns, turn, pitch, apart, copy)

copies `rows` image rows of each channel from number `row` on, which may be outside of the image: of
each, `wide` elements of every phase, from element `origin` on, `apart` bytes from phase to phase.
Rows take turns among `turns` planes, `turn` bytes from one to the next, with `pitch` bytes from row
to row there; `channel` bytes from channel to channel, the rest of which become zeros, too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES, Windows
from ingle.fusion.device.llvm import Values
from ingle.fusion.device.targets import Target
from ingle.tensor.static_values import largest, smallest

from ..jit.engine import IRSource
from .microkernel import LINE
from .panel_elements import PanelCode
from .window_args import WindowArgs, loaded_window_args, window_args

IMAGE_SHARE = 3 / 8
"""Of the second-level cache, what a unit's copy may take if it can be cut so: it should stay there
beside the matrix, what the tiles store, and what they fetch of the next image.
"""
PHASES = (1, 2)
"""Steps of windows along a row that tiles slide with."""
MOST_BYTES = 1 << 20
"""Of the smallest possible unit."""


class Padded(NamedTuple):
    """How an image lies between zeros; in elements and rows.

    Attributes:
        channels: how many there are.
        wide: of a row, with its zeros, and of each phase.
        phases: how many elements windows are apart.
        origin: the number of a row's first element in the image's.
        low: the image row of the first place's uppermost tap.
        span: how many more rows a place sees.
        down: image rows from one row of places to the next.
        rows, across: rows of places, and places in a row.
        stacked: how many rows of places count as one.
        shared: zeros that a row's end has in common with the next row's beginning, if it is flat.
        flat: whether panels go over the ends of rows.
    """

    channels: int
    wide: int
    phases: int
    origin: int
    low: int
    span: int
    down: int
    rows: int
    across: int
    stacked: int = 1
    shared: int = 0
    flat: bool = False

    def stack(self, rows: int) -> Padded:
        """The same with so many rows of places as one, into which the rows divide."""
        span = self.span + (rows - 1) * self.down
        return self._replace(
            span=span, down=rows * self.down, rows=self.rows // rows, across=rows * self.across,
            stacked=rows,
        )  # fmt: skip

    @property
    def pitch(self) -> int:
        """From image row to image row in the copy, or in a plane of it."""
        return self.wide - self.shared if self.flat else self.wide * self.phases

    @property
    def turns(self) -> int:
        """Planes among which rows take turns."""
        return self.down if self.flat else 1

    @property
    def columns(self) -> int:
        """Places in a row, or all, with what is between rows."""
        return (self.rows - 1) * self.pitch + self.across if self.flat else self.across

    def panels(self, width: int) -> int:
        """All panels."""
        return self.along(width) * (1 if self.flat else self.rows)

    def along(self, width: int) -> int:
        """Panels that a row of places has, or all do."""
        return -(-self.columns // width)

    def image_rows(self, panels: int, width: int) -> int:
        """Rows that so many panels see at most."""
        if self.flat:
            places = (panels * width + 2 * self.pitch - 2) // self.pitch
        else:
            along = self.along(width)
            places = (panels + 2 * along - 2) // along
        return (smallest(self.rows, places) - 1) * self.down + self.span + 1

    def plane(self, panels: int, width: int, size: int) -> int:
        """Elements of a plane of a flat copy, with what a row may write behind its end."""
        lines = -(-self.image_rows(panels, width) // self.turns)
        return lines * self.pitch + self.shared + LINE // size

    def channel(self, panels: int, width: int, size: int) -> int:
        """Bytes from channel to channel where a unit has so many panels.

        An odd number of cache lines, so that channels do not meet in few cache sets.
        """
        if self.flat:
            elements = self.plane(panels, width, size) * self.turns * self.phases
        else:
            elements = self.image_rows(panels, width) * self.pitch
        lines = -(-elements * size // LINE)
        return (lines + 1 - lines % 2) * LINE

    def nbytes(self, panels: int, width: int, size: int) -> int:
        """Of the copy, with what tiles and copies may reach behind it."""
        behind = -(-width * size // LINE) * LINE + 2 * LINE
        return self.channels * self.channel(panels, width, size) + behind


def padded_of(windows: Windows, k: int, dtype: str) -> Padded | None:
    """How the image of windows would lie between zeros; None where windows do not slide along it.

    They slide where neighbouring places see neighbouring elements, or every second one: of images
    with up to two axes that lie row by row.
    """
    if windows.over_places or windows.turns > 1 or not k or not math.prod(windows.places):
        return None
    arg: WindowArgs[int] = window_args(windows, k, dtype)
    flat = arg.taps0 == arg.places0 == 1 and arg.start0 == 0 and arg.image0 > 0
    if not flat or arg.step2 not in PHASES or arg.stride2 != SIZES[dtype]:
        return None
    if not arg.image1 or not arg.image2:
        return None
    up, down = _reach(arg.taps1, arg.spread1)
    left, right = _reach(arg.taps2, arg.spread2)
    origin = arg.start2 - left
    seen = left + right + (arg.places2 - 1) * arg.step2
    wide = seen // arg.step2 + 1
    return Padded(
        arg.channels, wide, arg.step2, origin, arg.start1 - up, up + down,
        arg.step1, arg.places1, arg.places2,
        shared=smallest(_shared(wide, arg.step2, origin, arg.image2), wide - arg.places2),
    )  # fmt: skip


def _shared(wide: int, phases: int, origin: int, image: int) -> int:
    """Zeros that each phase of a row has both before and behind what it sees of the image."""
    found = []
    for first in range(origin, origin + phases):
        before = -(first // phases) if first < 0 else 0
        found += [before, wide - largest(0, -((first - image) // phases))]
    return largest(0, smallest(*found))


def _reach(taps: int, spread: int) -> tuple[int, int]:
    """How far the taps of an axis are before and behind the first one."""
    far = (taps - 1) * spread
    return max(0, -far), max(0, far)


def pad_source(dtype: str, phases: int, target: Target) -> IRSource:
    """The module of `pad_image` for a dtype and so many phases of a row."""
    name = f"pad_image_{phases}_{dtype}_{target.name}"
    return IRSource(_Pad(dtype, phases, target, name).text(), (name,), reduced=False)


class _Pad(PanelCode):
    """Writes `pad_image`."""

    def __init__(self, dtype: str, phases: int, target: Target, name: str) -> None:
        super().__init__(dtype, target, name)
        self.phases = phases

    def text(self) -> str:
        w = self.writer
        self.arg = loaded_window_args(w, "%window")
        self.wide_bytes = w.let("wide", f"mul i64 %wide, {self.to_size}")
        w.loop("channel", "0", self.arg.channels, "1", [], self._channel)
        w.do("ret void")
        names = "row", "rows", "wide", "origin", "channel", "turns", "turn", "pitch", "apart"
        parameters = ", ".join(f"i64 %{name}" for name in names)
        parameters = f"ptr %source, ptr %window, {parameters}, ptr %copy"
        head = f"define void @{self.name}({parameters}) nounwind {{\n"
        body = "\n".join([*w.lines, "}", *w.declared.values()])
        return f"{head}entry:\n{body}\n"

    def _at(self, pointer: str, distance: str) -> str:
        return self.writer.let("at", f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def _times(self, a: str, b: str) -> str:
        return self.writer.let("product", f"mul i64 {a}, {b}")

    def _channel(self, c: str, _: Values) -> Values:
        """Each run of elements may write behind its end, where the next one begins."""
        w = self.writer
        source = self._at("%source", self._times(c, self.arg.channel))
        to = self._at("%copy", self._times(c, "%channel"))

        def row(number: str, carried: Values) -> Values:
            (end,) = carried
            below = w.let("below", f"udiv i64 {number}, %turns")
            plane = w.let("plane", f"urem i64 {number}, %turns")
            line = self._at(to, self._times(below, "%pitch"))
            line = self._at(line, self._times(plane, "%turn"))
            y = w.let("y", f"add i64 %row, {number}")
            inside = w.let("inside", f"icmp ult i64 {y}, {self.arg.image1}")
            seen = w.let("seen", f"select i1 {inside}, i64 {self.arg.image2}, i64 0")
            here = self._at(source, self._times(y, self.arg.stride1))
            for phase in range(self.phases):
                place = self._at(line, self._times("%apart", str(phase))) if phase else line
                self._phase(here, w.let("first", f"add i64 %origin, {phase}"), seen, place)
                done = self._at(place, self.wide_bytes)
                later = w.let("later", f"icmp ugt ptr {done}, {end}")
                end = w.let("end", f"select i1 {later}, ptr {done}, ptr {end}")
            return [end]

        (end,) = w.loop("row", "0", "%rows", "1", [("ptr", to)], row)
        done = [w.let("place", f"ptrtoint ptr {p} to i64") for p in (end, to)]
        done_bytes = w.let("done", f"sub i64 {done[0]}, {done[1]}")
        left = w.let("left", f"sub i64 %channel, {done_bytes}")
        self._clear(end, "0", w.let("left", f"udiv i64 {left}, {self.to_size}"))
        return []

    def _phase(self, source: str, first: str, seen: str, to: str) -> None:
        """Every so many elements from number `first` on, of which `seen` from 0 on are there."""
        if self.masks:
            self._by_masks(source, first, seen, to)
        else:
            self._in_parts(source, first, seen, to)

    def _by_masks(self, source: str, first: str, seen: str, to: str) -> None:
        """All of them alike: masks cost less than to tell ends from what is between."""
        w, lanes = self.writer, self.lanes
        ints = f"<{lanes} x i32>"
        numbers = ", ".join(f"i32 {n}" for n in range(lanes))
        end = w.splat("seen", "i32", w.let("seen", f"trunc i64 {seen} to i32"), lanes)

        def some(i: str, _: Values) -> Values:
            x = w.let("x", f"add i64 {first}, {self._times(i, str(self.phases))}")
            parts = []
            for part in range(self.phases):
                place = w.let("x", f"add i64 {x}, {part * lanes}") if part else x
                here = w.splat("x", "i32", w.let("x", f"trunc i64 {place} to i32"), lanes)
                each = w.let("each", f"add {ints} {here}, <{numbers}>")
                mask = w.let("inside", f"icmp ult {ints} {each}, {end}")
                parts.append(self._load(self._numbered(source, place), lanes, mask))
            self._store(to, i, parts[0] if self.phases == 1 else self._evens(parts), lanes)
            return []

        w.loop("some", "0", "%wide", str(lanes), [], some)

    def _in_parts(self, source: str, first: str, seen: str, to: str) -> None:
        """Zeros, what is there, and zeros."""
        w = self.writer
        before = self._until(first, "0")
        stop = self._until(first, seen)
        self._clear(to, "0", before)
        whole = self._whole(first, seen, before, stop)

        def copied(i: str, masked: bool) -> None:
            x = w.let("x", f"add i64 {first}, {self._times(i, str(self.phases))}")
            left = w.let("left", f"sub i64 {seen}, {x}")
            parts = []
            for part in range(self.phases):
                mask = None
                if masked:
                    of_part = w.let("left", f"sub i64 {left}, {part * self.lanes}")
                    mask = self._mask(of_part, self.lanes)
                place = w.let("x", f"add i64 {x}, {part * self.lanes}")
                parts.append(self._load(self._numbered(source, place), self.lanes, mask))
            self._store(to, i, parts[0] if self.phases == 1 else self._evens(parts), self.lanes)

        def some(i: str, _: Values) -> Values:
            copied(i, False)
            return []

        def rest(i: str, _: Values) -> Values:
            copied(i, True)
            return []

        w.loop("some", before, whole, str(self.lanes), [], some)
        w.loop("rest", whole, stop, str(self.lanes), [], rest)
        self._clear(to, stop)

    def _whole(self, first: str, seen: str, before: str, stop: str) -> str:
        """Where whole vectors end that are read from place `before` on.

        They end inside of the row, and before place `stop`: windows may see less than there is.
        """
        w = self.writer
        begin = w.let("begin", f"add i64 {first}, {self._times(before, str(self.phases))}")
        there = w.let("there", f"sub i64 {seen}, {begin}")
        there = w.let("there", f"sdiv i64 {there}, {self.phases * self.lanes}")
        there = w.call("there", "i64", "llvm.smax.i64", f"i64 {there}", "i64 0")
        there = self._times(there, str(self.lanes))
        asked = w.let("asked", f"sub i64 {stop}, {before}")
        fewer = w.call("fewer", "i64", "llvm.smin.i64", f"i64 {there}", f"i64 {asked}")
        fewer = w.let("fewer", f"and i64 {fewer}, {-self.lanes}")
        return w.let("whole", f"add i64 {before}, {fewer}")

    def _until(self, first: str, end: str) -> str:
        """How many elements from number `first` on lie before number `end`, `wide` at most."""
        w = self.writer
        left = w.let("left", f"sub i64 {end}, {first}")
        left = w.let("left", f"add i64 {left}, {self.phases - 1}")
        left = w.call("left", "i64", "llvm.smax.i64", f"i64 {left}", "i64 0")
        count = w.let("count", f"udiv i64 {left}, {self.phases}")
        return w.call("count", "i64", "llvm.smin.i64", f"i64 {count}", "i64 %wide")

    def _clear(self, to: str, begin: str, end: str = "%wide") -> None:
        w = self.writer

        def some(at: str, _: Values) -> Values:
            self._store(to, at, "zeroinitializer", self.lanes)
            return []

        w.loop("clear", begin, end, str(self.lanes), [], some)
