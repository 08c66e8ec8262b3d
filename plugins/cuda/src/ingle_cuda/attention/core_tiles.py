"""Attention of half types by tensor cores, what forward and gradient share.

A block of four warps has 64 rows of its own, queries or keys, each warp 16 of these as left
matrices in registers. It goes through the rows of the other side in tiles, two of which are in
shared memory: while it computes with one, the next is on its way. Tiles that a mask hides from the
whole block are passed over. Features are padded with zeros to multiples of 16. How rows lie in
shared memory and are multiplied is told in `core_products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.cuda import given_struct, rounded

from ..row_lines import Split, line_source, load_source
from .core_products import LINE, PANEL, STEP, products_source
from .dropped_keys import begun_dropout, drawn_source, of_head
from .flash_tiles import DROPOUT_AT, HEAD, SCALE_AT
from .head_axes import BATCH
from .tensor_cores import core_source

WARPS = 4
THREADS = 32 * WARPS
OWN = 16 * WARPS
"""Rows of a block."""
LOG2E = "1.4426950408889634f"


class CoreShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        dtype: of queries, keys, values and results.
        features, columns: of a query and a key, and of a value.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithms of the sums of exponentials are written, too.
        vectors: elements of a load of each operand that has features.
        dropout: whether keys are left out at random.
        padding: whether the mask has one row for all queries.
        words: whether a bit for each key that stays lies in memory between kernels.
    """

    dtype: str
    features: int
    columns: int
    mask: str
    causal: bool
    lse: bool
    vectors: tuple[int, ...]
    dropout: bool
    padding: bool = False
    words: bool = False

    @property
    def is_added(self) -> bool:
        """Whether the mask is added to scores."""
        return self.mask not in ("", "bool")

    @property
    def tile(self) -> int:
        """Rows of a tile, so that two have room."""
        return 64 if padded(self.features) + padded(self.columns) <= 128 else 32

    @property
    def across(self) -> int:
        """Sums that a thread has of a row of scores, times two."""
        return self.tile // LINE


