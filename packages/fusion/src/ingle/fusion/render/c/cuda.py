"""CUDA C++ for NVIDIA's GPUs, as NVRTC compiles it: the wide family.

A kernel has one argument, a struct: the operands' addresses, where scalars lie if not in the struct
itself, and int64: what `layout` says of sizes and strides, the scalars, the first and last unit of
work, and how many units a block of threads takes (or a thread, where each has units of its own).
Scalars in memory are those of a captured graph, whose arguments stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...kernel.nest import Nest, layout
from ...kernel.validation import validate
from . import elements
from .elements import Widened
from .groups import group_item, grouped, is_wide
from .held import held
from .held_lengths import ANY_LAUNCH, Holding, may_hold
from .source import rendered
from .vectors import VectorNest, vector_elements

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
#define INGLE_SHORT_EXP_FLOAT32(x) exp2f((x) * 1.4426950408889634f)
#define INGLE_SHORT_EXP2_FLOAT32 exp2f
#define INGLE_SHORT_RECIPROCAL_FLOAT32 short_reciprocal
static float short_reciprocal(float x)
{ float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
static uint16_t rounded_bfloat16(float x)
{ uint16_t y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
static uint16_t rounded_float16(float x)
{ uint16_t y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
static float widened_float16(uint16_t x)
{ float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
static float smaller(float x, float y)
{ float z; asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y)); return z; }
static float larger(float x, float y)
{ float z; asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y)); return z; }
#define INGLE_MIN_FLOAT32 smaller
#define INGLE_MAX_FLOAT32 larger
#define INGLE_ROUNDED_BFLOAT16 rounded_bfloat16
#define INGLE_ROUNDED_FLOAT16 rounded_float16
#define INGLE_WIDENED_FLOAT16 widened_float16
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define INGLE_AFTER_OTHERS \\
    asm volatile("griddepcontrol.launch_dependents;\\n\\tgriddepcontrol.wait;" ::: "memory")
#define INGLE_ALONE_AFTER_OTHERS asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define INGLE_AFTER_OTHERS
#define INGLE_ALONE_AFTER_OTHERS
#endif
/* What is read once leaves caches first, where what is read again stays. */
#ifdef __CUDA_ARCH__
#define INGLE_READ_ONCE(place) __ldcs(&(place))
#else
#define INGLE_READ_ONCE(place) (place)
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
"""The statement of a kernel behind which all has happened that was launched before. What comes
next may begin up to its own from then on. It is the first one but where `Grid` says what is read
before it."""
ALONE_AFTER_OTHERS = "INGLE_ALONE_AFTER_OTHERS;"
"""The same for a kernel of large blocks: what comes next begins when they end. Blocks that wait
take the places of its own, several of which may then share a multiprocessor while others idle."""


class Cuda:
    """A block of threads takes what a work item does in the narrow family."""

    preamble = PREAMBLE
    table = "static __device__ const"
    functions = frozenset({"exp", "erf", "short_exp", "short_exp2", "short_reciprocal"})
    """In CUDA's library they take 8 and some 25 instructions around the one for powers of two, with
    errors of at most 1 and 2 ulp; as polynomials alone 25 and 45. The short ones are instructions
    for powers of two and reciprocals with little around them."""
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


CUDA = Cuda()
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


def _alone(nest: Nest, name: str) -> str:
    """A nest whose threads have nothing to do with one another."""
    if vector_elements(nest):
        validate(nest)
        return VectorNest(nest, name, CUDA).render()
    return rendered(nest, name, CUDA)


def at_once(nest: Nest) -> int:
    """How many launches of a flat nest fit into the arguments of a kernel."""
    numbers = layout(nest).scalar(len(nest.scalars)) + 3
    return most_at_once(max(len(nest.operands), 1) + 1 + numbers)


def most_at_once(given: int) -> int:
    """How many launches whose arguments are so many numbers fit into those of a kernel."""
    return PARAMETERS // (8 * (given + 1))


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
