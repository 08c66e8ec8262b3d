"""The kernel that computes convolutions by 3x3 taps from patches; `winograd.py` says how.

    void multiply_patches(pointers, args, begin, end, worker)

A unit of work is some rows of patches of one matrix of the batch by a block of features. All
channels of the patches are turned into columns of 16 matrices; some features at a time are
multiplied with these and turned into results, which the epilogue takes from the first-level cache.
Pointers are the weight, the images, the workers' memory, the taps as `winograd_taps_ir.py` turns
them, and the epilogue's operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, suffix, vector_type
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .abi import parameters
from .driver_epilogue import EpilogueArgs, EpilogueCode
from .named_args import loaded_args, loaded_pointers
from .winograd import NUMBERS, ROWS, TAPS, WIDEST

T = TypeVar("T")
SIZE = SIZES["float32"]
DEPTH = 128
"""Channels that are summed by themselves: so errors are about those of tiles that slide."""
LINES = 4
"""Of a patch."""
ADDRESSES = ("micro1", "micro2", "micro3", "epilogue")
"""Of the arguments, those that are addresses of code."""


class WinogradArgs(NamedTuple, Generic[T]):
    """The arguments of `multiply_patches`; distances are in bytes.

    Behind them are the column strides of the epilogue's operands, and its arguments.
    """

    micro1: T  # the addresses of the code of tiles with one to three vectors
    micro2: T
    micro3: T
    epilogue: T
    m: T  # features
    channels: T
    panels: T  # of features, a tile high each
    at_once: T  # panels that are multiplied before results are made of them
    group: T  # features whose results go through the epilogue together
    row_blocks: T  # units of features
    bands: T  # units of rows of patches
    rows: T  # of patches, of all images
    tall: T  # of patches, of an image
    wide: T  # patches of a row
    places1: T
    places2: T
    image1: T
    image2: T
    image: T  # from image to image
    channel: T
    line: T
    element: T
    top: T  # where the first patch begins
    left: T
    begin: T  # from which element of a line of a patch on the image has some
    seen: T  # how many it has
    start1: T  # what the first place sees by the first tap, and from tap to tap: the definition
    start2: T
    spread: T
    a_row: T
    a_k: T
    batch1: T
    batch2: T
    b0: T  # along batch axes
    b1: T
    b2: T
    operands: T  # of the epilogue, the results not counted
    nest_args: T
    inner_at: T
    column_at: T
    pitch: T  # numbers of a row of columns in the making, and of results
    pitch_of_line: T
    pitch_of_results: T
    matrix: T  # of columns, from one of the 16 to the next
    taps_matrix: T
    worker_bytes: T
    pointers_at: T  # places in the worker's memory
    lines_at: T
    turned_at: T
    columns_at: T
    products_at: T
    results_at: T


def winograd_source(target: Target) -> IRSource:
    """The module of `multiply_patches`."""
    name = f"multiply_patches_{target.name}"
    return IRSource(_Patches(target, name).text(), (name,), reduced=False)


class _Patches(EpilogueCode):
    first_operand = 4

    def __init__(self, target: Target, name: str) -> None:
        super().__init__(Writer(name))
        self.lanes = target.width // SIZE
        self.vector = vector_type("float", self.lanes)
        self.both = vector_type("float", 2 * self.lanes)
        self.step = str(self.lanes)

    def text(self) -> str:
        w = self.w
        names = ("a", "b", "scratch", "taps")
        self.a, self.b_all, scratch, self.taps = loaded_pointers(w, names)
        of: WinogradArgs[str] = loaded_args(w, WinogradArgs)
        self.of = of
        self.micros = [
            w.let("micro", f"inttoptr i64 {at} to ptr") for at in (of.micro1, of.micro2, of.micro3)
        ]
        self.called = EpilogueArgs(
            w.let("epilogue", f"inttoptr i64 {of.epilogue} to ptr"),
            of.m, of.operands, of.nest_args, of.inner_at, of.column_at,
        )  # fmt: skip
        self.scratch = self.shift(scratch, self.times("%worker", of.worker_bytes))
        self.nest_pointers = self.shift(self.scratch, of.pointers_at)
        self.lines = self.shift(self.scratch, of.lines_at)
        self.turned = self.shift(self.scratch, of.turned_at)
        self.columns = self.shift(self.scratch, of.columns_at)
        self.products = self.shift(self.scratch, of.products_at)
        self.results = self.shift(self.scratch, of.results_at)
        self.column_strides = w.let(
            "tail", f"getelementptr i64, ptr %args, i64 {len(WinogradArgs._fields)}"
        )
        tail = f"getelementptr i64, ptr {self.column_strides}, i64 {of.operands}"
        self.copy_nest_args(w.let("tail", tail))
        self.pitch = self.bytes(of.pitch)
        self.line_pitch = self.bytes(of.pitch_of_line)
        self.tile_row = self.bytes(of.pitch_of_results)
        self.columns_waiting = of.pitch_of_results
        self.product_row = self.times(self.pitch, str(NUMBERS))
        self._clear(self.lines, self.times(self.line_pitch, str(LINES)))
        self._clear(self.turned, self.product_row)
        w.loop("unit", "%begin", "%end", "1", [], self._unit)
        w.do("ret void")
        return w.module()

    def bytes(self, numbers: str) -> str:
        return self.times(numbers, str(SIZE))

    def _clear(self, place: str, nbytes: str) -> None:
        """Zeros around what is copied, and in columns that no patch has."""

        def some(at: str, _: Values) -> Values:
            self._store("zeroinitializer", self.shift(place, at))
            return []

        self.w.loop("clear", "0", nbytes, str(self.lanes * SIZE), [], some)

    def _load(self, place: str, kind: str = "") -> str:
        return self.w.let("x", f"load {kind or self.vector}, ptr {place}, align {SIZE}")

    def _store(self, value: str, place: str, kind: str = "") -> None:
        self.w.do(f"store {kind or self.vector} {value}, ptr {place}, align {SIZE}")

    def add(self, a: str, b: str) -> str:
        return self.w.let("sum", f"fadd {self.vector} {a}, {b}")

    def less(self, a: str, b: str) -> str:
        return self.w.let("less", f"fsub {self.vector} {a}, {b}")

    # -- a unit of work ------------------------------------------------------------------------

    def _unit(self, unit: str, _: Values) -> Values:
        of = self.of
        block, rest = self.op("urem", unit, of.row_blocks), self.op("udiv", unit, of.row_blocks)
        band, self.matrix = self.op("urem", rest, of.bands), self.op("udiv", rest, of.bands)
        (self.b,) = self.matrices(
            self.matrix, (of.batch1, of.batch2), [(self.b_all, (of.b0, of.b1, of.b2))]
        )
        self.first, self.stop = self.share(band, of.rows, of.bands)
        self.place, end = self._place(self.first), self._place(self.stop)
        self.count = self.minus(end, self.place)
        patches = self.times(self.minus(self.stop, self.first), of.wide)
        self._divide(patches)
        self._clear_behind()
        self.w.loop("channel", "0", of.channels, "1", [], self._channel)
        begin, stop = self.share(block, of.panels, of.row_blocks)

        def panels(at: str, _: Values) -> Values:
            until = self.least(self.plus(at, of.at_once), stop)
            self._multiply(at, until)
            rows = str(ROWS)
            self.made = self.times(at, rows)
            high = self.least(self.times(until, rows), of.m)
            self.w.loop("group", self.made, high, of.group, [], lambda f, _: self._group(f, high))
            return []

        self.w.loop("panels", begin, stop, of.at_once, [], panels)
        return []

    def _place(self, row: str) -> str:
        """The number of the first place of a row of patches."""
        of = self.of
        image, inside = self.op("udiv", row, of.tall), self.op("urem", row, of.tall)
        line = self.plus(self.times(image, of.places1), self.times(inside, "2"))
        return self.times(line, of.places2)

    def _divide(self, patches: str) -> None:
        """Columns into panels as wide as tiles: of three vectors, and behind these of two or one.

        One vector more than some threes makes two twos.
        """
        vectors = self.op("udiv", self.plus(patches, str(self.lanes - 1)), self.step)
        rest = self.op("urem", vectors, str(WIDEST))
        alone = self.equal(vectors, "1")
        ones = self.w.let("ones", f"zext i1 {alone} to i64")
        two = self.choose(self.equal(rest, "1"), "2", "0")
        twos = self.choose(alone, "0", self.choose(self.equal(rest, "2"), "1", two))
        less = self.minus(vectors, self.plus(ones, self.times(twos, "2")))
        threes = self.op("udiv", less, str(WIDEST))
        ahead = self.times(threes, str(WIDEST))
        self.vectors = vectors
        # Of each width how many there are, and from which vector on.
        self.panels = [(3, threes, "0"), (2, twos, ahead), (1, ones, "0")]

    def _clear_behind(self) -> None:
        """Zeros behind all products: results are made of whole vectors of each row of patches."""
        row = self.times(self.vectors, str(self.lanes * SIZE))
        rows = self.times(self.of.at_once, str(ROWS * NUMBERS))

        def one(n: str, _: Values) -> Values:
            at = self.plus(row, self.times(n, self.pitch))
            self._store("zeroinitializer", self.shift(self.products, at))
            return []

        self.w.loop("behind", "0", rows, "1", [], one)

    # -- patches -------------------------------------------------------------------------------

    def _channel(self, c: str, _: Values) -> Values:
        """What a channel of all patches is turned into, as rows of the panels of columns."""
        w, of = self.w, self.of
        channel = self.shift(self.b, self.times(c, of.channel))

        def row(r: str, _: Values) -> Values:
            number, y = self.op("udiv", r, of.tall), self.op("urem", r, of.tall)
            image = self.shift(channel, self.times(number, of.image))
            # Two lines are those of the patches above, unless there are none.
            above = w.let("above", f"icmp sgt i64 {r}, {self.first}")
            inside = w.let("inside", f"icmp sgt i64 {y}, 0")
            new = self.choose(w.let("both", f"and i1 {above}, {inside}"), "2", "0")
            top = self.times(y, "2")
            first, end = self.plus(top, new), self.plus(top, str(LINES))
            w.loop("line", first, end, "1", [], lambda n, _: self._copy(image, n))
            places = [self._line(self.plus(top, str(k))) for k in range(LINES)]
            below = self.bytes(self.times(self.minus(r, self.first), of.wide))
            to = self.shift(self.turned, below)
            w.loop("patches", "0", of.wide, self.step, [], lambda x, _: self._turn(places, to, x))
            return []

        w.loop("row", self.first, self.stop, "1", [], row)
        self._spread(c)
        return []

    def _line(self, number: str) -> str:
        """Where a line of patches is copied to; as many are kept as a patch has."""
        slot = self.op("urem", number, str(LINES))
        return self.shift(self.lines, self.times(slot, self.line_pitch))

    def _copy(self, image: str, number: str) -> Values:
        """A line of an image, or zeros above and below."""
        w, of = self.w, self.of
        y = self.plus(number, of.top)
        to = self.shift(self._line(number), self.bytes(of.begin))
        first = self.times(self.most(of.left, "0"), of.element)
        source = self.shift(image, self.plus(self.times(y, of.line), first))
        inside = w.let("inside", f"icmp ult i64 {y}, {of.image1}")
        dense = self.equal(of.element, str(SIZE))
        long = w.let("long", f"icmp sge i64 {of.seen}, {self.lanes}")
        whole = w.let("whole", f"and i1 {dense}, {long}")
        vectors = self.choose(whole, of.seen, "0")
        rest = self.choose(whole, "0", of.seen)
        last = self.minus(of.seen, self.step)

        def copied(at: str, kind: str, step: str) -> None:
            here = self.shift(source, self.times(at, step))
            there = self.shift(to, self.bytes(at))

            def load() -> Values:
                return [self._load(here, kind)]

            zero = "zeroinitializer" if kind != "float" else "0.0"
            self._store(w.when(inside, [(kind, zero)], load)[0], there, kind)

        def vector(at: str, _: Values) -> Values:
            copied(self.least(at, last), self.vector, str(SIZE))  # The last one begins earlier.
            return []

        def number_(at: str, _: Values) -> Values:
            copied(at, "float", of.element)
            return []

        w.loop("copy", "0", vectors, self.step, [], vector)
        w.loop("copy", "0", rest, "1", [], number_)
        return []

    def _turn(self, lines: Values, to: str, x: str) -> Values:
        """A vector of patches, each vector an element of all of them."""
        across = [self._across(self.shift(at, self.bytes(self.times(x, "2")))) for at in lines]
        for n in range(4):
            column = [line[n] for line in across]
            for k, value in enumerate(self._combined(column)):
                matrix = self.times(self.pitch, str(4 * k + n))
                self._store(value, self.shift(to, self.plus(self.bytes(x), matrix)))
        return []

    def _across(self, place: str) -> Values:
        """A line of each patch, turned; patches begin two elements apart."""
        pairs = []
        for begin in (0, 2):
            both = self._load(self.shift(place, str(begin * SIZE)), self.both)
            for first in (0, 1):
                numbers = ", ".join(f"i32 {2 * n + first}" for n in range(self.lanes))
                mask = f"<{self.lanes} x i32> <{numbers}>"
                text = f"shufflevector {self.both} {both}, {self.both} poison, {mask}"
                pairs.append(self.w.let("each", text))
        return self._combined(pairs)

    def _combined(self, d: Values) -> Values:
        """B' times four elements."""
        outer = self.less(d[0], d[2]), self.less(d[1], d[3])
        return [outer[0], self.add(d[1], d[2]), self.less(d[2], d[1]), outer[1]]

    def _spread(self, c: str) -> None:
        """The rows of the 16 matrices that a channel comes to, into panels."""
        w = self.w
        size = self.lanes * SIZE

        def matrix(p: str, _: Values) -> Values:
            source = self.shift(self.turned, self.times(p, self.pitch))
            target = self.shift(self.columns, self.times(p, self.of.matrix))

            def copy(at: str, vectors: int) -> None:
                here = self.shift(source, self.times(at, str(size)))
                there = self.shift(self._panel(target, at), self.times(c, str(vectors * size)))
                for n in range(vectors):
                    value = self._load(self.shift(here, str(n * size)))
                    self._store(value, self.shift(there, str(n * size)))

            self._each_panel(copy)
            return []

        w.loop("matrix", "0", str(NUMBERS), "1", [], matrix)

    def _each_panel(self, body: Callable[[str, int], None]) -> None:
        """Goes by the panels of columns, with the first vector of each and how many it has."""
        for vectors, count, ahead in self.panels:

            def panel(n: str, _: Values, vectors: int = vectors, ahead: str = ahead) -> Values:
                body(self.plus(ahead, self.times(n, str(vectors))), vectors)
                return []

            self.w.loop("panel", "0", count, "1", [], panel)

    def _panel(self, matrix: str, vector: str) -> str:
        """Where a panel of columns begins, whose first vector is given."""
        before = self.times(vector, str(self.lanes * SIZE))
        return self.shift(matrix, self.times(before, self.of.channels))

    # -- products ------------------------------------------------------------------------------

    def _multiply(self, begin: str, end: str) -> None:
        """The 16 products of some panels of features and all columns."""
        w, of = self.w, self.of
        panel_bytes = self.times(of.channels, str(ROWS * SIZE))

        def matrix(p: str, _: Values) -> Values:
            columns = self.shift(self.columns, self.times(p, of.matrix))
            rows = self.shift(self.taps, self.times(p, of.taps_matrix))
            made = self.shift(self.products, self.times(p, self.pitch))

            def panel(at: str, vectors: int) -> None:
                b = self._panel(columns, at)
                across = self.shift(made, self.times(at, str(self.lanes * SIZE)))

                def tile(_: str, carried: Values) -> Values:
                    a, to = carried
                    self._tile(vectors, a, b, to)
                    onward = panel_bytes, self.times(self.product_row, str(ROWS))
                    return [self.shift(p, d) for p, d in zip(carried, onward, strict=True)]

                a = self.shift(rows, self.times(begin, panel_bytes))
                w.loop("tile", begin, end, "1", [("ptr", a), ("ptr", across)], tile)

            self._each_panel(panel)
            return []

        w.loop("matrix", "0", str(NUMBERS), "1", [], matrix)

    def _tile(self, vectors: int, a: str, b: str, to: str) -> None:
        """A panel of features times one of columns, some channels at a time."""
        w, of = self.w, self.of
        panel_bytes = self.times(of.channels, str(ROWS * SIZE))

        def block(at: str, _: Values) -> Values:
            here = self.shift(a, self.times(at, str(ROWS * SIZE)))
            given = {
                "a": here, "a_row": "0", "last": str(ROWS - 1),
                "b": self.shift(b, self.times(at, str(vectors * self.lanes * SIZE))),
                "b_step": "0", "columns": str(vectors * self.lanes),
                "depth": self.least(self.minus(of.channels, at), str(DEPTH)), "tile": to,
                "tile_row": self.product_row, "add": at, "soon": self.shift(here, panel_bytes),
                "b_vector": "0", "tile_vector": "0",
            }  # fmt: skip
            w.do(f"call void {self.micros[vectors - 1]}({parameters(given)})")
            return []

        w.loop("block", "0", of.channels, str(DEPTH), [], block)

    # -- results -------------------------------------------------------------------------------

    def _group(self, feature: str, end: str) -> Values:
        """Results of some features, and the epilogue of these."""
        self.row = feature
        self.high = self.least(self.minus(end, feature), self.of.group)

        def one(n: str, _: Values) -> Values:
            to = self.shift(self.results, self.times(n, self.tile_row))
            self._feature(self.plus(feature, n), to)
            return []

        self.w.loop("feature", "0", self.high, "1", [], one)
        self.epilogue(self.results, self.place, self.count)
        return []

    def _feature(self, feature: str, results: str) -> None:
        """The results of a feature, as the 16 products make them, or by definition."""
        w, of = self.w, self.of
        below = self.times(self.minus(feature, self.made), self.product_row)
        products = self.shift(self.products, below)
        vectors = self.op("udiv", self.plus(of.wide, str(self.lanes - 1)), self.step)
        last = self.times(self.minus(vectors, "1"), self.step)

        def row(r: str, carried: Values) -> Values:
            here = self.shift(products, self.bytes(self.times(self.minus(r, self.first), of.wide)))
            to = self.shift(results, self.bytes(self.minus(self._place(r), self.place)))

            def vector(n: str, carried: Values) -> Values:
                # The last one first: it stores into what follows.
                x = self.minus(last, self.times(n, self.step))
                place = self.shift(to, self.bytes(self.times(x, "2")))
                return [self._back(self.shift(here, self.bytes(x)), place, carried[0])]

            return w.loop("vector", "0", vectors, "1", [(self.vector, carried[0])], vector)

        zeros = [(self.vector, "zeroinitializer")]
        (wrong,) = w.loop("row", self.first, self.stop, "1", zeros, row)
        odd = w.let("odd", f"fcmp uno {self.vector} {wrong}, zeroinitializer")
        name = f"llvm.vector.reduce.or.{suffix('i1', self.lanes)}"
        some = w.call("some", "i1", name, f"{vector_type('i1', self.lanes)} {odd}")

        def anew() -> Values:
            self._anew(feature, results)
            return []

        w.when(some, [], anew, rarely=True)

    def _back(self, products: str, place: str, wrong: str) -> str:
        """A vector of patches' results, each two lines of two; and NaN where one is not finite."""
        w = self.w
        places = [self.shift(products, self.times(self.pitch, str(p))) for p in range(NUMBERS)]
        m = [self._load(place) for place in places]
        lines = zip(*[self._two(m[n::4]) for n in range(4)], strict=True)
        mask = ", ".join(f"i32 {n}, i32 {n + self.lanes}" for n in range(self.lanes))
        line_bytes = self.bytes(self.of.places2)
        for line in lines:
            pair = self._two(list(line))
            for value in pair:
                wrong = w.call(
                    "wrong", self.vector, f"llvm.fma.{suffix('float', self.lanes)}",
                    f"{self.vector} {value}", f"{self.vector} zeroinitializer",
                    f"{self.vector} {wrong}",
                )  # fmt: skip
            both = w.let(
                "both", f"shufflevector {self.vector} {pair[0]}, {self.vector} {pair[1]}, "
                f"<{2 * self.lanes} x i32> <{mask}>",
            )  # fmt: skip
            self._store(both, place, self.both)
            place = self.shift(place, line_bytes)
        return wrong

    def _two(self, m: Values) -> Values:
        """A' times four elements."""
        sums, difference = self.add(m[1], m[2]), self.less(m[1], m[2])
        return [self.add(m[0], sums), self.less(difference, m[3])]

    def _anew(self, feature: str, results: str) -> None:
        """The results of a feature that are not finite, each as the sum that defines it."""
        w, of = self.w, self.of
        weight = self.shift(self.a, self.times(feature, of.a_row))

        def place(n: str, _: Values) -> Values:
            at = self.shift(results, self.bytes(n))
            found = self._load(at, "float")
            distance = w.let("distance", f"fsub float {found}, {found}")
            bad = w.let("bad", f"fcmp uno float {distance}, 0.0")

            def anew() -> Values:
                number = self.plus(self.place, n)
                of_image = self.times(of.places1, of.places2)
                image = self.shift(self.b, self.times(self.op("udiv", number, of_image), of.image))
                inside = self.op("urem", number, of_image)
                y, x = self.op("udiv", inside, of.places2), self.op("urem", inside, of.places2)
                self._store(self._defined(weight, image, y, x), at, "float")
                return []

            w.when(bad, [], anew)
            return []

        w.loop("place", "0", self.count, "1", [], place)

    def _defined(self, weight: str, image: str, y: str, x: str) -> str:
        """The sum over channels and taps of a place."""
        w, of = self.w, self.of

        def channel(c: str, carried: Values) -> Values:
            plane = self.shift(image, self.times(c, of.channel))

            def line(t1: str, carried: Values) -> Values:
                row, inside_row = self._reached(y, of.start1, t1, of.image1)
                here = self.shift(plane, self.times(row, of.line))

                def tap(t2: str, carried: Values) -> Values:
                    total, at = carried
                    column, inside = self._reached(x, of.start2, t2, of.image2)
                    value = self._load(self.shift(here, self.times(column, of.element)), "float")
                    sees = w.let("sees", f"and i1 {inside_row}, {inside}")
                    value = self.choose(sees, value, "0.0", "float")
                    factor = self._load(at, "float")
                    given = (f"float {v}" for v in (factor, value, total))
                    total = w.call("sum", "float", "llvm.fma.f32", *given)
                    return [total, self.shift(at, of.a_k)]

                first = [("float", carried[0]), ("ptr", carried[1])]
                return w.loop("tap", "0", str(TAPS), "1", first, tap)

            first = [("float", carried[0]), ("ptr", carried[1])]
            return w.loop("line", "0", str(TAPS), "1", first, line)

        first = [("float", "0.0"), ("ptr", weight)]
        return w.loop("channel", "0", of.channels, "1", first, channel)[0]

    def _reached(self, place: str, start: str, tap: str, image: str) -> tuple[str, str]:
        """What a tap of a place sees along an axis, as an element that there is, and whether it is
        that one."""
        wanted = self.plus(self.plus(place, start), self.times(tap, self.of.spread))
        there = self.most(self.least(wanted, self.minus(image, "1")), "0")
        return there, self.equal(wanted, there)
