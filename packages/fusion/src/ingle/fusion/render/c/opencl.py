"""OpenCL C, for devices that take a nest's units of work one after the other.

A work item takes a range of units, as a worker of a thread pool does. Buffers are handed over one
by one, since pointers may not lie in memory. What a plan knows before it runs, sizes and strides,
is a table in memory; what changes from run to run comes with the launch, behind the buffers: a
struct of int64 with the offset of each operand in bytes, the scalars, where in the table the
arguments begin, the first and last unit, and how many units a work item takes.

Compilers often take half of the widest vector registers. Where `INGLE_VECTOR` is defined, as the
bytes of a register, long loops take all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...kernel.code import SIZES
from ...kernel.nest import NARROW, Nest, accumulator_dtype, is_flat, layout, units
from ...kernel.validation import validate
from . import elements
from .elements import Widened
from .group_scans import runs_alone
from .groups import MOST, group_item, grouped, is_wide
from .row_vectors import row_of_vector, row_vector_elements, row_vector_items, row_vectors
from .short_rows import Short, items_of, row_of_item, short_rows, short_rows_of
from .sorted_scatter import ScatterLaunch, sorted_scatter
from .source import rendered
from .text import value_type
from .transposed import tiled
from .vectors import VectorNest, vector_elements
from .work import Work

PREAMBLE = """\
#pragma OPENCL FP_CONTRACT OFF
/* Compile with -cl-fp32-correctly-rounded-divide-sqrt where the device has it. */
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define INT8_MIN CHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LONG_MIN
#define INT64_MAX LONG_MAX
#define INT64_C(x) x##L
#define UINT8_C(x) x
#define UINT16_C(x) x
#define UINT32_C(x) x##U
#define UINT64_C(x) x##UL
/* Some drivers have another NaN than arithmetic gives. */
#undef NAN
#define NAN as_float(0x7fc00000)
#define sqrtf(x) sqrt((float)(x))
/* One instruction, where the libraries of drivers for processors have a dozen. */
#if defined(__clang__) && (defined(__SSE4_1__) || defined(__aarch64__))
#define floorf(x) __builtin_floorf(x)
#define ceilf(x) __builtin_ceilf(x)
#define truncf(x) __builtin_truncf(x)
#define rintf(x) __builtin_rintf(x)
#define floor(x) __builtin_floor(x)
#define ceil(x) __builtin_ceil(x)
#define trunc(x) __builtin_trunc(x)
#define rint(x) __builtin_rint(x)
#else
#define floorf(x) floor((float)(x))
#define ceilf(x) ceil((float)(x))
#define truncf(x) trunc((float)(x))
#define rintf(x) rint((float)(x))
#endif
#define fabsf(x) fabs((float)(x))
#define fmaf(x, y, z) fma((float)(x), (float)(y), (float)(z))
/* An output may lie in the memory of an input of another type, place by place. */
#define INGLE_ALIAS __attribute__((__may_alias__))
/* No iteration reads what another one writes. */
#if defined(__clang__)
#define INGLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INGLE_INDEPENDENT
#endif
"""


ITEM = "get_global_id(0)"
"""The number of a work item."""


class OpenCL:
    """The narrow family in OpenCL C 1.2."""

    preamble = PREAMBLE
    table = "__constant"
    vectorized = True

    def item(self, nest: Nest) -> str:
        """The number of what takes a range of units."""
        return ITEM

    def memory(self, k: int) -> str:
        return "__global "

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        count = len(nest.operands)
        buffers = [f"__global uint8_t *buffer{k}, " for k in range(count)]
        at = count + len(nest.scalars)
        start, first, last, grain = (f"given.at[{n}]" for n in range(at, at + 4))
        return [
            *_whole_registers(nest),
            f"typedef struct {{ int64_t at[{at + 4}]; }} given_t;",
            f"__kernel void {name}({''.join(buffers)}__global const int64_t *table,",
            "    const given_t given)",
            "{",
            f"    __global const int64_t *const args = table + {start};",
            f"    const int64_t begin = {first} + {self.item(nest)} * {grain};",
            f"    const int64_t end = min(begin + {grain}, {last});",
        ]

    def operand(self, k: int, kind: str) -> str:
        return f"({kind})(buffer{k} + given.at[{k}])"

    def argument(self, place: int, nest: Nest) -> str:
        return f"args[{place}]"

    def scalar(self, nest: Nest, number: int) -> str:
        return f"given.at[{len(nest.operands) + number}]"


def _whole_registers(nest: Nest) -> Sequence[str]:
    """Makes loops of a nest whose rows are long take as many elements as a register holds."""
    if not (is_flat(nest) or nest.long_rows):
        return ()
    dtypes = {*(i.dtype for s in nest.stages for i in s.code), *(o.dtype for o in nest.operands)}
    widest = max(SIZES[accumulator_dtype(d)] for d in dtypes)
    width = f"vectorize_width(INGLE_VECTOR / {widest})"
    return (
        "#if defined(__clang__) && defined(INGLE_VECTOR)",
        "#undef INGLE_INDEPENDENT",
        f'#define INGLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) {width}")',
        "#endif",
    )


class Items(OpenCL):
    """What GPUs run: work items are their lanes, and loops take one element at a time."""

    vectorized = False


class Wide(Items):
    """The same for groups of work items, which take what a work item does in the narrow family."""

    lane = "get_local_id(0)"
    group = "get_group_id(0)"
    width = "get_local_size(0)"
    local = "__local"
    local_barrier = "barrier(CLK_LOCAL_MEM_FENCE);"
    barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def item(self, nest: Nest) -> str:
        return group_item(nest, self.group, f"args[{nest.outer - 1}]")


class ShortRowItems(Items):
    """A work item takes a row, or an element of one."""

    def __init__(self, short: Short) -> None:
        self._short = short

    def item(self, nest: Nest) -> str:
        inner = self.argument(layout(nest).inner, nest)
        return row_of_item(self._short, ITEM, inner)


class VectorItems(Items):
    """A work item takes so many neighbours of a row."""

    def __init__(self, each: int) -> None:
        self._each = each

    def item(self, nest: Nest) -> str:
        return row_of_vector(ITEM, self.argument(layout(nest).inner, nest), self._each)


class MemberFunction(Items):
    """A function that a kernel of many launches calls, instead of a kernel.

    Operands come as pointers to their first element, the scalars in an array.
    """

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        buffers = [f"__global uint8_t *buffer{k}, " for k in range(len(nest.operands))]
        return [
            f"static void {name}({''.join(buffers)}__global const int64_t *args,",
            "    const int64_t *numbers, const int64_t begin, const int64_t end)",
            "{",
        ]

    def operand(self, k: int, kind: str) -> str:
        return f"({kind})buffer{k}"

    def scalar(self, nest: Nest, number: int) -> str:
        return f"numbers[{number}]"


class EpilogueFunction(Items):
    """A function that a tile's kernel calls, instead of a kernel.

    Operand 0 is the tile, in private memory. The other operands come as pointers, the scalars in an
    array, and the inner size, which the last tile of a row has less of, as `width`.
    """

    def memory(self, k: int) -> str:
        return super().memory(k) if k else ""

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        buffers = [f"__global uint8_t *buffer{k}, " for k in range(1, len(nest.operands))]
        return [
            f"static void {name}({self.tile(nest)} *tile, {''.join(buffers)}",
            "    __global const int64_t *args, const int64_t *numbers,",
            "    const int64_t width, const int64_t begin, const int64_t end)",
            "{",
        ]

    def tile(self, nest: Nest) -> str:
        """The type of the tile's elements."""
        return value_type(nest.operands[0].dtype)

    def operand(self, k: int, kind: str) -> str:
        return f"({kind})buffer{k}" if k else f"({kind})tile"

    def argument(self, place: int, nest: Nest) -> str:
        return "width" if place == layout(nest).inner else f"args[{place}]"

    def scalar(self, nest: Nest, number: int) -> str:
        return f"numbers[{number}]"