def padded(elements: int) -> int:
    return -(-elements // STEP) * STEP


class Tile(NamedTuple):
    """A tile of an operand in shared memory, twice.

    Attributes:
        array: its name there.
        name: of the operand.
        elements: of a row.
        there: how many rows the operand has.
    """

    array: str
    name: str
    elements: int
    there: str

    @property
    def width(self) -> int:
        """Elements of a row there."""
        return -(-self.elements // PANEL) * PANEL


def prelude(
    shape: CoreShape, names: Sequence[str], pointers: int, read: Sequence[tuple[str, int]]
) -> str:
    """What stands in front of a kernel.

    Args:
        names: of operands with strides; behind them `draw`, if keys are left out.
        pointers: how many addresses there are.
        read: names and elements of those whose rows are loaded.
    """
    of, back = rounded(shape.dtype)
    struct = "\n".join(given_struct(pointers, HEAD + len(names) * (BATCH + 3)))
    loads = []
    for (name, elements), vector in zip(read, shape.vectors, strict=True):
        split = Split(1, 1, LINE, elements % STEP == 0)
        loads.append(load_source(name, split, elements, vector, of.stored, missing=True))
        loads.append(_fill_source(shape, name, elements, vector))
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
static bool is_finite(float x) {{ return x - x == 0; }}
{core_source(shape.dtype)}
{products_source(shape.dtype)}
{line_source(shape.dtype)}
{drawn_source() if shape.dropout else ""}
{_padding_source() if shape.padding else ""}
{chr(10).join(loads)}"""


def _padding_source() -> str:
    """A function that gives of the bits of 32 keys those of a thread's sums, of both rows."""
    return """\
static uint32_t bits_of_keys(uint32_t word, int t)
{
    uint32_t found = word >> 2 * t & 0x03030303u;
    found |= found << 2;
    found = (found | found >> 4) & 0x00ff00ffu;
    return (found | found >> 8) & 0xffffu;
}"""


def _fill_source(shape: CoreShape, name: str, elements: int, vector: int) -> str:
    """A function that begins to bring rows of an operand into a tile, zeros behind the last."""
    lines = padded(elements) // LINE
    if vector == LINE:
        here = "" if elements % STEP == 0 else f" && f < {elements}"
        line = f"copy_line(to, from + f, there{here});"
    else:
        line = f"""const line_t line = loaded_{name}(from, f, steps[{BATCH + 2}], there);
        *(uint4 *)to = uint4{{line.words[0], line.words[1], line.words[2], line.words[3]}};"""
    count, apart = shape.tile * lines, THREADS // lines
    head = f"""const int own = (int)threadIdx.x / {lines}, f = (int)threadIdx.x % {lines} * {LINE};
    const uint16_t *const beside = rows + (int64_t)(first + own) * steps[{BATCH + 1}];
    const int64_t further = steps[{BATCH + 1}] * {apart};"""
    place = f"""const int r = own + u * {apart};
        {f"if (r >= {shape.tile}) break;" if count % THREADS else ""}
        const uint16_t *const from = beside + u * further;"""
    if THREADS % lines:  # a thread's lines lie at different places of rows
        head = ""
        place = f"""const int i = u * {THREADS} + (int)threadIdx.x;
        {f"if (i >= {count}) break;" if count % THREADS else ""}
        const int r = i / {lines}, f = i % {lines} * {LINE};
        const uint16_t *const from = rows + (int64_t)(first + r) * steps[{BATCH + 1}];"""
    return f"""\
static void fill_{name}(
    uint16_t *tile, const uint16_t *rows, const int64_t *steps, int first, int all)
{{
    {head}
    #pragma unroll
    for (int u = 0; u < {-(-count // THREADS)}; u++) {{
        {place}
        const bool there = first + r < all;
        uint16_t *const to = tile + line_at<{shape.tile}>(r, f);
        {line}
    }}
}}"""


def beginning(shape: CoreShape) -> str:
    """What a thread knows of itself and of the problem."""
    return f"""const int64_t *const at = given.at;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int queries = at[6], keys = at[7];
    const uint32_t nothing = at[6] >> 63;
    const float scale = __builtin_bit_cast(float, (int32_t)at[{SCALE_AT}]), by = scale * {LOG2E};
    /* Maxima of scores are those of products where the scale is positive: it comes later. */
    const float late = {"1" if shape.is_added else "by > 0 ? by : 1"};
    {begun_dropout(DROPOUT_AT) if shape.dropout else ""}"""


def head(shape: CoreShape) -> str:
    return of_head("group") if shape.dropout else ""


def tiles(shape: CoreShape, *found: Tile) -> str:
    """Shared memory for two tiles of each."""
    return "\n    ".join(
        f"alignas(1024) __shared__ uint16_t {one.array}[2][{shape.tile} * {one.width}];"
        for one in found
    )


def own_rows(shape: CoreShape, own: Tile, through: Tile) -> str:
    """Own rows as left matrices, by way of the memory of both tiles of `through`, which are as
    wide."""
    steps, tile = padded(own.elements) // STEP, shape.tile
    row = "warp * 16 + lane % 16"
    return f"""uint32_t {own.array}[{steps}][4];
    __syncthreads();
    #pragma unroll
    for (int n = 0; n < {OWN // tile}; n++)
        fill_{own.name}({through.array}[n], {own.name}, {own.name}_step, first + n * {tile},
            {own.there});
    end_copies();
    wait_for_copies<0>();
    __syncthreads();
    #pragma unroll
    for (int s = 0; s < {steps}; s++)
        load_four({own.array}[s], {through.array}[({row}) / {tile}]
            + line_at<{tile}>(({row}) % {tile}, s * {STEP} + lane / 16 * {LINE}));
    __syncthreads();"""


def multiplied(shape: CoreShape, sums: str, own: Tile, other: Tile) -> str:
    """Begins to multiply own rows with those of a tile; the products are there when all that was
    begun has ended."""
    steps = padded(own.elements) // STEP
    return f"""float {sums}[{shape.across}][4];
        multiply_rows<{steps}, {shape.tile}>(
            {sums}, {own.array}, {other.array}[now], begin & nothing);"""


def ended(shape: CoreShape, *sums: str) -> str:
    """What `multiplied` has begun."""
    return "end_products();\n        " + " ".join(
        f"settled<{shape.across}>({one});" for one in sums
    )


def weights_of(shape: CoreShape, weights: str) -> str:
    """What has the place of scores, rounded, as left matrices."""
    return f"""uint32_t {weights}_left[{shape.tile // STEP}][4];
        #pragma unroll
        for (int s = 0; s < {shape.tile // STEP}; s++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                {weights}_left[s][e] = pair({weights}[2 * s + e / 2][e % 2 * 2],
                    {weights}[2 * s + e / 2][e % 2 * 2 + 1]);"""


def summed(shape: CoreShape, sums: str, weights: str, other: Tile) -> str:
    """Begins to add the rows of a tile, weighted with what `weights_of` has rounded."""
    columns = padded(other.elements)
    return f"add_rows<{columns}, {shape.tile}>({sums}, {weights}_left, {other.array}[now]);"


def end_sums(shape: CoreShape, *found: tuple[str, str, int]) -> str:
    """Waits for sums.

    Args:
        found: names of sums and of their weights, and how many columns there are.
    """
    lines = ["end_products();"]
    for sums, weights, elements in found:
        lines.append(f"settled<{padded(elements) // LINE}>({sums});")
        lines.append(f"let_go<{shape.tile // STEP}>({weights}_left);")
    return "\n        ".join(lines)


def zeros(sums: str, elements: int) -> str:
    return f"float {sums}[{padded(elements) // LINE}][4] = {{}};"


def each(shape: CoreShape) -> str:
    return f"""#pragma unroll
    for (int j = 0; j < {shape.across}; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++)"""


def stored(
    name: str, sums: str, elements: int, count: str, kind: str, factor: str = ""
) -> str:  # fmt: skip
    """Writes the sums of own rows.

    Args:
        count: how many rows there are.
        kind: of an element in memory.
        factor: what sums of a row `e / 2` are multiplied with, if anything.
    """
    return f"""#pragma unroll
    for (int e = 0; e < 4; e++) {{
        const int row = first + warp * 16 + g + e / 2 * 8;
        if (row < {count}) {{
            {kind} *const line = {name} + (int64_t)row * {name}_step[{BATCH + 1}];
            #pragma unroll
            for (int c = 0; c < {padded(elements) // LINE}; c++) {{
                const int column = c * {LINE} + t * 2 + e % 2;
                if (column < {elements})
                    line[column * {name}_step[{BATCH + 2}]] = rounded({sums}[c][e]{factor});
            }}
        }}
    }}"""
