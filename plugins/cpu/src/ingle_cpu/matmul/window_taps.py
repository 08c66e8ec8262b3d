"""Packing the windows of images where the columns of a panel are channels and taps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.fusion.device.llvm import Values, scalar_type, vector_type

from .panel_elements import turned
from .window_args import AXES
from .window_code import WindowCode

MaskedLoad = Callable[[str, Sequence[str | None]], str]


class TapColumns(WindowCode):
    """Columns are channels and taps.

    What each column sees of a place is noted first. Then all columns of some places are written,
    which the first-level cache holds. Where all that a square of columns and places sees is inside
    of the image, as most of it is, nothing is masked: masks take longer than all the rest.
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
            self.all_rows = w.call(
                "all", "i1", f"llvm.vector.reduce.and.v{lanes}i1", f"<{lanes} x i1> {ok}"
            )
            self.offset_at = w.let("at", f"getelementptr i64, ptr {self.offsets}, i64 {j}")
            self.seen_at = w.let("at", f"getelementptr i32, ptr {self.seen[2]}, i64 {j}")
            far = w.let("far", f"load {self.ints}, ptr {self.seen_at}, align 4")
            ends = []
            for word in ("smin", "smax"):
                name = f"llvm.vector.reduce.{word}.v{lanes}i32"
                end = w.call("end", "i32", name, f"{self.ints} {far}")
                ends.append(w.let("end", f"sext i32 {end} to i64"))
            self.left, self.right = ends
            w.loop("vector", "0", count, str(lanes), [], lambda v, _: vector(j, v))
            return []

        def vector(j: str, v: str) -> Values:
            q2 = self.along(2, self.op("add", p2, v))
            source = self.at(below, self.op("mul", q2, arg.stride2))
            here = self.splat32(q2)
            places = w.let("places", f"add {self.ints} {self.steps}, {here}")
            to = self.op("add", self.op("mul", self.op("add", k, v), "%width"), j)
            to = self.at("%panel", self.op("mul", to, str(self.size)))
            unit, apart = w.label("unit"), w.label("apart")
            double, other, done = w.label("double"), w.label("other"), w.label("done")
            w.do(f"br i1 {self.is_unit}, label %{unit}, label %{apart}")
            w.start(unit)
            self._lines([places], source, to, q2, lambda at, mask: self._load(at, lanes, *mask))
            w.do(f"br label %{done}")
            w.start(apart)
            w.do(f"br i1 {self.is_every(2)}, label %{double}, label %{other}")
            w.start(double)
            neighbours = w.let("places", f"add {self.ints} {self.iota}, {here}")
            behind = w.let("places", f"add {self.ints} {neighbours}, {self.splat32(str(lanes))}")
            self._lines([neighbours, behind], source, to, q2, self.every_nth)
            w.do(f"br label %{done}")
            w.start(other)
            self._masked_lines([places], source, to, lambda at, mask: self.gather(at, *mask))
            w.do(f"br label %{done}")
            w.start(done)
            return []

        w.loop("block", "0", "%width", str(lanes), [], block)

    def _lines(self, places: Values, source: str, to: str, first: str, load: MaskedLoad) -> None:
        """A line for each lane's tap, without masks if all of them are inside of the image.

        Places are those of the lanes of each vector that is loaded; they follow each other from the
        first one on.
        """
        w = self.writer
        begin = self.op("add", first, self.left)
        end = self.op("add", self.op("add", first, self.right), str(len(places) * self.lanes))
        inside = self.all_rows
        for condition in (f"sge i64 {begin}, 0", f"sle i64 {end}, {self.arg.image2}"):
            inside = w.let("inside", f"and i1 {inside}, {w.let('is', f'icmp {condition}')}")
        whole, part, done = w.label("whole"), w.label("part"), w.label("lines")
        w.do(f"br i1 {inside}, label %{whole}, label %{part}")
        w.start(whole)
        lines = []
        for lane in range(self.lanes):
            place = self.at(source, self._offset(lane))
            lines.append(load(place, [None] * len(places)))
        self._write(lines, to)
        w.do(f"br label %{done}")
        w.start(part)
        self._masked_lines(places, source, to, load)
        w.do(f"br label %{done}")
        w.start(done)

    def _masked_lines(self, places: Values, source: str, to: str, load: MaskedLoad) -> None:
        """A line for each lane's tap, of which masks say what is inside of the image."""
        w = self.writer
        lines = []
        for lane in range(self.lanes):
            offset = self._offset(lane)
            first, limit = self._each(self.seen_at, lane), self._each(self.limits, lane)
            masks: list[str | None] = []
            for each in places:
                seen = w.let("seen", f"add {self.ints} {each}, {first}")
                masks.append(w.let("inside", f"icmp ult {self.ints} {seen}, {limit}"))
            lines.append(load(self.at(source, offset), masks))
        self._write(lines, to)

    def _offset(self, lane: int) -> str:
        w = self.writer
        at = w.let("at", f"getelementptr i64, ptr {self.offset_at}, i64 {lane}")
        return w.let("offset", f"load i64, ptr {at}, align 8")

    def _write(self, lines: Values, to: str) -> None:
        """Lines transposed: what is behind the row, later rows replace."""
        step = self.op("mul", "%width", str(self.size))
        vector = vector_type(scalar_type(self.made), self.lanes)
        for line in turned(self.writer, lines, vector):
            self._store(to, "0", line, self.lanes)
            to = self.at(to, step)

    def _each(self, table: str, lane: int) -> str:
        w = self.writer
        at = w.let("at", f"getelementptr i32, ptr {table}, i64 {lane}")
        return w.splat("each", "i32", w.let("one", f"load i32, ptr {at}, align 4"), self.lanes)
