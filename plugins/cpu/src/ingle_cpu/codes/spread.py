"""Rows of numbers in the order in which codes come out of their bytes.

A byte has two codes of four bits, and a vector of bytes gives the first ones of all, then the
second ones. So do the numbers that these are multiplied by lie: of each chunk those at even places,
then those at odd ones. What is missing from the last chunk is zeros.
"""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, Writer

from ..jit.engine import IRSource
from ..matmul.driver_images import DriverCode
from ..matmul.named_args import loaded_args, loaded_pointers
from ..matmul.panel_elements import order_text
from .abi import CHUNK, SPREAD_POINTERS, SpreadArgs

SIZE = 4
"""Bytes of a number."""


def spread_source(bits: int) -> IRSource:
    """The module of the kernel, for codes of so many bits."""
    name = f"spread_for_codes_{bits}"
    return IRSource(_Spread(name, bits).text(), (name,), reduced=False)


class _Spread(DriverCode):
    def __init__(self, name: str, bits: int) -> None:
        super().__init__(Writer(name))
        self.apart = bits == 4
        self.vector = f"<{CHUNK} x float>"

    def text(self) -> str:
        w = self.w
        x, rows = loaded_pointers(w, SPREAD_POINTERS)
        arg = loaded_args(w, SpreadArgs)
        whole = self.times(arg.chunks, str(CHUNK * SIZE))
        some = w.let("some", f"icmp sgt i64 {arg.left}, 0")
        places = ", ".join(f"i64 {n}" for n in range(CHUNK))
        every = w.splat("left", "i64", arg.left, CHUNK)
        mask = w.let("inside", f"icmp slt <{CHUNK} x i64> <{places}>, {every}")

        def row(number: str, _: Values) -> Values:
            source = self.shift(x, self.times(number, arg.x_row))
            to = self.shift(rows, self.times(number, arg.row))

            def chunk(offset: str, _: Values) -> Values:
                place = self.shift(source, offset)
                self._store(w.let("x", f"load {self.vector}, ptr {place}, align {SIZE}"),
                            self.shift(to, offset))  # fmt: skip
                return []

            def rest() -> Values:
                value = w.call(
                    "x", self.vector, f"llvm.masked.load.v{CHUNK}f32.p0",
                    f"ptr {self.shift(source, whole)}", f"i32 {SIZE}", f"<{CHUNK} x i1> {mask}",
                    f"{self.vector} zeroinitializer",
                )  # fmt: skip
                self._store(value, self.shift(to, whole))
                return []

            w.loop("chunk", "0", whole, str(CHUNK * SIZE), [], chunk)
            return w.when(some, [], rest)

        w.loop("row", "%begin", "%end", "1", [], row)
        w.do("ret void")
        return w.module()

    def _store(self, value: str, place: str) -> None:
        if self.apart:
            order = order_text([*range(0, CHUNK, 2), *range(1, CHUNK, 2)])
            value = self.w.let(
                "apart",
                f"shufflevector {self.vector} {value}, {self.vector} poison, "
                f"<{CHUNK} x i32> <{order}>",
            )
        self.w.do(f"store {self.vector} {value}, ptr {place}, align {SIZE}")
