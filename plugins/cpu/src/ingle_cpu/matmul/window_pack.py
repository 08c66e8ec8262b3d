"""Packing the windows of images into panels, without writing the windows to memory first.

    void pack_windows(source, window, k, column, depth, count, width, panel)

writes `panel[k' * width + j] = B[k + k', column + j]` for `k' < depth` and `j < count`, where B is
made of the windows of an image as `Windows` of `ingle.fusion` says and `WindowArgs` spells out;
what is between `count` and `width` stays as it is, and rows behind `depth` may be written, too.

There are two kernels. Where columns are places, neighbours along the last image axis are copied by
vectors; masks say which lanes of a tap are inside of the image. Where columns are taps, the lanes
of a vector are neighbouring places of one tap, and as many taps as a vector has lanes are
transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Target, Values, memory_type, scalar_type, suffix, vector_type

from ..jit.engine import IRSource
from .pack import PanelCode, compute_dtype
from .window_args import AXES, WindowArgs

RowBody = Callable[[str, str, str, str, str], None]
Load = Callable[[str, str], str]
MaskedLoad = Callable[[str, str], str]

TAPS = 32
"""Taps that are noted at once."""
PIECES = 8
"""A panel's rows may be in so many more pieces than there are columns, whole vectors of all."""


def window_source(dtype: str, over_places: bool, target: Target) -> IRSource:
    """The module of one of the two kernels for a dtype in memory."""
    kind = "taps" if over_places else "places"
    name = f"pack_windows_{kind}_{dtype}_{target.name}"
    made = (_Taps if over_places else _Places)(dtype, target, name)
    return IRSource(made.text(), (name,), reduced=False)


class _Windows(PanelCode):
    """What both kernels share."""

    def __init__(self, dtype: str, target: Target, name: str) -> None:
        super().__init__(dtype, target, name)
        self.size = SIZES[compute_dtype(dtype)]
        self.ints = f"<{self.lanes} x i32>"
        self.zeros = "zeroinitializer"
        self.iota = f"<{', '.join(f'i32 {n}' for n in range(self.lanes))}>"

    def text(self) -> str:
        w = self.writer
        loaded = []
        for number, name in enumerate(WindowArgs._fields):
            place = w.let("arg", f"getelementptr i64, ptr %window, i64 {number}")
            loaded.append(w.let(name, f"load i64, ptr {place}, align 8"))
        self.arg: WindowArgs[str] = WindowArgs(*loaded)
        self.end = self.op("add", "%k", "%depth")
        self.taps12 = self.op("mul", self.arg.taps1, self.arg.taps2)
        self.taps = self.op("mul", self.arg.taps0, self.taps12)
        steps = self.splat32(self.arg.step2)
        self.steps = w.let("steps", f"mul {self.ints} {self.iota}, {steps}")
        apart = self.op("mul", self.arg.step2, self.arg.stride2)
        self.apart = apart
        self.is_unit = w.let("unit", f"icmp eq i64 {apart}, {self.from_size}")
        self.write()
        w.do("ret void")
        parameters = "ptr %source, ptr %window, i64 %k, i64 %column, i64 %depth, i64 %count"
        head = f"define void @{self.name}({parameters}, i64 %width, ptr %panel) nounwind {{\n"
        body = "\n".join([*w.lines, "}", *w.declared.values()])
        return f"{head}entry:\n{body}\n"

    def write(self) -> None:
        raise NotImplementedError

    def op(self, word: str, a: str, b: str) -> str:
        return self.writer.let(word, f"{word} i64 {a}, {b}")

    def at(self, base: str, *offsets: str) -> str:
        for offset in offsets:
            base = self.writer.let("at", f"getelementptr i8, ptr {base}, i64 {offset}")
        return base

    def least(self, a: str, b: str) -> str:
        return self.writer.call("least", "i64", "llvm.smin.i64", f"i64 {a}", f"i64 {b}")

    def most(self, a: str, b: str) -> str:
        return self.writer.call("most", "i64", "llvm.smax.i64", f"i64 {a}", f"i64 {b}")

    def splat32(self, value: str) -> str:
        narrow = self.writer.let("narrow", f"trunc i64 {value} to i32")
        return self.writer.splat("each", "i32", narrow, self.lanes)

    def rows(self, first: str, count: str, body: RowBody) -> None:
        """Runs of places that are neighbours along the last image axis.

        The body gets the row's places along the first two axes, the first one along the last axis,
        its number behind `first`, and how many there are.
        """
        w, across = self.writer, self.arg.places2
        stop = self.op("add", first, count)
        start_row = self.op("udiv", first, across)
        last = self.op("udiv", self.op("sub", stop, "1"), across)

        def row(number: str, _: Values) -> Values:
            begin_of_row = self.op("mul", number, across)
            begin = self.most(first, begin_of_row)
            finish = self.least(stop, self.op("add", begin_of_row, across))
            p0 = self.op("udiv", number, self.arg.places1)
            p1 = self.op("urem", number, self.arg.places1)
            p2, behind = self.op("sub", begin, begin_of_row), self.op("sub", begin, first)
            body(p0, p1, p2, behind, self.op("sub", finish, begin))
            return []

        w.loop("row", start_row, self.op("add", last, "1"), "1", [], row)

    def along(self, axis: int, place: str) -> str:
        """Where a place's first tap would be, were it not for spread taps."""
        step, start = getattr(self.arg, f"step{axis}"), getattr(self.arg, f"start{axis}")
        return self.op("add", self.op("mul", place, step), start)

    def gather(self, base: str, mask: str) -> str:
        """Lanes that lie some bytes apart."""
        w, lanes = self.writer, self.lanes
        numbers = f"<{', '.join(f'i64 {n}' for n in range(lanes))}>"
        each = w.splat("apart", "i64", self.apart, lanes)
        offsets = w.let("offsets", f"mul <{lanes} x i64> {numbers}, {each}")
        places = w.let("places", f"getelementptr i8, ptr {base}, <{lanes} x i64> {offsets}")
        kind = memory_type(self.dtype)
        vector = vector_type(kind, lanes)
        value = w.call(
            "x", vector, f"llvm.masked.gather.{suffix(kind, lanes)}.v{lanes}p0",
            f"<{lanes} x ptr> {places}", f"i32 {self.from_size}", f"<{lanes} x i1> {mask}",
            f"{vector} zeroinitializer",
        )  # fmt: skip
        return self._widened(value, lanes)


