"""What the steps of convolutions from patches have in common: arguments, and short names of the
instructions that they are written of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ingle.fusion.device.kernels import SIZES
from ingle.fusion.device.llvm import Values, Writer, vector_type
from ingle.fusion.device.targets import Target

from .driver_epilogue import EpilogueCode
from .winograd_form import PatchForm
from .winograd_turning_ir import TurningCode

T = TypeVar("T")
SIZE = SIZES["float32"]
ADDRESSES = ("micro1", "micro2", "micro3", "epilogue")
"""Of the arguments, those that are addresses of code."""


class WinogradArgs(NamedTuple, Generic[T]):
    """The arguments of `multiply_patches`; distances are in bytes.

    Behind them are the column strides of the epilogue's operands, and its arguments.
    """

    micro1: T  # the addresses of the code of tiles with one to three vectors
    micro2: T
    micro3: T
    epilogue: T
    m: T  # features
    channels: T  # times the images that a place sees
    tile_rows: T  # features of a tile
    panels: T  # of features, a tile high each
    at_once: T  # panels that are multiplied before results are made of them
    group: T  # features whose results go through the epilogue together
    row_blocks: T  # units of features
    bands: T  # units of rows of patches
    rows: T  # of patches, of all images
    tall: T  # of patches, of an image
    wide: T  # patches of a row
    places1: T
    places2: T
    image1: T
    image2: T
    image_taps: T  # how many images a place sees
    image_start: T  # which one the first place sees first, and from one to the next
    image_spread: T
    images: T  # how many there are
    image: T  # from image to image
    channel: T
    line: T
    element: T
    top: T  # where the first patch begins
    left: T
    begin: T  # from which element of a line of a patch on the image has some
    seen: T  # how many it has
    start1: T  # what the first place sees by the first tap, and from tap to tap: the definition
    start2: T
    spread: T
    a_row: T
    a_k: T
    batch1: T
    batch2: T
    b0: T  # along batch axes
    b1: T
    b2: T
    operands: T  # of the epilogue, the results not counted
    nest_args: T
    inner_at: T
    column_at: T
    pitch: T  # numbers of a row of columns in the making, and of results
    pitch_of_line: T
    pitch_of_results: T
    matrix: T  # of columns, from one to the next
    taps_matrix: T
    worker_bytes: T
    pointers_at: T  # places in the worker's memory
    lines_at: T
    turned_at: T
    columns_at: T
    products_at: T
    results_at: T


class WinogradCode(EpilogueCode):
    """Numbers in memory, vectors of them, and panels of columns.

    Attributes:
        form: how many taps there are.
        turning: what patches and products are turned by.
        of: the arguments.
        a, b: the weight, and the images of a matrix of the batch.
        first, stop: the unit's rows of patches.
        place, count: the number of its first place, and how many it has.
        pitch: from one of the rows that a channel of patches comes to, or of products, to the
            next.
        panels: of columns: of each width in vectors how many there are, and the first vector.
    """

    first_operand = 4
    of: WinogradArgs[str]
    a: str
    b: str
    first: str
    stop: str
    place: str
    count: str
    pitch: str
    panels: list[tuple[int, str, str]]

    def __init__(self, form: PatchForm, target: Target, name: str) -> None:
        super().__init__(Writer(name))
        self.form = form
        self.lanes = target.width // SIZE
        self.masks = target.masks
        self.turning = TurningCode(self.w, form, self.lanes)
        self.vector = vector_type("float", self.lanes)
        self.both = vector_type("float", 2 * self.lanes)
        self.step = str(self.lanes)

    def bytes(self, numbers: str) -> str:
        return self.times(numbers, str(SIZE))

    def clear(self, place: str, nbytes: str) -> None:
        """Zeros around what is copied, and in columns that no patch has."""

        def some(at: str, _: Values) -> Values:
            self.store("zeroinitializer", self.shift(place, at))
            return []

        self.w.loop("clear", "0", nbytes, str(self.lanes * SIZE), [], some)

    def load(self, place: str, kind: str = "") -> str:
        return self.w.let("x", f"load {kind or self.vector}, ptr {place}, align {SIZE}")

    def store(self, value: str, place: str, kind: str = "") -> None:
        self.w.do(f"store {kind or self.vector} {value}, ptr {place}, align {SIZE}")

    def plane(self, c: str, number: str) -> tuple[str, str]:
        """What the places of an image see by one of the channels, and whether it is there."""
        of = self.of
        channel, tap = self.op("udiv", c, of.image_taps), self.op("urem", c, of.image_taps)
        first = self.plus(number, of.image_start)
        place, there = self.reached(first, tap, of.image_spread, of.images)
        plane = self.shift(self.b, self.times(channel, of.channel))
        return self.shift(plane, self.times(place, of.image)), there

    def reached(self, first: str, tap: str, spread: str, size: str) -> tuple[str, str]:
        """What a tap sees along an axis, as an element that there is, and whether it is that one.

        Args:
            first: what the first tap sees.
            tap: which one.
            spread: from tap to tap.
            size: how many elements there are.
        """
        wanted = self.plus(first, self.times(tap, spread))
        there = self.most(self.least(wanted, self.minus(size, "1")), "0")
        return there, self.equal(wanted, there)

    def place_of(self, row: str) -> str:
        """The number of the first place of a row of patches."""
        of = self.of
        image, inside = self.op("udiv", row, of.tall), self.op("urem", row, of.tall)
        line = self.plus(self.times(image, of.places1), self.times(inside, "2"))
        return self.times(line, of.places2)

    def each_panel(self, body: Callable[[str, int], None]) -> None:
        """Goes by the panels of columns, with the first vector of each and how many it has."""
        for vectors, count, ahead in self.panels:

            def panel(n: str, _: Values, vectors: int = vectors, ahead: str = ahead) -> Values:
                body(self.plus(ahead, self.times(n, str(vectors))), vectors)
                return []

            self.w.loop("panel", "0", count, "1", [], panel)

    def panel_at(self, matrix: str, vector: str) -> str:
        """Where a panel of columns begins, whose first vector is given."""
        before = self.times(vector, str(self.lanes * SIZE))
        return self.shift(matrix, self.times(before, self.of.channels))
