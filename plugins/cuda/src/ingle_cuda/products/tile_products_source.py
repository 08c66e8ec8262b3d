"""Products of small matrices in float32 in CUDA C++, with what follows them.

A block of 128 threads computes a tile of the result. It brings 16 places along k of both factors
into shared memory at a time, and has three such parts on their way while one is multiplied; a
thread has a few rows and columns of the tile in registers. A factor whose elements lie side by side
along k stands in shared memory in rows, another one in columns, so that both are read and stored 16
bytes at a time, from all banks.

A sum has one order, which depends on k alone, not on the tile, on how factors lie, nor on what
follows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.cuda import (
    AFTER_OTHERS,
    EPILOGUE_FOUND,
    EPILOGUE_STORE,
    EPILOGUE_VALUES,
    epilogue_functions,
    given_struct,
)
from ingle.fusion.device.kernels import Nest, layout

NAME = "tile_product"
THREADS = 128
DOWN, ACROSS = 8, 16
"""Threads along the rows and along the columns of a tile."""
DEEP = 16
"""Places along k of a part."""
STAGES = 4
"""Parts in shared memory, on their way or there."""
BATCH = 3
"""Axes along which there are products, at most."""
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
#define INGLE_PART_ENDS asm volatile("cp.async.commit_group;" ::: "memory");
#define INGLE_PART_IS_THERE \\
    asm volatile("cp.async.wait_group {STAGES - 2};" ::: "memory");
#else
template <int N> static void bring(float *to, const float *from, bool there)
{{
    #pragma unroll
    for (int n = 0; n < N; n++)
        to[n] = there ? from[n] : 0;
}}
#define INGLE_PART_ENDS
#define INGLE_PART_IS_THERE
#endif"""


class TileShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        rows, columns: of a thread.
        a_along, b_along: whether the elements of a factor that lie side by side follow k.
        a_vector, b_vector: how many of them are loaded at once: 4, 2 or 1.
        nest: what follows; operand 0 is the sum.
    """

    rows: int
    columns: int
    a_along: bool
    b_along: bool
    a_vector: int
    b_vector: int
    nest: Nest


class _Factor(NamedTuple):
    """How a factor stands in shared memory.

    Attributes:
        name: `a` or `b`.
        lines: of the tile: rows of a, columns of b.
        each: of a thread.
        threads: that share them, and the name of a thread's number among these.
        along: whether a line stands in a row.
        vector: elements that are loaded at once.
    """

    name: str
    lines: int
    each: int
    threads: int
    number: str
    along: bool
    vector: int

    @property
    def shared(self) -> tuple[int, int]:
        """Rows and columns in shared memory, each row 16 bytes longer than it holds."""
        return (self.lines, DEEP + 4) if self.along else (DEEP, self.lines + 4)

    @property
    def turns(self) -> int:
        """Loads of each thread; the last may be of some threads alone."""
        return -(-self.lines * DEEP // (self.vector * THREADS))

    @property
    def rest(self) -> str:
        """A condition for those threads."""
        loads = self.lines * DEEP // self.vector
        return f"if (i < {loads})" if loads % THREADS else ""

    def line(self, n: str) -> str:
        """The number of a thread's line `n` in the tile."""
        if self.along:
            return f"{self.number} + {self.threads} * ({n})"
        return f"{self.number} * {self.each} + ({n})"


