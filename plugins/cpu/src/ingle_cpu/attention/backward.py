"""The backward kernel: scores are computed again, block by block, from the logarithm of each sum.

With P the shares and G the result's gradient, the gradients are

    by_value = P^T G,   D = P * (G V^T - level) * scale,   by_query = D K,   by_key = D^T Q

where `level` of a query is the product of its result and the gradient of that. A head of keys is
one unit of work, which adds up blocks of queries in their order, so that the sums do not depend on
how many workers there are. Blocks that a mask hides whole are left out.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values

from ..jit.engine import IRSource
from .abi import BACKWARD_POINTERS, BackwardArgs, MaskKind
from .products import ProductCode

ADDRESSES = ("score", "mix", "last_mix", "turned", "last_by_key", "last_by_value", "pack")


def backward_source(dtype: str, mask: MaskKind) -> IRSource:
    """The module of the backward kernel."""
    name = f"attention_gradient_{dtype}_{mask}"
    return IRSource(_Backward(name, dtype, mask).text(), (name,), reduced=False)


class _Backward(ProductCode):
    def text(self) -> str:
        w = self.w
        self.arg: BackwardArgs[str] = self.load_args(BackwardArgs, ADDRESSES)  # type: ignore[assignment]
        arg = self.arg
        self.base = {name: self.pointer(n) for n, name in enumerate(BACKWARD_POINTERS)}
        self.scale = self.number(arg.scale)
        memory = self.shift(self.base["scratch"], self.times("%worker", arg.worker_bytes))
        self.at = {
            name.removesuffix("_at"): self.shift(memory, getattr(arg, name))
            for name in BackwardArgs._fields if name.endswith("_at")
        }  # fmt: skip
        self.causal = w.let("causal", f"icmp ne i64 {arg.causal}, 0")
        w.loop("unit", "%begin", "%end", "1", [], self._unit)
        w.do("ret void")
        return w.module()

    # -- a head of keys ----------------------------------------------------------------------

    def _unit(self, unit: str, _: Values) -> Values:
        w, arg = self.w, self.arg
        self.unit = unit
        key = self._head("key", "k")
        value = self._head("value", "v")
        # Columns of keys and values, with zeros behind the last one, and keys as rows.
        self.pack_panels(
            arg.pack, key, arg.k_column, arg.k_row, arg.features, arg.keys, str(self.width),
            self.at["keys"],
        )  # fmt: skip
        self.pack_panels(
            arg.pack, value, arg.v_column, arg.v_row, arg.values, arg.keys, str(self.width),
            self.at["values"],
        )  # fmt: skip
        self.pack_panels(
            arg.pack, key, arg.k_row, arg.k_column, arg.keys, arg.features, arg.last_features,
            self.at["rows"],
        )  # fmt: skip
        self.feature_pitch = self.numbers(self._padded(arg.features, arg.last_features))
        self.value_pitch = self.numbers(self._padded(arg.values, arg.last_values))
        high = self.rounded_up(arg.keys, self.rows)
        self._clear(self.at["by_key"], self.times(high, self.feature_pitch))
        self._clear(self.at["by_value"], self.times(high, self.value_pitch))
        w.loop("shared", "0", arg.shared, "1", [], self._queries)
        for name, columns, pitch in (
            ("by_key", arg.features, self.feature_pitch),
            ("by_value", arg.values, self.value_pitch),
        ):
            rows = self.times(self.times(unit, arg.keys), columns)
            to = self.shift(self.base[name], self.stored_bytes(rows))
            self._write(name, to, arg.keys, columns, pitch)
        return []

    def _head(self, name: str, letter: str, member: str | None = None) -> str:
        """An operand's part for the unit, and for a head of queries of those that share it."""
        arg = self.arg
        strides = (
            getattr(arg, f"{letter}0"),
            getattr(arg, f"{letter}1"),
            getattr(arg, f"{letter}2"),
        )
        place = self.walk(self.unit, self.base[name], strides, [arg.batch1, arg.batch2])
        if member is None:
            return place
        return self.shift(place, self.times(member, getattr(arg, f"{letter}3")))

    def _padded(self, columns: str, last: str) -> str:
        """Columns of all panels together, of which the last has `last`."""
        whole = self.op("udiv", self.minus(columns, "1"), str(self.width))
        return self.plus(self.times(whole, str(self.width)), last)

    def _clear(self, place: str, nbytes: str) -> None:
        self.w.call_nothing(
            "llvm.memset.p0.i64", f"ptr {place}", "i8 0", f"i64 {nbytes}", "i1 false"
        )

    def _write(self, name: str, to: str, rows: str, columns: str, pitch: str) -> None:
        def row(r: str, _: Values) -> Values:
            source = self.shift(self.at[name], self.times(r, pitch))
            there = self.shift(to, self.stored_bytes(self.times(r, columns)))
            self.written(source, there, columns, None)
            return []

        self.w.loop("write", "0", rows, "1", [], row)

    # -- a head of queries -------------------------------------------------------------------

    def _queries(self, member: str, _: Values) -> Values:
        w, arg, at = self.w, self.arg, self.at
        query, g = self._head("query", "q", member), self._head("g", "g", member)
        out, lse = self._head("out", "o", member), self._head("lse", "l", member)
        self.mask = self._head("mask", "m", member)
        self.pack_tiles(
            arg.pack, query, arg.q_row, arg.q_column, arg.queries, arg.features, at["query_tiles"]
        )
        self.pack_tiles(
            arg.pack, g, arg.g_row, arg.g_column, arg.queries, arg.values, at["g_tiles"]
        )
        for name, source, row, column, count, last in (
            ("query_rows", query, arg.q_row, arg.q_column, arg.features, arg.last_features),
            ("g_rows", g, arg.g_row, arg.g_column, arg.values, arg.last_values),
            ("out_rows", out, arg.o_row, arg.o_column, arg.values, arg.last_values),
        ):
            self.pack_panels(arg.pack, source, row, column, arg.queries, count, last, at[name])
        w.loop("level", "0", arg.queries, "1", [], lambda r, _: self._level(r, lse))
        high = self.rounded_up(arg.queries, self.rows)
        self._clear(at["by_query"], self.times(high, self.feature_pitch))
        w.loop("keys", "0", arg.keys, arg.key_block, [], self._keys)
        strides = (arg.r0, arg.r1, arg.r2)
        to = self.walk(self.unit, self.base["by_query"], strides, [arg.batch1, arg.batch2])
        to = self.shift(to, self.times(member, arg.r3))
        self._write("by_query", to, arg.queries, arg.features, self.feature_pitch)
        return []

    def _level(self, r: str, lse: str) -> Values:
        """What is taken off the scores' gradients, and the logarithm where it is a number."""
        w, arg = self.w, self.arg

        def panel(first: str, carried: Values) -> Values:
            whole = w.let("whole", f"icmp sgt i64 {self.minus(arg.values, first)}, {self.width}")
            step = self.choose(whole, str(self.width), arg.last_values)
            start = self.plus(self.times(first, arg.queries), self.times(r, step))

            def some(c: str, carried: Values) -> Values:
                at = self.numbers(self.plus(start, c))
                x, y = (self.load(self.shift(self.at[n], at)) for n in ("g_rows", "out_rows"))
                return [self.arithmetic("fadd", carried[0], self.arithmetic("fmul", x, y))]

            first_sum = list(zip([self.vector], carried, strict=True))
            return w.loop("some", "0", step, str(self.lanes), first_sum, some)

        zero = [(self.vector, "zeroinitializer")]
        (total,) = w.loop("panel", "0", arg.values, str(self.width), zero, panel)
        self.store_number(self.sum_of_lanes(total), self.shift(self.at["level"], self.numbers(r)))
        kept = self.load_number(self.shift(lse, self.times(r, arg.l_row)))
        self.store_number(self.finite_or_zero(kept), self.shift(self.at["lse"], self.numbers(r)))
        return []

    # -- blocks ------------------------------------------------------------------------------

    def _keys(self, start: str, _: Values) -> Values:
        """A block of keys, with all blocks of queries that see one of them."""
        w, arg = self.w, self.arg
        self.start = start
        self.wide = self.least(self.minus(arg.keys, start), arg.key_block)
        begin = self.times(self.op("udiv", start, arg.block), arg.block)
        begin = self.choose(self.causal, begin, "0")
        w.loop("block", begin, arg.queries, arg.block, [], self._block)
        return []

    def _block(self, first: str, _: Values) -> Values:
        w, arg, at = self.w, self.arg, self.at
        self.first = first
        self.count = self.least(self.minus(arg.queries, first), arg.block)
        seen = self.minus(self.plus(first, self.count), self.start)
        self.seen = self.choose(self.causal, self.least(seen, self.wide), self.wide)
        mask = self.shift(self.mask, self.times(first, arg.m_row))
        mask = self.shift(mask, self.times(self.start, arg.m_column))
        left, right = self.seen_columns(mask, arg.m_row, arg.m_column, self.count, self.seen)

        def seen_block() -> Values:
            for tiles, panels, depth, to in (
                ("query_tiles", "keys", arg.features, "scores"),
                ("g_tiles", "values", arg.values, "flows"),
            ):
                self.scores(
                    arg.score, self.shift(at[tiles], self.numbers(self.times(first, depth))),
                    self.shift(at[panels], self.numbers(self.times(self.start, depth))),
                    self.count, self.seen, depth, at[to], arg.pitch,
                )  # fmt: skip
            w.loop("row", "0", self.count, "1", [], self._row)
            by_columns = self.numbers(str(self.rows))
            for scores, rows, columns, last, code, made, pitch in (
                ("scores", "g_rows", arg.values, arg.last_values, arg.last_by_value, "by_value",
                 self.value_pitch),
                ("flows", "query_rows", arg.features, arg.last_features, arg.last_by_key, "by_key",
                 self.feature_pitch),
            ):  # fmt: skip
                self.mixed(
                    (arg.turned, code), at[scores], arg.pitch, by_columns, self.seen, at[rows],
                    arg.queries, first, columns, last, self.count,
                    self.shift(at[made], self.times(self.start, pitch)), pitch, "1",
                )  # fmt: skip
            self.mixed(
                (arg.mix, arg.last_mix), at["flows"], arg.pitch,
                self.times(str(self.rows), arg.pitch), self.count, at["rows"], arg.keys, self.start,
                arg.features, arg.last_features, self.seen,
                self.shift(at["by_query"], self.times(first, self.feature_pitch)),
                self.feature_pitch, "1",
            )  # fmt: skip
            return []

        return w.when(w.let("some", f"icmp slt i64 {left}, {right}"), [], seen_block)

    def _row(self, r: str, _: Values) -> Values:
        """Shares of a query in place of its scores, and the gradients of these."""
        w, arg = self.w, self.arg
        down = self.times(r, arg.pitch)
        row, flow = self.shift(self.at["scores"], down), self.shift(self.at["flows"], down)
        number = self.plus(self.first, r)
        lse, level = (
            self.splat(self.load_number(self.shift(self.at[n], self.numbers(number))))
            for n in ("lse", "level")
        )
        until = self.minus(self.plus(number, "1"), self.start)
        count = self.choose(self.causal, self.least(until, self.seen), self.seen)
        mask = self.shift(self.mask, self.times(number, arg.m_row))
        mask = self.shift(mask, self.times(self.start, arg.m_column))
        last = self.minus(self.wide, "1")

        def some(c: str, tail: bool, _: Values) -> Values:
            of_scores = self.shift(row, self.numbers(c))
            of_flows = self.shift(flow, self.numbers(c))
            x = self.arithmetic("fmul", self.load(of_scores), self.scale)
            x = self.masked(x, mask, c, arg.m_column, last, tail)
            share = self.formula(
                lambda v: v.call("exp"), (self.dtype, self.arithmetic("fsub", x, lse))
            )
            pull = self.arithmetic("fsub", self.load(of_flows), level)
            made = self.arithmetic("fmul", self.arithmetic("fmul", share, pull), self.scale)
            if tail:
                inside = self.first_lanes(self.minus(count, c))
                share = self.pick(inside, share, "zeroinitializer")
                made = self.pick(inside, made, "zeroinitializer")
            self.store(share, of_scores)
            self.store(made, of_flows)
            return []

        self.sweep("0", count, [], some, unroll=2)

        def nothing(c: str, _: Values) -> Values:
            self.store("zeroinitializer", self.shift(row, self.numbers(c)))
            self.store("zeroinitializer", self.shift(flow, self.numbers(c)))
            return []

        # Tiles of columns reach behind the last one that is seen.
        begin = self.most(self.rounded_up(count, self.lanes), "0")
        end = self.least(
            self.plus(self.seen, str(self.rows)), self.op("udiv", arg.pitch, str(self.size))
        )
        w.loop("nothing", begin, end, str(self.lanes), [], nothing)
        return []
