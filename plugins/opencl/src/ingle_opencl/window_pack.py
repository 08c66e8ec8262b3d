"""Windows of images, packed into the panels of a product where a matrix would be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ingle.fusion.device.kernels import ContractionCall, Windows
from ingle.fusion.device.opencl import widened

from .matmul import MAX_BATCH, PACK

_PER_AXIS = ("kernel", "places", "steps", "spread", "start", "image", "strides")
"""What a table has for each image axis, in its order."""
_BEFORE, _AXES = 5, 10
"""Where a table says how many columns there are, and where its image axes begin."""


def window_table(call: ContractionCall, windows: Windows, length: int) -> list[int]:
    """The arguments of the kernel.

    The batch, columns, k with all turns, steps along the batch, from turn to turn and from channel
    to channel; then each image axis.

    Args:
        length: of k that a work item packs.
    """
    _, n, k = call.sizes
    missing = MAX_BATCH - len(call.batch)
    return [
        *[1] * missing, *call.batch, n, k * windows.turns, *[0] * missing, *call.b.strides[:-2],
        windows.b_turn, windows.channel,
        *[part for name in _PER_AXIS for part in getattr(windows, name)], length,
    ]  # fmt: skip


@lru_cache(maxsize=64)
def window_pack_source(dtype: str, width: int, rank: int, over_places: bool) -> str:
    """A kernel that packs windows; a work item writes a piece of a panel.

    What an element is follows from its column and from its place along k: one of them is a channel
    and a tap, the other one a place. Both say where along each image axis, and their sum tells.

    Args:
        width: columns of a panel.
        over_places: whether k runs along places; else along channels and taps.
    """
    helpers, kind, stored, shown = widened(dtype)
    axes = range(rank)
    part = {name: _AXES + n * rank for n, name in enumerate(_PER_AXIS)}
    length = _AXES + len(_PER_AXIS) * rank

    def of(name: str, axis: int) -> str:
        return f"args[{part[name] + axis}]"

    taps = [of("kernel", d) for d in axes]
    places = [of("places", d) for d in axes]
    tap_steps = [of("spread", d) for d in axes]
    place_steps = [of("steps", d) for d in axes]
    column_sizes, k_sizes = (taps, places) if over_places else (places, taps)
    column_steps, k_steps = (tap_steps, place_steps) if over_places else (place_steps, tap_steps)
    channel = "args[9]"
    lines = [f"int64_t column{d}[{width}];" for d in axes]
    found = [
        *_digits("rest", [f"c{d}" for d in axes], column_sizes),
        *[f"column{d}[line] = c{d} * {column_steps[d]} + {of('start', d)};" for d in axes],
    ]  # fmt: skip
    if over_places:
        found.append(f"from[line] = rest * {channel};")
    else:
        found.append("from[line] = 0;")
    where = [f"const int64_t i{d} = column{d}[line] + k{d} * {k_steps[d]};" for d in axes]
    inside = " & ".join(f"(i{d} >= 0) & (i{d} < {of('image', d)})" for d in axes)
    image = " + ".join(f"i{d} * {of('strides', d)}" for d in axes)
    last = rank - 1
    whole = " && ".join(f"column{d}[0] == column{d}[{width - 1}]" for d in range(last)) or "1"
    within = " && ".join(
        [
            *[
                f"column{d}[0] + k{d} * {k_steps[d]} >= 0 && "
                f"column{d}[0] + k{d} * {k_steps[d]} < {of('image', d)}"
                for d in range(last)
            ],
            f"column{last}[0] + k{last} * {k_steps[last]} >= 0",
            f"column{last}[{width - 1}] + k{last} * {k_steps[last]} < {of('image', last)}",
        ]
    )
    begin = " + ".join(f"(column{d}[0] + k{d} * {k_steps[d]}) * {of('strides', d)}" for d in axes)
    counters = "".join(f", k{d}" for d in axes)
    return f"""{helpers}
typedef struct {{ int64_t at[3]; }} given_t;
__kernel void {PACK}(__global uint8_t *images, __global uint8_t *to, __global const int64_t *table,
    const given_t given)
{{
    __global const int64_t *const args = table + given.at[2];
    const int64_t count = args[3], k = args[4];
    const int64_t first = get_global_id(0) * {width}, matrix = get_global_id(2);
    const int64_t begin = get_global_id(1) * args[{length}], end = min(begin + args[{length}], k);
    const int64_t lines = min((int64_t){width}, count - first);
    if (lines <= 0)
        return;
    const int64_t panel = (matrix - get_global_offset(2)) * ((count + {width - 1}) / {width})
        + get_global_id(0);
    __global const {stored} *const source = (__global const {stored} *)(images + given.at[0])
        + matrix / (args[1] * args[2]) * args[5] + matrix / args[2] % args[1] * args[6]
        + matrix % args[2] * args[7];
    __global {kind} *const panels = (__global {kind} *)(to + given.at[1]) + panel * k * {width};
    {_joined(lines)}
    int64_t from[{width}];
    for (int64_t line = 0; line < {width}; line++) {{
        int64_t rest = first + min(line, lines - 1);
        {_joined(found, 8)}
    }}
    int64_t rest = begin{counters};
    {_joined(_digits("rest", [f"k{d}" for d in axes], k_sizes, declared=True))}
    {_turns(over_places)}
    /* Columns side by side in one line of an image, none of them missing. */
    const int in_line = {int(not over_places)} && lines == {width} && {whole}
        && column{last}[{width - 1}] - column{last}[0] == {width - 1}
        && {of("strides", last)} == 1;
    for (int64_t p = begin; p < end; p++) {{
        __global {kind} *const row = panels + p * {width};
        if (in_line && {within}) {{
            __global const {stored} *const piece = source + plus + {begin};
            INGLE_INDEPENDENT
            for (int64_t line = 0; line < {width}; line++) {{
                const {stored} x = piece[line];
                row[line] = {shown};
            }}
        }} else {{
            INGLE_INDEPENDENT
            for (int64_t line = 0; line < {width}; line++) {{
                {_joined(where, 16)}
                const int there = {inside} & (line < lines);
                const {stored} x = source[there ? plus + from[line] + {image} : 0];
                row[line] = there ? {shown} : 0;
            }}
        }}
        {_joined(_advance(k_sizes, over_places), 8)}
    }}
}}
"""


def _digits(
    rest: str, names: Sequence[str], sizes: Sequence[str], declared: bool = False
) -> list[str]:
    """Indices along axes, taken off a place in order; what is left stays in `rest`."""
    kind = "" if declared else "const int64_t "
    pairs = list(zip(names, sizes, strict=True))[::-1]
    return [f"{kind}{name} = {rest} % {size}; {rest} /= {size};" for name, size in pairs]


def _turns(over_places: bool) -> str:
    return f"int64_t plus = rest * args[{_outer(over_places)}];"


def _outer(over_places: bool) -> int:
    """Where a table has the steps of what is left of k: turns, or channels."""
    return 8 if over_places else 9


def _advance(sizes: Sequence[str], over_places: bool) -> list[str]:
    """The next place along k: like the digits of a clock."""
    opened = [f"if (++k{d} == {sizes[d]}) {{ k{d} = 0;" for d in range(len(sizes) - 1, -1, -1)]
    return [*opened, f"plus += args[{_outer(over_places)}];", "} " * len(sizes)]


def _joined(lines: Sequence[str], indent: int = 4) -> str:
    return ("\n" + " " * indent).join(lines)
