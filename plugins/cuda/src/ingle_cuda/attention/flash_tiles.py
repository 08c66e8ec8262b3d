"""Attention of many queries in CUDA C++, what forward and gradient share: tiles in shared memory,
and the products of these.

A block of threads has some rows of its own, queries or keys, and goes through the others in tiles
of 64. Features pass in chunks of 32, so that rows of any length fit. 16 threads share a row: each
has the products with every 16th of a tile's rows, and two columns of each chunk of what is summed.
Rows in shared memory are 16 bytes longer than they hold, so that the threads of a warp read from
all banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.cuda import given_struct, rounded
from ingle.fusion.device.kernels import SIZES

from ..row_lines import BYTES, Split, line_source, load_source
from .dropped_keys import COUNT, drawn_source, element
from .head_axes import BATCH

THREADS = 128
TILE = 64
"""Rows of the other side that are in shared memory at a time."""
CHUNK = 32
"""Features of a row that are."""
LANES = 16
"""Threads that share a row."""
WIDE = CHUNK // LANES
"""Columns of a chunk that a thread sums."""
EACH = TILE // LANES
"""Rows of a tile whose products with a row a thread has."""
GROUPS = THREADS // LANES
_PADDED = CHUNK + 4

SCALE_AT = BATCH + 5
DROPOUT_AT = SCALE_AT + 1
HEAD = DROPOUT_AT + COUNT
"""Where the strides of the operands begin among the numbers of an argument. Before them stand the
sizes of the batch and of the group, tiles of own queries and keys, queries, keys, the scale's bits
and what `dropped_keys` tells of."""


class FlashShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        dtype: of queries, keys, values and results.
        features, columns: of a query and a key, and of a value.
        rows: of each thread; a block has eight times as many.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithms of the sums of exponentials are written, too.
        vectors: elements of a load of each operand that has features.
        dropout: whether keys are left out at random.
    """

    dtype: str
    features: int
    columns: int
    rows: int
    mask: str
    causal: bool
    lse: bool
    vectors: tuple[int, ...]
    dropout: bool = False

    @property
    def own(self) -> int:
        """Rows of a block."""
        return self.rows * GROUPS


class Fill(NamedTuple):
    """What is brought into a tile: a chunk of some rows of an operand, zeros behind the last one.

    Attributes:
        tile: the array.
        name: of the operand.
        rows: of the tile.
        first, there: which row is its first one, and how many there are.
        chunk: which one.
    """

    tile: str
    name: str
    rows: int
    first: str
    there: str
    chunk: int | str


