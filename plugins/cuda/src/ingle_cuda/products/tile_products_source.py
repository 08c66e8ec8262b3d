"""Products of small matrices in float32 in CUDA C++, with what follows them.

A block of four warps computes a tile of the result. Each warp has sums for all of it, of every
fourth group of 8 places along k: so a thread has many rows and columns in registers, for which it
reads shared memory little, although tiles are small enough for each multiprocessor to have one. A
warp brings its groups into shared memory by itself, has up to four of them on their way, and waits
for the others only when the sums of all four are added, from the first warp's to the last one's. A
factor whose elements lie side by side along k stands in shared memory in rows, another one in
columns, so that both are read and stored 16 bytes at a time, from all banks. The code is short:
much of a small kernel's time goes by while the first block reads its instructions.

Where sums are cut into parts, a block computes one part of a tile, and those of a tile are a
cluster, whose blocks read each other's shared memory: each adds all parts of some elements, from
the first to the last, and does there what follows (from compute capability 9.0 on).

A sum has one order, which depends on k alone, not on the tile, on how factors lie, nor on what
follows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.cuda import (
    ALONE_AFTER_OTHERS,
    EPILOGUE_FOUND,
    EPILOGUE_STORE,
    EPILOGUE_VALUES,
    epilogue_functions,
    given_struct,
)
from ingle.fusion.device.kernels import Nest, layout

NAME = "tile_product"
WARPS = 4
THREADS = 32 * WARPS
DOWN, ACROSS = 4, 8
"""Threads of a warp along the rows and along the columns of a tile."""
BATCH = 3
"""Axes along which there are products, at most."""
_DEEP = 16
"""Places along k of a group: what lies side by side in memory comes 64 bytes at a time."""
ROUND = WARPS * _DEEP
"""Places along k of a group of each warp."""
_STAGES = 2
"""Groups of a warp in shared memory, on their way or there."""
_PADDING = 8
"""Elements behind each row of the sums in shared memory, so that four rows are in other banks."""
_MOST_AT_ONCE, _AT_ONCE, LONG = 16, 4, 8
"""Elements of a thread at once, and the same where what follows has more instructions than that."""
_SIZES = 5
OWN = _SIZES + 2 * (BATCH + 2)
"""Numbers of a kernel of its own, behind those of its epilogue's nest: m, n, k, tiles along m and
along n; then strides of both factors, along the batch, m or n, and k."""


_BRING = f"""\
/* Copies to shared memory that go on meanwhile: so many elements, or as many zeros. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int N> static void bring(float *to, const float *from, bool there)
{{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to), bytes = there ? 4 * N : 0;
    if (N == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"(place), "l"(from), "r"(bytes) : "memory");
    else if (N == 2)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
            :: "r"(place), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
            :: "r"(place), "l"(from), "r"(bytes) : "memory");
}}
#define INGLE_GROUP_ENDS asm volatile("cp.async.commit_group;" ::: "memory");
#define INGLE_GROUP_IS_THERE asm volatile("cp.async.wait_group {_STAGES - 1};" ::: "memory");
#else
template <int N> static void bring(float *to, const float *from, bool there)
{{
    #pragma unroll
    for (int n = 0; n < N; n++)
        to[n] = there ? from[n] : 0;
}}
#define INGLE_GROUP_ENDS
#define INGLE_GROUP_IS_THERE
#endif"""


_CLUSTER = """\
#ifndef INGLE_BLOCKS
/* How many blocks of a cluster one's memory is of, and which of them is one's own. */
#define INGLE_BLOCKS 1
#define INGLE_OWN_BLOCK 0
#define INGLE_OF_BLOCK(at, block) of_block(shared + (at), block)
/* What lies in another block's shared memory where `own` is in one's own. */
static float of_block(const float *own, unsigned block)
{
    float found;
    unsigned place;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(place) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(place) : "memory");
    return found;
}
static void wait_for_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#endif"""


class TileShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        rows, columns: of a thread: 8, 4 or 2.
        a_along, b_along: whether the elements of a factor that lie side by side follow k.
        a_vector, b_vector: how many of them are loaded at once: 4, 2 or 1.
        nest: what follows; operand 0 is the sum.
        parts: of equal length along k, each of which a block of a cluster computes.
    """

    rows: int
    columns: int
    a_along: bool
    b_along: bool
    a_vector: int
    b_vector: int
    nest: Nest
    parts: int = 1


class _Factor(NamedTuple):
    """How a factor stands in shared memory.

    Attributes:
        name: `a` or `b`.
        each: lines of a thread: rows of a, columns of b.
        threads: that share them, and the name of a thread's number among these.
        along: whether a line stands in a row.
        vector: elements that are loaded at once.
    """

    name: str
    each: int
    threads: int
    number: str
    along: bool
    vector: int

    @property
    def lines(self) -> int:
        """Of the tile."""
        return self.each * self.threads

    @property
    def elements(self) -> int:
        """Of a group."""
        return self.lines * _DEEP

    @property
    def beside(self) -> int:
        """Lines of a thread that lie side by side."""
        return 1 if self.along else min(self.each, 4)

    def line(self, n: str) -> str:
        """The number of a thread's line `n` in the tile."""
        if self.along:
            return f"{self.number} + {self.threads} * ({n})"
        s = self.beside
        return f"{self.number} * {s} + ({n}) / {s} * {s * self.threads} + ({n}) % {s}"


