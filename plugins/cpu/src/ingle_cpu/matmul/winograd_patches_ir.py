"""The steps of convolutions from patches that turn these into columns of matrices."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, suffix, vector_type

from .winograd_code import SIZE, WinogradCode


class PatchCode(WinogradCode):
    """One channel at a time: lines are copied between zeros and turned across, each once, and what
    the patches have of them is turned down and put into panels.

    Rows of patches follow each other without a gap where they are turned down, so that short ones
    fill vectors as well.

    Attributes:
        lines, line_pitch: where the lines of the image that a patch has are, and how far apart.
        turned: where what they are turned into is: a row for each line of a patch and each number
            that a line of it comes to.
        columns: where the panels of all matrices are.
    """

    lines: str
    line_pitch: str
    turned: str
    columns: str

    def turn_channel(self, c: str, _: Values) -> Values:
        """What a channel of all patches is turned into, as rows of the panels of columns."""
        w, of = self.w, self.of

        def row(r: str, _: Values) -> Values:
            number, y = self.op("udiv", r, of.tall), self.op("urem", r, of.tall)
            image, there = self.plane(c, number)
            # All but two lines are those of the patches above, unless there are none.
            above = w.let("above", f"icmp sgt i64 {r}, {self.first}")
            inside = w.let("inside", f"icmp sgt i64 {y}, 0")
            shared = w.let("both", f"and i1 {above}, {inside}")
            new = self.choose(shared, str(self.form.patch - 2), "0")
            top = self.times(y, "2")
            first, end = self.plus(top, new), self.plus(top, str(self.form.patch))
            w.loop("line", first, end, "1", [], lambda n, _: self._copy(image, there, n))

            def across(n: str, _: Values) -> Values:
                self._turn_line(r, self._line(n), self.minus(n, top))
                return []

            w.loop("line", first, end, "1", [], across)
            return []

        w.loop("row", self.first, self.stop, "1", [], row)
        self.each_panel(lambda at, vectors: self._turn_down(c, at, vectors))
        return []

    def _turn_line(self, r: str, line: str, k: str) -> None:
        """A line of patches turned across, for a row of them, of which it is line `k`, and for the
        rows below that have it as well, each two lines further up."""
        w, of = self.w, self.of
        of_line = self.times(self.pitch, str(self.form.values))
        below = self.bytes(self.times(self.minus(r, self.first), of.wide))
        to = self.shift(self.turned, self.plus(self.times(k, of_line), below))
        onward = self.minus(self.bytes(of.wide), self.times(of_line, "2"))
        left = self.minus(self.stop, r)
        rows = self.least(self.plus(self.op("udiv", k, "2"), "1"), left)

        def patches(x: str, _: Values) -> Values:
            values = self._across(self.shift(line, self.bytes(self.times(x, "2"))))

            def one(_: str, carried: Values) -> Values:
                # What follows the last patch is written over by the row below.
                for n, value in enumerate(values):
                    self.store(value, self.shift(carried[0], self.times(self.pitch, str(n))))
                return [self.shift(carried[0], onward)]

            w.loop("row", "0", rows, "1", [("ptr", self.shift(to, self.bytes(x)))], one)
            return []

        w.loop("patches", "0", of.wide, self.step, [], patches)

    def _line(self, number: str) -> str:
        """Where a line of patches is copied to; as many are kept as a patch has."""
        slot = self.op("urem", number, str(self.form.patch))
        return self.shift(self.lines, self.times(slot, self.line_pitch))

    def _copy(self, image: str, there: str, number: str) -> Values:
        """A line of an image, or zeros above and below, and of one that is not there."""
        w, of = self.w, self.of
        y = self.plus(number, of.top)
        to = self.shift(self._line(number), self.bytes(of.begin))
        first = self.times(self.most(of.left, "0"), of.element)
        source = self.shift(image, self.plus(self.times(y, of.line), first))
        inside = w.let("inside", f"icmp ult i64 {y}, {of.image1}")
        inside = w.let("inside", f"and i1 {inside}, {there}")
        dense = self.equal(of.element, str(SIZE))
        if self.masks:
            self._copy_lanes(source, to, inside, self.choose(dense, of.seen, "0"))
            self._copy_some(source, to, inside, self.choose(dense, "0", of.seen))
            return []
        long = w.let("long", f"icmp sge i64 {of.seen}, {self.lanes}")
        whole = w.let("whole", f"and i1 {dense}, {long}")
        vectors = self.choose(whole, of.seen, "0")
        last = self.minus(of.seen, self.step)

        def vector(at: str, _: Values) -> Values:
            at = self.least(at, last)  # The last one begins earlier.
            here, there = self.shift(source, self.bytes(at)), self.shift(to, self.bytes(at))
            zeros = [(self.vector, "zeroinitializer")]
            self.store(w.when(inside, zeros, lambda: [self.load(here)])[0], there)
            return []

        w.loop("copy", "0", vectors, self.step, [], vector)
        self._copy_some(source, to, inside, self.choose(whole, "0", of.seen))
        return []

    def _copy_lanes(self, source: str, to: str, inside: str, count: str) -> None:
        """Some elements side by side, or zeros: of the last vector those that there are."""
        w = self.w
        kind, name = vector_type("i32", self.lanes), suffix("float", self.lanes)
        numbers = ", ".join(f"i32 {n}" for n in range(self.lanes))
        there = w.splat("inside", "i1", inside, self.lanes)

        def some(at: str, _: Values) -> Values:
            few = w.let("few", f"trunc i64 {self.minus(count, at)} to i32")
            few = w.splat("few", "i32", few, self.lanes)
            kept = w.let("kept", f"icmp slt {kind} <{numbers}>, {few}")
            mask = vector_type("i1", self.lanes)
            seen = w.let("seen", f"and {mask} {kept}, {there}")
            here, place = self.shift(source, self.bytes(at)), self.shift(to, self.bytes(at))
            value = w.call(
                "x", self.vector, f"llvm.masked.load.{name}.p0", f"ptr {here}", f"i32 {SIZE}",
                f"{mask} {seen}", f"{self.vector} zeroinitializer",
            )  # fmt: skip
            w.call_nothing(
                f"llvm.masked.store.{name}.p0", f"{self.vector} {value}", f"ptr {place}",
                f"i32 {SIZE}", f"{mask} {kept}",
            )  # fmt: skip
            return []

        w.loop("copy", "0", count, self.step, [], some)

    def _copy_some(self, source: str, to: str, inside: str, count: str) -> None:
        """Some elements, or zeros, one after the other."""
        w = self.w

        def number(at: str, _: Values) -> Values:
            here = self.shift(source, self.times(at, self.of.element))
            zero = [("float", "0.0")]
            value = w.when(inside, zero, lambda: [self.load(here, "float")])[0]
            self.store(value, self.shift(to, self.bytes(at)), "float")
            return []

        w.loop("copy", "0", count, "1", [], number)

    def _across(self, place: str) -> Values:
        """A line of each patch, turned; patches begin two elements apart."""
        pairs = []
        for begin in range(0, self.form.patch, 2):
            both = self.load(self.shift(place, str(begin * SIZE)), self.both)
            for first in (0, 1):
                numbers = ", ".join(f"i32 {2 * n + first}" for n in range(self.lanes))
                mask = f"<{self.lanes} x i32> <{numbers}>"
                text = f"shufflevector {self.both} {both}, {self.both} poison, {mask}"
                pairs.append(self.w.let("each", text))
        return self.turning.elements(pairs)

    def _turn_down(self, c: str, at: str, vectors: int) -> None:
        """What a channel of a panel's patches is turned into, from lines that are turned across."""
        size = self.lanes * SIZE
        values = self.form.values
        source = self.shift(self.turned, self.times(at, str(size)))
        panel = self.shift(self.panel_at(self.columns, at), self.times(c, str(vectors * size)))
        onward = self.times(self.of.matrix, str(values))
        for vector in range(vectors):
            beside = str(vector * size)
            for n in range(values):
                here = self.shift(source, self.plus(self.times(self.pitch, str(n)), beside))
                to = self.shift(panel, self.plus(self.times(self.of.matrix, str(n)), beside))
                lines = []
                for _ in range(self.form.patch):
                    lines.append(self.load(here))
                    here = self.shift(here, self.times(self.pitch, str(values)))
                for value in self.turning.elements(lines):
                    self.store(value, to)
                    to = self.shift(to, onward)
