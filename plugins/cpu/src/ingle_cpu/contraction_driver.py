"""The loops of a contraction around its tiles: one kernel for all dtypes, shapes and tiles.

Everything that differs comes as arguments: the addresses of the tile's code, of the code that packs
`a`, and of the epilogue; sizes, strides, and how the work is cut. So a new epilogue or a new tile
compiles a small kernel of its own and nothing else.

A unit of work is a block of rows of one matrix of the batch by some panels of columns. For each
panel, groups of tiles are computed into a buffer that stays in the first-level cache, and the
epilogue, a kernel of the nests, takes the group's rows to where they belong. k is taken
`depth_block` at a time, each block summed by itself, so that the result depends on k alone and not
on how the work was cut. Where k is longer than what is packed at once, the sums wait in the
worker's memory.
"""

from __future__ import annotations

from ingle.fusion.render.llvm_text import Values, Writer

from .contraction_micro import LINE, UNROLL, parameters
from .engine import Source

ARGS = (
    "micro", "last_micro", "epilogue",  # addresses
    "pack_a", "pack_b",  # addresses, or 0: what packs rows of a unit, and panels of columns
    "a_ready",  # all of a was packed before
    "along_k",  # b is read along k, so that it is columns that are `b_step` apart
    "plain",  # the epilogue only stores, so that whole tiles go to the result at once
    "m", "n", "k",
    "rows",  # of a tile
    "width", "last_width",  # of a panel of columns and of the last one
    "block_rows", "block_panels",  # of a unit
    "row_blocks", "panel_blocks", "panels",
    "depth", "depth_block",  # taken at once, and summed at once
    "group",  # tiles before the epilogue is called
    "size",  # bytes of a number in tiles
    "a_row", "a_step",  # bytes along i and k
    "b_step", "last_b_step",  # bytes along k as tiles read b, in panels and in the last one
    "b_k", "b_j",  # bytes along k and j where b lies, for packing
    "b_panel",  # bytes from panel to panel
    "c_row",  # bytes along i of the result, for plain ones
    "batch1", "batch2",
    "a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2",  # bytes along batch axes
    "a_next", "b_next",  # bytes to the matrices that the next unit reads, or 0
    "worker_bytes",  # of scratch memory
    "tile_at", "packed_at", "panel_at", "sums_at",  # places in it; args and pointers lie first
    "operands",  # of the epilogue, the tile not counted
    "nest_args", "inner_at", "column_at",  # of the epilogue: how many, where n and j are (or -1)
)  # fmt: skip
"""The arguments; behind them the column strides of the epilogue's operands, then its arguments.

The kernel's pointers are a, b, the scratch memory, and the epilogue's operands. The worker's
scratch holds the epilogue's arguments, and `POINTERS_AT` further its pointers.
"""

POINTERS_AT = 1024
MAX_NEST_ARGS = POINTERS_AT // 8
NAME = "contract"


def driver_source() -> Source:
    """The module of the kernel `contract`."""
    return Source(_Driver().text(), (NAME,))


