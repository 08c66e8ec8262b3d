"""The kernels of the gradient of attention of half types by tensor cores: scores are computed
again, tile by tile, from the logarithms that the forward pass left (Dao et al., arXiv 2205.14135).

One kernel finds for each query the logarithm to the base two and the product of its result with its
gradient. Blocks of the second have keys of their own and go through the queries, blocks of the
third have queries and go through the keys; what a block finds is its own, so nobody waits and sums
have one order. The gradients of keys and of values are those of one block where registers suffice,
and of two otherwise. How blocks are cut is told in `core_tiles`.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.cuda import AFTER_OTHERS, rounded

from ..row_lines import BYTES
from .core_scores import OF_KEYS, OF_QUERIES, kept, scaled, walked
from .core_tiles import (
    LOG2E,
    OWN,
    THREADS,
    CoreShape,
    Tile,
    beginning,
    each,
    end_sums,
    ended,
    head,
    multiplied,
    own_rows,
    padded,
    prelude,
    stored,
    summed,
    tiles,
    weights_of,
    zeros,
)
from .core_words import of_row, put_words, read_words, words_of_head
from .flash_tiles import head_of_block, pointer, steps

LEVELS, KEYS, QUERIES = "core_levels", "core_gradient_of_keys", "core_gradient_of_queries"
_BLOCKS_OF_KEYS, _BLOCKS_OF_QUERIES = 2, 3
"""Of a multiprocessor at a time: for more, threads have too few registers."""
_OF_ROW = 8
"""Threads that share a row of the result's gradient, to multiply it with the result."""


def is_together(shape: CoreShape) -> bool:
    """Whether the gradients of keys and values are found by the same blocks."""
    return padded(shape.features) + padded(shape.columns) <= 2 * OWN


def _names(shape: CoreShape) -> list[str]:
    names = ["given_g", "query", "key", "value", *(["mask"] if shape.mask else [])]
    return [*names, "out", "lse", "by_query", "by_key", "by_value"]


def _read(shape: CoreShape) -> tuple[tuple[str, int], ...]:
    features, columns = shape.features, shape.columns
    return (
        ("given_g", columns), ("query", features), ("key", features), ("value", columns),
        ("out", columns),
    )  # fmt: skip


_SCRATCH = "(float *)given.buffer[{}]"
_OF_HEAD = "(((i0 * at[1] + i1) * at[2] + i2) * at[3] + group) * queries"


@lru_cache(maxsize=256)
def levels_source(shape: CoreShape) -> str:
    """The kernel of what is known of each query: a pair of numbers, in the memory behind the
    pointers of `source`."""
    names, kind = _names(shape), rounded(shape.dtype)[0].stored
    read = _read(shape)
    pointers = [pointer(names, name, kind, "group") for name in ("given_g", "out")]
    pointers += [pointer(names, "lse", "float", "group")]
    elements = BYTES // 2
    return f"""{prelude(shape._replace(dropout=False, words=False), names, len(names) + 1, read)}
extern "C" __global__ void __launch_bounds__({THREADS}) {LEVELS}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    const int queries = at[6], part = threadIdx.x % {_OF_ROW};
    uint32_t rest = blockIdx.x;
    {head_of_block(4)}
    const int64_t group = rest;
    {steps(names, names)}
    {chr(10).join(pointers)}
    float *const levels = (float *)given.buffer[{len(names)}] + {_OF_HEAD} * 2;
    for (int i = threadIdx.x / {_OF_ROW}; i < {OWN}; i += {THREADS // _OF_ROW}) {{
        const int64_t row = (int64_t)tile * {OWN} + i;
        float found = 0;
        for (int f = part * {elements}; f < {shape.columns}; f += {_OF_ROW * elements}) {{
            const line_t a = loaded_given_g(given_g + row * given_g_step[4], f, given_g_step[5],
                row < queries);
            const line_t b = loaded_out(out + row * out_step[4], f, out_step[5], row < queries);
            #pragma unroll
            for (int n = 0; n < {elements}; n++)
                found = fmaf(element(a, n), element(b, n), found);
        }}
        #pragma unroll
        for (int apart = {_OF_ROW // 2}; apart > 0; apart /= 2)
            found += __shfl_xor_sync(0xffffffffu, found, apart);
        if (part == 0 && row < queries) {{
            const float level = lse[row * lse_step[4]];
            levels[2 * row] = is_finite(level) ? level * {LOG2E} : 0;
            levels[2 * row + 1] = found;
        }}
    }}
}}
"""


