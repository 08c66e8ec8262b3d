"""Code that both kernels which pack the windows of images share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, memory_type, scalar_type, suffix, vector_type
from ingle.fusion.device.targets import Target

from .panel_elements import PanelCode, order_text
from .tile import compute_dtype
from .window_args import loaded_window_args

RowBody = Callable[[str, str, str, str, str], None]


class WindowCode(PanelCode):
    """What both kernels share."""

    def __init__(self, dtype: str, target: Target, name: str) -> None:
        super().__init__(dtype, target, name)
        self.size = SIZES[compute_dtype(dtype)]
        self.ints = f"<{self.lanes} x i32>"
        self.zeros = "zeroinitializer"
        self.iota = f"<{', '.join(f'i32 {n}' for n in range(self.lanes))}>"

    def text(self) -> str:
        w = self.writer
        self.arg = loaded_window_args(w, "%window")
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

    def every_nth(self, base: str, masks: Sequence[str | None]) -> str:
        """Lanes that lie n elements apart, of n vectors of which masks say what is there, if not
        all is."""
        w, lanes, n = self.writer, self.lanes, len(masks)
        vector = vector_type(scalar_type(self.made), lanes)
        parts = []
        for number, mask in enumerate(masks):
            value = self._load(self.at(base, str(number * lanes * self.from_size)), lanes, mask)
            places = {
                lane: lane * n % lanes for lane in range(lanes) if lane * n // lanes == number
            }
            parts.append((value, places))
        while len(parts) > 1:  # Pairs, so that none waits for all.
            joined = []
            for (a, low), (b, high) in zip(parts[::2], parts[1::2], strict=False):
                of = {**low, **{lane: lanes + place for lane, place in high.items()}}
                taken = order_text([of.get(lane, 0) for lane in range(lanes)])
                pair = f"shufflevector {vector} {a}, {vector} {b}"
                value = w.let("nth", f"{pair}, <{lanes} x i32> <{taken}>")
                joined.append((value, {lane: lane for lane in of}))
            parts = joined + parts[len(parts) & ~1 :]
        return parts[0][0]

    def is_every(self, n: int) -> str:
        """Whether places are every nth neighbour, so that n vectors give one."""
        w = self.writer
        apart = w.let("apart", f"icmp eq i64 {self.apart}, {n * self.from_size}")
        by = w.let("by", f"icmp eq i64 {self.arg.step2}, {n}")
        return w.let("every", f"and i1 {apart}, {by}")

    def gather(self, base: str, mask: str | None) -> str:
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