@lru_cache(maxsize=256)
def source(shape: TileShape) -> str:
    """The kernel, for matrices of any sizes and strides.

    Its pointers are both factors, and the operands of the nest but the first.
    """
    a = _Factor("a", shape.rows, DOWN, "ty", shape.a_along, shape.a_vector)
    b = _Factor("b", shape.columns, ACROSS, "tx", shape.b_along, shape.b_vector)
    nest = shape.nest
    own = layout(nest).scalar(len(nest.scalars))
    count = len(nest.operands) + 1
    struct = "\n".join(given_struct(count, own + OWN))
    axes = nest.outer - 1
    rest = "\n    ".join(
        f"const int64_t x{axis} = rest % (uint32_t)given.at[{axis}];\n    "
        f"rest /= (uint32_t)given.at[{axis}];"
        for axis in reversed(range(axes))
    )
    batch = [
        "".join(f" + x{axis} * own[{first + axis}]" for axis in range(axes))
        for first in (_SIZES, _SIZES + BATCH + 2)
    ]
    steps = [
        f"const int64_t {name}_line = own[{first + BATCH}], {name}_deep = own[{first + BATCH + 1}];"
        for name, first in (("a", _SIZES), ("b", _SIZES + BATCH + 2))
    ]
    place = "".join(f"x{axis}, " for axis in range(axes))
    group = a.elements + b.elements
    row = b.lines + _PADDING
    tile = a.lines * row
    parts = shape.parts
    each = -(-a.lines * b.lines // (THREADS * parts))
    code = nest.stages[0].code
    most = _MOST_AT_ONCE if len(code) <= LONG else _AT_ONCE
    once = max(e for e in range(1, most + 1) if each % e == 0)
    held = max(WARPS * _STAGES * group, WARPS * tile)
    total = " + ".join(f"shared[{warp * tile} + at]" for warp in range(WARPS))
    shared = f"alignas(16) __shared__ float shared[{held}];"
    cluster = dimensions = part = a_part = b_part = whole = behind = ""
    number = f"(first + e) * {THREADS} + (int)threadIdx.x"
    if parts > 1:
        cluster, dimensions = f"{_CLUSTER}\n", f"__cluster_dims__({parts}) "
        shared = f"""alignas(16) __shared__ float of_blocks[INGLE_BLOCKS][{held}];
    float *const shared = of_blocks[INGLE_OWN_BLOCK];"""
        part = f"const int part = rest % {parts};\n    rest /= {parts};\n    "
        a_part, b_part = (f" + (int64_t)part * k * {name}_deep" for name in "ab")
        whole = f"""#pragma unroll 1
    for (int i = threadIdx.x; i < {a.lines * b.lines}; i += {THREADS}) {{
        const int at = i / {b.lines} * {row} + i % {b.lines};
        shared[at] = {total};
    }}
    wait_for_cluster();
    """
        total = " + ".join(f"INGLE_OF_BLOCK(at, {n})" for n in range(parts))
        number = f"(part * {each} + first + e) * {THREADS} + (int)threadIdx.x"
        behind = "\n    wait_for_cluster();"
    element = f"""const int i = {number}, y = i / {b.lines}, x = i % {b.lines};
            const bool there = y < {a.lines} && first_row + y < m && first_column + x < n;"""
    return f"""{epilogue_functions(nest, struct)}
struct alignas(16) four_t {{ float at[4]; }};
struct alignas(8) two_t {{ float at[2]; }};
{_BRING}
{cluster}extern "C" __global__ void {dimensions}__launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    const int64_t *const own = given.at + {own};
    {shared}
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tx = lane % {ACROSS}, ty = lane / {ACROSS};
    const int m = own[0], n = own[1], k = own[2];
    uint32_t rest = blockIdx.x;
    {part}const int first_column = rest % (uint32_t)own[4] * {b.lines};
    rest /= (uint32_t)own[4];
    const int first_row = rest % (uint32_t)own[3] * {a.lines};
    rest /= (uint32_t)own[3];
    {rest}
    {steps[0]}
    {steps[1]}
    const float *const a = (const float *)given.buffer[0]{batch[0]}{a_part};
    const float *const b = (const float *)given.buffer[1]{batch[1]}{b_part};
    const bool a_fits = (uint64_t)a % {4 * a.vector} == 0;
    const bool b_fits = (uint64_t)b % {4 * b.vector} == 0;
    {_place(a, "first_row", "m")}
    {_place(b, "first_column", "n")}
    float *const mine = shared + warp * {_STAGES * group};
    float sum[{shape.rows}][{shape.columns}] = {{}};
    {ALONE_AFTER_OTHERS}
    const int rounds = (k + {ROUND - 1}) / {ROUND};
    #pragma unroll 1
    for (int round = 0; round < rounds + {_STAGES - 1}; round++) {{
        const int first = round * {ROUND} + warp * {_DEEP};
        if (first < k) {{
            float *const to = mine + round % {_STAGES} * {group};
            {_brought(a, 0)}
            {_brought(b, a.elements)}
        }}
        INGLE_GROUP_ENDS
        if (round < {_STAGES - 1} || first - {(_STAGES - 1) * ROUND} >= k)
            continue;
        INGLE_GROUP_IS_THERE
        __syncwarp();
        const float *const a_in = mine + (round + 1) % {_STAGES} * {group};
        const float *const b_in = a_in + {a.elements};
        #pragma unroll
        for (int deep = 0; deep < {_DEEP}; deep += 4) {{
            float a_here[{shape.rows}][4], b_here[{shape.columns}][4];
            {_reads(a)}
            {_reads(b)}
            #pragma unroll
            for (int d = 0; d < 4; d++)
                #pragma unroll
                for (int r = 0; r < {shape.rows}; r++)
                    #pragma unroll
                    for (int c = 0; c < {shape.columns}; c++)
                        sum[r][c] = fmaf(a_here[r][d], b_here[c][d], sum[r][c]);
        }}
        __syncwarp();
    }}
    __syncthreads();
    #pragma unroll
    for (int r = 0; r < {shape.rows}; r++)
        #pragma unroll
        for (int c = 0; c < {shape.columns}; c += {b.beside}) {{
            float *const to = shared + warp * {tile} + ({a.line("r")}) * {row} + {b.line("c")};
            {_stored(b)}
        }}
    __syncthreads();
    {whole}#pragma unroll 1
    for (int first = 0; first < {each}; first += {once}) {{
        {EPILOGUE_FOUND} found[{once}];
        #pragma unroll
        for (int e = 0; e < {once}; e++) {{
            {element}
            const int at = y * {row} + x;
            if (there)
                found[e] = {EPILOGUE_VALUES}(
                    given, {place}first_row + y, first_column + x, {total});
        }}
        #pragma unroll
        for (int e = 0; e < {once}; e++) {{
            {element}
            if (there)
                {EPILOGUE_STORE}(given, {place}first_row + y, first_column + x, found[e]);
        }}
    }}{behind}
}}
"""


def _place(factor: _Factor, first: str, count: str) -> str:
    """Where in a group a lane's first load is, how many lines there are, and where it begins."""
    name, vector = factor.name, factor.vector
    if factor.along:
        lanes = _DEEP // vector
        line, deep = f"lane / {lanes}", f"lane % {lanes} * {vector}"
    else:
        lanes = factor.lines // vector
        line, deep = f"lane % {lanes} * {vector}", f"lane / {lanes}"
    return f"""const int {name}_at = {line}, {name}_in_group = {deep};
    const int {name}_lines = {count} - {first};
    const float *const {name}_from =
        {name} + ({first} + {name}_at) * {name}_line + {name}_in_group * {name}_deep;"""


def _turn(factor: _Factor) -> tuple[str, str]:
    """How many lines, and how many places along k, load `u` of a lane is behind its first one."""
    if factor.along:
        return f"u * {32 * factor.vector // _DEEP}", "0"
    lanes = factor.lines // factor.vector
    if lanes <= 32:
        return "0", f"u * {32 // lanes}"
    return f"u % {lanes // 32} * {32 * factor.vector}", f"u / {lanes // 32}"


def _brought(factor: _Factor, offset: int) -> str:
    """Begins to bring a group of a factor into shared memory; zeros behind its end.

    Lines and k are as long as is loaded at once, or a multiple of that.
    """
    name, vector = factor.name, factor.vector
    loads = factor.elements // vector
    lines, deep = _turn(factor)
    at = _shared("line", "deep") if factor.along else f"deep * {factor.lines} + line"
    one = f"bring<{vector}>(there_to, there ? from : {name}, there);"
    if vector > 1:
        step = f"bring<1>(there_to + v, there ? from + v : {name}, there);"
        one = f"""if ({name}_fits)
                {one}
            else
                #pragma unroll 1
                for (int v = 0; v < {vector}; v++)
                    {step}"""
    rest = f"if (u * 32 + lane < {loads})" if loads % 32 else ""
    return f"""#pragma unroll
    for (int u = 0; u < {-(-loads // 32)}; u++) {{
        const int line = {name}_at + {lines}, deep = {name}_in_group + {deep};
        const bool there = line < {name}_lines && first + deep < k;
        const float *const from =
            {name}_from + ({lines}) * {name}_line + (first + {deep}) * {name}_deep;
        float *const there_to = to + {offset} + {at};
        {rest} {{
            {one}
        }}
    }}"""


def _shared(line: str, deep: str) -> str:
    """Where an element of a line that stands in a row is in a group: pieces of 16 bytes change
    places from line to line, so that those of eight lines lie in all banks."""
    beside, pieces = 32 // _DEEP, _DEEP // 4
    return f"{line} * {_DEEP} + ({deep} ^ ({line} / {beside} % {pieces} * 4))"


def _reads(factor: _Factor) -> str:
    """A thread's lines at four places along k, from shared memory into registers."""
    name = factor.name
    if factor.along:
        return f"""#pragma unroll
    for (int l = 0; l < {factor.each}; l++) {{
        const int line = {factor.line("l")};
        const four_t part = *(const four_t *)&{name}_in[{_shared("line", "deep")}];
        #pragma unroll
        for (int d = 0; d < 4; d++)
            {name}_here[l][d] = part.at[d];
    }}"""
    kind = {4: "four_t", 2: "two_t"}[factor.beside]
    return f"""#pragma unroll
    for (int d = 0; d < 4; d++)
        #pragma unroll
        for (int l = 0; l < {factor.each}; l += {factor.beside}) {{
            const {kind} part =
                *(const {kind} *)&{name}_in[(deep + d) * {factor.lines} + {factor.line("l")}];
            #pragma unroll
            for (int v = 0; v < {factor.beside}; v++)
                {name}_here[l + v][d] = part.at[v];
        }}"""


def _stored(b: _Factor) -> str:
    """Columns of a thread that lie side by side, from registers into shared memory."""
    if b.beside == 1:
        return "*to = sum[r][c];"
    kind = {4: "four_t", 2: "two_t"}[b.beside]
    values = ", ".join(f"sum[r][c + {v}]" for v in range(b.beside))
    return f"*({kind} *)to = {kind}{{{{{values}}}}};"
