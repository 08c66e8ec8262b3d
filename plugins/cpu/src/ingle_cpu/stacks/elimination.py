"""Elimination with pivots for a matrix in each lane: determinants, inverses, adjugates, solutions.

A lane chooses its pivots by itself. The factors of the elimination are used at once, on right-hand
sides beside the matrix, and not kept.
"""

from __future__ import annotations

from typing import Literal

from ingle.fusion.device.llvm import Values
from ingle.fusion.device.targets import Target
from ingle_numpy.kernels.linear_algebra import MOST_SINGULAR

from ..jit.engine import IRSource
from .abi import LANES
from .lanes import MASK, ONE, STEP, VECTOR, WHOLE, ZERO, LaneCode

Wanted = Literal["determinant", "inverse", "adjugate", "solution"]
"""What a kernel writes."""
MOST_FACTOR = 1000
"""Exponents of determinants that adjugates are made of."""


def elimination_source(wanted: Wanted, dtype: str, target: Target) -> IRSource:
    """The module of the kernel."""
    name = f"elimination_{wanted}_{dtype}_{target.name}"
    return IRSource(_Elimination(name, wanted, dtype, target).text(), (name,), reduced=False)


class _Elimination(LaneCode):
    def __init__(self, name: str, wanted: Wanted, dtype: str, target: Target) -> None:
        super().__init__(name, dtype, target)
        self.wanted = wanted
        self.most_singular = MOST_SINGULAR[dtype == "float32"]

    def text(self) -> str:
        return self.tiles(self._tile)

    def _tile(self) -> None:
        declined = self.load_square()
        norm = self._norm("0", self.of.rows) if self.wanted == "adjugate" else ""
        if self.wanted == "solution":
            self.load_right()
        elif self.wanted != "determinant":
            self._identity()
        factored = self.wanted in ("determinant", "adjugate")
        carried = [(MASK, ZERO), *([(VECTOR, ONE), (WHOLE, ZERO)] if factored else [])]
        singular, *factor = self.w.loop("pivot", "0", self.of.rows, "1", carried, self._step)
        if self.wanted == "determinant":
            self._write(singular, factor)
        else:
            declined = self.both("or", declined, singular)
            self._substitute()
            if self.wanted == "adjugate":
                declined = self.both("or", declined, self._multiply(norm, *factor))
            self.store(self.of.rows, self.of.columns)
        self.decline(declined)

    def _identity(self) -> None:
        def row(i: str) -> None:
            to, diagonal = self.row(i), self.plus(self.of.rows, i)

            def column(j: str) -> None:
                one = self.choose(self.equal(j, diagonal), "1.0", "0.0", "double")
                self.put(self.w.splat("one", "double", one, LANES), self.at(to, j))

            self.each(self.of.rows, self.width, column)

        self.each("0", self.of.rows, row)

    def _step(self, k: str, carried: Values) -> Values:
        """Eliminates a column; carries in which lanes there is no pivot, and the determinant."""
        singular, *factor = carried
        top, behind = self.row(k), self.plus(k, "1")
        at_pivot = self.at(top, k)
        moved = self._exchange(k, top, behind)
        pivot = self.get(at_pivot)
        none = self.compared("oeq", pivot, ZERO)

        def row(i: str) -> None:
            other = self.row(i)
            quotient = self.real("fdiv", self.get(self.at(other, k)), pivot)
            self.less(other, quotient, top, behind, self.width)

        self.each(behind, self.of.rows, row)
        singular = self.both("or", singular, none)
        return [singular, *(self._times(pivot, moved, *factor) if factor else [])]

    def _exchange(self, k: str, top: str, behind: str) -> str:
        """Brings the largest element of a column to the diagonal; says where it was another one."""
        w = self.w

        def candidate(i: str, carried: Values) -> Values:
            best, where = carried
            x = self._size(self.get(self.at(self.row(i), k)))
            larger = self.compared("ogt", x, best)
            number = w.splat("number", "i64", i, LANES)
            return [self.either(larger, x, best), self.either(larger, number, where, WHOLE)]

        own = w.splat("own", "i64", k, LANES)
        first = self._size(self.get(self.at(top, k)))
        carried = [(VECTOR, first), (WHOLE, own)]
        _, where = w.loop("candidate", behind, self.of.rows, "1", carried, candidate)

        def row(i: str) -> None:
            number = w.splat("number", "i64", i, LANES)
            chosen = w.let("chosen", f"icmp eq {WHOLE} {where}, {number}")

            def exchange() -> Values:
                other = self.row(i)

                def column(j: str) -> None:
                    here, there = self.at(top, j), self.at(other, j)
                    x, y = self.get(here), self.get(there)
                    self.put(self.either(chosen, y, x), here)
                    self.put(self.either(chosen, x, y), there)

                self.each(k, self.width, column)
                return []

            w.when(self.any(chosen), [], exchange)

        self.each(behind, self.of.rows, row)
        return w.let("moved", f"icmp ne {WHOLE} {where}, {own}")

    def _size(self, x: str) -> str:
        return self.w.call("size", VECTOR, f"llvm.fabs.v{LANES}f64", f"{VECTOR} {x}")

    def _substitute(self) -> None:
        """Solves for the rows on the right, from the last one on."""
        last = self.minus(self.of.rows, "1")

        def step(number: str) -> None:
            k = self.minus(last, number)
            top = self.row(k)
            pivot = self.get(self.at(top, k))

            def column(j: str) -> None:
                place = self.at(top, j)
                self.put(self.real("fdiv", self.get(place), pivot), place)

            self.each(self.of.rows, self.width, column)

            def row(i: str) -> None:
                other = self.row(i)
                self.less(other, self.get(self.at(other, k)), top, self.of.rows, self.width)

            self.each("0", k, row)

        self.each("0", self.of.rows, step)

    # -- determinants ------------------------------------------------------------------------

    def _times(self, pivot: str, moved: str, mantissa: str, exponent: str) -> Values:
        """The determinant with another pivot: as a number in [1, 2) and an exponent, so that it
        leaves the range of doubles at the end only."""
        w = self.w
        small = self.compared("olt", self._size(pivot), "splat (double 0x0010000000000000)")
        large = self.real("fmul", pivot, "splat (double 0x4350000000000000)")  # 2 ** 54
        one, more = self._parted(self.either(small, large, pivot))
        lost = self.either(small, "splat (i64 54)", ZERO, WHOLE)
        more = w.let("more", f"sub {WHOLE} {more}, {lost}")
        product = self.real("fmul", mantissa, one)
        negative = w.let("negative", f"fneg {VECTOR} {product}")
        mantissa, last = self._parted(self.either(moved, negative, product))
        exponent = w.let("exponent", f"add {WHOLE} {exponent}, {more}")
        return [mantissa, w.let("exponent", f"add {WHOLE} {exponent}, {last}")]

    def _parted(self, x: str) -> tuple[str, str]:
        """A number as one in [1, 2), with its sign, and the exponent of two."""
        w = self.w
        bits = w.let("bits", f"bitcast {VECTOR} {x} to {WHOLE}")
        high = w.let("high", f"lshr {WHOLE} {bits}, splat (i64 52)")
        high = w.let("high", f"and {WHOLE} {high}, splat (i64 2047)")
        exponent = w.let("exponent", f"sub {WHOLE} {high}, splat (i64 1023)")
        rest = w.let("rest", f"and {WHOLE} {bits}, splat (i64 {~(2047 << 52)})")
        one = w.let("one", f"or {WHOLE} {rest}, splat (i64 {1023 << 52})")
        return w.let("mantissa", f"bitcast {WHOLE} {one} to {VECTOR}"), exponent

    def _norm(self, first: str, stop: str) -> str:
        """The largest sum of sizes of a row, of some columns."""

        def row(i: str, carried: Values) -> Values:
            own = self.row(i)

            def column(j: str, carried: Values) -> Values:
                return [self.real("fadd", carried[0], self._size(self.get(self.at(own, j))))]

            (total,) = self.w.loop("column", first, stop, "1", [(VECTOR, ZERO)], column)
            return [self.either(self.compared("ugt", total, carried[0]), total, carried[0])]

        return self.w.loop("row", "0", self.of.rows, "1", [(VECTOR, ZERO)], row)[0]

    def _multiply(self, norm: str, mantissa: str, exponent: str) -> str:
        """Makes adjugates of inverses; says where the matrix is too close to a singular one."""
        w = self.w
        condition = self.real("fmul", norm, self._norm(self.of.rows, self.width))
        most = f"splat (double {self.most_singular})"
        wrong = self.compared("uge", condition, most)
        for how, bound in (("sgt", MOST_FACTOR), ("slt", -MOST_FACTOR)):
            beyond = w.let("beyond", f"icmp {how} {WHOLE} {exponent}, splat (i64 {bound})")
            wrong = self.both("or", wrong, beyond)
        biased = w.let("biased", f"add {WHOLE} {exponent}, splat (i64 1023)")
        bits = w.let("bits", f"shl {WHOLE} {biased}, splat (i64 52)")
        power = w.let("power", f"bitcast {WHOLE} {bits} to {VECTOR}")
        determinant = self.real("fmul", mantissa, power)

        def row(i: str) -> None:
            own = self.row(i)

            def column(j: str) -> None:
                place = self.at(own, j)
                self.put(self.real("fmul", self.get(place), determinant), place)

            self.each(self.of.rows, self.width, column)

        self.each("0", self.of.rows, row)
        return wrong

    def _write(self, singular: str, factor: Values) -> None:
        """Writes determinants, which have room for all lanes; zero where there was no pivot."""
        at = self.times(self.number, str(STEP))
        mantissa = self.either(singular, ZERO, factor[0])
        exponent = self.either(singular, ZERO, factor[1], WHOLE)
        self.w.do(f"store {VECTOR} {mantissa}, ptr {self.shift(self.mantissa, at)}, align 8")
        self.w.do(f"store {WHOLE} {exponent}, ptr {self.shift(self.exponent, at)}, align 8")
