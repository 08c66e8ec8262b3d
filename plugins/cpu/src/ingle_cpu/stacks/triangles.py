"""Cholesky's decomposition, and systems whose matrix is triangular, with a matrix in each lane."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .abi import LANES
from .lanes import MASK, VECTOR, ZERO, LaneCode


def cholesky_source(dtype: str, target: Target) -> IRSource:
    """The module of Cholesky's decomposition, which reads lower halves."""
    name = f"cholesky_{dtype}_{target.name}"
    return IRSource(_Cholesky(name, dtype, target).text(), (name,), reduced=False)


def substitution_source(unit: bool, dtype: str, target: Target) -> IRSource:
    """The module for lower triangles. An upper one is a lower one from its last element on."""
    name = f"substitution_{'unit_' * unit}{dtype}_{target.name}"
    return IRSource(_Substitution(name, unit, dtype, target).text(), (name,), reduced=False)


class _Cholesky(LaneCode):
    def text(self) -> str:
        return self.tiles(self._tile)

    def _tile(self) -> None:
        declined = self.load_square(lower=True)
        carried = [(MASK, ZERO)]
        (wrong,) = self.w.loop("column", "0", self.of.rows, "1", carried, self._column)
        self._clear()
        self.store("0", self.of.rows)
        self.decline(self.both("or", declined, wrong))

    def _column(self, k: str, carried: Values) -> Values:
        """A column of the result, which is taken from what lies right of it."""
        top, behind = self.row(k), self.plus(k, "1")
        square = self.get(self.at(top, k))
        wrong = self.compared("ule", square, ZERO)
        root = self.w.call("root", VECTOR, f"llvm.sqrt.v{LANES}f64", f"{VECTOR} {square}")
        self.put(root, self.at(top, k))

        def divided(i: str) -> None:
            place = self.at(self.row(i), k)
            self.put(self.real("fdiv", self.get(place), root), place)

        self.each(behind, self.of.rows, divided)

        def row(i: str) -> None:
            own = self.row(i)
            factor = self.w.let("factor", f"fneg {VECTOR} {self.get(self.at(own, k))}")

            def column(j: str) -> None:
                place = self.at(own, j)
                other = self.get(self.at(self.row(j), k))
                self.put(self.fused(factor, other, self.get(place)), place)

            self.each(behind, self.plus(i, "1"), column)

        self.each(behind, self.of.rows, row)
        return [self.both("or", carried[0], wrong)]

    def _clear(self) -> None:
        """Zeros in the upper half."""

        def row(i: str) -> None:
            own = self.row(i)
            self.each(self.plus(i, "1"), self.of.rows, lambda j: self.put(ZERO, self.at(own, j)))

        self.each("0", self.of.rows, row)


class _Substitution(LaneCode):
    def __init__(self, name: str, unit: bool, dtype: str, target: Target) -> None:
        super().__init__(name, dtype, target)
        self.unit = unit

    def text(self) -> str:
        return self.tiles(self._tile)

    def _tile(self) -> None:
        self.load_square(lower=True)
        self.load_right()
        (wrong,) = self.w.loop("row", "0", self.of.rows, "1", [(MASK, ZERO)], self._row)
        self.store(self.of.rows, self.of.columns)
        self.decline(wrong)

    def _row(self, k: str, carried: Values) -> Values:
        top, wrong = self.row(k), carried[0]
        if not self.unit:
            pivot = self.get(self.at(top, k))
            wrong = self.both("or", wrong, self.compared("oeq", pivot, ZERO))

            def column(j: str) -> None:
                place = self.at(top, j)
                self.put(self.real("fdiv", self.get(place), pivot), place)

            self.each(self.of.rows, self.width, column)

        def row(i: str) -> None:
            other = self.row(i)
            self.less(other, self.get(self.at(other, k)), top, self.of.rows, self.width)

        self.each(self.plus(k, "1"), self.of.rows, row)
        return [wrong]
