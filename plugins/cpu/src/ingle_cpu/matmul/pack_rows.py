"""Rows of a panel whose numbers lie one behind the other in memory, and numbers one by one."""

from __future__ import annotations

from functools import partial

from ingle.fusion.device.llvm import Values, scalar_type

from .panel_elements import PanelCode

FEW_VECTORS = 3
"""Of a row of a panel, for which there is code of their own."""


class RowsCode(PanelCode):
    """The code that copies rows of the source to rows of a panel.

    It is for a kernel with the parameters of `pack`. With masks, a vector takes a part of a row;
    without, whole vectors that overlap, or halves of one.
    """

    def _along(self, source: str, i: str, lanes: int, mask: str | None = None) -> str:
        """Elements of one k, from an i on, where these lie one behind the other."""
        return self._load(self._numbered(source, i), lanes, mask)

    def _from(self, k: str, i: str) -> str:
        w = self.writer
        a, b = w.let("k", f"mul i64 {k}, %outer"), w.let("i", f"mul i64 {i}, %inner")
        at = w.let("at", f"add i64 {a}, {b}")
        return w.let("from", f"getelementptr i8, ptr %source, i64 {at}")

    def _to(self, k: str, i: str) -> str:
        w = self.writer
        at = w.let("at", f"add i64 {w.let('row', f'mul i64 {k}, %width')}, {i}")
        return w.let("to", f"getelementptr {scalar_type(self.made)}, ptr %panel, i64 {at}")

    def _along_i(self) -> None:
        """Vectors along i, the last one in part."""
        w, lanes = self.writer, self.lanes
        if self.masks:
            narrow, wide = w.label("narrow"), w.label("wide")
            fits = w.let("fits", f"icmp sle i64 %width, {lanes}")
            w.do(f"br i1 {fits}, label %{narrow}, label %{wide}")
            w.start(narrow)
            self._narrow()
            w.start(wide)
        else:
            self._overlapping()
        whole = w.let("whole", f"and i64 %count, {-lanes}")
        step = w.let("step", f"mul i64 %width, {self.to_size}")

        def row(k: str, carried: Values) -> Values:
            source, panel = carried

            def copy(i: str, _: Values) -> Values:
                self._store(panel, i, self._along(source, i, lanes), lanes)
                return []

            w.loop("vectors", "0", whole, str(lanes), [], copy)
            if self.masks:
                self._masked_rest(source, panel, whole)
            else:
                self._rest_by_halves(source, panel, whole)
            return [
                w.let("source", f"getelementptr i8, ptr {source}, i64 %outer"),
                w.let("panel", f"getelementptr i8, ptr {panel}, i64 {step}"),
            ]

        w.loop("row", "0", "%depth", "1", [("ptr", "%source"), ("ptr", "%panel")], row)
        if not self.masks:
            self._zeros("%count")
        w.do("ret void")

    def _overlapping(self) -> None:
        """Full panels of a few vectors, row after row in whole vectors.

        What a vector writes behind its row is written over by the next row, and what it reads
        behind it lies before that one's end. So the last row is none of these, rows are more than
        half of their vectors, and in memory they lie further apart than a vector is long.
        """
        w, lanes = self.writer, self.lanes
        above = w.let("above", f"add i64 %count, {lanes - 1}")
        vectors = w.let("vectors", f"udiv i64 {above}, {lanes}")
        written = w.let("written", f"mul i64 {vectors}, {lanes}")
        twice = w.let("twice", "shl i64 %count, 1")
        full = w.let("full", "icmp eq i64 %count, %width")
        over = w.let("over", f"icmp sle i64 {written}, {twice}")
        apart = w.let("apart", f"icmp sge i64 %outer, {lanes * self.from_size}")
        several = w.let("several", "icmp sgt i64 %depth, 0")
        for condition in (over, apart, several):
            full = w.let("full", f"and i1 {full}, {condition}")
        number = w.let("number", f"select i1 {full}, i64 {vectors}, i64 0")
        cases, other = [w.label("vectors") for _ in range(FEW_VECTORS)], w.label("other")
        listed = " ".join(f"i64 {n}, label %{case}" for n, case in enumerate(cases, 1))
        w.do(f"switch i64 {number}, label %{other} [ {listed} ]")
        for count, case in enumerate(cases, 1):
            w.start(case)
            self._rows_of_vectors(count)
        w.start(other)

    def _rows_of_vectors(self, count: int) -> None:
        """All rows of a full panel, of so many vectors each; the last one ends where it ends."""
        w, lanes = self.writer, self.lanes
        step = w.let("step", f"mul i64 %width, {self.to_size}")
        at_once = 4 // count

        def rows(number: int, _: str, carried: Values) -> Values:
            source, panel = carried
            for _n in range(number):
                for i in range(0, count * lanes, lanes):
                    self._store(panel, str(i), self._along(source, str(i), lanes), lanes)
                source = w.let("source", f"getelementptr i8, ptr {source}, i64 %outer")
                panel = w.let("panel", f"getelementptr i8, ptr {panel}, i64 {step}")
            return [source, panel]

        last = w.let("last", "sub i64 %depth, 1")
        turns = w.let("turns", f"udiv i64 {last}, {at_once}")
        whole = w.let("whole", f"mul i64 {turns}, {at_once}")
        carried = [("ptr", "%source"), ("ptr", "%panel")]
        done = w.loop("rows", "0", whole, str(at_once), carried, partial(rows, at_once))
        carried = [("ptr", place) for place in done]
        source, panel = w.loop("row", whole, last, "1", carried, partial(rows, 1))
        for i in range(0, (count - 1) * lanes, lanes):
            self._store(panel, str(i), self._along(source, str(i), lanes), lanes)
        before = str((count - 1) * lanes)
        rest = w.let("rest", f"sub i64 %count, {before}")
        is_whole = w.let("whole", f"icmp eq i64 {rest}, {lanes}")

        def vector() -> Values:
            self._store(panel, before, self._along(source, before, lanes), lanes)
            return []

        w.when(is_whole, [], vector)
        self._rest_by_halves(source, panel, before)
        w.do("ret void")

    def _rest_by_halves(self, source: str, panel: str, start: str) -> None:
        """From `start` to the count, which is less than a vector: halves of it, quarters, …"""
        w, piece = self.writer, self.lanes // 2
        while piece:
            bit = w.let("bit", f"and i64 %count, {piece}")

            def some(piece: int = piece, start: str = start) -> Values:
                self._store(panel, start, self._along(source, start, piece), piece)
                return []

            w.when(w.let("some", f"icmp ne i64 {bit}, 0"), [], some)
            start = w.let("start", f"add i64 {start}, {bit}")
            piece //= 2

    def _narrow(self) -> None:
        """Panels that are no wider than a vector: one load and one store for each k."""
        w, lanes = self.writer, self.lanes
        inside, within = self._mask("%count", lanes), self._mask("%width", lanes)
        step = w.let("step", f"mul i64 %width, {self.to_size}")

        def row(_: str, carried: Values) -> Values:
            source, panel = carried
            for _n in range(4):
                self._store(panel, "0", self._along(source, "0", lanes, inside), lanes, within)
                source = w.let("source", f"getelementptr i8, ptr {source}, i64 %outer")
                panel = w.let("panel", f"getelementptr i8, ptr {panel}, i64 {step}")
            return [source, panel]

        whole = w.let("whole", "and i64 %depth, -4")
        w.loop("four", "0", whole, "4", [("ptr", "%source"), ("ptr", "%panel")], row)
        self._singles(whole, "%depth", "0", "%count")
        self._zeros("%count", whole)
        w.do("ret void")

    def _masked_rest(self, source: str, panel: str, start: str) -> None:
        """From `start` to the width, which is less than a vector: numbers and zeros."""
        w, lanes = self.writer, self.lanes

        def rest(i: str, _: Values) -> Values:
            inside = self._mask(w.let("left", f"sub i64 %count, {i}"), lanes)
            within = self._mask(w.let("left", f"sub i64 %width, {i}"), lanes)
            value = self._along(source, i, lanes, inside)
            self._store(panel, i, value, lanes, within)
            return []

        w.loop("rest", start, "%width", str(lanes), [], rest)

    def _singles(self, k0: str, k1: str, i0: str, i1: str) -> None:
        w, kind = self.writer, scalar_type(self.made)

        def row(k: str, _: Values) -> Values:
            def one(i: str, _: Values) -> Values:
                value = self._along(self._from(k, i), "0", 1)
                w.do(f"store {kind} {value}, ptr {self._to(k, i)}, align {self.to_size}")
                return []

            w.loop("one", i0, i1, "1", [], one)
            return []

        w.loop("row", k0, k1, "1", [], row)

    def _zeros(self, start: str, first: str = "0") -> None:
        """Zeros from an i to the width, from a k on."""
        w, kind = self.writer, scalar_type(self.made)

        def row(k: str, _: Values) -> Values:
            def one(i: str, _: Values) -> Values:
                w.do(f"store {kind} zeroinitializer, ptr {self._to(k, i)}, align {self.to_size}")
                return []

            w.loop("zero", start, "%width", "1", [], one)
            return []

        w.loop("row", first, "%depth", "1", [], row)
