"""What kernels share that convolve each channel by itself: how they go over images, as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...kernel.code import SIZES
from .text import Values

if TYPE_CHECKING:
    from .folds import FoldNest
    from .inner import InnerNest


class ImageRow(NamedTuple):
    """A row of an image.

    Loops carry where it begins: an address that is made of indices would be made anew, divisions
    included, wherever it is used.

    Attributes:
        number: which one; it may be beyond the image.
        place: where it begins.
    """

    number: str
    place: str


class ImageCode:
    """Short names of the instructions that kernels of windows are written of."""

    def __init__(self, nest: InnerNest) -> None:
        self._w = nest.writer
        self._size = SIZES[nest.nest.operands[0].dtype]

    def _op(self, name: str, a: str, b: str) -> str:
        return self._w.let(name, f"{name} i64 {a}, {b}")

    def _times(self, a: str, b: str) -> str:
        return self._op("mul", a, b)

    def _most(self, a: str, b: str) -> str:
        return self._w.call("most", "i64", "llvm.smax.i64", f"i64 {a}", f"i64 {b}")

    def _chosen(self, condition: str, a: str, b: str) -> str:
        return self._w.let("either", f"select i1 {condition}, i64 {a}, i64 {b}")

    def _at(self, pointer: str, elements: str) -> str:
        """A pointer some elements of the image further on."""
        return self._on(pointer, self._times(elements, str(self._size)))

    def _on(self, pointer: str, distance: str) -> str:
        return self._w.let("at", f"getelementptr i8, ptr {pointer}, i64 {distance}")


class ChannelImages(ImageCode):
    """Goes over the images of a nest that convolves each channel by itself."""

    def __init__(self, nest: FoldNest) -> None:
        super().__init__(nest)
        self._nest = nest

    def over_images(self, rows: Callable[[Values, str, str], None]) -> None:
        """Each channel of each image, as far as its rows are this call's.

        Args:
            rows: from pointers to the channel in all operands, and its first row and the end.
        """
        w, nest = self._w, self._nest
        *outer, height = nest.sizes

        def image(number: str, _: Values) -> Values:
            before = self._times(number, height)
            begin = self._most(self._op("sub", "%begin", before), "0")
            end = nest.smaller(self._op("sub", "%end", before), height)
            indices = nest.split(number, outer) if len(outer) > 1 else [number][: len(outer)]
            rows(nest.offsets([*indices, "0"]), begin, end)
            return []

        some = self._most(height, "1")
        stop = self._op("add", w.let("last", f"udiv i64 {self._op('sub', '%end', '1')}, {some}"),
                        "1")  # fmt: skip
        none = w.let("none", "icmp sge i64 %begin, %end")
        stop = w.let("stop", f"select i1 {none}, i64 0, i64 {stop}")
        first = w.let("first", f"udiv i64 %begin, {some}")
        w.loop("image", first, stop, "1", [], image)