class _Places(_Windows):
    """Columns are places.

    A vector of neighbouring places is a *piece* of the panel's rows. What it sees of a tap is as
    far from its channel's first element in all channels, and so are the lanes that are inside of
    the image: both are noted for all pieces and some taps. Then the rows of a channel, which
    the first-level cache holds, are written piece by piece.
    """

    def write(self) -> None:
        w, lanes = self.writer, self.lanes
        twice = 2 * self.from_size
        # Every second neighbour: two vectors give one.
        double = w.let("double", f"icmp eq i64 {self.apart}, {twice}")
        by_two = w.let("by_two", f"icmp eq i64 {self.arg.step2}, 2")
        self.is_double = w.let("double", f"and i1 {double}, {by_two}")
        self.first = self.op("udiv", "%k", self.taps)
        last = self.op("udiv", self.op("sub", self.end, "1"), self.taps)
        self.stop = self.op("add", last, "1")
        self.step = self.op("mul", "%width", str(self.size))
        # AVX-512 has registers for masks, others take the signs of a vector.
        self.bits = f"i{lanes}" if self.masks else f"<{lanes} x i32>"
        most = self.op("add", "%count", str(PIECES))
        self.places = w.let("places", f"alloca i64, i64 {most}, align 64")
        self.backs = w.let("backs", f"alloca i64, i64 {most}, align 64")
        noted = self.op("mul", most, str(TAPS))
        self.offsets = w.let("offsets", f"alloca i64, i64 {noted}, align 64")
        self.inside = [
            w.let("inside", f"alloca {self.bits}, i64 {noted}, align 64") for _ in range(2)
        ]
        self.pieces = w.let("pieces", "alloca i64, align 8")

        def block(begin: str, _: Values) -> Values:
            self.begin = begin
            self.finish = self.least(self.op("add", begin, str(TAPS)), self.taps)
            w.do(f"store i64 0, ptr {self.pieces}, align 8")
            self.rows("%column", "%count", self._row)
            self._copy()
            return []

        w.loop("block", "0", self.taps, str(TAPS), [], block)

    def _row(self, p0: str, p1: str, p2: str, j: str, count: str) -> None:
        w = self.writer
        q0, q1 = self.along(0, p0), self.along(1, p1)

        def vector(v: str, _: Values) -> Values:
            column = self.op("add", j, v)
            over = self.op("sub", self.op("add", column, str(self.lanes)), "%width")
            # At the panel's end a piece begins so much earlier, and keeps what is there.
            back = self.most(over, "0")
            q2 = self.along(2, self.op("sub", self.op("add", p2, v), back))
            column = self.op("sub", column, back)
            piece = w.let("piece", f"load i64, ptr {self.pieces}, align 8")
            w.do(f"store i64 {self.op('add', piece, '1')}, ptr {self.pieces}, align 8")
            for table, value in (
                (self.places, self.op("mul", column, str(self.size))),
                (self.backs, back),
            ):
                at = w.let("at", f"getelementptr i64, ptr {table}, i64 {piece}")
                w.do(f"store i64 {value}, ptr {at}, align 8")
            self._note(self.op("mul", piece, str(TAPS)), q0, q1, q2)
            return []

        w.loop("vector", "0", count, str(self.lanes), [], vector)

    def _note(self, number: str, q0: str, q1: str, q2: str) -> None:
        """Where some taps read, and which lanes of it are inside of the image."""
        w, arg = self.writer, self.arg
        rest = self.op("urem", self.begin, self.taps12)
        first = [
            ("i64", self.op("udiv", self.begin, self.taps12)),
            ("i64", self.op("udiv", rest, arg.taps2)),
            ("i64", self.op("urem", rest, arg.taps2)),
        ]
        # Neighbours of every second one are inside themselves, so that they may be read.
        steps = w.let(
            "steps",
            f"select i1 {self.is_double}, {self.ints} {self.iota}, {self.ints} {self.steps}",
        )

        def tap(t: str, carried: Values) -> Values:
            t0, t1, t2 = carried
            c0, c1, c2 = (
                self.op("add", q, self.op("mul", t, spread))
                for q, t, spread in zip(
                    (q0, q1, q2), carried, (arg.spread0, arg.spread1, arg.spread2), strict=True
                )
            )
            ok0 = w.let("ok", f"icmp ult i64 {c0}, {arg.image0}")
            ok1 = w.let("ok", f"icmp ult i64 {c1}, {arg.image1}")
            ok = w.let("ok", f"and i1 {ok0}, {ok1}")
            limit = self.splat32(w.let("limit", f"select i1 {ok}, i64 {arg.image2}, i64 0"))
            offset = self.op("mul", c0, arg.stride0)
            offset = self.op("add", offset, self.op("mul", c1, arg.stride1))
            offset = self.op("add", offset, self.op("mul", c2, arg.stride2))
            here = self.op("add", number, self.op("sub", t, self.begin))
            at = w.let("at", f"getelementptr i64, ptr {self.offsets}, i64 {here}")
            w.do(f"store i64 {offset}, ptr {at}, align 8")
            for half, table in enumerate(self.inside):
                place = self.splat32(self.op("add", c2, str(half * self.lanes)))
                seen = w.let("seen", f"add {self.ints} {steps}, {place}")
                mask = w.let("inside", f"icmp ult {self.ints} {seen}, {limit}")
                kept = f"bitcast <{self.lanes} x i1> {mask} to {self.bits}"
                if not self.masks:
                    kept = f"sext <{self.lanes} x i1> {mask} to {self.bits}"
                at = w.let("at", f"getelementptr {self.bits}, ptr {table}, i64 {here}")
                w.do(f"store {self.bits} {w.let('kept', kept)}, ptr {at}, align {self._aligned}")
            return self._next(t0, t1, t2)

        w.loop("tap", self.begin, self.finish, "1", first, tap)

    def _next(self, t0: str, t1: str, t2: str) -> Values:
        """The tap behind one, along the last axis first."""
        w = self.writer
        t2 = self.op("add", t2, "1")
        over = w.let("over", f"icmp eq i64 {t2}, {self.arg.taps2}")
        t2 = w.let("t", f"select i1 {over}, i64 0, i64 {t2}")
        t1 = self.op("add", t1, w.let("more", f"zext i1 {over} to i64"))
        over = w.let("over", f"icmp eq i64 {t1}, {self.arg.taps1}")
        t1 = w.let("t", f"select i1 {over}, i64 0, i64 {t1}")
        return [self.op("add", t0, w.let("more", f"zext i1 {over} to i64")), t1, t2]

    @property
    def _aligned(self) -> int:
        return max(1, self.lanes // 8) if self.masks else self.lanes * 4

    def _noted(self, here: str, half: int) -> str:
        """The lanes of a tap that are inside."""
        w, lanes = self.writer, self.lanes
        at = w.let("at", f"getelementptr {self.bits}, ptr {self.inside[half]}, i64 {here}")
        bits = w.let("bits", f"load {self.bits}, ptr {at}, align {self._aligned}")
        if self.masks:
            return w.let("inside", f"bitcast {self.bits} {bits} to <{lanes} x i1>")
        return w.let("inside", f"icmp slt {self.ints} {bits}, {self.zeros}")

    def _copy(self) -> None:
        """Some taps of all channels, in the way that the images lie."""
        w = self.writer
        unit, apart = w.label("unit"), w.label("apart")
        double, other, done = w.label("double"), w.label("other"), w.label("done")
        w.do(f"br i1 {self.is_unit}, label %{unit}, label %{apart}")
        w.start(unit)
        self._channels(self._neighbours)
        w.do(f"br label %{done}")
        w.start(apart)
        w.do(f"br i1 {self.is_double}, label %{double}, label %{other}")
        w.start(double)
        self._channels(self._every_second)
        w.do(f"br label %{done}")
        w.start(other)
        self._channels(lambda at, here: self.gather(at, self._noted(here, 0)))
        w.do(f"br label %{done}")
        w.start(done)

    def _neighbours(self, at: str, here: str) -> str:
        return self._load(at, self.lanes, self._noted(here, 0))

    def _every_second(self, at: str, here: str) -> str:
        lanes, far = self.lanes, self.lanes * self.from_size
        vector = vector_type(scalar_type(self.made), lanes)
        parts = [
            self._load(self.at(at, str(half * far)), lanes, self._noted(here, half))
            for half in range(2)
        ]
        pair = f"shufflevector {vector} {parts[0]}, {vector} {parts[1]}"
        even = _numbers([2 * n for n in range(lanes)])
        return self.writer.let("even", f"{pair}, <{lanes} x i32> <{even}>")

    def _channels(self, load: Load) -> None:
        """The rows of each channel; what is behind the end of a piece, the next one replaces."""
        w = self.writer
        pieces = w.let("pieces", f"load i64, ptr {self.pieces}, align 8")

        def channel(c: str, _: Values) -> Values:
            below = self.op("sub", self.op("mul", c, self.taps), "%k")
            source = self.at("%source", self.op("mul", c, self.arg.channel))
            low = self.most(self.begin, self.op("sub", "0", below))
            high = self.least(self.finish, self.op("sub", "%depth", below))
            row = self.at("%panel", self.op("mul", self.op("add", below, low), self.step))

            def piece(number: str, _: Values) -> Values:
                at = w.let("at", f"getelementptr i64, ptr {self.places}, i64 {number}")
                to = self.at(row, w.let("place", f"load i64, ptr {at}, align 8"))
                at = w.let("at", f"getelementptr i64, ptr {self.backs}, i64 {number}")
                back = w.let("back", f"load i64, ptr {at}, align 8")
                first = self.op("sub", self.op("mul", number, str(TAPS)), self.begin)
                fits = w.let("fits", f"icmp eq i64 {back}, 0")
                whole, part, done = w.label("whole"), w.label("part"), w.label("copied")
                w.do(f"br i1 {fits}, label %{whole}, label %{part}")
                w.start(whole)
                self._piece(low, high, first, source, to, load, None)
                w.do(f"br label %{done}")
                w.start(part)
                self._piece(low, high, first, source, to, load, self._mask(back, self.lanes))
                w.do(f"br label %{done}")
                w.start(done)
                return []

            w.loop("piece", "0", pieces, "1", [], piece)
            return []

        w.loop("channel", self.first, self.stop, "1", [], channel)

    def _piece(
        self, low: str, high: str, first: str, source: str, to: str, load: Load, kept: str | None
    ) -> None:
        """A vector for each tap, but for the lanes that keep what they are."""
        w = self.writer
        vector = vector_type(scalar_type(self.made), self.lanes)

        def tap(t: str, carried: Values) -> Values:
            (to,) = carried
            here = self.op("add", first, t)
            at = w.let("at", f"getelementptr i64, ptr {self.offsets}, i64 {here}")
            offset = w.let("offset", f"load i64, ptr {at}, align 8")
            value = load(self.at(source, offset), here)
            if kept is not None:
                old = w.let("old", f"load {vector}, ptr {to}, align {self.to_size}")
                choice = f"select <{self.lanes} x i1> {kept}, {vector} {old}, {vector} {value}"
                value = w.let("value", choice)
            self._store(to, "0", value, self.lanes)
            return [self.at(to, self.step)]

        w.loop("tap", low, high, "1", [("ptr", to)], tap)


class _Taps(_Windows):
    """Columns are channels and taps.

    What each column sees of a place is noted first. Then all columns of some places are written,
    which the first-level cache holds.
    """

    def write(self) -> None:
        w, lanes = self.writer, self.lanes
        self.offsets = w.let("offsets", "alloca i64, i64 %width, align 64")
        self.seen = [w.let("seen", "alloca i32, i64 %width, align 64") for _ in range(AXES)]
        self.limits = w.let("limits", f"alloca [{lanes} x i32], align 64")
        w.loop("column", "0", "%width", "1", [], self._note)
        self.rows("%k", "%depth", self._row)

    def _note(self, place: str, _: Values) -> Values:
        """Where a column's channel and tap are."""
        w, arg = self.writer, self.arg
        column = self.op("add", "%column", place)
        channel, tap = self.op("udiv", column, self.taps), self.op("urem", column, self.taps)
        t0, rest = self.op("udiv", tap, self.taps12), self.op("urem", tap, self.taps12)
        t1, t2 = self.op("udiv", rest, arg.taps2), self.op("urem", rest, arg.taps2)
        offset = self.op("mul", channel, arg.channel)
        used = w.let("used", f"icmp slt i64 {place}, %count")
        for axis, t in enumerate((t0, t1, t2)):
            far = self.op("mul", t, getattr(arg, f"spread{axis}"))
            step = self.op("mul", far, getattr(arg, f"stride{axis}"))
            offset = self.op("add", offset, step)
            if not axis:  # Columns that there are none of see nothing.
                far = w.let("far", f"select i1 {used}, i64 {far}, i64 {-(1 << 30)}")
            narrow = w.let("narrow", f"trunc i64 {far} to i32")
            at = w.let("at", f"getelementptr i32, ptr {self.seen[axis]}, i64 {place}")
            w.do(f"store i32 {narrow}, ptr {at}, align 4")
        at = w.let("at", f"getelementptr i64, ptr {self.offsets}, i64 {place}")
        w.do(f"store i64 {offset}, ptr {at}, align 8")
        return []

    def _row(self, p0: str, p1: str, p2: str, k: str, count: str) -> None:
        w, arg, lanes = self.writer, self.arg, self.lanes
        q0, q1 = self.along(0, p0), self.along(1, p1)
        places = [self.splat32(q0), self.splat32(q1)]
        images = [self.splat32(arg.image0), self.splat32(arg.image1)]
        width = self.splat32(arg.image2)
        below = self.at("%source", self.op("mul", q0, arg.stride0), self.op("mul", q1, arg.stride1))

        def block(j: str, _: Values) -> Values:
            oks = []
            for axis, (place, image) in enumerate(zip(places, images, strict=True)):
                at = w.let("at", f"getelementptr i32, ptr {self.seen[axis]}, i64 {j}")
                far = w.let("far", f"load {self.ints}, ptr {at}, align 4")
                seen = w.let("seen", f"add {self.ints} {far}, {place}")
                oks.append(w.let("ok", f"icmp ult {self.ints} {seen}, {image}"))
            ok = w.let("ok", f"and <{lanes} x i1> {oks[0]}, {oks[1]}")
            choice = f"select <{lanes} x i1> {ok}, {self.ints} {width}, {self.ints} {self.zeros}"
            w.do(f"store {self.ints} {w.let('limit', choice)}, ptr {self.limits}, align 64")
            self.offset_at = w.let("at", f"getelementptr i64, ptr {self.offsets}, i64 {j}")
            self.seen_at = w.let("at", f"getelementptr i32, ptr {self.seen[2]}, i64 {j}")
            w.loop("vector", "0", count, str(lanes), [], lambda v, _: vector(j, v))
            return []

        def vector(j: str, v: str) -> Values:
            q2 = self.along(2, self.op("add", p2, v))
            source = self.at(below, self.op("mul", q2, arg.stride2))
            places = w.let("places", f"add {self.ints} {self.steps}, {self.splat32(q2)}")
            to = self.op("add", self.op("mul", self.op("add", k, v), "%width"), j)
            to = self.at("%panel", self.op("mul", to, str(self.size)))
            unit, apart, done = w.label("unit"), w.label("apart"), w.label("done")
            w.do(f"br i1 {self.is_unit}, label %{unit}, label %{apart}")
            w.start(unit)
            self._lines(places, source, to, lambda at, mask: self._load(at, lanes, mask))
            w.do(f"br label %{done}")
            w.start(apart)
            self._lines(places, source, to, self.gather)
            w.do(f"br label %{done}")
            w.start(done)
            return []

        w.loop("block", "0", "%width", str(lanes), [], block)

    def _lines(self, places: str, source: str, to: str, load: MaskedLoad) -> None:
        """A line for each lane's tap, transposed: what is behind the row, later rows replace."""
        w = self.writer
        lines = []
        for lane in range(self.lanes):
            at = w.let("at", f"getelementptr i64, ptr {self.offset_at}, i64 {lane}")
            offset = w.let("offset", f"load i64, ptr {at}, align 8")
            seen = w.let("seen", f"add {self.ints} {places}, {self._each(self.seen_at, lane)}")
            limit = self._each(self.limits, lane)
            mask = w.let("inside", f"icmp ult {self.ints} {seen}, {limit}")
            lines.append(load(self.at(source, offset), mask))
        step = self.op("mul", "%width", str(self.size))
        for line in self._turned(lines):
            self._store(to, "0", line, self.lanes)
            to = self.at(to, step)

    def _each(self, table: str, lane: int) -> str:
        w = self.writer
        at = w.let("at", f"getelementptr i32, ptr {table}, i64 {lane}")
        return w.splat("each", "i32", w.let("one", f"load i32, ptr {at}, align 4"), self.lanes)

    def _turned(self, lines: Values) -> Values:
        """A square of numbers transposed: blocks of 1, 2, 4 … change places."""
        w, lanes = self.writer, self.lanes
        vector = vector_type(scalar_type(self.made), lanes)
        lines, size = list(lines), 1
        while size < lanes:
            for i in range(lanes):
                if i & size:
                    continue
                pair = f"shufflevector {vector} {lines[i]}, {vector} {lines[i + size]}"
                upper = [n + lanes - size if n & size else n for n in range(lanes)]
                lower = [n + lanes if n & size else n + size for n in range(lanes)]
                lines[i], lines[i + size] = (
                    w.let("turned", f"{pair}, <{lanes} x i32> <{_numbers(order)}>")
                    for order in (upper, lower)
                )
            size *= 2
        return lines


def _numbers(order: list[int]) -> str:
    return ", ".join(f"i32 {n}" for n in order)
