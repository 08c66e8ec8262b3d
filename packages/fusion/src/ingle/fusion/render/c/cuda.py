"""CUDA C++ for NVIDIA's GPUs, as NVRTC compiles it: the wide family.

A kernel has one argument, a struct: the operands' addresses, where scalars lie if not in the struct
itself, and int64: what `layout` says of sizes and strides, the scalars, the first and last unit of
work, and how many units a block of threads takes (or a thread, where each has units of its own).
Scalars in memory are those of a captured graph, whose arguments stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...kernel.nest import Nest, layout
from ...kernel.validation import validate
from .groups import group_item, grouped, is_wide
from .source import rendered
from .vectors import VectorNest, vector_elements, vectors_in_flight
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
/* An output may lie in the memory of an input of another type, place by place. */
#define INGLE_ALIAS __attribute__((__may_alias__))
#define INGLE_INDEPENDENT
"""


class Cuda:
    """A block of threads takes what a work item does in the narrow family."""

    preamble = PREAMBLE
    table = "static __device__ const"
    lane = "threadIdx.x"
    group = "(int64_t)blockIdx.x"
    local = "__shared__"
    local_barrier = "__syncthreads();"
    barrier = "__syncthreads();"

    def item(self, nest: Nest) -> str:
        """The number of what takes a range of units."""
        if not is_wide(nest):
            return "(blockIdx.x * (int64_t)blockDim.x + threadIdx.x)"
        return group_item(nest, self.group, self.argument(nest.outer - 1, nest))

    def memory(self, k: int) -> str:
        return ""

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        first = layout(nest).scalar(len(nest.scalars))
        begin, last, grain = (f"given.at[{first + n}]" for n in range(3))
        return [
            *given_struct(len(nest.operands), first + 3),
            f'extern "C" __global__ void {name}(const __grid_constant__ given_t given)',
            "{",
            f"    const int64_t begin = {begin} + {self.item(nest)} * {grain};",
            f"    const int64_t end = min(begin + {grain}, {last});",
        ]

    def operand(self, k: int, kind: str) -> str:
        return f"({kind})given.buffer[{k}]"

    def argument(self, place: int, nest: Nest) -> str:
        return f"given.at[{place}]"

    def scalar(self, nest: Nest, number: int) -> str:
        at = f"given.at[{layout(nest).scalar(number)}]"
        return f"(given.numbers ? given.numbers[{number}] : {at})"


CUDA = Cuda()


def given_struct(operands: int, numbers: int) -> list[str]:
    """The type of a kernel's argument."""
    return [
        "struct given_t {",
        f"    uint8_t *buffer[{max(operands, 1)}];",
        "    const int64_t *numbers;",
        f"    int64_t at[{max(numbers, 1)}];",
        "};",
    ]


def render(nest: Nest, name: str) -> str:
    """The source of one kernel in CUDA C++; see `ingle.fusion.render.c.source.render`."""
    if is_wide(nest):
        return grouped(nest, name, CUDA)
    if vector_elements(nest):
        validate(nest)
        return VectorNest(nest, name, CUDA).render()
    return rendered(nest, name, CUDA)


class Grid(NamedTuple):
    """How a kernel is launched.

    Attributes:
        blocks, threads: of the grid.
        grain: units of work that a block, or a thread, takes.
    """

    blocks: int
    threads: int
    grain: int


def grid_of(nest: Nest, sizes: Sequence[int], processors: int) -> Grid:
    """The grid for a nest's units of work on a GPU of so many multiprocessors."""
    each = vector_elements(nest)
    if each:
        count = sizes[-1]
        blocks = -(-count // (THREADS * each * vectors_in_flight(nest)))
        return Grid(blocks, THREADS, count)
    work = work_of(nest, sizes, processors, wide=True)
    threads = THREADS if work.group is None else work.group[0]
    return Grid(-(-work.items // threads), threads, work.grain)
