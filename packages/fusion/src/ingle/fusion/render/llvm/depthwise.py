"""Convolutions of each channel by itself, on copies of images between zeros, as LLVM IR.

Some rows of an image at a time are copied to the stack, with as many zeros around as the taps of
the outermost places see. There every tap of every place is in memory, so that nothing is masked:
vectors of places are read at any distance, and the last vector of a row ends with the row, over
places that the one before it has done as well. Where places are some columns apart, a row of the
copy has every so many columns side by side, phase by phase: what a tap sees of neighbouring places
are neighbours in one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .depthwise_taps import MOST_TAPS, TapSums
from .text import Values, memory_type

BYTES = 32 << 10
"""Of the copy: it stays in a core's nearest memory."""
ROWS, SIDE = 4, 2
"""Rows, and vectors in each of them, that are summed at once: sums that do not wait for each other.
"""
WIDE_ROWS, NARROW_ROWS = (ROWS, 1), (7, 4, 1)
"""Rows at once, of those that are left: of rows of more than a vector, and of a vector at most."""
ALONG = 8
"""Vectors of a row that is summed alone."""
PHASES = 4
"""Columns that places may be apart."""
NO_PROBES = '"no-stack-arg-probe"'
"""The kernel touches its stack from the top down by itself, and calls nothing that would."""


class _CopiedAxis(NamedTuple):
    """How the copy lies along an image axis.

    Attributes:
        low: the image's place that the copy begins with.
        far: how many more places than windows there are.
        first: where the first window's first tap is.
        stride: from window to window.
    """

    low: str
    far: str
    first: str
    stride: str


class _CopiedPhase(NamedTuple):
    """What a phase of each row of the copy has of the image.

    Attributes:
        column: the image's that the phase would begin with, which may be beyond its ends.
        begin, end: where in the phase there are columns of the image.
    """

    column: str
    begin: str
    end: str