OPENCL = OpenCL()
WIDE = Wide()
MEMBER = MemberFunction()
EPILOGUE = EpilogueFunction()


def render(nest: Nest, name: str) -> str:
    """The source of one kernel in OpenCL C; see `ingle.fusion.render.c.source.render`."""
    return rendered(nest, name, OPENCL)


def render_wide(nest: Nest, name: str) -> str:
    """The source for a device with many small work items; a group takes a unit of work."""
    if is_wide(nest):
        return grouped(nest, name, WIDE)
    if vector_elements(nest):
        validate(nest)
        return VectorNest(nest, name, WIDE).render()
    return render(nest, name)


def for_launch(nest: Nest, name: str, numbers: Sequence[int]) -> tuple[str, Work] | None:
    """The source for such a device that suits the sizes and strides of a launch, and its work,
    where a group is a unit, or each work item takes one; None where that is the nest's own. Bits
    are those of the nest's own.

    Operands that lie across the rows are taken in tiles, rows that begin at multiples of a vector
    in vectors, and of rows that are too short for a group each work item takes one.

    Args:
        nest: of any kind.
        name: of the kernel.
        numbers: sizes, then strides, as `layout` says.
    """
    sizes = numbers[: nest.outer + 1]
    if runs_alone(nest, sizes):
        return render(nest, name), Work(units(nest, sizes), 1)
    found = tiled(nest, name, numbers, WIDE, MOST)
    if found is not None:
        return found[0], Work(found[1] * MOST, 1, (MOST,))
    vector = row_vector_elements(nest, numbers)
    if vector:
        items = row_vector_items(numbers, nest.outer, vector)
        return _along_rows(nest, name, vector), Work(items, 1)
    short = short_rows_of(nest, sizes)
    if short is None:
        return None
    return _short(nest, name, short), Work(items_of(short, nest, sizes), 1)


# Code that runs operation by operation asks for a source in each launch.


@lru_cache(maxsize=1024)
def _along_rows(nest: Nest, name: str, each: int) -> str:
    return row_vectors(nest, name, VectorItems(each), each, ITEM)


@lru_cache(maxsize=1024)
def _short(nest: Nest, name: str, short: Short) -> str:
    return short_rows(nest, name, ShortRowItems(short), short, ITEM)


def for_scatter(nest: Nest, name: str, numbers: Sequence[int]) -> list[ScatterLaunch]:
    """The kernels that do on such a device what a scattered nest does, with its bits; none where
    that is the nest's own.

    Args:
        nest: of any kind.
        name: of each kernel.
        numbers: sizes, then strides, as `layout` says.
    """
    return sorted_scatter(nest, name, numbers, OPENCL, WIDE, NARROW)


def widened(dtype: str) -> Widened:
    """How a kernel written by hand reads floats of a dtype."""
    return elements.widened(OPENCL, dtype)


def widened_beside(nest: Nest, dtype: str) -> Widened:
    """How a kernel written by hand, which calls a nest as its function `epilogue`, reads floats of
    a dtype."""
    return elements.widened_beside(nest, "epilogue", EPILOGUE, dtype)


def rounded(dtype: str) -> tuple[Widened, str]:
    """How a kernel written by hand reads floats of a dtype, and the element for a value `x`."""
    return elements.rounded(OPENCL, dtype)
