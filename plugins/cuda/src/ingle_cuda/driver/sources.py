"""Kernels that are no nests, in CUDA C++."""

from __future__ import annotations

from functools import cache

from ingle.fusion.device.cuda import AFTER_OTHERS, PREAMBLE, given_struct

COPY = "ordered"
NUMBERS = "numbers"
PADDED = "padded"
WINDOWS = "windows"
TAKEN = "taken"
NUMBERS_AT_ONCE = 480
"""Numbers that one launch writes: a thread each, in what a kernel's argument may hold."""


@cache
def copy_source(size: int) -> str:
    """A kernel that puts strided matrices in order, of elements of so many bytes.

    Behind the addresses stand how many elements there are, three sizes of the batch, rows, columns,
    and the strides along them.
    """
    kind = f"uint{8 * size}_t"
    struct = "\n".join(given_struct(2, 11))
    return f"""{PREAMBLE}
{struct}
extern "C" __global__ void {COPY}(const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const size = given.at + 1, *const step = given.at + 6;
    const int64_t place = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (place >= given.at[0])
        return;
    int64_t rest = place, from = 0;
    for (int axis = 4; axis >= 0; axis--) {{
        from += rest % size[axis] * step[axis];
        rest /= size[axis];
    }}
    (({kind} *)given.buffer[1])[place] = ((const {kind} *)given.buffer[0])[from];
}}
"""


@cache
def padded_source() -> str:
    """A kernel that copies matrices of elements of two bytes into longer lines, with zeros behind
    their own elements and lines; a thread writes 16 bytes.

    Behind the addresses stand how many threads there are, how many a line has, lines of the copy,
    lines of a matrix, elements of a line, sizes of two batch axes behind the first, and strides
    along lines and the three batch axes.
    """
    struct = "\n".join(given_struct(2, 11))
    return f"""{PREAMBLE}
{struct}
struct alignas(16) line_t {{ uint16_t at[8]; }};
extern "C" __global__ void {PADDED}(const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    const int64_t place = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (place >= at[0])
        return;
    int64_t rest = place / at[1];
    const int64_t first = place % at[1] * 8, line = rest % at[2];
    rest /= at[2];
    const int64_t batch2 = rest % at[6];
    rest /= at[6];
    const uint16_t *const from = (const uint16_t *)given.buffer[0] + line * at[7]
        + rest / at[5] * at[8] + rest % at[5] * at[9] + batch2 * at[10] + first;
    line_t found = {{}};
    #pragma unroll
    for (int n = 0; n < 8; n++)
        if (line < at[3] && first + n < at[4])
            found.at[n] = from[n];
    ((line_t *)given.buffer[1])[place] = found;
}}
"""


@cache
def windows_source(size: int, rank: int, over_places: bool) -> str:
    """A kernel that writes windows of images as matrices, zeros where they leave the image.

    Behind the addresses stand how many elements there are; sizes of two batch axes, turns and
    channels; along each image axis the kernel's size, the number of windows, their step, the
    spread of taps, the start, the image's size and stride; strides along the batch, turns and
    channels.

    Args:
        over_places: whether a row is a window, and a column a channel and a tap; or the reverse.
    """
    kind, axes = f"uint{8 * size}_t", range(rank - 1, -1, -1)
    struct = "\n".join(given_struct(2, 9 + 7 * rank))
    parts = {name: 5 + n * rank for n, name in enumerate(
        ("kernel", "places", "step", "spread", "start", "image", "stride")
    )}  # fmt: skip
    behind = 5 + 7 * rank
    taps = [_taken(f"t{d}", parts["kernel"] + d) for d in axes]
    places = [_taken(f"p{d}", parts["places"] + d) for d in axes]
    channel, turn = [_taken("channel", 4)], [_taken("turn", 3)]
    order = [*taps, *channel, *places, *turn] if over_places else [*places, *taps, *channel, *turn]
    where = [
        f"const int64_t i{d} = p{d} * at[{parts['step'] + d}] + t{d} * at[{parts['spread'] + d}]"
        f" + at[{parts['start'] + d}];"
        for d in range(rank)
    ]
    inside = " && ".join([f"i{d} >= 0 && i{d} < at[{parts['image'] + d}]" for d in range(rank)])
    image = " + ".join([f"i{d} * at[{parts['stride'] + d}]" for d in range(rank)])
    body = "\n    ".join([*order, *where])
    return f"""{PREAMBLE}
{struct}
extern "C" __global__ void {WINDOWS}(const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    const int64_t place = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (place >= at[0])
        return;
    int64_t rest = place;
    {body}
    const int64_t from = rest / at[2] * at[{behind}] + rest % at[2] * at[{behind + 1}]
        + turn * at[{behind + 2}] + channel * at[{behind + 3}] + {image};
    {kind} found = 0;
    if ({inside})
        found = ((const {kind} *)given.buffer[0])[from];
    (({kind} *)given.buffer[1])[place] = found;
}}
"""


@cache
def numbers_source() -> str:
    """A kernel that writes the numbers in its argument into memory."""
    return f"""{PREAMBLE}
struct given_t {{
    int64_t *to;
    int64_t count;
    int64_t at[{NUMBERS_AT_ONCE}];
}};
extern "C" __global__ void {NUMBERS}(const __grid_constant__ given_t given)
{{
    if (threadIdx.x < given.count)
        given.to[threadIdx.x] = given.at[threadIdx.x];
}}
"""


@cache
def taken_source() -> str:
    """A kernel of one block that copies numbers from memory of the host, where it counts that."""
    return f"""{PREAMBLE}
struct given_t {{
    volatile int64_t *from;
    int64_t *to;
    int64_t count;
}};
extern "C" __global__ void {TAKEN}(const __grid_constant__ given_t given)
{{
    int64_t before = 0;
    if (threadIdx.x == 0)
        before = given.from[0];
    for (int64_t n = threadIdx.x; n < given.count; n += blockDim.x)
        given.to[n] = given.from[1 + n];
    __syncthreads();
    if (threadIdx.x == 0)
        given.from[0] = before + 1;
}}
"""


def _taken(name: str, at: int) -> str:
    """An index along an axis, taken off a place in order."""
    return f"const int64_t {name} = rest % at[{at}]; rest /= at[{at}];"