class ImagesBetweenZeros(TapSums):
    """Writes the walk over images of a nest that convolves each channel by itself."""

    def walk(self, otherwise: Callable[[], None]) -> None:
        """Writes the walk; `otherwise` goes over images of which too few rows fit, whose taps are
        many, or whose places are far apart."""
        w, nest = self._w, self._nest
        w.attributes = NO_PROBES
        room = BYTES // self._size
        behind = 2 * nest.lanes
        kind = memory_type(nest.nest.operands[0].dtype)
        copy = w.let("copy", f"alloca [{room + behind} x {kind}], align 64")
        height = nest.sizes[-1]
        self._down, self._across = self._axis(0), self._axis(1)
        self._stride = self._down.stride
        beyond = self._op("udiv", self._across.far, self._across.stride)
        self._seen = self._op("add", nest.inner, beyond)
        self._phase = self._times(
            self._op("udiv", self._op("add", self._seen, str(nest.lanes - 1)), str(nest.lanes)),
            str(nest.lanes),
        )
        self._pitch = self._times(self._phase, self._across.stride)
        self._pitch = self._most(self._pitch, str(2 * nest.lanes))
        rows = self._op("sub", self._op("udiv", str(room), self._pitch), self._down.far)
        # The first row of places takes one row of the copy more than is beyond it.
        rows = self._op("add", self._most(rows, "0"), self._op("sub", self._stride, "1"))
        rows = self._op("udiv", rows, self._stride)
        wanted = nest.smaller(height, str(ROWS))
        fits = w.let("fits", f"icmp sge i64 {rows}, {wanted}")
        few = w.let("few", f"icmp sle i64 {self._across.stride}, {PHASES}")
        fits = w.let("fits", f"and i1 {fits}, {few}")
        few = w.let("few", f"icmp sle i64 {nest.numbers['taps1']}, {MOST_TAPS}")
        fits = w.let("fits", f"and i1 {fits}, {few}")
        several = w.let("several", f"icmp sge i64 {rows}, {ROWS}")
        whole = self._op("and", rows, str(-ROWS))
        self._chunk = w.let("chunk", f"select i1 {several}, i64 {whole}, i64 {wanted}")
        self._copy = copy

        def images() -> Values:
            self._clear(room + behind)
            self._note_phases()
            self._note_taps()
            self.over_images(self._rows_of_image)
            return []

        def others() -> Values:
            otherwise()
            return []

        w.when(fits, [], images)
        w.when(w.let("wide", f"xor i1 {fits}, true"), [], others)

    def _axis(self, axis: int) -> _CopiedAxis:
        """How the copy lies along an axis: taps go up, or down."""
        numbers = self._nest.numbers
        taps = self._op("sub", numbers[f"taps{axis}"], "1")
        reach = self._times(taps, numbers[f"spread{axis}"])
        ahead = self._most(reach, "0")
        far = self._op("add", ahead, self._most(self._op("sub", "0", reach), "0"))
        low = self._op("sub", numbers[f"start{axis}"], ahead)
        return _CopiedAxis(low, far, ahead, numbers[f"stride{axis}"])

    def _note_phases(self) -> None:
        """Finds out what each phase has of the image."""
        stride = self._across.stride
        ahead = self._op("sub", stride, "1")
        self._phases = []
        for number in range(PHASES):
            column = self._op("add", self._across.low, str(number))
            found = []
            for place in ("0", self._nest.numbers["windows1"]):
                distance = self._most(self._op("sub", place, column), "0")
                first = self._op("udiv", self._op("add", distance, ahead), stride)
                found.append(self._nest.smaller(first, self._seen))
            self._phases.append(_CopiedPhase(column, found[0], self._most(*found)))

    def _note_taps(self) -> None:
        """Notes where each tap of a row of them is in a row of the copy, in bytes."""
        w, stride = self._w, self._across.stride
        spread = self._nest.numbers["spread1"]
        self._places = w.let("places", f"alloca [{MOST_TAPS} x i64], align 64")

        def tap(t: str, _: Values) -> Values:
            column = self._op("sub", self._across.first, self._times(t, spread))
            phase = self._times(self._op("urem", column, stride), self._phase)
            number = self._op("add", phase, self._op("udiv", column, stride))
            to = w.let("to", f"getelementptr i64, ptr {self._places}, i64 {t}")
            w.do(f"store i64 {self._times(number, str(self._size))}, ptr {to}, align 8")
            return []

        w.loop("noted", "0", self._nest.numbers["taps1"], "1", [], tap)

    def _clear(self, count: int) -> None:
        """Writes zeros, from the end down to the beginning: so pages of the stack are touched in
        order.
        """
        w, lanes = self._w, self._nest.lanes

        def some(at: str, _: Values) -> Values:
            place = self._at(self._copy, self._op("sub", str(count - lanes), at))
            kind = self._nest.vector_type
            w.do(f"store {kind} zeroinitializer, ptr {place}, align {self._size}")
            return []

        w.loop("clear", "0", str(count), str(lanes), [], some)

    def _rows_of_image(self, places: Values, begin: str, end: str) -> None:
        self._w.loop("chunk", begin, end, self._chunk, [], partial(self._rows, places, end))

    def _rows(self, places: Values, end: str, y: str, _: Values) -> Values:
        """As many rows as the copy has room for."""
        w, nest = self._w, self._nest
        source, factors, to = places
        rows = nest.smaller(self._op("sub", end, y), self._chunk)
        self._copy_rows(source, y, rows)
        narrow = w.let("narrow", f"icmp sle i64 {nest.inner}, {nest.lanes}")
        least = w.let("least", f"icmp eq i64 {self._pitch}, {2 * nest.lanes}")
        narrow = w.let("narrow", f"and i1 {narrow}, {least}")
        wide = w.let("wide", f"xor i1 {narrow}, true")
        w.when(narrow, [], partial(self._blocks, NARROW_ROWS, y, rows, factors, to))
        w.when(wide, [], partial(self._blocks, WIDE_ROWS, y, rows, factors, to))
        return []

    def _blocks(self, forms: tuple[int, ...], y: str, rows: str, factors: str, to: str) -> Values:
        """Goes down some rows of the copy, by the first number of them that there are.

        The last block ends with the rows, over some that the one before it has done as well.
        """
        w, nest = self._w, self._nest
        kind, done = memory_type(nest.nest.operands[2].dtype), "false"
        for count in forms:
            enough = w.let("enough", f"icmp sge i64 {rows}, {count}")
            free = w.let("free", f"xor i1 {done}, true")
            chosen = w.let("chosen", f"and i1 {enough}, {free}")
            done = w.let("done", f"or i1 {done}, {enough}")
            last = self._op("sub", rows, str(count))

            def block(r: str, _: Values, count: int = count, last: str = last) -> Values:
                r = nest.smaller(r, last)
                down = self._times(self._op("add", y, r), nest.strides[2][-1])
                here = w.let("to", f"getelementptr {kind}, ptr {to}, i64 {down}")
                along = self._narrow if forms is NARROW_ROWS else self._along
                row = self._op("add", self._times(r, self._stride), self._down.first)
                along(row, factors, here, count)
                return []

            def blocks(
                count: int = count, block: Callable[[str, Values], Values] = block
            ) -> Values:  # fmt: skip
                w.loop("rows", "0", rows, str(count), [], block)
                return []

            w.when(chosen, [], blocks)
        return []

    # -- the copy ----------------------------------------------------------------------------

    def _copy_rows(self, source: str, y: str, rows: str) -> None:
        """Copies what some rows of places see."""
        w, nest = self._w, self._nest
        height, kind = nest.numbers["windows0"], memory_type(nest.nest.operands[0].dtype)
        begin = self._op("add", self._times(y, self._stride), self._down.low)
        last = self._times(self._op("sub", rows, "1"), self._stride)
        count = self._op("add", self._op("add", last, self._down.far), "1")
        far = self._times(height, nest.numbers["row"])
        single = w.let("single", f"icmp eq i64 {self._across.stride}, 1")

        def row(i: str, _: Values) -> Values:
            q = self._op("add", begin, i)
            inside = w.let("inside", f"icmp ult i64 {q}, {height}")
            distance = self._times(q, nest.numbers["row"])
            here = w.let("here", f"getelementptr {kind}, ptr {source}, i64 {distance}")
            # The next image lies behind this one, and comes while this one is summed.
            soon = w.let("soon", f"getelementptr {kind}, ptr {here}, i64 {far}")
            w.call_nothing("llvm.prefetch.p0", f"ptr {soon}", "i32 0", "i32 3", "i32 1")
            self._copy_phase(0, here, self._times(i, self._pitch), inside)

            def others() -> Values:
                for number in range(1, PHASES):
                    there = w.let("there", f"icmp sgt i64 {self._across.stride}, {number}")
                    at = self._op("add", self._times(i, self._pitch),
                                  self._times(self._phase, str(number)))  # fmt: skip
                    w.when(there, [], partial(self._copy_phase, number, here, at, inside))
                return []

            w.when(w.let("several", f"xor i1 {single}, true"), [], others)
            return []

        w.loop("copied", "0", count, "1", [], row)

    def _copy_phase(self, number: int, line: str, at: str, inside: str) -> Values:
        """Copies what a phase of a row has of the image, or writes zeros where that has no such
        row. What lies around is zero for good."""
        w, nest, phase = self._w, self._nest, self._phases[number]
        lanes, kind = nest.lanes, memory_type(nest.nest.operands[0].dtype)
        count = self._op("sub", phase.end, phase.begin)
        seen = self._chosen(inside, count, "0")
        to = self._at(self._copy, self._op("add", at, phase.begin))
        skipped = self._times(phase.column, nest.numbers["apart"])
        skipped = self._op("add", skipped, self._times(phase.begin, nest.inner_strides[0]))
        source = w.let("source", f"getelementptr {kind}, ptr {line}, i64 {skipped}")

        def put(x: str, mask: str | None) -> Values:
            step = self._times(x, nest.inner_strides[0])
            place = w.let("place", f"getelementptr {kind}, ptr {source}, i64 {step}")
            value = nest.load_lanes(0, place, mask)
            there = self._at(to, x)
            w.do(f"store {nest.vector_type} {value}, ptr {there}, align {self._size}")
            return []

        full = self._op("and", seen, str(-lanes))
        w.loop("full", "0", full, str(lanes), [], lambda x, _: put(x, None))
        rest = full
        if not nest.target.masks:  # The last vector ends with the row, if it has as many.
            many = w.let("many", f"icmp sge i64 {seen}, {lanes}")
            left = w.let("left", f"icmp sgt i64 {seen}, {full}")
            ends = w.let("ends", f"and i1 {many}, {left}")
            w.when(ends, [], lambda: put(self._op("sub", seen, str(lanes)), None))
            rest = self._chosen(many, count, full)
        w.loop(
            "rest", rest, count, str(lanes), [],
            lambda x, _: put(x, nest.mask_below(self._most(self._op("sub", seen, x), "0"))),
        )  # fmt: skip
        return []

    # -- the sums ----------------------------------------------------------------------------

    def _along(self, row: str, factors: str, to: str, rows: int) -> None:
        """Goes along some rows; `row` is that of the copy which their first taps see."""
        w, nest = self._w, self._nest
        sums = partial(self.sums, self._first_seen(row), factors, to, rows)
        width = nest.inner
        forms = [SIDE] if rows > 1 else [ALONG, SIDE]
        done = "false"
        for count in forms:
            together = count * nest.lanes
            enough = w.let("enough", f"icmp sge i64 {width}, {together}")
            free = w.let("free", f"xor i1 {done}, true")
            chosen = w.let("chosen", f"and i1 {enough}, {free}")
            done = w.let("done", f"or i1 {done}, {enough}")
            last = self._op("sub", width, str(together))

            def many(
                count: int = count, together: int = together, last: str = last
            ) -> Values:  # fmt: skip
                def block(x: str, _: Values) -> Values:
                    sums(nest.smaller(x, last), [str(n * nest.lanes) for n in range(count)], None)
                    return []

                w.loop("places", "0", width, str(together), [], block)
                return []

            w.when(chosen, [], many)
        # Two vectors over fewer places have some in common.
        common = w.let("common", f"icmp sge i64 {width}, {nest.lanes}")
        free = w.let("free", f"xor i1 {done}, true")

        def few() -> Values:
            sums("0", ["0", self._op("sub", width, str(nest.lanes))], None)
            return []

        def one() -> Values:
            sums("0", ["0"], nest.mask_below(width))
            return []

        w.when(w.let("few", f"and i1 {common}, {free}"), [], few)
        w.when(w.let("one", f"xor i1 {common}, true"), [], one)

    def _narrow(self, row: str, factors: str, to: str, rows: int) -> None:
        """The places of some rows of a vector at most, all at distances that are known here."""
        mask = self._nest.mask_below(self._nest.inner)
        pitch, self._pitch = self._pitch, str(2 * self._nest.lanes)
        self.sums(self._first_seen(row), factors, to, rows, "0", ["0"], mask)
        self._pitch = pitch

    def _first_seen(self, row: str) -> str:
        """A row of the copy, which the first place's first taps see."""
        return self._at(self._copy, self._times(row, self._pitch))
