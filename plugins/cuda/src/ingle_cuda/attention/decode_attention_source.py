"""Attention of few queries in CUDA C++: keys and values are read once, 16 bytes at a time.

A warp takes 32 keys. Some of its threads share a key, each with 16 bytes of its features, so that
neighbours read neighbours; then each thread has the scores of one key, of which the warp finds the
largest, the exponentials relative to it and their sum; then threads share the columns of the
values. A block of up to eight warps takes a piece of the keys for some queries whose heads share
it, and puts together what its warps have found. Where there are several pieces ("flash-decoding",
Dao et al. 2023), a second kernel puts together what the blocks have found, in order.

Who adds what in which order depends on the sizes of a head alone: not on the number of queries of a
block, on how operands lie, nor on the GPU. A value whose key is hidden does not count, not even
NaN.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.cuda import AFTER_OTHERS, given_struct, rounded

from ..row_lines import Split, line_source, load_source, loads_ahead, split_of
from .head_axes import BATCH

NAME = "decode_attention"
WARP = 32
WARPS = 8
PIECE = WARPS * WARP
"""Keys of a block."""
THREADS = WARPS * WARP
SCALE_AT = BATCH + 5
HEAD = SCALE_AT + 1
"""Where the strides of the operands begin among the numbers of an argument. Before them stand the
sizes of the batch, blocks of rows, pieces, rows, queries, keys, and the scale's bits."""


class KernelShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        dtype: of queries, keys, values and the result.
        features, columns: of a query and a key, and of a value.
        rows: of queries that a block takes.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether it writes the logarithm of the sum of exponentials, too.
        whole: whether a block has all keys of its rows, and writes the result.
        vectors: elements of a load of queries, of keys and of values.
    """

    dtype: str
    features: int
    columns: int
    rows: int
    mask: str
    causal: bool
    lse: bool
    whole: bool
    vectors: tuple[int, ...]


@lru_cache(maxsize=256)
def source(shape: KernelShape) -> str:
    """The kernel, for any number of queries and keys and any strides.

    Its pointers are the queries, keys, values, the mask if there is one, and the results or the
    memory for what pieces have found (see `combined_pieces`). The numbers that `HEAD` tells of are
    followed by strides: of queries, of keys, of values, of the mask and of the results, along the
    axes of the batch, groups, places, and elements.
    """
    of, back = rounded(shape.dtype)
    rows = shape.rows
    keys, values = split_of(shape.features, shape.dtype), split_of(shape.columns, shape.dtype)
    ahead = [loads_ahead(split, rows) for split in (keys, values)]
    hides = shape.mask == "bool" and not shape.whole
    names = ["query", "key", "value", *(["mask"] if shape.mask else []), "out"]
    made = len(names) - 1
    names += ["lse"] if shape.lse else []
    strides = {name: HEAD + n * (BATCH + 3) for n, name in enumerate(names)}
    struct = "\n".join(given_struct(len(names), HEAD + len(names) * (BATCH + 3)))
    vectors = dict(zip(names, shape.vectors, strict=False))
    loads = "\n".join(
        load_source(name, split, elements, vectors[name], of.stored)
        for name, split, elements in (
            ("query", keys, shape.features), ("key", keys, shape.features),
            ("value", values, shape.columns),
        )
    )  # fmt: skip
    begins = "\n    ".join(
        f"const int64_t *const {name}_step = given.at + {at};\n"
        f"    const int64_t {name}_at = i0 * {name}_step[0] + i1 * {name}_step[1]"
        f" + i2 * {name}_step[2];"
        for name, at in strides.items()
    )
    final = "min(last, (int64_t)place)" if shape.causal else "last"
    mask = "uint8_t" if shape.mask == "bool" else of.stored
    own_mask = [
        f"const {mask} *const mask = (const {mask} *)given.buffer[3] + mask_at;",
        f"const {mask} *mask_rows[{rows}];",
    ]
    result = f"{of.stored} *const out = ({of.stored} *)given.buffer[{made}] + out_at;"
    if not shape.whole:
        result = f"float *const found = (float *)given.buffer[{made}];"
    if shape.lse:
        result += f"\n    float *const lse = (float *)given.buffer[{made + 1}] + lse_at;"
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
static bool is_finite(float x) {{ return x - x == 0; }}
{line_source(shape.dtype)}
{loads}
/* An address that is known before what follows, and not computed where it is used. */
#ifdef __CUDA_ARCH__
template <typename T> static void settle(const T *&place)
{{
    size_t at = __cvta_generic_to_global(place);
    asm volatile("" : "+l"(at));
    place = (const T *)__cvta_global_to_generic(at);
}}
#else
#define settle(place)
#endif
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    const int64_t *const at = given.at;
    __shared__ float shares[{WARPS}][{rows}][{WARP}], sums[{WARPS}][{rows}][{shape.columns}];
    __shared__ float tops[{WARPS}][{rows}], totals[{WARPS}][{rows}];
    const int warp = threadIdx.x / {WARP}, lane = threadIdx.x % {WARP};
    const uint32_t warps = blockDim.x / {WARP};
    uint32_t rest = blockIdx.x;
    const uint32_t first = rest % (uint32_t)at[{BATCH}] * {rows};
    rest /= (uint32_t)at[{BATCH}];
    const uint32_t piece = rest % (uint32_t)at[{BATCH + 1}];
    rest /= (uint32_t)at[{BATCH + 1}];
    const int64_t batch = rest, i2 = rest % (uint32_t)at[2];
    rest /= (uint32_t)at[2];
    const int64_t i1 = rest % (uint32_t)at[1], i0 = rest / (uint32_t)at[1];
    const uint32_t count = at[{BATCH + 2}], queries = at[{BATCH + 3}];
    const int64_t last = at[{BATCH + 4}] - 1, begin = (int64_t)piece * {PIECE} + warp * {WARP};
    const float scale = __builtin_bit_cast(float, (int32_t)at[{SCALE_AT}]);
    {begins}
    const {of.stored} *const query = (const {of.stored} *)given.buffer[0] + query_at;
    const {of.stored} *const key = (const {of.stored} *)given.buffer[1] + key_at;
    const {of.stored} *const value = (const {of.stored} *)given.buffer[2] + value_at;
    {result}
    const int64_t own = begin + lane;
    const int key_part = lane % {keys.lanes}, key_of = lane / {keys.lanes};
    const int value_part = lane % {values.lanes}, value_of = lane / {values.lanes};
    /* Which queries see the key of this thread, and what is added to their scores. */
    bool seen[{rows}];
    {f"float added[{rows}];" if shape.mask not in ("", "bool") else ""}
    {" ".join(own_mask) if shape.mask else ""}
    const {of.stored} *query_rows[{rows}];
    {_each_row(rows)} {{
        /* A query behind the last one is read as the last one, and nowhere written. */
        const uint32_t row = min(first + r, count - 1), group = row / queries;
        const uint32_t place = row % queries;
        query_rows[r] = query + (int64_t)group * query_step[3] + (int64_t)place * query_step[4];
        seen[r] = first + r < count && own <= {final};
        {_MASK_ROW if shape.mask else ""}
        settle(query_rows[r]);
    }}
    {_rows_ahead("key", keys, ahead[0], of.stored)}
    {_rows_ahead("value", values, ahead[1], of.stored)}
    {AFTER_OTHERS}
    {_masked(shape) + _hidden(shape) if hides else ""}
    line_t query_lines[{rows}][{keys.steps}];
    line_t key_lines[{ahead[0]}][{keys.steps}], value_lines[{ahead[1]}][{values.steps}];
    /* What is behind a branch stays there: all is on its way before any of it is waited for. */
    if (begin <= last) {{
        {"" if hides else _masked(shape)}
        {_each_row(rows)}
            {_loaded("query", keys, "r")}
        {_ahead("key", keys, ahead[0])}
        {_ahead("value", values, ahead[1])}
    }}
    float q[{rows}][{keys.steps * keys.each}];
    {_each_row(rows)}
        #pragma unroll
        for (int s = 0; s < {keys.steps}; s++)
            #pragma unroll
            for (int n = 0; n < {keys.each}; n++)
                q[r][s * {keys.each} + n] = element(query_lines[r][s], n);
    #pragma unroll 1
    for (int from = 0; from < {keys.lanes}; from += {ahead[0]}) {{
        if (from > 0) {{
            {_rows_ahead("key", keys, ahead[0], of.stored, "from")}
            {_ahead("key", keys, ahead[0])}
        }}
        float score[{ahead[0]}][{rows}] = {{}};
        #pragma unroll
        for (int u = 0; u < {ahead[0]}; u++)
            #pragma unroll
            for (int s = 0; s < {keys.steps}; s++)
                #pragma unroll
                for (int n = 0; n < {keys.each}; n++) {{
                    const float x = element(key_lines[u][s], n);
                    {_each_row(rows)}
                        score[u][r] = fmaf(q[r][s * {keys.each} + n], x, score[u][r]);
                }}
        #pragma unroll
        for (int apart = {keys.lanes // 2}; apart > 0; apart /= 2)
            #pragma unroll
            for (int u = 0; u < {ahead[0]}; u++)
                {_each_row(rows)}
                    score[u][r] += __shfl_xor_sync(0xffffffffu, score[u][r], apart);
        if (key_part == 0) {{
            #pragma unroll
            for (int u = 0; u < {ahead[0]}; u++)
                {_each_row(rows)}
                    shares[warp][r][(from + u) * {WARP // keys.lanes} + key_of] = score[u][r];
        }}
    }}
    __syncwarp();
    {_each_row(rows)} {{
        const float score = shares[warp][r][lane] * scale{_plus(shape.mask)};
        float top = seen[r] ? score : -INFINITY;
        #pragma unroll
        for (int apart = {WARP // 2}; apart > 0; apart /= 2)
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
        /* Where no key is seen every score is -inf, and so is their maximum. */
        const float share = seen[r] ? expf(score - (is_finite(top) ? top : 0)) : 0;
        float total = share;
        #pragma unroll
        for (int apart = {WARP // 2}; apart > 0; apart /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, apart);
        /* No exponential is negative. */
        shares[warp][r][lane] = seen[r] ? share : -1;
        if (lane == 0) {{
            tops[warp][r] = top;
            totals[warp][r] = total;
        }}
    }}
    __syncwarp();
    float sum[{rows}][{values.steps * values.each}];
    {_each_row(rows)}
        #pragma unroll
        for (int n = 0; n < {values.steps * values.each}; n++)
            sum[r][n] = 0;
    #pragma unroll 1
    for (int from = 0; from < {values.lanes}; from += {ahead[1]}) {{
        if (from > 0) {{
            {_rows_ahead("value", values, ahead[1], of.stored, "from")}
            {_ahead("value", values, ahead[1])}
        }}
        #pragma unroll
        for (int u = 0; u < {ahead[1]}; u++) {{
            float share[{rows}];
            {_each_row(rows)}
                share[r] = shares[warp][r][(from + u) * {WARP // values.lanes} + value_of];
            #pragma unroll
            for (int s = 0; s < {values.steps}; s++)
                #pragma unroll
                for (int n = 0; n < {values.each}; n++) {{
                    const float x = element(value_lines[u][s], n);
                    {_each_row(rows)}
                        if (!(share[r] < 0))
                            sum[r][s * {values.each} + n] =
                                fmaf(share[r], x, sum[r][s * {values.each} + n]);
                }}
        }}
    }}
    {_each_row(rows)}
        #pragma unroll
        for (int s = 0; s < {values.steps}; s++)
            #pragma unroll
            for (int n = 0; n < {values.each}; n++) {{
                float found = sum[r][s * {values.each} + n];
                #pragma unroll
                for (int apart = {values.lanes}; apart < {WARP}; apart *= 2)
                    found += __shfl_xor_sync(0xffffffffu, found, apart);
                const int column = (s * {values.lanes} + value_part) * {values.each} + n;
                if (value_of == 0 && column < {shape.columns})
                    sums[warp][r][column] = found;
            }}
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < {rows * shape.columns}; i += blockDim.x) {{
        const uint32_t r = i / {shape.columns}, column = i % {shape.columns}, row = first + r;
        if (row >= count)
            break;
        float top = -INFINITY, total = 0, all = 0;
        for (uint32_t w = 0; w < warps; w++)
            top = fmaxf(top, tops[w][r]);
        const float level = is_finite(top) ? top : 0;
        for (uint32_t w = 0; w < warps; w++) {{
            const float of_warp = is_finite(tops[w][r]) ? tops[w][r] : 0;
            const float weight = totals[w][r] == 0 ? 0 : expf(of_warp - level);
            total = fmaf(weight, totals[w][r], total);
            all = fmaf(weight, sums[w][r][column], all);
        }}
        {_written(shape)}
    }}
}}
"""


