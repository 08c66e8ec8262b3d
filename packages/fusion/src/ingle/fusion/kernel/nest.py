"""Nests: loops around code, and how a kernel divides its work.

A *row* is one index of the outer axes. The stages of a nest run one after the other over the inner
axis of a row, which stays in fast memory meanwhile: softmax is a reduction to the maximum, one to
the sum of exponentials, and a map. An elementwise kernel is one map; with no outer axes it runs
over flat memory.

Every kernel has the signature `void kernel(pointers, args, begin, end, worker)`:

- `pointers[k]` is where the first element of operand `k` lies.
- `args` are int64: the outer sizes, the inner size, the total if the nest is ragged, for each
  operand its strides in elements along each outer axis and then along the inner axis, and the
  scalars as bit patterns (`ingle.fusion.kernel.code.bits_of`).
- `begin` and `end` are units of work out of `units(nest, sizes)`.

An output may lie in the memory of an input of the same strides and dtype size. It is then written
place by place after that place was read; a nest of several stages must not read an input again in
a stage after the one that overwrote it.

**Reductions** give the same bits on every target and for every division of the work. With
`W = accumulators(dtype)`, element `i` of a row goes to partial result `i % W`; partial results of
a block of `BLOCK * W` elements are added to totals, for float sums with Knuth's exact error of each
addition kept beside; and in the end the totals are folded in halves. With lanes along an outer axis
every column has one partial result, and a block is `BLOCK` elements.

A nest may also sum over its rows, in a first of two steps: a stage's `columns` make a row of sums
for each `BLOCK` rows, and a nest of another kernel adds these up, each a block (`"totals"`). That
is the order in which lanes along an outer axis would sum. A unit of work is `BLOCK` rows then.

**Running results.** A reduction may run along the inner axis: at every place it gives the fold of
the elements up to there, one after the other from the first on, sums without their errors. So the
order follows from the axis alone, whatever the lanes. The one `Map` behind it stores them.

**Rows at computed places.** An operand may begin each row some elements beyond where its strides
say; how many is computed by a `Row` stage. In a *scattered* nest several rows may fall on one place
of an output. There the units of work are the elements on which rows can begin, whose number is the
size of axis 0, along which nothing else runs. A worker with some of these units iterates over all
rows, in order, and does those that begin there, so that the order of additions follows from the
rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .code import FLOATS, HALVES, SIZES, Code

COMBINES = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "totals")
BLOCK = 32
"""How many elements a partial result takes before it is added to the totals."""
COLUMNS, NARROW, WIDE = 1024, 128, 4096
"""Columns in a unit of work of a nest whose lanes run along an outer axis: `COLUMNS` of at least
`WIDE`, `NARROW` of fewer."""
MAX_OUTER = 6
MOST_APART, APART_BYTES = 8, 32
"""Elements, and bytes, from one to the next of an operand up to which neighbours are read."""
SHORT = 32
"""Elements up to which a row may stay in registers: no more than there are partial results."""


class Operand(NamedTuple):
    """An array.

    Attributes:
        dtype: of its elements.
        output: whether the kernel writes it; later stages of the same row may load what was stored.
        lane: its stride along the axis of the lanes: `"unit"` (1), `"zero"` or `"strided"` (any).
        row_base: the number of a value of the first stage, a `Row`: by so many elements rows of the
            operand begin further on.
        apart: a strided one's stride where it is small, from 2 to `MOST_APART`, so that as many
            vectors of neighbours hold its elements; else 0.
        backward: whether a strided one's stride is -1, which serves one, turned round.
        alike: an operand before this one, whose strides along the outer axes are the same, so that
            rows begin as far from its place.
        beside: an output before this one, with whose elements this output's take turns: both have
            a stride of 2, are alike and stored by one stage, and this one begins one element later.
    """

    dtype: str
    output: bool = False
    lane: str = "unit"
    row_base: int | None = None
    apart: int = 0
    backward: bool = False
    alike: int | None = None
    beside: int | None = None


class Reduce(NamedTuple):
    """Reductions over the inner axis, and stores on the way.

    Attributes:
        reductions: (combine, instruction) for each; `"any"` and `"all"` take bool; the results of
            `"argmax"` and `"argmin"` are int64, NaN wins, and the first of equals; `"totals"` adds
            floats that are sums of blocks, with lanes along an outer axis.
        stores: (operand, instruction) for each.
        columns: see `Map`.
        scan: whether the stage behind it has at each place what is folded up to there; places of
            extremes, which are of integers then, are those of the last of equals.
        decay: of a scan with one sum: an instruction of the same dtype that what is carried to a
            place is multiplied by before the place's own element is added.
    """

    code: Code
    reductions: tuple[tuple[str, int], ...]
    stores: tuple[tuple[int, int], ...] = ()
    columns: tuple[tuple[int, int], ...] = ()
    scan: bool = False
    decay: int | None = None


class Map(NamedTuple):
    """What is done at every place.

    Attributes:
        stores: (operand, instruction) for each.
        columns: the same for sums over each `BLOCK` rows; the operand has a row for each of these.
    """

    code: Code
    stores: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...] = ()


class Row(NamedTuple):
    """What is computed once a row.

    Attributes:
        stores: (operand, instruction); the operand's place has inner index 0.
        values: instructions that later stages know as `row` leaves.
        often: tells it from a `Map` that stores the same, since tuples compare by what they hold.
    """

    code: Code
    stores: tuple[tuple[int, int], ...] = ()
    values: tuple[int, ...] = ()
    often: str = "once a row"


class Fold(NamedTuple):
    """Windows of rows that overlap, added up: the one stage of its nest, whose lanes are inner.

    What a tap gives may be multiplied by a factor of its own, which makes it a convolution of each
    channel by itself: windows are places of the image then, and all taps see the same.

    The last outer axis and the inner axis are those of an image, and the operand that is loaded has
    no stride along the former. Place p of an axis gets, for each tap t of the windows, what lies at
    `p * stride + start - t * spread` of this tap, if that is between 0 and the number of windows.
    The nest's scalars say what these are; see `FoldNumbers`. Taps are added in row-major order,
    factors in one rounding with the sum where the machine does so.

    Attributes:
        code: of one element: a load of operand 0, or its product with operand 1, which has an
            element for each tap and is the same along the inner axis.
        stores: (operand, instruction).
        near: whether there are three by three taps with factors, which are neighbours (spread 1 or
            -1), so that registers hold all of them.
        columns: none; see `Map`.
        often: tells it from a `Map`, as that of `Row` does.
    """

    code: Code
    stores: tuple[tuple[int, int], ...]
    near: bool = False
    columns: tuple[tuple[int, int], ...] = ()
    often: str = "for each tap"


class FoldNumbers(NamedTuple):
    """The scalars of a nest that folds, in int64.

    Attributes:
        row: elements from a row of windows to the next.
        taps0, taps1: how many taps there are along the last outer axis, and along the inner one.
        spread0, spread1: windows from tap to tap.
        start0, start1: see `Fold`.
        windows0, windows1: how many windows there are.
        step0, step1: elements from tap to tap.
        factor0, factor1: likewise of the factors.
        stride0, stride1: windows from place to place.
        apart: elements from window to window.
    """

    row: int
    taps0: int
    taps1: int
    spread0: int
    spread1: int
    start0: int
    start1: int
    windows0: int
    windows1: int
    step0: int
    step1: int
    factor0: int = 0
    factor1: int = 0
    stride0: int = 1
    stride1: int = 1
    apart: int = 1


class Dots(NamedTuple):
    """For each tap of windows the sum of what it sees at all places, times another image there.

    It is the one stage of its nest, whose outer axes are channels and images, and whose inner axis
    is that of rows of places. The output has neighbouring elements for all taps, in row-major
    order. The nest's scalars say where windows lie; see `DotNumbers`. Sums are taken lane by lane
    along rows, some rows at a time (near taps: one below the other), so they follow from the sizes
    and from the lanes alone.

    Attributes:
        code: the product of a load of operand 0, which is of places, and one of operand 1, which
            is the image.
        stores: (operand, instruction).
        taps: of a row of them.
        near: whether there are three by three taps, which are neighbours, so that registers hold
            the sums of all of them.
        columns: none; see `Map`.
        often: tells it from a `Map`, as that of `Row` does.
    """

    code: Code
    stores: tuple[tuple[int, int], ...]
    taps: int
    near: bool = False
    columns: tuple[tuple[int, int], ...] = ()
    often: str = "for each place"


class DotNumbers(NamedTuple):
    """The scalars of a nest with `Dots`, in int64.

    Place p and tap t of an axis are at `p * step + t * spread + start` of the image, which counts
    as zero beyond its ends.

    Attributes:
        height: rows of places.
        row0, row1: elements from row to row of places, and of the image.
        taps: rows of these.
        step0, step1, spread0, spread1, start0, start1: see above.
        image0, image1: sizes of the image.
        apart: elements between neighbours of a row of the image.
    """

    height: int
    row0: int
    row1: int
    taps: int
    step0: int
    step1: int
    spread0: int
    spread1: int
    start0: int
    start1: int
    image0: int
    image1: int
    apart: int


class Extend(NamedTuple):
    """Rows with elements of their own added at both ends, or such elements added to those that they
    repeat: the last stage, behind a `Row` that says where the row of operand 0 begins.

    That operand has strides of 0 along the axes that the `Row` counts, and along the inner one. The
    nest's first scalars say what there is in a row; see `ExtendNumbers`.

    Attributes:
        code: a load of operand 0.
        stores: (operand, instruction).
        step: from one added element to the next: -1 mirrors at the outermost element, 0 repeats
            it, 1 goes on with the other end.
        back: whether what was added is taken back: to a row without it, of floats. Then elements
            before a row are added first, and in their order.
        columns: none; see `Map`.
        often: tells it from a `Map`, as that of `Row` does.
    """

    code: Code
    stores: tuple[tuple[int, int], ...]
    step: int
    back: bool = False
    columns: tuple[tuple[int, int], ...] = ()
    often: str = "for each row"


class ExtendNumbers(NamedTuple):
    """The first scalars of a nest with `Extend`, in int64.

    Attributes:
        before, after: how many elements are added to those of a row.
        size: how many elements a row has without them.
        apart: elements of operand 0 from one to the next.
    """

    before: int
    after: int
    size: int
    apart: int


Stage = Reduce | Map | Row | Fold | Dots | Extend


class Nest(NamedTuple):
    """A kernel.

    Attributes:
        outer: the number of outer axes, all parallel.
        operands, scalars: what it is called with; `scalars` are dtypes.
        stages: one after the other over each row.
        lanes: where vector lanes run: `"inner"`, or `"outer"` for the last outer axis while the
            inner axis is walked (a sum over the first axis of a matrix).
        ragged: the last row along outer axis 0 is shorter: the rows hold `total` elements.
        row_length: the inner size where it is part of the kernel, at most `SHORT`; else 0.
        one_block: no row is longer than a block of its sums, so that these need no totals.
        long_rows: rows are long enough that what is prepared once for each of them pays.
        prefetched: operands whose next row is fetched in the second pass over this one.
        scattered: rows may fall on each other's places; value 0 of the first stage says where.
    """

    outer: int
    operands: tuple[Operand, ...]
    scalars: tuple[str, ...]
    stages: tuple[Stage, ...]
    lanes: str = "inner"
    ragged: bool = False
    row_length: int = 0
    one_block: bool = False
    long_rows: bool = False
    prefetched: tuple[int, ...] = ()
    scattered: bool = False


def map_nest(outer: int, operands: Sequence[Operand], scalars: Sequence[str], code: Code,
             *stores: tuple[int, int]) -> Nest:  # fmt: skip
    """An elementwise kernel: one map with lanes along the inner axis.

    >>> from ingle.fusion.kernel.code import CodeBuilder
    >>> b = CodeBuilder()
    >>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
    >>> nest = map_nest(0, [Operand("float32"), Operand("float32", True)], [], code, (1, root))
    >>> units(nest, (1000,))
    1000
    """
    return Nest(outer, tuple(operands), tuple(scalars), (Map(code, stores),))


def is_flat(nest: Nest) -> bool:
    """Whether the units of work are elements: no outer axes, and nothing but maps."""
    return nest.outer == 0 and all(isinstance(s, Map) for s in nest.stages)


def is_copy(nest: Nest) -> bool:
    """Whether a nest copies flat memory: onto itself it has nothing to do."""
    lanes = [operand.lane for operand in nest.operands]
    code = [instruction.name for instruction in nest.stages[0].code]
    return is_flat(nest) and lanes == ["unit", "unit"] and code == ["load"]


def runs(nest: Nest) -> bool:
    """Whether a nest gives running results."""
    first = nest.stages[0]
    return isinstance(first, Reduce) and first.scan


def folds(nest: Nest) -> bool:
    """Whether a nest adds up windows, at each place or of each tap."""
    return isinstance(nest.stages[0], (Fold, Dots))


def extends(nest: Nest) -> bool:
    """Whether a nest adds elements at the ends of rows."""
    return isinstance(nest.stages[-1], Extend)


def columns_of(stage: Stage) -> tuple[tuple[int, int], ...]:
    """(operand, instruction) of each sum over rows."""
    return () if isinstance(stage, Row) else stage.columns


def in_blocks(nest: Nest) -> bool:
    """Whether the units of work are blocks of rows, since something is summed over rows."""
    return any(columns_of(stage) for stage in nest.stages)


def units(nest: Nest, sizes: Sequence[int]) -> int:
    """How many units of work there are; `sizes` are the outer sizes and the inner size."""
    if is_flat(nest):
        return sizes[-1]
    if nest.scattered:
        return sizes[0]
    if in_blocks(nest):
        return -(-sizes[0] // BLOCK)
    if nest.lanes == "inner":
        return math.prod(sizes[:-1])
    return math.prod(sizes[:-2]) * -(-sizes[-2] // unit_columns(sizes[-2]))


def unit_columns(columns: int) -> int:
    """How many columns make a unit of work, where lanes run along an outer axis."""
    return COLUMNS if columns >= WIDE else NARROW


def accumulators(dtype: str) -> int:
    """Partial results of a reduction along the lanes: 256 bytes of them, or 64 bools."""
    return 64 if dtype == "bool" else 256 // SIZES[accumulator_dtype(dtype)]


def block_elements(stage: Stage) -> int:
    """How many elements of a row make a block of a stage's float sums; 0 if it has none.

    All of them have equally many partial results.
    """
    if isinstance(stage, Reduce):
        for combine, at in stage.reductions:
            if combine == "sum" and stage.code[at].dtype in FLOATS:
                return BLOCK * accumulators(stage.code[at].dtype)
    return 0


def accumulator_dtype(dtype: str) -> str:
    """The dtype that a reduction computes in."""
    return "float32" if dtype in HALVES else dtype


def result_dtype(combine: str, dtype: str) -> str:
    """The dtype of a reduction's result."""
    if combine in ("argmax", "argmin"):
        return "int64"
    return accumulator_dtype(dtype)


class Layout(NamedTuple):
    """Where a kernel's arguments are in `args`."""

    outer: int
    operands: int
    ragged: bool

    @property
    def inner(self) -> int:
        return self.outer

    @property
    def total(self) -> int:
        return self.outer + 1

    def stride(self, operand: int, axis: int) -> int:
        """Of an operand along an outer axis, or along the inner axis (-1)."""
        start = self.outer + 1 + self.ragged + operand * (self.outer + 1)
        return start + (axis if axis >= 0 else self.outer)

    def scalar(self, number: int) -> int:
        return self.outer + 1 + self.ragged + self.operands * (self.outer + 1) + number


def layout(nest: Nest) -> Layout:
    """Where the nest's arguments are."""
    return Layout(nest.outer, len(nest.operands), nest.ragged)
