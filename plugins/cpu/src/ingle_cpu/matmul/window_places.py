"""Packing the windows of images where the columns of a panel are places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingle.fusion.device.llvm import Values, scalar_type, vector_type

from .microkernel import LINE
from .window_args import AXES
from .window_code import WindowCode

Load = Callable[[str, str], str]

TAPS = 32
"""Taps that are noted at once."""
MOST_FETCHED = 512
"""Bytes of each channel that are fetched for the next panel."""
NEAR = 2, 3, 4, 8
"""Strides whose windows are read by vectors of neighbours, those of half a vector at most."""
PIECES = 8
"""A panel's rows may be in so many more pieces than there are columns, whole vectors of all."""


class PlaceColumns(WindowCode):
    """Columns are places.

    A vector of neighbouring places is a *piece* of the panel's rows. What it sees of a tap is as
    far from its channel's first element in all channels, and so are the lanes that are inside of
    the image: both are noted for all pieces and some taps. Then the rows of a channel, which
    the first-level cache holds, are written piece by piece. Meanwhile what the next panel sees is
    fetched: it is some lines of each channel, too few in a row for the processor to foresee.
    """

    def write(self) -> None:
        w, lanes = self.writer, self.lanes
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
        self.near = [n for n in NEAR if 2 * n <= lanes]
        self.vectors = "1"
        for n in self.near:
            choice = f"select i1 {self.is_every(n)}, i64 {n}, i64 {self.vectors}"
            self.vectors = w.let("vectors", choice)
        self.noted = self.op("mul", noted, str(max(1, lanes // 8) if self.masks else lanes * 4))
        tables = self.op("mul", noted, self.vectors)
        self.inside = w.let("inside", f"alloca {self.bits}, i64 {tables}, align 64")
        self.pieces = w.let("pieces", "alloca i64, align 8")

        self.soon = self._seen_next()

        def block(begin: str, _: Values) -> Values:
            self.begin = begin
            self.finish = self.least(self.op("add", begin, str(TAPS)), self.taps)
            w.do(f"store i64 0, ptr {self.pieces}, align 8")
            self.rows("%column", "%count", self._row)
            self._copy()
            return []

        w.loop("block", "0", self.taps, str(TAPS), [], block)

    def _seen_next(self) -> tuple[str, str]:
        """From where to where, in each channel, lies what the next panel sees and this one not."""
        here, then = (
            self._first_tap("%column"),
            self._first_tap(self.op("add", "%column", "%width")),
        )
        begin = then
        for axis in range(AXES):
            taps, spread = getattr(self.arg, f"taps{axis}"), getattr(self.arg, f"spread{axis}")
            far = self.op("mul", self.op("sub", taps, "1"), spread)
            far = self.op("mul", self.most(far, "0"), getattr(self.arg, f"stride{axis}"))
            begin = self.op("add", begin, far)
        far = self.least(self.op("sub", then, here), str(MOST_FETCHED))
        return begin, self.op("add", begin, far)

    def _first_tap(self, column: str) -> str:
        """Where a column's first tap reads, were it not for spread taps, in bytes."""
        row, p2 = (self.op(word, column, self.arg.places2) for word in ("udiv", "urem"))
        p0, p1 = (self.op(word, row, self.arg.places1) for word in ("udiv", "urem"))
        at = "0"
        for axis, place in enumerate((p0, p1, p2)):
            step = self.op("mul", self.along(axis, place), getattr(self.arg, f"stride{axis}"))
            at = self.op("add", at, step)
        return at

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
        # What is between every nth one of them is inside itself, so that it may be read.
        near = w.let("near", f"icmp ne i64 {self.vectors}, 1")
        choice = f"select i1 {near}, {self.ints} {self.iota}, {self.ints} {self.steps}"
        steps = w.let("steps", choice)

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

            def vector(number: str, _: Values) -> Values:
                place = self.splat32(self.op("add", c2, self.op("mul", number, str(self.lanes))))
                seen = w.let("seen", f"add {self.ints} {steps}, {place}")
                mask = w.let("inside", f"icmp ult {self.ints} {seen}, {limit}")
                kept = f"bitcast <{self.lanes} x i1> {mask} to {self.bits}"
                if not self.masks:
                    kept = f"sext <{self.lanes} x i1> {mask} to {self.bits}"
                at = self._inside_at(here, number)
                w.do(f"store {self.bits} {w.let('kept', kept)}, ptr {at}, align {self._aligned}")
                return []

            w.loop("vector", "0", self.vectors, "1", [], vector)
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

    def _inside_at(self, here: str, number: str) -> str:
        """Where it is noted which lanes of a tap's vector are inside."""
        table = self.at(self.inside, self.op("mul", number, self.noted))
        return self.writer.let("at", f"getelementptr {self.bits}, ptr {table}, i64 {here}")

    def _noted(self, here: str, number: int) -> str:
        """The lanes of a tap's vector that are inside."""
        w, lanes = self.writer, self.lanes
        at = self._inside_at(here, str(number))
        bits = w.let("bits", f"load {self.bits}, ptr {at}, align {self._aligned}")
        if self.masks:
            return w.let("inside", f"bitcast {self.bits} {bits} to <{lanes} x i1>")
        return w.let("inside", f"icmp slt {self.ints} {bits}, {self.zeros}")

    def _copy(self) -> None:
        """Some taps of all channels, in the way that the images lie."""
        w, done = self.writer, self.writer.label("done")
        self._if(self.is_unit, self._neighbours, done)
        for n in self.near:
            self._if(self.is_every(n), partial(self._every, n), done)
        self._channels(lambda at, here: self.gather(at, self._noted(here, 0)))
        w.do(f"br label %{done}")
        w.start(done)

    def _if(self, holds: str, load: Load, done: str) -> None:
        """Copies by a load where a condition holds, and goes on behind it otherwise."""
        w, here, other = self.writer, self.writer.label("here"), self.writer.label("other")
        w.do(f"br i1 {holds}, label %{here}, label %{other}")
        w.start(here)
        self._channels(load)
        w.do(f"br label %{done}")
        w.start(other)

    def _every(self, n: int, at: str, here: str) -> str:
        return self.every_nth(at, [self._noted(here, number) for number in range(n)])

    def _neighbours(self, at: str, here: str) -> str:
        return self._load(at, self.lanes, self._noted(here, 0))

    def _channels(self, load: Load) -> None:
        """The rows of each channel; what is behind the end of a piece, the next one replaces."""
        w = self.writer
        pieces = w.let("pieces", f"load i64, ptr {self.pieces}, align 8")

        def channel(c: str, _: Values) -> Values:
            below = self.op("sub", self.op("mul", c, self.taps), "%k")
            source = self.at("%source", self.op("mul", c, self.arg.channel))
            w.loop("ahead", *self.soon, str(LINE), [], lambda at, _: self._fetch(source, at))
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

    def _fetch(self, source: str, at: str) -> Values:
        place = self.at(source, at)
        self.writer.call_nothing("llvm.prefetch.p0", f"ptr {place}", "i32 0", "i32 2", "i32 1")
        return []

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