def _each_row(rows: int) -> str:
    return f"#pragma unroll\n    for (int r = 0; r < {rows}; r++)"


_MASK_ROW = """\
mask_rows[r] = mask + (int64_t)group * mask_step[3] + (int64_t)place * mask_step[4]
            + min(own, last) * mask_step[5];
        settle(mask_rows[r]);"""
"""Where the mask of a row and the key of a thread lies."""


def _rows_ahead(name: str, split: Split, count: int, stored: str, start: str = "0") -> str:
    """Where some keys or values lie, `count` turns of a warp from `start` on. One further back
    than the last one is read as the last one, and not seen."""
    place = f"begin + ({start} + u) * {WARP // split.lanes} + {name}_of"
    return f"""\
const {stored} *{name}_rows[{count}];
    #pragma unroll
    for (int u = 0; u < {count}; u++) {{
        {name}_rows[u] = {name} + min({place}, last) * {name}_step[4];
        settle({name}_rows[u]);
    }}"""


def _ahead(name: str, split: Split, count: int) -> str:
    """The loads of their lines."""
    return f"""\
#pragma unroll
        for (int u = 0; u < {count}; u++)
            {_loaded(name, split, "u")}"""


def _loaded(name: str, split: Split, row: str) -> str:
    part = "value_part" if name == "value" else "key_part"
    return f"""\
#pragma unroll
            for (int s = 0; s < {split.steps}; s++)
                {name}_lines[{row}][s] = loaded_{name}(
                    {name}_rows[{row}], (s * {split.lanes} + {part}) * {split.each},
                    {name}_step[5], true);"""