def chunks(elements: int) -> int:
    return -(-elements // CHUNK)


def prelude(
    shape: FlashShape, names: Sequence[str], read: Sequence[tuple[str, int]]
) -> str:  # fmt: skip
    """What stands in front of a kernel.

    Args:
        names: of its operands, each with strides; behind them `draw`, if keys are left out.
        read: names and elements of those whose rows are loaded.
    """
    of, back = rounded(shape.dtype)
    count = len(names) - shape.dropout
    struct = "\n".join(given_struct(count, HEAD + len(names) * (BATCH + 3)))
    each = BYTES // SIZES[shape.dtype]
    loads = "\n".join(
        load_source(
            name, Split(CHUNK // each, chunks(elements), each, elements % CHUNK == 0), elements,
            vector, of.stored, missing=True,
        )
        for (name, elements), vector in zip(read, shape.vectors, strict=True)
    )  # fmt: skip
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
static bool is_finite(float x) {{ return x - x == 0; }}
struct alignas(16) four_t {{ float at[4]; }};
struct alignas({4 * WIDE}) part_t {{ float at[{WIDE}]; }};
{line_source(shape.dtype)}
{drawn_source() if shape.dropout else ""}
{loads}"""


def steps(names: Sequence[str], used: Sequence[str]) -> str:
    """The strides of operands, of all that a kernel has."""
    return "\n    ".join(
        f"const int64_t *const {name}_step = given.at + {HEAD + n * (BATCH + 3)};"
        for n, name in enumerate(names)
        if name in used
    )


def pointer(
    names: Sequence[str], name: str, kind: str, group: str = "", constant: bool = True
) -> str:  # fmt: skip
    """The first row of an operand in a head.

    Args:
        kind: of its elements.
        group: which of the heads of a group it is.
        constant: whether it is only read.
    """
    kind = f"const {kind}" if constant else kind
    along = "".join(f" + i{n} * {name}_step[{n}]" for n in range(BATCH))
    along += f" + {group} * {name}_step[{BATCH}]" if group else ""
    return f"{kind} *const {name} = ({kind} *)given.buffer[{names.index(name)}]{along};"


def filled(shape: FlashShape, fills: Sequence[Fill]) -> str:
    """Brings rows into tiles: all loads are begun before the first is stored."""
    each = BYTES // SIZES[shape.dtype]
    lines = CHUNK // each
    loads, stores = [], []
    for fill in fills:
        turns = -(-fill.rows * lines // THREADS)
        rest = f"r < {fill.rows} && " if fill.rows * lines % THREADS else ""
        place = (
            f"const int i = u * {THREADS} + (int)threadIdx.x, r = i / {lines}, "
            f"f = i % {lines} * {each};"
        )
        loads.append(f"""line_t {fill.tile}_lines[{turns}];
    #pragma unroll
    for (int u = 0; u < {turns}; u++) {{
        {place}
        {fill.tile}_lines[u] = loaded_{fill.name}(
            {fill.name} + (int64_t)({fill.first} + r) * {fill.name}_step[{BATCH + 1}],
            {fill.chunk} * {CHUNK} + f, {fill.name}_step[{BATCH + 2}],
            {rest}{fill.first} + r < {fill.there});
    }}""")
        parts = "\n            ".join(
            f"*(four_t *)&{fill.tile}[r][f + {n}] = four_t{{"
            + ", ".join(f"element({fill.tile}_lines[u], {n + m})" for m in range(4))
            + "};"
            for n in range(0, each, 4)
        )
        stores.append(f"""#pragma unroll
    for (int u = 0; u < {turns}; u++) {{
        {place}
        {f"if (r < {fill.rows})" if rest else ""} {{
            {parts}
        }}
    }}""")
    return "{\n    " + "\n    ".join([*loads, *stores]) + "\n    }"


def multiplied(shape: FlashShape, found: str, own: str, other: str) -> str:
    """Adds a chunk's share of the products of own rows with those of a tile, features in order."""
    return f"""#pragma unroll
    for (int f = 0; f < {CHUNK}; f += 4) {{
        four_t a[{shape.rows}], b[{EACH}];
        {each_row(shape)}
            a[r] = *(const four_t *)&{own}[ty * {shape.rows} + r][f];
        #pragma unroll
        for (int j = 0; j < {EACH}; j++)
            b[j] = *(const four_t *)&{other}[tx + {LANES} * j][f];
        #pragma unroll
        for (int n = 0; n < 4; n++)
            {each_pair(shape)}
                {found}[r][j] = fmaf(a[r].at[n], b[j].at[n], {found}[r][j]);
    }}"""


def summed(shape: FlashShape, sum_: str, chunk: int, other: str) -> str:
    """Adds the rows of a tile, weighted, to the sums of own rows, one after the other."""
    return f"""#pragma unroll 4
    for (int k = 0; k < {TILE}; k += 4) {{
        four_t share[{shape.rows}];
        {each_row(shape)}
            share[r] = *(const four_t *)&shares[ty * {shape.rows} + r][k];
        #pragma unroll
        for (int n = 0; n < 4; n++) {{
            const part_t part = *(const part_t *)&{other}[k + n][tx * {WIDE}];
            {each_row(shape)}
                #pragma unroll
                for (int w = 0; w < {WIDE}; w++)
                    {sum_}[r][{chunk}][w] = fmaf(share[r].at[n], part.at[w], {sum_}[r][{chunk}][w]);
        }}
    }}"""


def shared_shares(shape: FlashShape) -> str:
    """Shared memory for what rows of a tile are weighted with."""
    return f"alignas(16) __shared__ float shares[{shape.own}][{TILE + LANES // shape.rows}];"


def tiles(*names: tuple[str, int]) -> str:
    """Shared memory for chunks of rows."""
    return "\n    ".join(
        f"alignas(16) __shared__ float {name}[{rows}][{_PADDED}];" for name, rows in names
    )


def zeros(shape: FlashShape, *sums: tuple[str, int]) -> str:
    """The sums of own rows, of so many columns each, before there is anything in them."""
    return "\n    ".join(
        f"float {name}[{shape.rows}][{chunks(columns)}][{WIDE}] = {{}};" for name, columns in sums
    )


_MASK_AT = f"(int64_t)place * mask_step[{BATCH + 1}] + (int64_t)key * mask_step[{BATCH + 2}]"


def seen_pairs(shape: FlashShape, place: str, key: str) -> str:
    """Which queries of a thread see which keys of a tile, a bit each; a tile that a mask hides from
    the whole block is left out. Nobody sees a key whose score -INFINITY is added to.

    Args:
        place, key: of the query and the key of a pair.
    """
    tests = f"place < queries && key < keys{' && key <= place' if shape.causal else ''}"
    if shape.mask == "bool":
        tests += f" && mask[{_MASK_AT}] != 0"
    elif shape.mask:
        tests += f" && widened(mask[{_MASK_AT}]) != -INFINITY"
    left_out = "if (!__syncthreads_or((int)seen))\n        continue;" if shape.mask else ""
    return f"""uint32_t seen = 0;
    {each_pair(shape)} {{
        const int place = {place}, key = {key};
        seen |= (uint32_t)({tests}) << (r * {EACH} + j);
    }}
    {left_out}"""


def score(shape: FlashShape, place: str, key: str) -> str:
    """The score of a query and a key, `score[r][j]` before; -INFINITY where it is hidden."""
    masked = shape.mask not in ("", "bool")
    added = f" + widened(mask[{_MASK_AT}])" if masked else ""
    return f"""{f"const int place = {place}, key = {key};" if masked else ""}
        const bool sees = seen >> (r * {EACH} + j) & 1;
        const float found = sees ? score[r][j] * scale{added} : -INFINITY;"""


def stay(shape: FlashShape, place: str, key: str) -> str:
    """Whether a query does not leave out a key, of those that it sees."""
    if not shape.dropout:
        return ""
    drawn = f"stays(random, threshold, {element(place, key)})"
    return f"const bool stay = (seen >> (r * {EACH} + j) & 1) && {drawn};"


def each_row(shape: FlashShape) -> str:
    return f"#pragma unroll\n    for (int r = 0; r < {shape.rows}; r++)"


def each_pair(shape: FlashShape) -> str:
    return f"""{each_row(shape)}
        #pragma unroll
        for (int j = 0; j < {EACH}; j++)"""


def stored(shape: FlashShape, name: str, sum_: str, columns: int, first: str, count: str) -> str:
    """Writes the sums of own rows; `rounded_sum` says of a number what is written."""
    return f"""{each_row(shape)} {{
        const int row = {first} + ty * {shape.rows} + r;
        if (row < {count}) {{
            #pragma unroll
            for (int c = 0; c < {chunks(columns)}; c++)
                #pragma unroll
                for (int w = 0; w < {WIDE}; w++) {{
                    const int column = c * {CHUNK} + tx * {WIDE} + w;
                    if (column < {columns})
                        {name}[(int64_t)row * {name}_step[{BATCH + 1}]
                            + column * {name}_step[{BATCH + 2}]] = rounded({sum_}[r][c][w]);
                }}
        }}
    }}"""


def head_of_block(tiles_at: int) -> str:
    """Which head and which tile of own rows a block has; heavy ones of causal attention first.

    Args:
        tiles_at: where the number of tiles stands among the numbers.
    """
    return f"""const uint32_t of_tiles = at[{tiles_at}];
    const uint32_t tile = rest % of_tiles;
    rest /= of_tiles;
    const int64_t i2 = rest % (uint32_t)at[2];
    rest /= (uint32_t)at[2];
    const int64_t i1 = rest % (uint32_t)at[1];
    rest /= (uint32_t)at[1];
    const int64_t i0 = rest % (uint32_t)at[0];
    rest /= (uint32_t)at[0];"""
