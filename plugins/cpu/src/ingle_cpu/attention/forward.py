"""The forward kernel: a block of queries meets the keys block by block, and keeps its averages.

Of each query three things are carried from block to block: the largest score so far, the sum of
the exponentials of scores less that one, and the sum of values weighted by these. Where a later
score is larger, both sums are scaled to it (Milakov and Gimelshein, arXiv 1805.02867; Dao et al.,
arXiv 2205.14135). Keys that no query of the block may see are left out, those that a mask hides
from all of them, too: a sliding window costs what it shows.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values

from ..jit.engine import IRSource
from .abi import FORWARD_POINTERS, ForwardArgs, MaskKind
from .products import ProductCode
from .vectors import MINUS_INFINITE

ADDRESSES = ("score", "mix", "last_mix", "pack")


def forward_source(dtype: str, mask: MaskKind) -> IRSource:
    """The module of the forward kernel."""
    name = f"attention_{dtype}_{mask}"
    return IRSource(_Forward(name, dtype, mask).text(), (name,), reduced=False)


class _Forward(ProductCode):
    def text(self) -> str:
        w = self.w
        self.arg: ForwardArgs[str] = self.load_args(ForwardArgs, ADDRESSES)  # type: ignore[assignment]
        base = {name: self.pointer(n) for n, name in enumerate(FORWARD_POINTERS)}
        arg = self.arg
        self.scale = self.number(arg.scale)
        memory = self.shift(base["scratch"], self.times("%worker", arg.worker_bytes))
        self.tiles, self.block, self.made, self.top, self.total = (
            self.shift(memory, at)
            for at in (arg.packed_at, arg.scores_at, arg.out_at, arg.top_at, arg.total_at)
        )
        self.causal = w.let("causal", f"icmp ne i64 {arg.causal}, 0")
        self.base = base
        w.loop("unit", "%begin", "%end", "1", [], self._unit)
        w.do("ret void")
        return w.module()

    def _unit(self, unit: str, _: Values) -> Values:
        w, arg = self.w, self.arg
        head, number = self.op("udiv", unit, arg.blocks), self.op("urem", unit, arg.blocks)
        sizes = [arg.batch1, arg.batch2]
        self.first = self.times(number, arg.block)
        self.count = self.least(self.minus(arg.queries, self.first), arg.block)
        query = self.walk(head, self.base["query"], (arg.q0, arg.q1, arg.q2), sizes)
        query = self.shift(query, self.times(self.first, arg.q_row))
        self.keys = self.walk(head, self.base["keys"], (arg.k0, arg.k1, arg.k2), sizes)
        self.values = self.walk(head, self.base["values"], (arg.v0, arg.v1, arg.v2), sizes)
        mask = self.walk(head, self.base["mask"], (arg.m0, arg.m1, arg.m2), sizes)
        self.mask = self.shift(mask, self.times(self.first, arg.m_row))
        self.row_number = self.plus(self.times(head, arg.queries), self.first)
        self.pack_tiles(
            arg.pack, query, arg.q_row, arg.q_column, self.count, arg.features, self.tiles
        )

        def begin(r: str, _: Values) -> Values:
            self.store_number(MINUS_INFINITE, self._of(self.top, r))
            self.store("zeroinitializer", self._lanes_of(r))
            return []

        w.loop("begin", "0", self.count, "1", [], begin)
        seen = self.least(arg.keys, self.plus(self.first, self.count))
        stop = self.choose(self.causal, seen, arg.keys)
        self.stop = stop
        (begun,) = w.loop("keys", "0", stop, arg.key_block, [("i64", "0")], self._keys)

        def unseen() -> Values:
            nbytes = f"i64 {self.times(self.count, arg.out_pitch)}"
            w.call_nothing("llvm.memset.p0.i64", f"ptr {self.made}", "i8 0", nbytes, "i1 false")
            return []

        w.when(self.equal(begun, "0"), [], unseen)
        w.loop("finish", "0", self.count, "1", [], self._finish)
        return []

    def _of(self, place: str, row: str) -> str:
        return self.shift(place, self.numbers(row))

    def _lanes_of(self, row: str) -> str:
        return self.shift(self.total, self.times(row, str(self.lanes * self.size)))

    def _keys(self, start: str, carried: Values) -> Values:
        """A block of keys; what is carried is whether there was one that queries see."""
        w, arg = self.w, self.arg
        (self.begun,) = carried
        wide = self.least(self.minus(self.stop, start), arg.key_block)
        mask = self.shift(self.mask, self.times(start, arg.m_column))
        first, end = self.seen_columns(mask, arg.m_row, arg.m_column, self.count, wide)
        first = self.minus(first, self.op("urem", first, str(self.width)))
        self.start, self.wide = self.plus(start, first), self.minus(end, first)

        def seen() -> Values:
            panels = self.shift(self.keys, self.numbers(self.times(self.start, arg.features)))
            self.scores(
                arg.score, self.tiles, panels, self.count, self.wide, arg.features, self.block,
                arg.pitch,
            )  # fmt: skip
            w.loop("row", "0", self.count, "1", [], self._row)
            self.mixed(
                (arg.mix, arg.last_mix), self.block, arg.pitch,
                self.times(str(self.rows), arg.pitch), self.count, self.values, arg.keys,
                self.start, arg.values, arg.last_columns, self.wide, self.made, arg.out_pitch,
                self.begun,
            )  # fmt: skip
            return ["1"]

        some = w.let("some", f"icmp sgt i64 {self.wide}, 0")
        return w.when(some, [("i64", self.begun)], seen)

    def _row(self, r: str, _: Values) -> Values:
        """The exponentials of a row of scores."""
        w, arg = self.w, self.arg
        row = self.shift(self.block, self.times(r, arg.pitch))
        until = self.minus(self.plus(self.plus(self.first, r), "1"), self.start)
        count = self.choose(self.causal, self.least(until, self.wide), self.wide)
        mask = self.shift(self.mask, self.times(r, arg.m_row))
        mask = self.shift(mask, self.times(self.start, arg.m_column))
        last = self.minus(self.wide, "1")

        def score(c: str, tail: bool) -> str:
            x = self.arithmetic("fmul", self.load(self.shift(row, self.numbers(c))), self.scale)
            x = self.masked(x, mask, c, arg.m_column, last, tail)
            if tail:
                x = self.pick(self.first_lanes(self.minus(count, c)), x, self.minus_infinite)
            return x

        def largest(c: str, tail: bool, carried: Values) -> Values:
            x = score(c, tail)
            if self.mask_kind != "none":
                self.store(x, self.shift(row, self.numbers(c)))
            return [self.larger(x, carried[0]), *carried[1:]] if tail else self._turned(x, carried)

        of_vectors = [(self.vector, self.minus_infinite)] * 4
        found = self.sweep("0", count, of_vectors, largest)
        most = self.larger(self.larger(found[0], found[1]), self.larger(found[2], found[3]))
        place = self._of(self.top, r)
        before = self.load_number(place)
        highest = self.largest_lane(most)
        more = w.let("more", f"fcmp ogt {self.scalar} {highest}, {before}")
        after = self.choose(more, highest, before, self.scalar)
        level = self.splat(self.finite_or_zero(after))

        def scaled() -> Values:
            self.store_number(after, place)
            factor = self._exp(self.arithmetic("fsub", self.splat(before), level))
            lanes = self._lanes_of(r)
            self.store(self.arithmetic("fmul", self.load(lanes), factor), lanes)
            out = self.shift(self.made, self.times(r, arg.out_pitch))

            def some(c: str, _: Values) -> Values:
                at = self.shift(out, self.numbers(c))
                self.store(self.arithmetic("fmul", self.load(at), factor), at)
                return []

            later = w.let("later", f"icmp ne i64 {self.begun}, 0")
            columns = self.choose(later, arg.values, "0")
            w.loop("scale", "0", columns, str(self.lanes), [], some)
            return []

        w.when(more, [], scaled)

        def share(c: str, tail: bool, carried: Values) -> Values:
            at = self.shift(row, self.numbers(c))
            x = score(c, tail) if self.mask_kind == "none" else self.load(at)
            share = self._exp(self.arithmetic("fsub", x, level))
            self.store(share, at)
            return [self.arithmetic("fadd", carried[0], share)]

        lanes = self._lanes_of(r)
        (total,) = self.sweep("0", count, [(self.vector, self.load(lanes))], share, unroll=2)
        self.store(total, lanes)

        def nothing(c: str, _: Values) -> Values:
            self.store("zeroinitializer", self.shift(row, self.numbers(c)))
            return []

        begin = self.most(self.rounded_up(count, self.lanes), "0")
        w.loop("nothing", begin, self.wide, str(self.lanes), [], nothing)
        return []

    def _turned(self, x: str, carried: Values) -> Values:
        """What is carried, the first of it with x, moved on by one."""
        return [*carried[1:], self.larger(x, carried[0])]

    def _exp(self, x: str) -> str:
        return self.formula(lambda v: v.call("exp"), (self.dtype, x))

    def _finish(self, r: str, _: Values) -> Values:
        """The average of a query, and the logarithm of its sum."""
        w, arg = self.w, self.arg
        total = self.sum_of_lanes(self.load(self._lanes_of(r)))
        none = w.let("none", f"fcmp oeq {self.scalar} {total}, 0.0")
        divisor = self.choose(none, "1.0", total, self.scalar)
        factor = self.splat(w.let("factor", f"fdiv {self.scalar} 1.0, {divisor}"))
        number = self.plus(self.row_number, r)
        made = self.shift(self.made, self.times(r, arg.out_pitch))
        out = self.shift(self.base["out"], self.stored_bytes(self.times(number, arg.values)))
        self.written(made, out, arg.values, factor)

        def keep() -> Values:
            top = self.finite_or_zero(self.load_number(self._of(self.top, r)))
            lse = self.formula(
                lambda t, x: t.call("log") + x, (self.dtype, total), (self.dtype, top), lanes=1
            )
            self.store_number(lse, self._of(self.base["lse"], number))
            return []

        w.when(w.let("keeps", f"icmp ne i64 {arg.keeps_lse}, 0"), [], keep)
        return []
