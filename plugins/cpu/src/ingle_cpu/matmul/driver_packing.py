"""The driver's steps that pack operands: rows of a, and panels of columns of b."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values

from .driver_images import ImageCode
from .panels import SLAB


class PackingCode(ImageCode):
    """The steps of a unit of work that packs its own operands.

    Attributes:
        packs_a, packs_b: whether each unit does.
        packed: where the worker packs rows of a; `panel_buffer` is that for columns of b.
        has_windows: whether b is made of windows of images.
        first: the unit's first tile of rows.
        from_panel, to_panel: the panels that stay near while the rows go by.
        k, span: the first step of k that is taken at once, and how many these are.
        now: how many turns are.
        deep: steps of all these turns.
    """

    packs_a: str
    packs_b: str
    packed: str
    has_windows: str
    first: str
    from_panel: str
    to_panel: str
    k: str
    span: str
    now: str
    deep: str

    def pack_a(self, a: str) -> None:
        """Packs the unit's rows of a, a panel for each tile, if each unit shall pack its own."""
        w = self.w

        def slab(k: str, _: Values) -> Values:
            self._pack_slab(a, k, slab_depth)
            return []

        def slabs() -> Values:
            w.loop("slab", "0", self.span, slab_depth, [], slab)
            return []

        # Where rows lie side by side, a cache line has parts of several panels.
        beside = w.let("beside", f"icmp slt i64 {self.arg.a_row}, {self.arg.a_k}")
        slab_depth = self.choose(beside, self.least(self.span, str(SLAB)), self.span)
        w.when(self.packs_a, [], slabs)

    def _pack_slab(self, a: str, k: str, depth: str) -> None:
        """Some steps of k of all panels of rows."""
        w = self.w
        deep = self.least(self.minus(self.span, k), depth)
        row_of_panel = self.times(self.arg.rows, self.arg.size)
        made = self.times(self.span, row_of_panel)

        def tile(t: str, carried: Values) -> Values:
            (to,) = carried
            row = self.times(self.plus(self.first, t), self.arg.rows)
            high = self.least(self.minus(self.arg.m, row), self.arg.rows)
            source = self.shift(a, self.times(t, self.arg.a_tile))
            source = self.shift(source, self.times(k, self.arg.a_k))

            def turn(_: str, carried: Values) -> Values:
                source, to = carried
                w.do(
                    f"call void {self.arg.pack_a}(ptr {source}, i64 {self.arg.a_k}, "
                    f"i64 {self.arg.a_row}, i64 {deep}, i64 {high}, i64 {self.arg.rows}, ptr {to})"
                )
                return [self.shift(source, self.arg.a_turn), self.shift(to, made)]

            w.loop("turns", "0", self.now, "1", [("ptr", source), ("ptr", to)], turn)
            return [self.shift(to, self.times(self.deep, row_of_panel))]

        first = self.shift(self.packed, self.times(k, row_of_panel))
        w.loop("pack", "0", self.count, "1", [("ptr", first)], tile)

    def pack_b(self) -> None:
        """Packs panels of columns, if each unit shall pack its own."""
        w = self.w
        below = self.shift(self.b, self.times(self.k, self.arg.b_k))

        def panel(j: str, carried: Values) -> Values:
            (to,) = carried
            column = self.times(j, self.arg.width)
            source = self.shift(below, self.times(column, self.arg.b_j))
            count = self.least(self.minus(self.arg.n, column), self.arg.width)
            width = self.choose(self.is_last(j), self.arg.last_width, self.arg.width)
            self._pack_panel(source, column, count, width, to)
            return [self.shift(to, self.packed_panel())]

        def panels() -> Values:
            first = [("ptr", self.panel_buffer)]
            w.loop("pack", self.from_panel, self.to_panel, "1", first, panel)
            return []

        w.when(self.packs_b, [], panels)

    def _pack_panel(self, source: str, column: str, count: str, width: str, to: str) -> None:
        w, arg = self.w, self.arg
        of_windows, of_matrix, done = w.label("windows"), w.label("matrix"), w.label("packed")
        w.do(f"br i1 {self.has_windows}, label %{of_windows}, label %{of_matrix}")
        w.start(of_windows)
        made = self.times(self.times(self.span, width), arg.size)

        def turn(_: str, carried: Values) -> Values:
            source, to = carried
            w.do(
                f"call void {arg.pack_b}(ptr {source}, ptr {self.windows}, i64 {self.k}, "
                f"i64 {column}, i64 {self.span}, i64 {count}, i64 {width}, ptr {to})"
            )
            return [self.shift(source, arg.b_turn), self.shift(to, made)]

        w.loop("turns", "0", self.now, "1", [("ptr", self.b), ("ptr", to)], turn)
        w.do(f"br label %{done}")
        w.start(of_matrix)
        w.do(
            f"call void {arg.pack_b}(ptr {source}, i64 {arg.b_k}, i64 {arg.b_j}, "
            f"i64 {self.deep}, i64 {count}, i64 {width}, ptr {to})"
        )
        w.do(f"br label %{done}")
        w.start(done)

    def packed_panel(self) -> str:
        """Bytes of a panel that the unit packed."""
        return self.times(self.times(self.deep, self.arg.width), self.arg.size)

    def is_last(self, j: str) -> str:
        return self.equal(self.plus(j, "1"), self.arg.panels)