@lru_cache(maxsize=256)
def keys_source(shape: CoreShape) -> str:
    """The kernel of the gradients of keys and values, for any number of queries and keys and any
    strides.

    Its pointers are the gradient of the result, queries, keys, values, the mask if there is one,
    the result, the logarithms, the three results, and the memory that `levels_source` has filled.
    The numbers that `flash_tiles.HEAD` tells of are followed by the strides of each but the last.
    """
    kind, names = rounded(shape.dtype)[0].stored, _names(shape)
    whose = ["both"] if is_together(shape) else ["by_value", "by_key"]
    line = "\n        "
    blocks = " else ".join(
        f"""if (blockIdx.x < of_keys * {n + 1}) {{
        uint32_t rest = blockIdx.x{f" - of_keys * {n}" if n else ""};
        {head_of_block(5)}
        const int first = tile * {OWN};
        {line.join(_of_keys(shape))}
        {line.join(pointer(names, n, kind, constant=False) for n in ("by_key", "by_value"))}
        {_by_keys(shape, one)}
    }}"""
        for n, one in enumerate(whose)
    )
    return f"""{_opening(shape, KEYS, _BLOCKS_OF_KEYS, _query(shape), _given_g(shape))}
    __shared__ float level_of[2][{shape.tile}], pull_of[2][{shape.tile}];
    {beginning(shape)}
    const int groups = at[3];
    const uint32_t of_keys = (uint32_t)(at[0] * at[1] * at[2] * at[5]);
    {_steps(shape)}
    {blocks}
}}
"""


@lru_cache(maxsize=256)
def queries_source(shape: CoreShape) -> str:
    """The kernel of the gradient of queries, with the same pointers and numbers; it comes last."""
    blocks = _BLOCKS_OF_QUERIES if is_together(shape) else _BLOCKS_OF_KEYS
    kind, names = rounded(shape.dtype)[0].stored, _names(shape)
    return f"""{_opening(shape, QUERIES, blocks, _key(shape), _value(shape))}
    {beginning(shape)}
    {_steps(shape)}
    uint32_t rest = blockIdx.x;
    {head_of_block(4)}
    const int64_t group = rest;
    /* Of a causal attention the last queries see most: their blocks begin first. */
    const int first = (of_tiles - 1 - tile) * {OWN};
    {chr(10).join([*_of_keys(shape), *_of_queries(shape)])}
    {pointer(names, "by_query", kind, "group", constant=False)}
    {_by_queries(shape)}
}}
"""


def _opening(shape: CoreShape, name: str, blocks: int, *found: Tile) -> str:
    """What kernels begin with; `found` are their tiles."""
    names = _names(shape)
    count = len(names) + 1
    every = [*names, *["draw"] * shape.dropout]
    return f"""{prelude(shape, every, count, _read(shape))}
extern "C" __global__ void __launch_bounds__({THREADS}, {blocks}) {name}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    {tiles(shape, *found)}"""


def _steps(shape: CoreShape) -> str:
    names = [*_names(shape), *["draw"] * shape.dropout]
    return steps(names, names)


def _of_queries(shape: CoreShape) -> list[str]:
    """Where what belongs to the queries of a head lies."""
    kind, names = rounded(shape.dtype)[0].stored, _names(shape)
    masked = "uint8_t" if shape.mask == "bool" else kind
    found = [pointer(names, name, kind, "group") for name in ("given_g", "query")]
    found += [pointer(names, "mask", masked, "group")] if shape.mask else []
    found.append(f"const float *const levels = {_SCRATCH.format(len(names))} + {_OF_HEAD} * 2;")
    if shape.words:
        found.append(of_row())
        found.append(
            f"uint32_t *const words = (uint32_t *)({_SCRATCH.format(len(names))}"
            f" + at[0] * at[1] * at[2] * at[3] * queries * 2) + {words_of_head()};"
        )
    return [*found, head(shape)]


def _of_keys(shape: CoreShape) -> list[str]:
    kind, names = rounded(shape.dtype)[0].stored, _names(shape)
    return [pointer(names, name, kind) for name in ("key", "value")]


def _query(shape: CoreShape) -> Tile:
    return Tile("inner", "query", shape.features, "queries")


def _key(shape: CoreShape) -> Tile:
    return Tile("inner", "key", shape.features, "keys")


def _given_g(shape: CoreShape) -> Tile:
    return Tile("outer", "given_g", shape.columns, "queries")


def _value(shape: CoreShape) -> Tile:
    return Tile("outer", "value", shape.columns, "keys")


def _own(tile: Tile) -> Tile:
    return tile._replace(array=f"own_{tile.array}")