class _Driver:
    def __init__(self) -> None:
        self.w = Writer(NAME)
        self.arg: dict[str, str] = {}

    def text(self) -> str:
        w = self.w
        pointers = []
        for number in range(3):
            place = w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {number}")
            pointers.append(w.let("base", f"load ptr, ptr {place}, align 8"))
        self.a, self.b, scratch = pointers
        for number, name in enumerate(ARGS):
            place = w.let("arg", f"getelementptr i64, ptr %args, i64 {number}")
            self.arg[name] = w.let(name, f"load i64, ptr {place}, align 8")
        place = w.let("slot", "getelementptr ptr, ptr %pointers, i64 3")
        self.c = w.let("c", f"load ptr, ptr {place}, align 8")
        for name in ("micro", "last_micro", "pack_a", "pack_b", "epilogue"):
            self.arg[name] = w.let(name, f"inttoptr i64 {self.arg[name]} to ptr")
        self.scratch = self.shift(scratch, self.times("%worker", "worker_bytes"))
        self.tiles = self.shift(self.scratch, self.arg["tile_at"])
        self.packs_a = w.let("packs_a", f"icmp ne ptr {self.arg['pack_a']}, null")
        self.packs_b = w.let("packs_b", f"icmp ne ptr {self.arg['pack_b']}, null")
        self.ready = w.let("ready", f"icmp ne i64 {self.arg['a_ready']}, 0")
        self.in_panels = w.let("in_panels", f"or i1 {self.packs_a}, {self.ready}")
        self.dot = w.let("dot", f"icmp ne i64 {self.arg['along_k']}, 0")
        self.plain = w.let("plain", f"icmp ne i64 {self.arg['plain']}, 0")
        self.panel_buffer = self.shift(self.scratch, self.arg["panel_at"])
        self.packed = self.shift(self.scratch, self.arg["packed_at"])
        self.sums = self.shift(self.scratch, self.arg["sums_at"])
        self.nest_pointers = self.shift(self.scratch, str(POINTERS_AT))
        self.column_strides = w.let("tail", f"getelementptr i64, ptr %args, i64 {len(ARGS)}")
        self._copy_nest_args()
        w.loop("unit", "%begin", "%end", "1", [], self.unit)
        w.do("ret void")
        return w.module()

    # -- small things ------------------------------------------------------------------------

    def value(self, name: str) -> str:
        """An argument by name, or an operand as it is."""
        return self.arg.get(name, name)

    def op(self, word: str, a: str, b: str) -> str:
        """An integer operation; arguments are given by name."""
        return self.w.let(word, f"{word} i64 {self.value(a)}, {self.value(b)}")

    def times(self, a: str, b: str) -> str:
        return self.op("mul", a, b)

    def plus(self, a: str, b: str) -> str:
        return self.op("add", a, b)

    def minus(self, a: str, b: str) -> str:
        return self.op("sub", a, b)

    def least(self, a: str, b: str) -> str:
        x, y = self.value(a), self.value(b)
        return self.w.call("least", "i64", "llvm.smin.i64", f"i64 {x}", f"i64 {y}")

    def shift(self, pointer: str, distance: str) -> str:
        return self.w.let("at", f"getelementptr i8, ptr {pointer}, i64 {distance}")

    def choose(self, condition: str, a: str, b: str, kind: str = "i64") -> str:
        x, y = self.value(a), self.value(b)
        return self.w.let("either", f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def equal(self, a: str, b: str) -> str:
        return self.w.let("equal", f"icmp eq i64 {self.value(a)}, {self.value(b)}")

    def _copy_nest_args(self) -> None:
        """The epilogue's arguments to where they may be changed."""
        w = self.w
        source = w.let("from", f"getelementptr i64, ptr {self.column_strides}, "
                               f"i64 {self.arg['operands']}")  # fmt: skip

        def copy(i: str, _: Values) -> Values:
            place = w.let("from", f"getelementptr i64, ptr {source}, i64 {i}")
            value = w.let("value", f"load i64, ptr {place}, align 8")
            w.do(f"store i64 {value}, ptr {self.nest_arg(i)}, align 8")
            return []

        w.loop("copy", "0", self.arg["nest_args"], "1", [], copy)

    def nest_arg(self, number: str) -> str:
        return self.w.let("to", f"getelementptr i64, ptr {self.scratch}, i64 {number}")

    # -- the loops ---------------------------------------------------------------------------

    def unit(self, unit: str, _: Values) -> Values:
        panel_block = self.op("urem", unit, "panel_blocks")
        rest = self.op("udiv", unit, "panel_blocks")
        row_block = self.op("urem", rest, "row_blocks")
        self.matrix = self.op("udiv", rest, "row_blocks")
        a, b, self.result = self._matrices()
        first = self.times(row_block, "block_rows")
        count = self.least(self.minus("m", first), "block_rows")
        start = self.times(panel_block, "block_panels")
        stop = self.least(self.plus(start, "block_panels"), "panels")
        packed = self.times(self.times(first, "k"), "size")
        a = self.shift(a, self.choose(self.ready, packed, self.times(first, "a_row")))

        def depth(k: str, _: Values) -> Values:
            deep = self.least(self.minus("k", k), "depth")
            below = self.times(self.times(k, "rows"), "size")
            here = self.shift(a, self.choose(self.ready, below, self.times(k, "a_step")))
            self._pack_a(here, deep, count)
            last = self.w.let("last", f"icmp sge i64 {self.plus(k, 'depth')}, {self.arg['k']}")

            def panel(j: str, _: Values) -> Values:
                self._panel(j, start, stop, here, b, k, deep, first, count, last)
                return []

            self.w.loop("panel", start, stop, "1", [], panel)
            return []

        # k = 0 is one turn over nothing: the result is the epilogue of zeros.
        once = self.w.call("once", "i64", "llvm.smax.i64", f"i64 {self.arg['k']}", "i64 1")
        self.w.loop("depth", "0", once, self.arg["depth"], [], depth)
        return []

    def _matrices(self) -> Values:
        """Where this matrix of the batch is in a, b and the result."""
        index2 = self.op("urem", self.matrix, "batch2")
        rest = self.op("udiv", self.matrix, "batch2")
        index1, index0 = self.op("urem", rest, "batch1"), self.op("udiv", rest, "batch1")
        found = []
        for name, pointer in (("a", self.a), ("b", self.b), ("c", self.c)):
            for axis, index in enumerate((index0, index1, index2)):
                pointer = self.shift(pointer, self.times(index, f"{name}{axis}"))
            found.append(pointer)
        return found

    def _pack_a(self, a: str, deep: str, count: str) -> None:
        """Packs the unit's rows of a, a panel for each tile, if they shall be packed."""
        w = self.w

        def panels() -> Values:
            def one(i: str, _: Values) -> Values:
                rows = self.least(self.minus(count, i), "rows")
                source = self.shift(a, self.times(i, "a_row"))
                w.do(
                    f"call void {self.arg['pack_a']}(ptr {source}, i64 {self.arg['a_step']}, "
                    f"i64 {self.arg['a_row']}, i64 {deep}, i64 {rows}, i64 {self.arg['rows']}, "
                    f"ptr {self._packed(i, deep)})"
                )
                return []

            w.loop("pack", "0", count, self.arg["rows"], [], one)
            return []

        w.when(self.packs_a, [], panels)

    def _packed(self, row: str, deep: str) -> str:
        """Where the panel of a that starts with a row of the unit lies."""
        return self.shift(self.packed, self.times(self.times(row, deep), "size"))

    def _panel(self, j: str, start: str, stop: str, a: str, b: str, k: str, deep: str, first: str,
               count: str, last: str) -> None:  # fmt: skip
        """All tiles of a panel of columns, a group at a time."""
        w = self.w
        is_last = self.equal(self.plus(j, "1"), "panels")
        micro = self.choose(is_last, "last_micro", "micro", "ptr")
        width = self.choose(is_last, "last_width", "width")
        step = self.choose(is_last, "last_b_step", "b_step")
        following = self.plus(j, "1")
        more = w.let("more", f"icmp slt i64 {following}, {stop}")
        following = self.choose(more, following, start)
        down = self.choose(self.dot, "size", step)
        down = self.times(k, self.choose(self.packs_b, "b_k", down))
        onward = self.choose(more, "0", "b_next")
        onward = self.plus(onward, self.times(following, "b_panel"))
        self.soon = self.shift(self.shift(b, onward), down)
        b = self.shift(self.shift(b, self.times(j, "b_panel")), down)
        column = self.times(j, "width")
        columns = self.least(self.minus("n", column), width)
        self._pack_b(b, deep, columns, width)
        b = self.choose(self.packs_b, self.panel_buffer, b, "ptr")
        every = self.equal(columns, width)
        self.whole_columns = w.let("whole", f"and i1 {every}, {self.plain}")
        tile_bytes = self.times(self.times(width, "rows"), "size")
        several = w.let("several", f"icmp slt i64 {self.arg['depth']}, {self.arg['k']}")
        # Sums that wait for more of k lie panel by panel, each as high as the block.
        high = self.times(self.times("block_rows", "width"), "size")
        waiting = self.shift(self.sums, self.times(self.minus(j, start), high))

        def group(i0: str, _: Values) -> Values:
            end = self.least(self.plus(i0, self.times("group", "rows")), count)
            rest = self.op("urem", self.minus(end, i0), "rows")
            whole = w.let("whole", f"and i1 {self.whole_columns}, {self.equal(rest, '0')}")
            done = self.times(self.times(i0, width), "size")
            tiles = self.choose(several, self.shift(waiting, done), self.tiles, "ptr")
            at = self.plus(self.times(self.plus(first, i0), "c_row"), self.times(column, "size"))
            target = self.choose(whole, self.shift(self.result, at), tiles, "ptr")
            row = self.choose(whole, "c_row", self.times(width, "size"))
            next_tile = self.choose(whole, self.times("c_row", "rows"), tile_bytes)

            def tile(i: str, carried: Values) -> Values:
                self._tile(i, carried[0], row, a, b, step, k, deep, count, micro, columns)
                return [self.shift(carried[0], next_tile)]

            w.loop("tile", i0, end, self.arg["rows"], [("ptr", target)], tile)
            waits = w.let("waits", f"xor i1 {whole}, true")

            def epilogue() -> Values:
                self._epilogue(tiles, self.plus(first, i0), self.minus(end, i0), column, columns,
                               width)  # fmt: skip
                return []

            w.when(w.let("due", f"and i1 {last}, {waits}"), [], epilogue)
            return []

        w.loop("group", "0", count, self.times("group", "rows"), [], group)

    def _pack_b(self, b: str, deep: str, columns: str, width: str) -> None:
        """Packs a panel of columns, if each unit shall pack its own."""

        def pack() -> Values:
            self.w.do(
                f"call void {self.arg['pack_b']}(ptr {b}, i64 {self.arg['b_k']}, "
                f"i64 {self.arg['b_j']}, i64 {deep}, i64 {columns}, i64 {width}, "
                f"ptr {self.panel_buffer})"
            )
            return []

        self.w.when(self.packs_b, [], pack)

    def _tile(self, i: str, tile: str, tile_row: str, a: str, b: str, step: str, k: str, deep: str,
              count: str, micro: str, columns: str) -> None:  # fmt: skip
        """One tile: its rows of a times a panel of b, a block of k at a time."""
        w = self.w
        a_block = self.choose(self.in_panels, self.times("rows", "size"), "a_step")
        lying = self.shift(a, self.times(i, "a_row"))
        ready = self.shift(a, self.times(self.times(i, "k"), "size"))
        start = self.choose(self.ready, ready, lying, "ptr")
        start = self.choose(self.packs_a, self._packed(i, deep), start, "ptr")
        last = self.minus(self.minus(count, i), "1")
        b_block = self.choose(self.dot, "size", step)
        ahead = self._ahead(i, deep)

        def block(at: str, _: Values) -> Values:
            size = self.least(self.minus(deep, at), "depth_block")
            here = self.shift(start, self.times(at, a_block))
            there = self.shift(b, self.times(at, b_block))
            add = self.w.let("add", f"or i64 {at}, {k}")
            soon = self.shift(ahead, self.times(at, str(LINE // UNROLL)))
            given = {
                "a": here, "a_row": self.arg["a_row"], "last": last, "b": there, "b_step": step,
                "columns": columns, "depth": size, "tile": tile, "tile_row": tile_row, "add": add,
                "soon": soon, "then": self.shift(here, self.arg["a_next"]),
            }  # fmt: skip
            w.do(f"call void {micro}({parameters(given)})")
            return []

        once = self.w.call("once", "i64", "llvm.smax.i64", f"i64 {deep}", "i64 1")
        w.loop("block", "0", once, self.arg["depth_block"], [], block)

    def _ahead(self, i: str, deep: str) -> str:
        """Where the part of the next panel begins that the tile of a row fetches.

        A tile fetches as many lines as it has pairs of k. Tiles behind the last part fetch that
        part again, which costs next to nothing.
        """
        part = self.times(self.op("sdiv", deep, str(UNROLL)), str(LINE))
        parts = self.op("sdiv", self.times("width", "size"), str(LINE // UNROLL))
        number = self.least(self.op("sdiv", i, "rows"), self.minus(parts, "1"))
        return self.shift(self.soon, self.times(number, part))

    def _epilogue(self, tiles: str, row: str, count: str, column: str, columns: str,
                  width: str) -> None:  # fmt: skip
        """Calls the epilogue for some rows and the columns of a panel."""
        w = self.w
        w.do(f"store i64 {columns}, ptr {self.nest_arg(self.arg['inner_at'])}, align 8")
        knows = w.let("knows", f"icmp sge i64 {self.arg['column_at']}, 0")

        def tell() -> Values:
            w.do(f"store i64 {column}, ptr {self.nest_arg(self.arg['column_at'])}, align 8")
            return []

        w.when(knows, [], tell)
        # The nest moves on by its row index; the tiles' first row is row `row`.
        behind = self.times(self.times(row, width), "size")
        tile = self.shift(tiles, self.minus("0", behind))
        w.do(f"store ptr {tile}, ptr {self.nest_pointers}, align 8")
        self._tile_stride(width)

        def operand(n: str, _: Values) -> Values:
            place = w.let("stride", f"getelementptr i64, ptr {self.column_strides}, i64 {n}")
            stride = w.let("stride", f"load i64, ptr {place}, align 8")
            slot = w.let("slot", f"getelementptr ptr, ptr %pointers, i64 {self.plus(n, '3')}")
            base = w.let("base", f"load ptr, ptr {slot}, align 8")
            here = self.shift(base, self.times(column, stride))
            slot = w.let("slot", f"getelementptr ptr, ptr {self.nest_pointers}, "
                                 f"i64 {self.plus(n, '1')}")  # fmt: skip
            w.do(f"store ptr {here}, ptr {slot}, align 8")
            return []

        w.loop("operand", "0", self.arg["operands"], "1", [], operand)
        begin = self.plus(self.times(self.matrix, "m"), row)
        w.do(
            f"call void {self.arg['epilogue']}(ptr {self.nest_pointers}, ptr {self.scratch}, "
            f"i64 {begin}, i64 {self.plus(begin, count)}, i64 %worker)"
        )

    def _tile_stride(self, width: str) -> None:
        """Sets the row stride of the epilogue's operand 0."""
        # Its arguments are the outer sizes, the inner size, and operand 0's strides along the outer
        # axes, of which the last one is that of the rows.
        place = self.nest_arg(self.plus("inner_at", "inner_at"))
        self.w.do(f"store i64 {width}, ptr {place}, align 8")