@lru_cache(maxsize=256)
def source(shape: TileShape) -> str:
    """The kernel, for matrices of any sizes and strides.

    Its pointers are both factors, and the operands of the nest but the first.
    """
    a = _Factor("a", shape.rows * DOWN, shape.rows, DOWN, "ty", shape.a_along, shape.a_vector)
    b = _Factor(
        "b", shape.columns * ACROSS, shape.columns, ACROSS, "tx", shape.b_along, shape.b_vector
    )
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
    return f"""{epilogue_functions(nest, struct)}
struct alignas(16) four_t {{ float at[4]; }};
struct alignas(8) two_t {{ float at[2]; }};
{_BRING}
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const own = given.at + {own};
    {_shared(a)}
    {_shared(b)}
    const int tx = threadIdx.x % {ACROSS}, ty = threadIdx.x / {ACROSS};
    const int m = own[0], n = own[1], k = own[2];
    uint32_t rest = blockIdx.x;
    const int first_column = rest % (uint32_t)own[4] * {b.lines};
    rest /= (uint32_t)own[4];
    const int first_row = rest % (uint32_t)own[3] * {a.lines};
    rest /= (uint32_t)own[3];
    {rest}
    {steps[0]}
    {steps[1]}
    const float *const a = (const float *)given.buffer[0]{batch[0]};
    const float *const b = (const float *)given.buffer[1]{batch[1]};
    const bool a_fits = (uint64_t)a % {4 * a.vector} == 0;
    const bool b_fits = (uint64_t)b % {4 * b.vector} == 0;
    float sum[{shape.rows}][{shape.columns}] = {{}};
    #pragma unroll
    for (int ahead = 0; ahead < {STAGES - 1}; ahead++) {{
        {_brought(a, f"ahead * {DEEP}", "ahead", "first_row", "m")}
        {_brought(b, f"ahead * {DEEP}", "ahead", "first_column", "n")}
        INGLE_PART_ENDS
    }}
    int now = 0;
    #pragma unroll 1
    for (int at = 0; at < k; at += {DEEP}) {{
        INGLE_PART_IS_THERE
        __syncthreads();
        const int next = at + {(STAGES - 1) * DEEP}, place = (now + {STAGES - 1}) % {STAGES};
        if (next < k) {{
            {_brought(a, "next", "place", "first_row", "m")}
            {_brought(b, "next", "place", "first_column", "n")}
        }}
        INGLE_PART_ENDS
        #pragma unroll
        for (int deep = 0; deep < {DEEP}; deep += 4) {{
            float a_here[{shape.rows}][4], b_here[{shape.columns}][4];
            {_reads(a)}
            {_reads(b)}
            #pragma unroll
            for (int d = 0; d < 4; d++)
                {_each(shape)}
                    sum[r][c] = fmaf(a_here[r][d], b_here[c][d], sum[r][c]);
        }}
        now = (now + 1) % {STAGES};
    }}
    {EPILOGUE_FOUND} found[{shape.rows}][{shape.columns}];
    {_each(shape)} {{
        const int row = first_row + {a.line("r")}, column = first_column + {b.line("c")};
        if (row < m && column < n)
            found[r][c] = {EPILOGUE_VALUES}(given, {place}row, column, sum[r][c]);
    }}
    {_each(shape)} {{
        const int row = first_row + {a.line("r")}, column = first_column + {b.line("c")};
        if (row < m && column < n)
            {EPILOGUE_STORE}(given, {place}row, column, found[r][c]);
    }}
}}
"""


def _each(shape: TileShape) -> str:
    return f"""#pragma unroll
    for (int r = 0; r < {shape.rows}; r++)
        #pragma unroll
        for (int c = 0; c < {shape.columns}; c++)"""


def _shared(factor: _Factor) -> str:
    rows, columns = factor.shared
    return f"alignas(16) __shared__ float {factor.name}_in[{STAGES}][{rows}][{columns}];"


def _place(factor: _Factor) -> str:
    """Which line, and which place along k, a thread loads first of some that lie side by side."""
    if factor.along:
        lanes = DEEP // factor.vector
        return f"line = i / {lanes}, deep = i % {lanes} * {factor.vector}"
    lanes = factor.lines // factor.vector
    return f"line = i % {lanes} * {factor.vector}, deep = i / {lanes}"


def _brought(factor: _Factor, begin: str, stage: str, first: str, count: str) -> str:
    """Begins to bring a part of a factor into shared memory; zeros behind its end.

    Lines and k are as long as is loaded at once, or a multiple of that.
    """
    name, vector = factor.name, factor.vector
    at = "[line][deep]" if factor.along else "[deep][line]"
    one = f"bring<{vector}>(to, there ? from : {name}, there);"
    if vector > 1:
        step = f"bring<1>(to + v, there ? from + v : {name}, there);"
        one = f"""if ({name}_fits)
            {one}
        else
            #pragma unroll
            for (int v = 0; v < {vector}; v++)
                {step}"""
    return f"""#pragma unroll
    for (int u = 0; u < {factor.turns}; u++) {{
        const int i = u * {THREADS} + (int)threadIdx.x, {_place(factor)};
        const bool there = {first} + line < {count} && {begin} + deep < k;
        const float *const from =
            {name} + ({first} + line) * {name}_line + ({begin} + deep) * {name}_deep;
        float *const to = &{name}_in[{stage}]{at};
        {factor.rest} {{
            {one}
        }}
    }}"""


def _reads(factor: _Factor) -> str:
    """A thread's lines at four places along k, from shared memory into registers."""
    name = factor.name
    if factor.along:
        return f"""#pragma unroll
    for (int l = 0; l < {factor.each}; l++) {{
        const four_t part = *(const four_t *)&{name}_in[now][{factor.line("l")}][deep];
        #pragma unroll
        for (int d = 0; d < 4; d++)
            {name}_here[l][d] = part.at[d];
    }}"""
    kind, vector = ("four_t", 4) if factor.each % 4 == 0 else ("two_t", 2)
    return f"""#pragma unroll
    for (int d = 0; d < 4; d++)
        #pragma unroll
        for (int l = 0; l < {factor.each}; l += {vector}) {{
            const {kind} part = *(const {kind} *)&{name}_in[now][deep + d][{factor.line("l")}];
            #pragma unroll
            for (int v = 0; v < {vector}; v++)
                {name}_here[l + v][d] = part.at[v];
        }}"""
