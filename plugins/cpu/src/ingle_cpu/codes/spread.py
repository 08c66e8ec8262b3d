"""Rows of numbers in the order in which codes come out of their bytes.

A byte has two codes of four bits, and a vector of bytes gives the first ones of all, then the
second ones. So do the numbers that these are multiplied by lie: of each chunk those at even places,
then those at odd ones. What is missing from the last chunk is zeros. Half types become float32.
"""

from __future__ import annotations

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, memory_type, suffix, vector_type
from ingle.fusion.device.targets import Target

from ..jit.engine import IRSource
from ..matmul.driver_images import DriverCode
from ..matmul.named_args import loaded_args, loaded_pointers
from ..matmul.panel_elements import converted, order_text
from .abi import CHUNK, SPREAD_POINTERS, SpreadArgs

SIZE = 4
"""Bytes of a number that is multiplied."""


def spread_source(bits: int, dtype: str, target: Target) -> IRSource:
    """The module of the kernel, for codes of so many bits and rows of a dtype."""
    name = f"spread_for_codes_{bits}_{dtype}_{target.name}"
    return IRSource(_Spread(name, bits, dtype, target).text(), (name,), reduced=False)


class _Spread(DriverCode):
    def __init__(self, name: str, bits: int, dtype: str, target: Target) -> None:
        super().__init__(Writer(name))
        self.apart = bits == 4
        self.vector = f"<{CHUNK} x float>"
        self.dtype, self.target = dtype, target
        self.size = SIZES[dtype]
        # What is converted goes by vectors of the processor, anything else by chunks.
        self.lanes = CHUNK if dtype == "float32" else target.width // SIZE
        self.kind = memory_type(dtype)
        self.narrow = vector_type(self.kind, self.lanes)

    def text(self) -> str:
        w = self.w
        x, rows = loaded_pointers(w, SPREAD_POINTERS)
        arg = loaded_args(w, SpreadArgs)
        whole = self.times(arg.chunks, str(CHUNK))
        some = w.let("some", f"icmp sgt i64 {arg.left}, 0")

        def row(number: str, _: Values) -> Values:
            source = self.shift(x, self.times(number, arg.x_row))
            to = self.shift(rows, self.times(number, arg.row))

            def chunk(first: str, _: Values) -> Values:
                self._chunk(source, to, first, None)
                return []

            def rest() -> Values:
                self._chunk(source, to, whole, arg.left)
                return []

            w.loop("chunk", "0", whole, str(CHUNK), [], chunk)
            return w.when(some, [], rest)

        w.loop("row", "%begin", "%end", "1", [], row)
        w.do("ret void")
        return w.module()

    def _chunk(self, source: str, to: str, first: str, left: str | None) -> None:
        """A chunk of a row from a number on; `left`: how many it has, if it is not whole."""
        source = self.shift(source, self.times(first, str(self.size)))
        parts = [self._part(source, n, left) for n in range(0, CHUNK, self.lanes)]
        lanes = self.lanes
        while len(parts) > 1:
            order = order_text(range(2 * lanes))
            parts = [
                self.w.let(
                    "joined", f"shufflevector <{lanes} x float> {a}, <{lanes} x float> {b}, "
                    f"<{2 * lanes} x i32> <{order}>",
                )
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]  # fmt: skip
            lanes *= 2
        self._store(parts[0], self.shift(to, self.times(first, str(SIZE))))

    def _part(self, source: str, first: int, left: str | None) -> str:
        """A vector of a chunk, as numbers that are multiplied."""
        w, place = self.w, self.shift(source, str(first * self.size))
        if left is None:
            value = w.let("x", f"load {self.narrow}, ptr {place}, align {self.size}")
        else:
            places = ", ".join(f"i64 {n}" for n in range(first, first + self.lanes))
            every = w.splat("left", "i64", left, self.lanes)
            mask = w.let("inside", f"icmp slt <{self.lanes} x i64> <{places}>, {every}")
            value = w.call(
                "x", self.narrow, f"llvm.masked.load.{suffix(self.kind, self.lanes)}.p0",
                f"ptr {place}", f"i32 {self.size}", f"<{self.lanes} x i1> {mask}",
                f"{self.narrow} zeroinitializer",
            )  # fmt: skip
        return converted(w, self.target, value, self.lanes, (self.dtype, "float32"))

    def _store(self, value: str, place: str) -> None:
        if self.apart:
            order = order_text([*range(0, CHUNK, 2), *range(1, CHUNK, 2)])
            value = self.w.let(
                "apart",
                f"shufflevector {self.vector} {value}, {self.vector} poison, "
                f"<{CHUNK} x i32> <{order}>",
            )
        self.w.do(f"store {self.vector} {value}, ptr {place}, align {SIZE}")
