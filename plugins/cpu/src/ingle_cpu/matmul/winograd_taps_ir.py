"""The kernel that turns taps into the numbers that patches are multiplied by.

    void turn_taps(pointers, args, begin, end, worker)

A unit of work is a panel of features, as high as a tile. Pointers are the weight and the panels of
matrices, one after the other.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from ingle.fusion.device.llvm import Values, Writer, vector_type

from ..jit.engine import IRSource
from .driver_images import DriverCode
from .named_args import loaded_args, loaded_pointers
from .winograd_code import SIZE
from .winograd_form import PatchForm
from .winograd_turning_ir import TurningCode

T = TypeVar("T")


class TapsArgs(NamedTuple, Generic[T]):
    """The arguments of `turn_taps`; distances are in bytes."""

    m: T  # features
    channels: T
    a_row: T
    a_channel: T
    a_first: T  # where the first tap is
    a_tap: T  # from tap to tap, which may go backwards
    matrix: T  # from one to the next


def taps_source(form: PatchForm, rows: int) -> IRSource:
    """The module of `turn_taps`, for panels of some rows."""
    name = f"turn_taps_{form.taps}_{rows}"
    return IRSource(_Taps(form, rows, name).text(), (name,), reduced=False)


class _Taps(DriverCode):
    def __init__(self, form: PatchForm, rows: int, name: str) -> None:
        super().__init__(Writer(name))
        self.form = form
        self.rows = rows
        self.vector = vector_type("float", rows)
        self.turning = TurningCode(self.w, form, rows)

    def text(self) -> str:
        w = self.w
        self.a, self.to = loaded_pointers(w, ("a", "to"))
        self.of: TapsArgs[str] = loaded_args(w, TapsArgs)
        w.loop("panel", "%begin", "%end", "1", [], self._panel)
        w.do("ret void")
        return w.module()

    def _panel(self, number: str, _: Values) -> Values:
        w, of = self.w, self.of
        to = self.shift(self.to, self.times(self.times(number, of.channels), str(self.rows * SIZE)))
        first, last = self.times(number, str(self.rows)), self.minus(of.m, "1")
        rows = []
        for i in range(
            self.rows
        ):  # Behind the last feature that one again, of which nothing is read.
            feature = self.least(self.plus(first, str(i)), last)
            rows.append(self.shift(self.a, self.plus(of.a_first, self.times(feature, of.a_row))))

        def channel(c: str, carried: Values) -> Values:
            *rows, place = carried
            at = place
            for value in self._turned(rows):
                w.do(f"store {self.vector} {value}, ptr {at}, align {SIZE}")
                at = self.shift(at, of.matrix)
            onward = [self.shift(row, of.a_channel) for row in rows]
            return [*onward, self.shift(place, str(self.rows * SIZE))]

        w.loop("channel", "0", of.channels, "1", [("ptr", p) for p in (*rows, to)], channel)
        return []

    def _turned(self, rows: Values) -> Values:
        """The numbers of a channel, line by line, each a vector of features."""
        lines, at = [], list(rows)
        for _ in range(self.form.taps):
            g = []
            for _ in range(self.form.taps):
                g.append(self._gathered(at))
                at = [self.shift(place, self.of.a_tap) for place in at]
            lines.append(self.turning.taps(g))
        columns = [self.turning.taps(list(column)) for column in zip(*lines, strict=True)]
        return [value for line in zip(*columns, strict=True) for value in line]

    def _gathered(self, places: Values) -> str:
        """Numbers at some places as a vector."""
        made = "poison"
        for lane, place in enumerate(places):
            number = self.w.let("g", f"load float, ptr {place}, align {SIZE}")
            made = self.w.let(
                "g", f"insertelement {self.vector} {made}, float {number}, i64 {lane}"
            )
        return made
