"""The products of a block's own rows with a tile in shared memory, in CUDA C++.

GPUs of compute capability 9.0 have tensor cores that four warps use together: these read a tile
from shared memory themselves, once for 64 own rows, while threads go on (PTX ISA, "Asynchronous
Warpgroup Level Matrix Multiply-Accumulate Instructions"). On all others each warp loads the tile
for its 16 rows. What threads have in registers is the same in both, as `tensor_cores` tells.
"""

from __future__ import annotations

from functools import lru_cache

from .tensor_cores import NAMES

PANEL = 64
"""Elements of a row of a tile that lie side by side: 128 bytes, all banks once."""
LINE = 8
"""Elements in 16 bytes."""
STEP = 16
"""Elements of a row that an instruction multiplies."""
_WIDTHS = (16, 32, 48, 64)
"""Columns of a right matrix that kernels ask for."""


@lru_cache(maxsize=8)
def products_source(dtype: str) -> str:
    """The functions.

    `line_at` says where 16 bytes of a row lie in a tile of so many rows. Rows lie in panels of 128
    bytes, and the lines of a row change places by its number, so that the same line of eight rows
    lies in all banks; matrix instructions of warpgroups know this order as their swizzle of 128
    bytes, for tiles at multiples of 1,024 bytes.

    `multiply_rows` begins to multiply own rows with those of a tile, `add_rows` begins to add the
    rows of a tile, weighted. Behind `end_products` all that was begun is there, and sums may be
    read once `settled` was called for them.
    """
    widths = "".join(
        f"{' else ' if n else ''}if constexpr (WIDTH == {width}) {{\n        "
        f"{_group_product(NAMES[dtype], width)}\n    }}"
        for n, width in enumerate(_WIDTHS)
    )
    return f"""\
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define INGLE_WARPGROUPS
#endif
#define INGLE_INLINE static inline __attribute__((always_inline))
template <int ROWS> INGLE_INLINE int line_at(int row, int first)
{{
    return first / {PANEL} * (ROWS * {PANEL}) + row * {PANEL}
        + ((first / {LINE} ^ row) % {PANEL // LINE}) * {LINE};
}}
#ifdef INGLE_WARPGROUPS
static uint64_t matrix_at(const uint16_t *tile)
{{
    /* Groups of eight rows lie 1,024 bytes apart. */
    const uint64_t place = (uint32_t)__cvta_generic_to_shared(tile);
    return place >> 4 | 64ull << 16 | 64ull << 32 | 1ull << 62;
}}
template <int WIDTH, int TURNED> INGLE_INLINE void add_group_product(
    float (*sum)[4], const uint32_t *left, uint64_t right, int more)
{{
    {widths}
}}
#endif
template <int LINES> INGLE_INLINE void settled(float (*sum)[4])
{{
#ifdef INGLE_WARPGROUPS
    #pragma unroll
    for (int j = 0; j < LINES; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(sum[j][e]) :: "memory");
#endif
}}
template <int STEPS> INGLE_INLINE void let_go(uint32_t (*left)[4])
{{
#ifdef INGLE_WARPGROUPS
    #pragma unroll
    for (int s = 0; s < STEPS; s++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+r"(left[s][e]) :: "memory");
#endif
}}
template <int STEPS, int ROWS> INGLE_INLINE void multiply_rows(
    float (*sum)[4], const uint32_t (*own)[4], const uint16_t *tile, uint32_t nothing)
{{
#ifdef INGLE_WARPGROUPS
    /* CUDA's assembler takes the registers of a left matrix for free behind the instruction, also
       where a loop comes back to it. So the instruction has a copy, which is not known to be the
       same in each turn: what is nothing may depend on it. */
    uint32_t left[STEPS][4];
    #pragma unroll
    for (int s = 0; s < STEPS; s++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            left[s][e] = own[s][e] ^ nothing;
    let_go<STEPS>(left);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int s = 0; s < STEPS; s++)
        add_group_product<ROWS, 0>(sum, left[s],
            matrix_at(tile + s / 4 * (ROWS * {PANEL}) + s % 4 * {STEP}), s > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int j = 0; j < ROWS / {LINE}; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] = 0;
    #pragma unroll
    for (int s = 0; s < STEPS; s++)
        #pragma unroll
        for (int j = 0; j < ROWS / {LINE}; j += 2) {{
            uint32_t right[4];
            load_four(right, tile + line_at<ROWS>(j * {LINE} + lane / 16 * {LINE} + lane % 8,
                s * {STEP} + lane / 8 % 2 * {LINE}));
            add_product(sum[j], own[s], right[0], right[1]);
            add_product(sum[j + 1], own[s], right[2], right[3]);
        }}
#endif
}}
template <int COLUMNS, int ROWS> INGLE_INLINE void add_rows(
    float (*sum)[4], uint32_t (*weights)[4], const uint16_t *tile)
{{
#ifdef INGLE_WARPGROUPS
    /* All that is computed in registers comes before the fence. */
    settled<COLUMNS / {LINE}>(sum);
    let_go<ROWS / {STEP}>(weights);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int s = 0; s < ROWS / {STEP}; s++) {{
        add_group_product<(COLUMNS < {PANEL} ? COLUMNS : {PANEL}), 1>(
            sum, weights[s], matrix_at(tile + s * {STEP * PANEL}), 1);
        if constexpr (COLUMNS > {PANEL})
            add_group_product<COLUMNS - {PANEL}, 1>(sum + {PANEL // LINE}, weights[s],
                matrix_at(tile + (ROWS + s * {STEP}) * {PANEL}), 1);
    }}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int s = 0; s < ROWS / {STEP}; s++)
        #pragma unroll
        for (int c = 0; c < COLUMNS / {LINE}; c += 2) {{
            uint32_t right[4];
            load_four_turned(right, tile + line_at<ROWS>(
                s * {STEP} + lane % 16, c * {LINE} + lane / 16 * {LINE}));
            add_product(sum[c], weights[s], right[0], right[1]);
            add_product(sum[c + 1], weights[s], right[2], right[3]);
        }}
#endif
}}
INGLE_INLINE void end_products()
{{
#ifdef INGLE_WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}}"""


def _group_product(name: str, width: int) -> str:
    """The instruction of a warpgroup for so many columns, with the left matrix in registers."""
    count = width // 2
    sums = ", ".join(f"%{n}" for n in range(count))
    left = ", ".join(f"%{count + n}" for n in range(4))
    given = ", ".join(f'"+f"(sum[{n // 4}][{n % 4}])' for n in range(count))
    return f"""asm volatile("{{{{ .reg .pred more; setp.ne.b32 more, %{count + 5}, 0; "
            "wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{name}.{name} "
            "{{{{{sums}}}}}, {{{{{left}}}}}, %{count + 4}, more, 1, 1, %{count + 6}; }}}}"
            : {given}
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more),
              "n"(TURNED) : "memory");""".replace("{{", "{").replace("}}", "}")
