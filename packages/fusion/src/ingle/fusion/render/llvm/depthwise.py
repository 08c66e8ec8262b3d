"""Convolutions of each channel by itself, on copies of images between zeros, as LLVM IR.

Some rows of an image at a time are copied to the stack, with as many zeros around as the taps of
the outermost places see. There every tap of every place is in memory, so that nothing is masked:
vectors of places are read at any distance, and the last vector of a row ends with the row, over
places that the one before it has done as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .depthwise_taps import TapSums
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
NO_PROBES = '"no-stack-arg-probe"'
"""The kernel touches its stack from the top down by itself, and calls nothing that would."""


class _CopiedAxis(NamedTuple):
    """How the copy lies along an image axis.

    Attributes:
        low: the image's place that the copy begins with.
        far: how many more places than windows there are.
        first: where the first window's first tap is.
        step: from tap to tap.
    """

    low: str
    far: str
    first: str
    step: str


class ImagesBetweenZeros(TapSums):
    """Writes the walk over images of a nest that convolves each channel by itself."""

    def walk(self, otherwise: Callable[[], None]) -> None:
        """Writes the walk; `otherwise` goes over images of which too few rows fit, and strides."""
        w, nest = self._w, self._nest
        w.attributes = NO_PROBES
        room = BYTES // self._size
        behind = 2 * nest.lanes
        kind = memory_type(nest.nest.operands[0].dtype)
        copy = w.let("copy", f"alloca [{room + behind} x {kind}], align 64")
        height = nest.sizes[-1]
        self._down, self._across = self._axis(0), self._axis(1)
        self._seen = self._op("add", nest.inner, self._across.far)
        self._pitch = self._times(
            self._op("udiv", self._op("add", self._seen, str(nest.lanes - 1)), str(nest.lanes)),
            str(nest.lanes),
        )
        self._pitch = self._most(self._pitch, str(2 * nest.lanes))
        rows = self._op("sub", self._op("udiv", str(room), self._pitch), self._down.far)
        wanted = nest.smaller(height, str(ROWS))
        fits = w.let("fits", f"icmp sge i64 {rows}, {wanted}")
        for stride in ("stride0", "stride1"):
            one = w.let("one", f"icmp eq i64 {nest.numbers[stride]}, 1")
            fits = w.let("fits", f"and i1 {fits}, {one}")
        several = w.let("several", f"icmp sge i64 {rows}, {ROWS}")
        whole = self._op("and", rows, str(-ROWS))
        self._chunk = w.let("chunk", f"select i1 {several}, i64 {whole}, i64 {wanted}")
        self._copy = copy

        def images() -> Values:
            self._clear(room + behind)
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
        return _CopiedAxis(low, far, ahead, self._op("sub", "0", numbers[f"spread{axis}"]))

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
                along(self._op("add", r, self._down.first), factors, here, count)
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
        windows0, windows1 = nest.numbers["windows0"], nest.numbers["windows1"]
        left = self._most(self._op("sub", "0", self._across.low), "0")
        skipped = self._most(self._across.low, "0")
        until = nest.smaller(self._seen, self._op("sub", windows1, self._across.low))
        count = self._most(self._op("sub", until, left), "0")
        begin = self._op("add", y, self._down.low)
        far = self._times(windows0, nest.numbers["row"])

        def row(i: str, _: Values) -> Values:
            q = self._op("add", begin, i)
            inside = w.let("inside", f"icmp ult i64 {q}, {windows0}")
            seen = w.let("seen", f"select i1 {inside}, i64 {count}, i64 0")
            step = self._times(skipped, nest.inner_strides[0])
            distance = self._op("add", self._times(q, nest.numbers["row"]), step)
            kind = memory_type(nest.nest.operands[0].dtype)
            here = w.let("here", f"getelementptr {kind}, ptr {source}, i64 {distance}")
            # The next image lies behind this one, and comes while this one is summed.
            soon = w.let("soon", f"getelementptr {kind}, ptr {here}, i64 {far}")
            w.call_nothing("llvm.prefetch.p0", f"ptr {soon}", "i32 0", "i32 3", "i32 1")
            to = self._at(self._copy, self._op("add", self._times(i, self._pitch), left))
            self._copy_row(here, to, seen, count)
            return []

        w.loop("copied", "0", self._op("add", rows, self._down.far), "1", [], row)

    def _copy_row(self, source: str, to: str, seen: str, count: str) -> None:
        """Copies what is seen of a row, and zeros behind it; the next row comes behind these."""
        w, nest = self._w, self._nest
        lanes, kind = nest.lanes, memory_type(nest.nest.operands[0].dtype)

        def put(x: str, mask: str | None) -> Values:
            step = self._times(x, nest.inner_strides[0])
            place = w.let("place", f"getelementptr {kind}, ptr {source}, i64 {step}")
            value = nest.load_lanes(0, place, mask)
            there = self._at(to, x)
            w.do(f"store {nest.vector_type} {value}, ptr {there}, align {self._size}")
            return []

        full = self._op("and", seen, str(-lanes))
        w.loop("full", "0", full, str(lanes), [], lambda x, _: put(x, None))
        w.loop(
            "rest", full, count, str(lanes), [],
            lambda x, _: put(x, nest.mask_below(self._most(self._op("sub", seen, x), "0"))),
        )  # fmt: skip

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
        """What the first place's first tap sees of a row of the copy."""
        below = self._op("add", self._times(row, self._pitch), self._across.first)
        return self._at(self._copy, below)
