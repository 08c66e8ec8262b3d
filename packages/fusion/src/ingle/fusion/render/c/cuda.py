"""CUDA C++ for NVIDIA's GPUs, as NVRTC compiles it: the wide family.

A kernel has one argument, a struct: the operands' addresses, where scalars lie if not in the struct
itself, and int64: what `layout` says of sizes and strides, the scalars, the first and last unit of
work, and how many units a block of threads takes (or a thread, where each has units of its own).
Scalars in memory are those of a captured graph, whose arguments stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ...kernel.nest import Nest, layout, units
from ...kernel.validation import validate
from . import elements
from .block_vectors import block_vector_elements, block_vectors, threads_of_blocks
from .elements import Widened
from .group_scans import runs_alone
from .groups import group_item, grouped, is_wide
from .held import held
from .held_lengths import ANY_LAUNCH, WARP, Holding, holding_for, may_hold, rows_at_once
from .line_rows import Lines, line_rows, lines_of
from .long_rows import MOST_THREADS, long_blocks, long_rows, threads_of_row
from .row_vectors import row_of_vector, row_vector_elements, row_vector_items, row_vectors
from .shared_pieces import GROUP, shared_pieces, shares_pieces
from .short_rows import Short, items_of, row_of_item, short_rows, short_rows_of
from .sorted_scatter import ScatterLaunch, sorted_scatter
from .source import rendered
from .spread_rows import Spread, spread_of, spread_rows
from .transposed import tiled
from .vectors import VectorNest, vector_elements, vector_items
from .warp_rows import takes_rows, warp_rows
from .work import work_of

THREADS = 256
"""Of a block whose threads have nothing to do with one another."""

PREAMBLE = """\
/* NVRTC: --fmad=false --device-as-default-execution-space */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define INT64_C(x) x##LL
#define UINT8_C(x) x
#define UINT16_C(x) x
#define UINT32_C(x) x##U
#define UINT64_C(x) x##ULL
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define FP_FAST_FMAF
#define FP_FAST_FMA
#ifdef __CUDA_ARCH__
#define INGLE_EXP_FLOAT32 expf
#define INGLE_ERF_FLOAT32 erff
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
static uint16_t rounded_bfloat16(float x)
{ uint16_t y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
static uint16_t rounded_float16(float x)
{ uint16_t y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
static float widened_float16(uint16_t x)
{ float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
#define INGLE_ROUNDED_BFLOAT16 rounded_bfloat16
#define INGLE_ROUNDED_FLOAT16 rounded_float16
#define INGLE_WIDENED_FLOAT16 widened_float16
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define INGLE_AFTER_OTHERS \\
    asm volatile("griddepcontrol.wait;\\n\\tgriddepcontrol.launch_dependents;" ::: "memory")
#else
#define INGLE_AFTER_OTHERS
#endif
#ifdef INGLE_MEMBER
/* A function that a kernel of many launches calls for one of them, and a block of this one. */
#define INGLE_KERNEL(name, bounds) \\
    static __device__ void name(const given_t &given, const int64_t block)
#define INGLE_BLOCK block
#else
#define INGLE_KERNEL(name, bounds) \\
    extern "C" __global__ void bounds name(const __grid_constant__ given_t given)
#define INGLE_BLOCK (int64_t)blockIdx.x
#endif
/* An output may lie in the memory of an input of another type, place by place. */
#define INGLE_ALIAS __attribute__((__may_alias__))
#define INGLE_INDEPENDENT
"""


AFTER_OTHERS = "INGLE_AFTER_OTHERS;"
"""A kernel's first statement: behind it all has happened that was launched before, and what is
launched next may begin up to its own."""


class Cuda:
    """A block of threads takes what a work item does in the narrow family."""

    preamble = PREAMBLE
    table = "static __device__ const"
    functions = frozenset({"exp", "erf"})
    """In CUDA's library they take 8 and some 25 instructions around the one for powers of two, with
    errors of at most 1 and 2 ulp; as polynomials alone 25 and 45."""
    lane = "threadIdx.x"
    group = "INGLE_BLOCK"
    width = "blockDim.x"
    local = "__shared__"
    local_barrier = "__syncthreads();"
    barrier = "__syncthreads();"

    def bounds(self, nest: Nest) -> str:
        """How many threads a block may have, where that is more than registers are enough for."""
        return ""

    def item(self, nest: Nest) -> str:
        """The number of what takes a range of units."""
        if not is_wide(nest):
            return THREAD
        return group_item(nest, self.group, self.argument(nest.outer - 1, nest))

    def memory(self, k: int) -> str:
        return ""

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        first = layout(nest).scalar(len(nest.scalars))
        begin, last, grain = (f"given.at[{first + n}]" for n in range(3))
        return [
            *given_struct(len(nest.operands), first + 3),
            f"INGLE_KERNEL({name}, {self.bounds(nest)})",
            "{",
            f"    const int64_t begin = {begin} + {self.item(nest)} * {grain};",
            f"    const int64_t end = min(begin + {grain}, {last});",
            f"    {AFTER_OTHERS}",
        ]

    def operand(self, k: int, kind: str) -> str:
        return f"({kind})given.buffer[{k}]"

    def argument(self, place: int, nest: Nest) -> str:
        return f"given.at[{place}]"

    def scalar(self, nest: Nest, number: int) -> str:
        at = f"given.at[{layout(nest).scalar(number)}]"
        return f"(given.numbers ? given.numbers[{number}] : {at})"


THREAD = "(INGLE_BLOCK * blockDim.x + threadIdx.x)"
"""The number of a thread."""


class Alone(Cuda):
    """A thread takes a row, or an element of one."""

    def __init__(self, short: Short) -> None:
        self._short = short

    def item(self, nest: Nest) -> str:
        return row_of_item(self._short, THREAD, self.argument(layout(nest).inner, nest))


class OfWarp(Cuda):
    """A warp takes a row."""

    lane = f"threadIdx.x % {WARP}"
    local_barrier = barrier = "__syncwarp();"

    def item(self, nest: Nest) -> str:
        return f"({THREAD} / {WARP})"


class OfLongRow(Cuda):
    """Many warps take a row, and registers leave room for another: two rows of logits fit into the
    cache of a multiprocessor, where the next stage finds them, and three do not."""

    def bounds(self, nest: Nest) -> str:
        return f"__launch_bounds__({MOST_THREADS}, 2)"


class OfFewRows(Cuda):
    """So many threads take a row."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def bounds(self, nest: Nest) -> str:
        return f"__launch_bounds__({self._threads})"


class AlongRows(Cuda):
    """A thread takes so many neighbours of a row."""

    def __init__(self, each: int) -> None:
        self._each = each

    def item(self, nest: Nest) -> str:
        return row_of_vector(THREAD, self.argument(layout(nest).inner, nest), self._each)


CUDA = Cuda()
OF_WARP = OfWarp()
OF_LONG_ROW = OfLongRow()
EACH = Alone(Short("row", 1))
NEST = "nest"
"""The name of kernels that are nests."""
PARAMETERS = 4096
"""Bytes that a kernel's arguments may take on every GPU."""


def given_struct(operands: int, numbers: int) -> list[str]:
    """The type of a kernel's argument."""
    return [
        "struct given_t {",
        f"    uint8_t *buffer[{max(operands, 1)}];",
        "    const int64_t *numbers;",
        f"    int64_t at[{max(numbers, 1)}];",
        "};",
    ]


def rounded(dtype: str) -> tuple[Widened, str]:
    """How a kernel written by hand reads floats of a dtype, and the element for a value `x`."""
    return elements.rounded(CUDA, dtype)


@lru_cache(maxsize=1024)
def render(nest: Nest, name: str, holding: Holding = ANY_LAUNCH) -> str:
    """The source of one kernel in CUDA C++; see `ingle.fusion.render.c.source.render`.

    Args:
        holding: of rows that are held; see `for_rows`.
    """
    if may_hold(nest):
        return held(nest, name, CUDA, holding)
    if is_wide(nest):
        return grouped(nest, name, CUDA)
    return _alone(nest, name)


# Code that runs operation by operation asks for a source in each launch.


@lru_cache(maxsize=1024)
def _short(nest: Nest, name: str, short: Short) -> str:
    return short_rows(nest, name, Alone(short), short, THREAD)


@lru_cache(maxsize=1024)
def _of_thread(nest: Nest, name: str) -> str:
    return rendered(nest, name, EACH)


@lru_cache(maxsize=1024)
def _of_warp(nest: Nest, name: str) -> str:
    return warp_rows(nest, name, OF_WARP)


@lru_cache(maxsize=1024)
def _of_long_rows(nest: Nest, name: str, blocks: int) -> str:
    return long_rows(nest, name, OF_LONG_ROW, blocks)


@lru_cache(maxsize=1024)
def _of_lines(nest: Nest, name: str, lines: Lines) -> str:
    return line_rows(nest, name, CUDA, lines)


@lru_cache(maxsize=1024)
def _spread(nest: Nest, name: str, spread: Spread) -> str:
    return spread_rows(nest, name, OfFewRows(spread.threads), spread)


@lru_cache(maxsize=1024)
def _of_pieces(nest: Nest, name: str, length: int) -> str:
    return shared_pieces(nest, name, CUDA, length)


@lru_cache(maxsize=1024)
def _along_rows(nest: Nest, name: str, each: int) -> str:
    return row_vectors(nest, name, AlongRows(each), each, THREAD)


@lru_cache(maxsize=1024)
def _along_blocks(nest: Nest, name: str, each: int) -> str:
    return block_vectors(nest, name, AlongRows(each), each, THREAD)


def _alone(nest: Nest, name: str) -> str:
    """A nest whose threads have nothing to do with one another."""
    if vector_elements(nest):
        validate(nest)
        return VectorNest(nest, name, CUDA).render()
    return rendered(nest, name, CUDA)


def at_once(nest: Nest) -> int:
    """How many launches of a flat nest fit into the arguments of a kernel."""
    numbers = layout(nest).scalar(len(nest.scalars)) + 3
    return PARAMETERS // (8 * (max(len(nest.operands), 1) + 1 + numbers + 1))


def render_many(one: Nest | str, name: str, count: int, threads: int = THREADS) -> str:
    """The source of a kernel that does what up to so many launches of another one do.

    Its argument holds the first block of each, ascending from 0, and behind these their arguments;
    in the place of a launch that is none the first block is one that there is not. What a thread
    computes is what it computes in a launch alone.

    Args:
        one: that kernel's nest, or the source that was rendered of it.
        name: of the kernel, which is not `NEST`.
        count: of its launches.
        threads: of a block.
    """
    member = one if isinstance(one, str) else render(one, NEST)
    return f"""#define INGLE_MEMBER
{member}
struct many_t {{
    int64_t first[{count}];
    given_t of[{count}];
}};
extern "C" __global__ void __launch_bounds__({threads})
{name}(const __grid_constant__ many_t given)
{{
    int n = 0;
    while (n < {count - 1} && blockIdx.x >= given.first[n + 1])
        n++;
    {NEST}(given.of[n], (int64_t)blockIdx.x - given.first[n]);
}}
"""


class Grid(NamedTuple):
    """How a kernel is launched.

    Attributes:
        blocks, threads: of the grid.
        grain: units of work that a block, or a thread, takes.
    """

    blocks: int
    threads: int
    grain: int


def for_strides(nest: Nest, name: str, numbers: Sequence[int]) -> tuple[str, Grid, int] | None:
    """The source of a kernel for a launch's strides, its grid and its units of work; None where
    that is the nest's own. Bits are those of the nest's own.

    Operands that lie across the rows are taken in tiles, and rows that begin at multiples of a
    vector in vectors.

    Args:
        nest: of any kind.
        name: of the kernel.
        numbers: sizes, then strides, as `layout` says.
    """
    found = tiled(nest, name, numbers, CUDA, THREADS)
    if found is not None:
        return found[0], Grid(found[1], THREADS, 1), found[1]
    taken = units(nest, numbers[: nest.outer + 1])
    each = block_vector_elements(nest, numbers)
    if each:
        blocks = -(-threads_of_blocks(numbers, each) // THREADS)
        return _along_blocks(nest, name, each), Grid(blocks, THREADS, 1), taken
    each = row_vector_elements(nest, numbers)
    if not each:
        return None
    blocks = -(-row_vector_items(numbers, nest.outer, each) // THREADS)
    return _along_rows(nest, name, each), Grid(blocks, THREADS, 1), taken


def launch_of(
    nest: Nest, name: str, numbers: Sequence[int], processors: int
) -> tuple[str | None, Grid, int]:
    """The source of a launch's kernel, None where that is the nest's own, its grid and its units of
    work, on a GPU of so many multiprocessors; `numbers` begin with those of `for_strides`."""
    found = for_strides(nest, name, numbers)
    if found is not None:
        return found
    source, grid = for_rows(nest, name, numbers, processors)
    return source, grid, units(nest, numbers[: nest.outer + 1])


def launches_beside(
    nest: Nest, name: str, launches: Sequence[Sequence[int]], processors: int
) -> tuple[str, list[Grid]] | None:
    """The source of a kernel for several launches of a nest at the same time, and the grid of each;
    None where each has its own.

    Args:
        launches: the `numbers` of each, as of `for_strides`.
    """
    rows = [units(nest, numbers[: nest.outer + 1]) for numbers in launches]
    found = {
        lines_of(nest, numbers, processors, sum(rows) - own)
        for numbers, own in zip(launches, rows, strict=True)
    }
    lines = found.pop()
    if lines is None or found:
        return None
    grids = [_grid_of_lines(nest, numbers[: nest.outer + 1], lines) for numbers in launches]
    return _of_lines(nest, name, lines), grids


def _grid_of_lines(nest: Nest, sizes: Sequence[int], lines: Lines) -> Grid:
    rows = lines.warps * lines.rows
    return Grid(-(-units(nest, sizes) // rows), lines.warps * WARP, rows)


def for_scatter(nest: Nest, name: str, numbers: Sequence[int]) -> list[tuple[ScatterLaunch, Grid]]:
    """The kernels that do what a scattered nest does, with its bits, and their grids; none where
    that is the nest's own. Arguments are those of `for_strides`."""
    found = sorted_scatter(nest, name, numbers, EACH, CUDA, THREADS)
    return [
        (one, Grid(one.units if one.group else -(-one.units // THREADS), THREADS, 1))
        for one in found
    ]


def for_rows(
    nest: Nest, name: str, numbers: Sequence[int], processors: int
) -> tuple[str | None, Grid]:
    """The source of a launch's kernel by how its rows are taken, None where that is the nest's own,
    and its grid. Bits are those of the nest's own; arguments are those of `launch_of`."""
    sizes = numbers[: nest.outer + 1]
    if vector_elements(nest):
        blocks = -(-vector_items(nest, sizes[-1]) // THREADS)
        return None, Grid(blocks, THREADS, sizes[-1])
    if runs_alone(nest, sizes):
        return _of_thread(nest, name), Grid(-(-units(nest, sizes) // THREADS), THREADS, 1)
    short = short_rows_of(nest, sizes)
    if short is not None:
        blocks = -(-items_of(short, nest, sizes) // THREADS)
        return _short(nest, name, short), Grid(blocks, THREADS, 1)
    lines = lines_of(nest, numbers, processors)
    if lines is not None:
        return _of_lines(nest, name, lines), _grid_of_lines(nest, sizes, lines)
    spread = spread_of(nest, numbers, processors)
    if spread is not None:
        return _spread(nest, name, spread), Grid(units(nest, sizes), spread.threads, 1)
    if takes_rows(nest, sizes):
        blocks = -(-units(nest, sizes) * WARP // THREADS)
        return _of_warp(nest, name), Grid(blocks, THREADS, 1)
    if shares_pieces(nest, sizes):
        return _of_pieces(nest, name, sizes[-1]), Grid(units(nest, sizes), GROUP, 1)
    blocks = long_blocks(nest, sizes)
    if blocks:
        grid = Grid(units(nest, sizes), threads_of_row(sizes[-1]), 1)
        return _of_long_rows(nest, name, blocks), grid
    holding = holding_for(nest, numbers)
    source = None if holding == ANY_LAUNCH else render(nest, name, holding)
    work = work_of(nest, sizes, processors, wide=True)
    threads = THREADS if work.group is None else work.group[0]
    blocks, rows = -(-work.items // threads), rows_at_once(nest, sizes[-1])
    if rows > 1 and work.grain == 1:
        return source, Grid(-(-blocks // rows), threads, rows)
    return source, Grid(blocks, threads, work.grain)