def _by_keys(shape: CoreShape, whose: str) -> str:
    """What queries mean for own keys, for own values, or for both."""
    kind = rounded(shape.dtype)[0].stored
    query, given_g = _query(shape), _given_g(shape)
    inner, outer = _own(_key(shape)), _own(_value(shape))
    for_value, for_key = whose in ("both", "by_value"), whose in ("both", "by_key")
    owns = [own_rows(shape, inner, query)]
    body = [_levels(shape), multiplied(shape, "score", inner, query)]
    place = "j * 8 + t * 2 + e % 2"
    if for_key:
        owns.append(own_rows(shape, outer, given_g))
        body.append(multiplied(shape, "pull", outer, given_g))
    body += [kept(shape, OF_KEYS), put_words(shape) if for_value else ""]
    body += [ended(shape, "score", *["pull"] * for_key), scaled(shape, "score")]
    body.append(
        _flows(shape, f"level_of[now][{place}]", f"pull_of[now][{place}]", for_value, for_key)
    )
    sums, ends, found = [], [], []
    if for_value:
        sums.append(zeros("sum_outer", shape.columns))
        body += [weights_of(shape, "score"), summed(shape, "sum_outer", "score", given_g)]
        found.append(("sum_outer", "score", shape.columns))
        ends.append(stored("by_value", "sum_outer", shape.columns, "keys", kind))
    if for_key:
        sums.append(zeros("sum_inner", shape.features))
        body += [weights_of(shape, "pull"), summed(shape, "sum_inner", "pull", query)]
        found.append(("sum_inner", "pull", shape.features))
        ends.append(stored("by_key", "sum_inner", shape.features, "keys", kind))
    body.append(end_sums(shape, *found))
    line = "\n        "
    begin = f"first / {shape.tile} * {shape.tile}" if shape.causal else "0"
    return f"""{line.join(owns)}
        {line.join(sums)}
        #pragma unroll 1
        for (int group = 0; group < groups; group++) {{
            {line.join(_of_queries(shape))}
            int begin = {begin};
            {walked(shape, OF_KEYS, (query, given_g), "queries", line.join(body))}
            __syncthreads();
        }}
        {line.join(ends)}"""


def _by_queries(shape: CoreShape) -> str:
    """What keys mean for own queries."""
    kind = rounded(shape.dtype)[0].stored
    key, value = _key(shape), _value(shape)
    inner, outer = _own(_query(shape)), _own(_given_g(shape))
    body = (
        multiplied(shape, "score", inner, key), multiplied(shape, "pull", outer, value),
        read_words(shape) if shape.words else kept(shape, OF_QUERIES),
        ended(shape, "score", "pull"), scaled(shape, "score"),
        _flows(shape, "own_level[e / 2]", "own_pull[e / 2]", False, True),
        weights_of(shape, "pull"), summed(shape, "sum_inner", "pull", key),
        end_sums(shape, ("sum_inner", "pull", shape.features)),
    )  # fmt: skip
    line = "\n        "
    return f"""{own_rows(shape, inner, key)}
        {own_rows(shape, outer, value)}
        float own_level[2], own_pull[2];
        #pragma unroll
        for (int r = 0; r < 2; r++) {{
            const int row = first + warp * 16 + g + r * 8;
            own_level[r] = row < queries ? levels[2 * row] : 0;
            own_pull[r] = row < queries ? levels[2 * row + 1] : 0;
        }}
        {zeros("sum_inner", shape.features)}
        const int end = {f"min(keys, first + {OWN})" if shape.causal else "keys"};
        int begin = 0;
        {walked(shape, OF_QUERIES, (key, value), "end", line.join(body))}
        {stored("by_query", "sum_inner", shape.features, "queries", kind)}"""


def _levels(shape: CoreShape) -> str:
    """Brings what is known of a tile's queries into shared memory."""
    return f"""if (threadIdx.x < {shape.tile}) {{
            const int row = begin + (int)threadIdx.x;
            level_of[now][threadIdx.x] = row < queries ? levels[2 * (int64_t)row] : 0;
            pull_of[now][threadIdx.x] = row < queries ? levels[2 * (int64_t)row + 1] : 0;
        }}
        __syncthreads();"""


def _flows(shape: CoreShape, level: str, pull: str, for_value: bool, for_scores: bool) -> str:
    """Shares in the place of scores, and gradients by scores in the place of those by shares."""
    weight, flow = "share", "pull[j][e]"
    if shape.dropout:
        stays = "stay >> (j * 4 + e) & 1"
        weight, flow = f"{stays} ? share * more : 0", f"({stays} ? pull[j][e] * more : 0)"
    lines = [f"const float share = power_of_two(fmaf(score[j][e], late, -{level}));"]
    if for_scores:
        lines.append(f"pull[j][e] = share * ({flow} - {pull}) * scale;")
    if for_value:
        lines.append(f"score[j][e] = {weight};")
    return f"{each(shape)} {{\n        " + "\n        ".join(lines) + "\n    }"


def blocks_of_keys(shape: CoreShape) -> int:
    """How many blocks a tile of keys has."""
    return 1 if is_together(shape) else 2
