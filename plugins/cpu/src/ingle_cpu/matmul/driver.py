"""The loops of a contraction around its tiles: one kernel for all dtypes, shapes and tiles.

Everything that differs comes as arguments: the addresses of the tile's code, of the code that packs
`a`, and of the epilogue; sizes, strides, and how the work is cut. So a new epilogue or a new tile
compiles a small kernel of its own and nothing else.

A unit of work is a block of rows of one matrix of the batch by a block of panels of columns. Some
panels at a time stay in the second-level cache while the rows go by, a tile high each. Along a row,
groups of tiles are computed into a buffer that stays in the first-level cache, and the epilogue, a
kernel of the nests, takes the group to where it belongs: the more panels are near, the longer are
the pieces of rows that it reads and writes. k is taken
`depth_block` at a time, each block summed by itself, so that the result depends on k alone and not
on how the work was cut. Where k is longer than what is taken at once, the sums wait in the worker's
memory.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, Writer

from ..jit.engine import IRSource
from .abi import DriverArgs, parameters
from .driver_epilogue import EpilogueArgs
from .driver_fetching import FetchingCode
from .driver_images import Memory
from .microkernel import LINE, STEPS_OF_A_LINE

NAME = "contract"


def driver_source() -> IRSource:
    """The module of the kernel `contract`."""
    return IRSource(_Driver().text(), (NAME,), reduced=False, polished=False)


class _Driver(FetchingCode):
    def __init__(self) -> None:
        super().__init__(Writer(NAME))

    def text(self) -> str:
        w = self.w
        pointers = []
        for number in range(3):
            place = w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {number}")
            pointers.append(w.let("base", f"load ptr, ptr {place}, align 8"))
        self.a, self.b_all, scratch = pointers
        loaded: list[str] = []
        for number, name in enumerate(DriverArgs._fields):
            place = w.let("arg", f"getelementptr i64, ptr %args, i64 {number}")
            loaded.append(w.let(name, f"load i64, ptr {place}, align 8"))
        arg = DriverArgs(*loaded)
        place = w.let("slot", "getelementptr ptr, ptr %pointers, i64 3")
        self.c = w.let("c", f"load ptr, ptr {place}, align 8")
        self.arg = arg._replace(
            micro=w.let("micro", f"inttoptr i64 {arg.micro} to ptr"),
            last_micro=w.let("last_micro", f"inttoptr i64 {arg.last_micro} to ptr"),
            pack_a=w.let("pack_a", f"inttoptr i64 {arg.pack_a} to ptr"),
            pack_b=w.let("pack_b", f"inttoptr i64 {arg.pack_b} to ptr"),
            pad=w.let("pad", f"inttoptr i64 {arg.pad} to ptr"),
            release=w.let("release", f"inttoptr i64 {arg.release} to ptr"),
            epilogue=w.let("epilogue", f"inttoptr i64 {arg.epilogue} to ptr"),
        )
        self.called = EpilogueArgs(
            self.arg.epilogue, self.arg.m, self.arg.operands, self.arg.nest_args,
            self.arg.inner_at, self.arg.column_at,
        )  # fmt: skip
        self.scratch = self.shift(scratch, self.times("%worker", self.arg.worker_bytes))
        self.buffer = self.shift(self.scratch, self.arg.tile_at)
        self.packed = self.shift(self.scratch, self.arg.packed_at)
        self.packs_a = w.let("packs_a", f"icmp ne ptr {self.arg.pack_a}, null")
        self.packs_b = w.let("packs_b", f"icmp ne ptr {self.arg.pack_b}, null")
        self.plain = w.let("plain", f"icmp ne i64 {self.arg.plain}, 0")
        deep = w.let("deep", f"icmp slt i64 {self.arg.depth}, {self.arg.k}")
        often = w.let("often", f"icmp slt i64 {self.arg.at_once}, {self.arg.turns}")
        self.several = w.let("several", f"or i1 {deep}, {often}")
        self.panel_buffer = self.shift(self.scratch, self.arg.panel_at)
        self.sums = self.shift(self.scratch, self.arg.sums_at)
        self.nest_pointers = self.shift(self.scratch, self.arg.pointers_at)
        self.windows = w.let("tail", f"getelementptr i64, ptr %args, i64 {len(DriverArgs._fields)}")
        self.has_windows = w.let("windows", f"icmp ne i64 {self.arg.window_args}, 0")
        self.column_strides = w.let(
            "tail", f"getelementptr i64, ptr {self.windows}, i64 {self.arg.window_args}"
        )
        self.slides = w.let("slides", f"icmp ne ptr {self.arg.pad}, null")
        self.flat = w.let("flat", f"icmp ne i64 {self.arg.flat}, 0")
        self.by_rows = w.let("by_rows", f"icmp ugt i1 {self.slides}, {self.flat}")
        self.offsets = self.shift(self.scratch, self.arg.offsets_at)
        behind = self.times(self.arg.operands, "2")
        self.copy_nest_args(
            w.let("from", f"getelementptr i64, ptr {self.column_strides}, i64 {behind}")
        )
        self.note_offsets()
        w.loop("unit", "%begin", "%end", "1", [], self.unit)

        def release() -> Values:
            w.do(f"call void {self.arg.release}()")
            return []

        w.when(w.let("holds", f"icmp ne ptr {self.arg.release}, null"), [], release)
        w.do("ret void")
        return w.module()

    # -- the loops ---------------------------------------------------------------------------

    def unit(self, unit: str, _: Values) -> Values:
        # Rows first: the units that a worker takes one after the other share their columns of b.
        row_block = self.op("urem", unit, self.arg.row_blocks)
        rest = self.op("udiv", unit, self.arg.row_blocks)
        panel_block = self.op("urem", rest, self.arg.panel_blocks)
        self.matrix = self.op("udiv", rest, self.arg.panel_blocks)
        a, self.b, self.result = self._matrices()
        self.first, end = self.share(row_block, self.arg.tiles, self.arg.row_blocks)
        self.count = self.minus(end, self.first)
        self.start, self.stop = self.share(panel_block, self.arg.panels, self.arg.panel_blocks)
        a = self.shift(a, self.times(self.first, self.arg.a_tile))
        self.first_row = self.pad()
        self.end_column, *_ = self.place(self.stop)

        def turn(t: str, carried: Values) -> Values:
            a, self.b = carried
            self.turn = t
            # k = 0 is one turn over nothing: the result is the epilogue of zeros.
            once = self.w.call("once", "i64", "llvm.smax.i64", f"i64 {self.arg.k}", "i64 1")
            of_turn = a, self.b

            def depth(k: str, _: Values) -> Values:
                self._depth(k, of_turn[0])
                return []

            self.w.loop("depth", "0", once, self.arg.depth, [], depth)
            return [self.shift(a, self.a_onward), self.shift(of_turn[1], self.b_onward)]

        self.a_onward = self.times(self.arg.at_once, self.arg.a_turn)
        self.b_onward = self.times(self.arg.at_once, self.arg.b_turn)
        first = [("ptr", a), ("ptr", self.b)]
        self.w.loop("turn", "0", self.arg.turns, self.arg.at_once, first, turn)
        return []

    def _depth(self, k: str, a: str) -> None:
        """What is taken of k at once."""
        self.k = k
        self.done = self.op("or", k, self.turn)
        self.span = self.least(self.minus(self.arg.k, k), self.arg.depth)
        self.now = self.least(self.minus(self.arg.turns, self.turn), self.arg.at_once)
        self.deep = self.times(self.span, self.now)
        last = self.w.let("last", f"icmp sge i64 {self.plus(k, self.arg.depth)}, {self.arg.k}")
        last_turn = self.equal(self.plus(self.turn, self.now), self.arg.turns)
        self.last = self.w.let("last", f"and i1 {last}, {last_turn}")
        along = self.choose(self.packs_a, self.arg.a_k, self.arg.a_step)
        here = self.shift(a, self.times(k, along))
        self.pack_a(here)
        packed = self.times(self.times(self.arg.rows, self.deep), self.arg.size)
        self.tile_bytes = self.choose(self.packs_a, packed, self.arg.a_tile)
        self.rows_at = self.choose(self.packs_a, self.packed, here, "ptr")
        self.w.loop("near", self.start, self.stop, self.arg.near, [], self._panels)

    def _matrices(self) -> Values:
        """Where this matrix of the batch is in a, b and the result."""
        arg = self.arg
        pointers = (
            (self.a, (arg.a0, arg.a1, arg.a2)),
            (self.b_all, (arg.b0, arg.b1, arg.b2)),
            (self.c, (arg.c0, arg.c1, arg.c2)),
        )
        return self.matrices(self.matrix, (arg.batch1, arg.batch2), pointers)

    def _panels(self, j: str, _: Values) -> Values:
        """All rows times some panels."""
        self.from_panel, self.to_panel = j, self.least(self.plus(j, self.arg.near), self.stop)
        self.pack_b()
        self.w.loop("row", "0", self.count, "1", [("ptr", self.rows_at)], self._row)
        return []

    def _row(self, t: str, carried: Values) -> Values:
        """All tiles of some rows, a group at a time."""
        w = self.w
        (self.a_tile,) = carried
        self.tile_number = t
        self.row = self.times(self.plus(self.first, t), self.arg.rows)
        self.high = self.least(self.minus(self.arg.m, self.row), self.arg.rows)
        self.all_rows = self.equal(self.high, self.arg.rows)
        w.loop("group", self.from_panel, self.to_panel, self.arg.group, [], self._group)
        return [self.shift(self.a_tile, self.tile_bytes)]

    def _group(self, j0: str, _: Values) -> Values:
        w = self.w
        stop = self.least(self.plus(j0, self.arg.group), self.to_panel)
        column, x, y = self.place(j0)
        until, after, *_ = self.place(stop)
        columns = self.minus(until, column)
        # Tiles of a last panel may reach behind its end: over what this unit computes later.
        over = self.choose(self.equal(after, "0"), self.arg.over, "0")
        inside = w.let("inside", f"icmp sle i64 {self.plus(until, over)}, {self.end_column}")
        whole = w.let("whole", f"and i1 {inside}, {self.all_rows}")
        whole = w.let("whole", f"and i1 {whole}, {self.plain}")
        whole = w.let("whole", f"icmp ugt i1 {whole}, {self.flat}")
        waiting, pitch = self._waiting(j0)
        self.tile_row = self.choose(whole, self.arg.c_row, pitch)
        target = self.choose(whole, self._in_result(column), waiting, "ptr")
        self.ask(column, columns)

        width = self.times(self.arg.width, self.arg.size)
        last_width = self.minus(self.arg.last_width, self.arg.over)
        last_width = self.times(last_width, self.arg.size)

        def tile(j: str, carried: Values) -> Values:
            to, at_x, at_y = carried
            next_x = self.plus(at_x, "1")
            is_last = self.equal(next_x, self.arg.along)
            self._tile(j, to, self.slid(at_x, at_y), is_last)
            return [
                self.shift(to, self.choose(is_last, last_width, width)),
                self.choose(is_last, "0", next_x),
                self.choose(is_last, self.plus(at_y, "1"), at_y),
            ]

        w.loop("tile", j0, stop, "1", [("ptr", target), ("i64", x), ("i64", y)], tile)
        waits = w.let("waits", f"xor i1 {whole}, true")

        def pieces() -> Values:
            first, tile = self.number(column), Memory(target, pitch)
            to = self.choose(self.plain, self._in_result(first), target, "ptr")
            row = self.choose(self.plain, self.arg.c_row, pitch)
            self.close_up(tile, self.high, column, until, Memory(to, row))

            def one() -> Values:
                self.epilogue(target, first, self.minus(self.number(until), first))
                return []

            w.when(w.let("more", f"xor i1 {self.plain}, true"), [], one)
            return []

        def due() -> Values:
            self.epilogue(target, column, columns)
            return []

        due_now = w.let("due", f"and i1 {self.last}, {waits}")
        w.when(w.let("flat", f"and i1 {due_now}, {self.flat}"), [], pieces)
        w.when(w.let("due", f"icmp ugt i1 {due_now}, {self.flat}"), [], due)
        return []

    def _in_result(self, column: str) -> str:
        down = self.times(self.row, self.arg.c_row)
        return self.shift(self.result, self.plus(down, self.times(column, self.arg.size)))

    def _waiting(self, j0: str) -> tuple[str, str]:
        """Where the tiles of a group are summed up, and how long a row is there.

        In a buffer for the group, or in one for the unit where sums wait for more of k.
        """
        wide = self.choose(self.several, self.arg.block_panels, self.arg.group)
        self.columns_waiting = self.times(wide, self.arg.width)
        pitch = self.times(self.columns_waiting, self.arg.size)
        down = self.times(self.times(self.tile_number, self.arg.rows), pitch)
        across = self.times(self.times(self.minus(j0, self.start), self.arg.width), self.arg.size)
        place = self.shift(self.sums, self.plus(down, across))
        return self.choose(self.several, place, self.buffer, "ptr"), pitch

    def _tile(self, j: str, tile: str, slid: str, is_last: str) -> None:
        """One tile: its rows of a times a panel of b, a block of k at a time."""
        w = self.w
        micro = self.choose(is_last, self.arg.last_micro, self.arg.micro, "ptr")
        step = self.choose(is_last, self.arg.last_b_step, self.arg.b_step)
        lying = self.shift(
            self.b, self.plus(self.times(j, self.arg.b_panel), self.times(self.k, step))
        )
        packed = self.shift(
            self.panel_buffer, self.times(self.minus(j, self.from_panel), self.packed_panel())
        )
        b = self.choose(self.packs_b, packed, lying, "ptr")
        ahead = self.soon(lying, j)
        columns = self.minus(self.arg.n, self.times(j, self.arg.width))
        last = self.minus(self.high, "1")

        def block(at: str, _: Values) -> Values:
            size = self.least(self.minus(self.deep, at), self.arg.depth_block)
            down = self.shift(b, self.times(at, step))
            offsets = self.shift(self.offsets, self.times(at, step))
            offsets = w.let("offsets", f"ptrtoint ptr {offsets} to i64")
            given = {
                "a": self.shift(self.a_tile, self.times(at, self.arg.a_step)),
                "a_row": self.arg.a_row,
                "last": last, "b": self.choose(self.slides, slid, down, "ptr"),
                "b_step": self.choose(self.slides, offsets, step),
                "columns": self.least(columns, self.arg.width), "depth": size, "tile": tile,
                "tile_row": self.tile_row, "add": w.let("add", f"or i64 {at}, {self.done}"),
                "soon": self.shift(ahead, self.times(at, str(LINE // STEPS_OF_A_LINE))),
                "b_vector": self.arg.b_vector, "tile_vector": self.arg.tile_vector,
            }  # fmt: skip
            w.do(f"call void {micro}({parameters(given)})")
            return []

        once = w.call("once", "i64", "llvm.smax.i64", f"i64 {self.deep}", "i64 1")
        w.loop("block", "0", once, self.arg.depth_block, [], block)
