"""The steps of convolutions from patches that turn products back into results."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, suffix, vector_type

from .winograd_code import WinogradCode


class ResultCode(WinogradCode):
    """Some features at a time, whose results go through the epilogue together.

    Attributes:
        products, product_row: where the products are, and how far those of features are apart.
        made: the first feature that they are there of.
        results: where results wait for the epilogue.
    """

    products: str
    product_row: str
    made: str
    results: str

    def group_of(self, feature: str, end: str) -> Values:
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
        """The results of a feature, as the products make them, or by definition."""
        w, of = self.w, self.of
        below = self.times(self.minus(feature, self.made), self.product_row)
        products = self.shift(self.products, below)
        vectors = self.op("udiv", self.plus(of.wide, str(self.lanes - 1)), self.step)
        last = self.times(self.minus(vectors, "1"), self.step)

        def row(r: str, carried: Values) -> Values:
            here = self.shift(products, self.bytes(self.times(self.minus(r, self.first), of.wide)))
            to = self.shift(results, self.bytes(self.minus(self.place_of(r), self.place)))

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
        m = [
            self.load(self.shift(products, self.times(self.pitch, str(p))))
            for p in range(self.form.numbers)
        ]
        values = self.form.values
        lines = zip(*[self.turning.results(m[n::values]) for n in range(values)], strict=True)
        mask = ", ".join(f"i32 {n}, i32 {n + self.lanes}" for n in range(self.lanes))
        line_bytes = self.bytes(self.of.places2)
        for line in lines:
            pair = self.turning.results(list(line))
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
            self.store(both, place, self.both)
            place = self.shift(place, line_bytes)
        return wrong

    def _anew(self, feature: str, results: str) -> None:
        """The results of a feature that are not finite, each as the sum that defines it."""
        w, of = self.w, self.of
        weight = self.shift(self.a, self.times(feature, of.a_row))

        def place(n: str, _: Values) -> Values:
            at = self.shift(results, self.bytes(n))
            found = self.load(at, "float")
            distance = w.let("distance", f"fsub float {found}, {found}")
            bad = w.let("bad", f"fcmp uno float {distance}, 0.0")

            def anew() -> Values:
                number = self.plus(self.place, n)
                of_image = self.times(of.places1, of.places2)
                image = self.op("udiv", number, of_image)
                inside = self.op("urem", number, of_image)
                y, x = self.op("udiv", inside, of.places2), self.op("urem", inside, of.places2)
                self.store(self._defined(weight, image, y, x), at, "float")
                return []

            w.when(bad, [], anew)
            return []

        w.loop("place", "0", self.count, "1", [], place)

    def _defined(self, weight: str, image: str, y: str, x: str) -> str:
        """The sum over channels and taps of a place."""
        w, of, taps = self.w, self.of, str(self.form.taps)
        first_row, first_column = self.plus(y, of.start1), self.plus(x, of.start2)

        def channel(c: str, carried: Values) -> Values:
            plane, there = self.plane(c, image)

            def line(t1: str, carried: Values) -> Values:
                row, inside = self.reached(first_row, t1, of.spread, of.image1)
                inside_row = w.let("inside", f"and i1 {inside}, {there}")
                here = self.shift(plane, self.times(row, of.line))

                def tap(t2: str, carried: Values) -> Values:
                    total, at = carried
                    column, inside = self.reached(first_column, t2, of.spread, of.image2)
                    value = self.load(self.shift(here, self.times(column, of.element)), "float")
                    sees = w.let("sees", f"and i1 {inside_row}, {inside}")
                    value = self.choose(sees, value, "0.0", "float")
                    factor = self.load(at, "float")
                    given = (f"float {v}" for v in (factor, value, total))
                    total = w.call("sum", "float", "llvm.fma.f32", *given)
                    return [total, self.shift(at, of.a_k)]

                first = [("float", carried[0]), ("ptr", carried[1])]
                return w.loop("tap", "0", taps, "1", first, tap)

            first = [("float", carried[0]), ("ptr", carried[1])]
            # NaN stays that: where all is NaN, the rest would take very long for nothing.
            number = w.let("number", f"fcmp ord float {carried[0]}, 0.0")
            return w.when(number, first, lambda: w.loop("line", "0", taps, "1", first, line))

        first = [("float", "0.0"), ("ptr", weight)]
        return w.loop("channel", "0", of.channels, "1", first, channel)[0]
