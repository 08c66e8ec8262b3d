"""The kernel that computes convolutions from patches; `winograd.py` says how.

    void multiply_patches(pointers, args, begin, end, worker)

A unit of work is some rows of patches of one matrix of the batch by a block of features. All
channels of the patches are turned into columns of matrices; some features at a time are
multiplied with these and turned into results, which the epilogue takes from the first-level cache.
Pointers are the weight, the images, the workers' memory, the taps as `winograd_taps_ir.py` turns
them, and the epilogue's operands.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from .abi import parameters
from .driver_epilogue import EpilogueArgs
from .named_args import loaded_args, loaded_pointers
from .winograd import WIDEST
from .winograd_code import SIZE, WinogradArgs
from .winograd_form import PatchForm
from .winograd_patches_ir import PatchCode
from .winograd_results_ir import ResultCode

DEPTH = 128
"""Channels that are summed by themselves: so errors are about those of tiles that slide."""
SHALLOW = 32
"""The same where tiles are high: errors are three quarters, for some hundredths of the time."""


def winograd_source(form: PatchForm, target: Target) -> IRSource:
    """The module of `multiply_patches`."""
    name = f"multiply_patches_{form.taps}_{target.name}"
    return IRSource(_Patches(form, target, name).text(), (name,), reduced=False)


class _Patches(PatchCode, ResultCode):
    def __init__(self, form: PatchForm, target: Target, name: str) -> None:
        super().__init__(form, target, name)
        self.depth = str(SHALLOW if target.registers >= 32 else DEPTH)

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
        self.column = self.bytes(of.tile_rows)
        self.product_row = self.times(self.pitch, str(self.form.numbers))
        self.clear(self.lines, self.times(self.line_pitch, str(self.form.patch)))
        self.clear(self.turned, self.product_row)
        w.loop("unit", "%begin", "%end", "1", [], self._unit)
        w.do("ret void")
        return w.module()

    def _unit(self, unit: str, _: Values) -> Values:
        of = self.of
        block, rest = self.op("urem", unit, of.row_blocks), self.op("udiv", unit, of.row_blocks)
        band, self.matrix = self.op("urem", rest, of.bands), self.op("udiv", rest, of.bands)
        (self.b,) = self.matrices(
            self.matrix, (of.batch1, of.batch2), [(self.b_all, (of.b0, of.b1, of.b2))]
        )
        self.first, self.stop = self.share(band, of.rows, of.bands)
        self.place, end = self.place_of(self.first), self.place_of(self.stop)
        self.count = self.minus(end, self.place)
        patches = self.times(self.minus(self.stop, self.first), of.wide)
        self._divide(patches)
        self._clear_behind()
        self.w.loop("channel", "0", of.channels, "1", [], self.turn_channel)
        begin, stop = self.share(block, of.panels, of.row_blocks)

        def panels(at: str, _: Values) -> Values:
            until = self.least(self.plus(at, of.at_once), stop)
            self._multiply(at, until)
            self.made = self.times(at, of.tile_rows)
            high = self.least(self.times(until, of.tile_rows), of.m)
            self.w.loop("group", self.made, high, of.group, [], lambda f, _: self.group_of(f, high))
            return []

        self.w.loop("panels", begin, stop, of.at_once, [], panels)
        return []

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
        rows = self.times(self.times(self.of.at_once, self.of.tile_rows), str(self.form.numbers))

        def one(n: str, _: Values) -> Values:
            at = self.plus(row, self.times(n, self.pitch))
            self.store("zeroinitializer", self.shift(self.products, at))
            return []

        self.w.loop("behind", "0", rows, "1", [], one)

    def _multiply(self, begin: str, end: str) -> None:
        """The products of some panels of features and all columns."""
        w, of = self.w, self.of
        panel_bytes = self.times(of.channels, self.column)

        def matrix(p: str, _: Values) -> Values:
            columns = self.shift(self.columns, self.times(p, of.matrix))
            rows = self.shift(self.taps, self.times(p, of.taps_matrix))
            made = self.shift(self.products, self.times(p, self.pitch))

            def panel(at: str, vectors: int) -> None:
                b = self.panel_at(columns, at)
                across = self.shift(made, self.times(at, str(self.lanes * SIZE)))

                def tile(_: str, carried: Values) -> Values:
                    a, to = carried
                    self._tile(vectors, a, b, to)
                    onward = panel_bytes, self.times(self.product_row, of.tile_rows)
                    return [self.shift(p, d) for p, d in zip(carried, onward, strict=True)]

                a = self.shift(rows, self.times(begin, panel_bytes))
                w.loop("tile", begin, end, "1", [("ptr", a), ("ptr", across)], tile)

            self.each_panel(panel)
            return []

        w.loop("matrix", "0", str(self.form.numbers), "1", [], matrix)

    def _tile(self, vectors: int, a: str, b: str, to: str) -> None:
        """A panel of features times one of columns, some channels at a time."""
        w, of = self.w, self.of
        panel_bytes = self.times(of.channels, self.column)

        def block(at: str, _: Values) -> Values:
            here = self.shift(a, self.times(at, self.column))
            given = {
                "a": here, "a_row": "0", "last": self.minus(of.tile_rows, "1"),
                "b": self.shift(b, self.times(at, str(vectors * self.lanes * SIZE))),
                "b_step": "0", "columns": str(vectors * self.lanes),
                "depth": self.least(self.minus(of.channels, at), self.depth), "tile": to,
                "tile_row": self.product_row, "add": at, "soon": self.shift(here, panel_bytes),
                "b_vector": "0", "tile_vector": "0",
            }  # fmt: skip
            w.do(f"call void {self.micros[vectors - 1]}({parameters(given)})")
            return []

        w.loop("block", "0", of.channels, self.depth, [], block)
