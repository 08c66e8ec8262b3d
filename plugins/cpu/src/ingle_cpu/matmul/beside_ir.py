"""The kernel that sums a gradient of a weight along images whose channels lie side by side.

    void sum_beside(pointers, args, begin, end, worker)

A unit of work is a block of rows of one matrix of the batch by a block of channels. Some images at
a time are copied, and rows of a beside each other; then all tiles of rows go by what one tap sees
of as many images as the first-level cache has room for. Pointers are a, b, the workers' memory, and
the result.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, scalar_type, suffix, vector_type
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .abi import parameters
from .driver_images import DriverCode
from .named_args import loaded_args, loaded_pointers
from .panel_elements import turned

T = TypeVar("T")


class BesideArgs(NamedTuple, Generic[T]):
    """The arguments of `sum_beside`; distances are in bytes."""

    micro: T  # the address of the tile's code
    m: T
    n: T
    k: T  # places of an image
    images: T
    at_once: T  # images that are copied at once
    together: T  # images whose places are summed together
    depth_block: T  # places that are summed at once
    rows: T  # of a tile
    width: T  # of a tile, in bytes
    columns: T  # the same in channels
    tiles: T  # of rows
    row_blocks: T
    channel_blocks: T
    channels: T  # of a block
    a_row: T
    a_image: T
    rows_row: T  # from row to row of a in the worker's memory
    b_image: T
    channel: T  # from channel to channel of b
    line: T  # from row to row of b
    batch1: T
    batch2: T
    a0: T  # along batch axes
    a1: T
    a2: T
    b0: T
    b1: T
    b2: T
    height: T  # of an image, in elements
    across: T
    copy: T  # from copy to copy, which is whole vectors
    plane: T  # in a copy, from the channels of a tile to the next ones
    copy_line: T  # from row to row in a copy
    pixel: T  # from element to element of a row in it
    first: T  # where the image begins in it
    places1: T
    places2: T
    place_line: T  # from row to row of places in a copy
    place: T  # from place to place
    taps1: T
    taps2: T
    tap_line: T  # from tap to tap
    tap: T
    first_tap: T  # what the first place sees by the first tap
    worker_bytes: T
    offsets_at: T  # places in the worker's memory
    rows_at: T
    sums_at: T


def beside_source(dtype: str, target: Target) -> IRSource:
    """The module of `sum_beside` for float32 or float64."""
    name = f"sum_beside_{dtype}_{target.name}"
    return IRSource(_Beside(dtype, target, name).text(), (name,), reduced=False)


class _Beside(DriverCode):
    def __init__(self, dtype: str, target: Target, name: str) -> None:
        super().__init__(Writer(name))
        self.name = name
        self.size = SIZES[dtype]
        self.lanes = target.width // self.size
        self.scalar = scalar_type(dtype)
        self.vector = vector_type(self.scalar, self.lanes)
        self.mask = vector_type("i1", self.lanes)
        self.suffix = suffix(self.scalar, self.lanes)
        self.masks = target.masks

    def text(self) -> str:
        w = self.w
        self.a, self.b, scratch, self.out = loaded_pointers(w, ("a", "b", "scratch", "out"))
        self.of: BesideArgs[str] = loaded_args(w, BesideArgs)
        self.micro = w.let("micro", f"inttoptr i64 {self.of.micro} to ptr")
        self.copies = self.shift(scratch, self.times("%worker", self.of.worker_bytes))
        self.offsets = self.shift(self.copies, self.of.offsets_at)
        self.rows = self.shift(self.copies, self.of.rows_at)
        self.sums = self.shift(self.copies, self.of.sums_at)
        self.image_bytes = self.times(self.of.k, str(self.size))
        self.taps = self.times(self.of.taps1, self.of.taps2)
        self.sums_tap = self.times(self.of.channels, str(self.size))
        self.sums_row = self.times(self.taps, self.sums_tap)
        self._note_offsets()
        w.loop("unit", "%begin", "%end", "1", [], self._unit)
        w.do("ret void")
        head = "ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker"
        body = "\n".join([*w.lines, "}", *w.declared.values()])
        return f"define void @{self.name}({head}) nounwind {{\nentry:\n{body}\n"

    def _note_offsets(self) -> None:
        """Where each place is in a copy: what k counts."""
        w, of = self.w, self.of

        def image(t: str, _: Values) -> Values:
            copy, before = self.times(t, of.copy), self.times(t, of.k)

            def line(y: str, _: Values) -> Values:
                begin = self.plus(copy, self.times(y, of.place_line))
                number = self.plus(before, self.times(y, of.places2))

                def place(x: str, _: Values) -> Values:
                    offset = self.plus(begin, self.times(x, of.place))
                    narrow = w.let("narrow", f"trunc i64 {offset} to i32")
                    to = self.shift(self.offsets, self.times(self.plus(number, x), "4"))
                    w.do(f"store i32 {narrow}, ptr {to}, align 4")
                    return []

                w.loop("place", "0", of.places2, "1", [], place)
                return []

            w.loop("line", "0", of.places1, "1", [], line)
            return []

        w.loop("image", "0", of.together, "1", [], image)

    def _unit(self, unit: str, _: Values) -> Values:
        w, of = self.w, self.of
        row_block, rest = self.op("urem", unit, of.row_blocks), self.op("udiv", unit, of.row_blocks)
        self.block = self.op("urem", rest, of.channel_blocks)
        self.matrix = self.op("udiv", rest, of.channel_blocks)
        strides = (self.a, (of.a0, of.a1, of.a2)), (self.b, (of.b0, of.b1, of.b2))
        a, b = self.matrices(self.matrix, (of.batch1, of.batch2), strides)
        b = self.shift(b, self.times(self.times(self.block, of.channels), of.channel))
        self.begin, self.end = self.share(row_block, of.tiles, of.row_blocks)
        self._clear()

        def some(image: str, carried: Values) -> Values:
            a, b = carried
            now = self.least(self.minus(of.images, image), of.at_once)
            w.loop("copy", "0", now, "1", [], lambda t, _: self._copy(b, t))
            w.loop("rows", "0", now, "1", [], lambda t, _: self._copy_rows(a, t))
            self._taps(image, now)
            onward = (self.times(of.at_once, step) for step in (of.a_image, of.b_image))
            return [self.shift(p, d) for p, d in zip(carried, onward, strict=True)]

        w.loop("images", "0", of.images, of.at_once, [("ptr", a), ("ptr", b)], some)
        self._finish()
        return []

    def _clear(self) -> None:
        """Zeros around all images: nothing else is ever written there."""
        whole = self.times(self.of.at_once, self.of.copy)

        def some(at: str, _: Values) -> Values:
            to = self.shift(self.copies, at)
            self.w.do(f"store {self.vector} zeroinitializer, ptr {to}, align {self.size}")
            return []

        self.w.loop("clear", "0", whole, str(self.lanes * self.size), [], some)

    def _copy(self, b: str, t: str) -> Values:
        """An image, squares of channels and pixels transposed; the last of a row begin earlier."""
        w, of, lanes = self.w, self.of, self.lanes
        source = self.shift(b, self.times(t, of.b_image))
        to = self.shift(self.copies, self.plus(self.times(t, of.copy), of.first))
        square = str(lanes)

        def line(y: str, _: Values) -> Values:
            of_line = self.shift(source, self.times(y, of.line))
            to_line = self.shift(to, self.times(y, of.copy_line))

            def some(c: str, _: Values) -> Values:
                here = self.shift(of_line, self.times(c, of.channel))
                plane = self.times(self.op("udiv", c, of.columns), of.plane)
                inside = self.times(self.op("urem", c, of.columns), str(self.size))
                there = self.shift(to_line, self.plus(plane, inside))

                def pixels(x: str, _: Values) -> Values:
                    x = self.least(x, self.minus(of.across, square))
                    at = self.shift(here, self.times(x, str(self.size)))
                    lines = []
                    for _channel in range(lanes):
                        load = f"load {self.vector}, ptr {at}, align {self.size}"
                        lines.append(w.let("line", load))
                        at = self.shift(at, of.channel)
                    place = self.shift(there, self.times(x, of.pixel))
                    for each in turned(w, lines, self.vector):
                        w.do(f"store {self.vector} {each}, ptr {place}, align {self.size}")
                        place = self.shift(place, of.pixel)
                    return []

                if not self.masks:
                    w.loop("pixels", "0", of.across, square, [], pixels)
                    return []
                short = w.let("short", f"icmp slt i64 {of.across}, {square}")
                long = self.choose(short, "0", of.across)
                w.loop("pixels", "0", long, square, [], pixels)
                w.when(short, [], lambda: self._few_pixels(here, there))
                return []

            w.loop("channels", "0", of.channels, square, [], some)
            return []

        w.loop("line", "0", of.height, "1", [], line)
        return []

    def _few_pixels(self, source: str, to: str) -> Values:
        """A row of an image that has fewer pixels than a vector lanes."""
        w, of, lanes = self.w, self.of, self.lanes
        numbers = ", ".join(f"i64 {n}" for n in range(lanes))
        across = w.splat("across", "i64", of.across, lanes)
        there = w.let("there", f"icmp slt <{lanes} x i64> <{numbers}>, {across}")
        lines = []
        for _channel in range(lanes):
            line = w.call(
                "line", self.vector, f"llvm.masked.load.{self.suffix}.p0", f"ptr {source}",
                f"i32 {self.size}", f"{self.mask} {there}", f"{self.vector} zeroinitializer",
            )  # fmt: skip
            lines.append(line)
            source = self.shift(source, of.channel)
        for number, each in enumerate(turned(w, lines, self.vector)):
            inside = w.let("inside", f"extractelement {self.mask} {there}, i64 {number}")
            w.call_nothing(
                f"llvm.masked.store.{self.suffix}.p0", f"{self.vector} {each}", f"ptr {to}",
                f"i32 {self.size}", f"{self.mask} {w.splat('inside', 'i1', inside, lanes)}",
            )  # fmt: skip
            to = self.shift(to, of.pixel)
        return []

    def _copy_rows(self, a: str, t: str) -> Values:
        """What the unit's rows of a have for an image, behind what they have for the one before."""
        w, of = self.w, self.of
        begin = self.times(self.begin, of.rows)
        stop = self.least(self.times(self.end, of.rows), of.m)
        source = self.shift(a, self.times(t, of.a_image))
        to = self.shift(self.rows, self.times(t, self.image_bytes))
        step = self.lanes * self.size
        whole = self.op("and", self.image_bytes, str(-step))

        def row(i: str, _: Values) -> Values:
            here = self.shift(source, self.times(i, of.a_row))
            there = self.shift(to, self.times(self.minus(i, begin), of.rows_row))
            for first, end, kind, by in (
                ("0", whole, self.vector, step), (whole, self.image_bytes, self.scalar, self.size)
            ):  # fmt: skip

                def some(at: str, _: Values, kind: str = kind) -> Values:
                    load = f"load {kind}, ptr {self.shift(here, at)}, align {self.size}"
                    place = self.shift(there, at)
                    w.do(f"store {kind} {w.let('x', load)}, ptr {place}, align {self.size}")
                    return []

                w.loop("some", first, end, str(by), [], some)
            return []

        w.loop("row", begin, stop, "1", [], row)
        return []

    def _taps(self, image: str, now: str) -> None:
        """What the images that are copied now add to all sums.

        All tiles of rows go by what one tap sees of an image while the first-level cache has it.
        """
        w, of = self.w, self.of

        def line(t1: str, _: Values) -> Values:
            seen = self.plus(of.first_tap, self.times(t1, of.tap_line))

            def tap(t2: str, _: Values) -> Values:
                here = self.shift(self.copies, self.plus(seen, self.times(t2, of.tap)))
                which = self.plus(self.times(t1, of.taps2), t2)
                there = self.shift(self.sums, self.times(which, self.sums_tap))

                def panel(at: str, carried: Values) -> Values:
                    (b,) = carried
                    to = self.shift(there, at)

                    def each(t: str, _: Values) -> Values:
                        done = self.op("or", image, t)
                        deep = self.times(self.least(self.minus(now, t), of.together), of.k)
                        rows = self.shift(self.rows, self.times(t, self.image_bytes))
                        seen = self.shift(b, self.times(t, of.copy))
                        self._tiles(rows, seen, deep, done, to)
                        return []

                    w.loop("each", "0", now, of.together, [], each)
                    return [self.shift(b, of.plane)]

                w.loop("panel", "0", self.sums_tap, of.width, [("ptr", here)], panel)
                return []

            w.loop("tap", "0", of.taps2, "1", [], tap)
            return []

        w.loop("line", "0", of.taps1, "1", [], line)

    def _tiles(self, a: str, b: str, deep: str, done: str, sums: str) -> None:
        """What a tap of some images adds to the sums of some channels."""
        of = self.of

        def tile(number: str, carried: Values) -> Values:
            (to,) = carried
            row = self.times(number, of.rows)
            last = self.minus(self.least(self.minus(of.m, row), of.rows), "1")
            below = self.minus(row, self.times(self.begin, of.rows))
            rows = self.shift(a, self.times(below, of.rows_row))
            self._blocks(rows, last, b, (deep, done), to)
            return [self.shift(to, self.times(of.rows, self.sums_row))]

        self.w.loop("tile", self.begin, self.end, "1", [("ptr", sums)], tile)

    def _blocks(self, a: str, last: str, b: str, depth: tuple[str, str], tile: str) -> None:
        """What some images add to a tile, a block of places at a time."""
        w, of, (deep, done) = self.w, self.of, depth

        def block(at: str, _: Values) -> Values:
            offsets = self.shift(self.offsets, self.times(at, "4"))
            given = {
                "a": self.shift(a, self.times(at, str(self.size))), "a_row": of.rows_row,
                "last": last, "b": b,
                "b_step": w.let("offsets", f"ptrtoint ptr {offsets} to i64"),
                "columns": of.columns, "depth": self.least(self.minus(deep, at), of.depth_block),
                "tile": tile, "tile_row": self.sums_row, "add": self.op("or", done, at),
                "soon": tile, "b_vector": "0", "tile_vector": "0",
            }  # fmt: skip
            w.do(f"call void {self.micro}({parameters(given)})")
            return []

        w.loop("block", "0", deep, of.depth_block, [], block)

    def _finish(self) -> None:
        """Sums to the result, whose columns are each channel's taps."""
        w, of = self.w, self.of
        begin = self.times(self.begin, of.rows)
        stop = self.least(self.times(self.end, of.rows), of.m)
        of_block = self.times(self.times(self.block, of.channels), self.taps)
        above = self.times(self.matrix, of.m)
        step = str(self.size)

        def row(i: str, _: Values) -> Values:
            sums = self.shift(self.sums, self.times(self.minus(i, begin), self.sums_row))
            to = self.plus(self.times(self.plus(above, i), of.n), of_block)
            to = self.shift(self.out, self.times(to, step))

            def channel(c: str, carried: Values) -> Values:
                here = self.shift(sums, self.times(c, step))

                def tap(t: str, carried: Values) -> Values:
                    at, to = carried
                    load = f"load {self.scalar}, ptr {at}, align {self.size}"
                    w.do(f"store {self.scalar} {w.let('x', load)}, ptr {to}, align {self.size}")
                    return [self.shift(at, self.sums_tap), self.shift(to, step)]

                first = [("ptr", here), ("ptr", carried[0])]
                return w.loop("tap", "0", self.taps, "1", first, tap)[1:]

            w.loop("channel", "0", of.channels, "1", [("ptr", to)], channel)
            return []

        w.loop("row", begin, stop, "1", [], row)