def _masked(shape: KernelShape) -> str:
    """What a mask says of each row and the key of a thread."""
    if not shape.mask:
        return ""
    if shape.mask == "bool":
        return f"{_each_row(shape.rows)}\n        seen[r] = *mask_rows[r] != 0 && seen[r];"
    return f"{_each_row(shape.rows)}\n        added[r] = widened(*mask_rows[r]);"


def _plus(mask: str) -> str:
    return " + added[r]" if mask not in ("", "bool") else ""


def _hidden(shape: KernelShape) -> str:
    """A piece of which no key is seen: a cache that is not full. Its keys are not read."""
    return f"""\
__shared__ int any;
    if (threadIdx.x == 0)
        any = 0;
    __syncthreads();
    {_each_row(shape.rows)}
        if (seen[r])
            any = 1;
    __syncthreads();
    if (!any) {{
        for (uint32_t i = threadIdx.x; i < {shape.rows * shape.columns}; i += blockDim.x) {{
            const uint32_t column = i % {shape.columns}, row = first + i / {shape.columns};
            if (row >= count)
                break;
            const float top = -INFINITY, total = 0, all = 0;
            {_written(shape)}
        }}
        return;
    }}"""


def _written(shape: KernelShape) -> str:
    """Where a column of a row goes: into the result, or into memory for the second kernel."""
    if shape.whole:
        logarithm = """
        if (column == 0)
            lse[(int64_t)(row / queries) * lse_step[3] + (int64_t)(row % queries) * lse_step[4]] =
                logf(total) + level;"""
        return f"""\
out[(int64_t)(row / queries) * out_step[3] + (int64_t)(row % queries) * out_step[4]
            + column * out_step[5]] = rounded(all / (total == 0 ? 1 : total));\
{logarithm if shape.lse else ""}"""
    return f"""\
float *const line =
            found + ((batch * count + row) * at[{BATCH + 1}] + piece) * {shape.columns + 2};
        line[column] = all;
        if (column == 0) {{
            line[{shape.columns}] = top;
            line[{shape.columns + 1}] = total;
        }}"""
