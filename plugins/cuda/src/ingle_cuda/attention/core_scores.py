"""Which scores of a tile are seen, and which keys stay, in attention by tensor cores, and the loop
over the tiles of which something is seen.

A thread has a bit for each of its sums. Of masks of bools it reads two neighbours at once where it
can, or one element for all queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .core_tiles import LOG2E, OWN, CoreShape, Tile, each
from .dropped_keys import element
from .head_axes import BATCH


class Pair(NamedTuple):
    """Which query and which key the sums of a thread belong to, from the numbers `j` and `e`.

    Attributes:
        place, key: of the first of two sums that lie side by side, or of each.
        by_keys: whether rows of the sums are keys.
    """

    place: str
    key: str
    by_keys: bool


_UNROLLED = 4
"""Turns of the loop that draws words, so that a thread has several chains of sums."""
OWN_ROW = "first + warp * 16 + g + e / 2 * 8"
OTHER_ROW = "begin + j * 8 + t * 2 + e % 2"
OF_QUERIES = Pair(OWN_ROW, OTHER_ROW, by_keys=False)
OF_KEYS = Pair(OTHER_ROW, OWN_ROW, by_keys=True)


def walked(shape: CoreShape, pair: Pair, found: Sequence[Tile], end: str, body: str) -> str:
    """A loop over the tiles from `begin` to `end` of which some own row sees something.

    Args:
        pair: which query and key sums belong to.
        found: what is in shared memory of a tile.
        body: computes with the tile `now` that begins at `begin`; `seen` holds a bit for each sum,
            and `whole` says whether a warp has all of them.
    """
    fills = " ".join(
        f"fill_{one.name}({one.array}[next], {one.name}, {one.name}_step, ahead, {one.there});"
        for one in found
    )
    advanced = f"""uint32_t seen_ahead = 0;
        {_looked(shape, pair, end)}
        if (ahead < {end}) {{
            {fills}
        }}
        end_copies();"""
    return f"""{_mask_row(shape, pair) if shape.mask else ""}
    int ahead = begin, next = 0;
    uint32_t seen;
    {{
        {advanced}
        seen = seen_ahead;
        begin = ahead;
    }}
    #pragma unroll 1
    while (begin < {end}) {{
        const int now = next;
        next ^= 1;
        ahead = begin + {shape.tile};
        {advanced}
        wait_for_copies<1>();
        __syncthreads();
        const bool whole = __all_sync(0xffffffffu, seen == {_all(shape)});
        {body}
        begin = ahead;
        seen = seen_ahead;
    }}
    wait_for_copies<0>();"""


def _all(shape: CoreShape) -> str:
    """A bit for each sum of a thread."""
    return f"{(1 << 4 * shape.across) - 1:#x}u"


def _mask_row(shape: CoreShape, pair: Pair) -> str:
    """Where a mask begins for a thread: at its first own row, and the first of its sums of that.

    Of padding, the same for all queries, a thread has its own keys, or the lanes of a warp have
    those of the next tile, which are read while the one before is computed with.
    """
    own, other = (2, 1) if pair.by_keys else (1, 2)
    if shape.padding and pair.by_keys:
        return f"""uint32_t own_seen = 0;
    #pragma unroll
    for (int r = 0; r < 2; r++) {{
        const int key = first + warp * 16 + g + r * 8;
        if (key < keys && mask[key * mask_step[{BATCH + 2}]] != 0)
            own_seen |= {_all(shape)} & (r ? 0xccccccccu : 0x33333333u);
    }}
    if (!__syncthreads_or((int)own_seen))
        begin = queries;"""
    if shape.padding:
        return f"""const int64_t mask_along = mask_step[{BATCH + 2}];
    uint8_t shown[{shape.tile // 32}];
    {_padding_at("begin", shape)}"""
    return f"""const int64_t own_step = mask_step[{BATCH + own}];
    const int64_t other_step = mask_step[{BATCH + other}];
    const auto *const mask_row =
        mask + (int64_t)(first + warp * 16 + g) * own_step + t * 2 * other_step;"""


def _padding_at(start: str, shape: CoreShape) -> str:
    return f"""#pragma unroll
            for (int n = 0; n < {shape.tile // 32}; n++) {{
                const int key = {start} + n * 32 + lane;
                shown[n] = key < keys ? mask[key * mask_along] : 0;
            }}"""


def _mask_at(start: str) -> str:
    """The element of a mask for the sum `j`, `e` of the tile that begins somewhere."""
    return f"mask_row[e / 2 * 8 * own_step + ({start} + j * 8 + e % 2) * other_step]"


def _looked(shape: CoreShape, pair: Pair, end: str) -> str:
    """Goes to the next tile of which something is seen, and finds what."""
    if not shape.mask or (shape.padding and pair.by_keys):
        return f"""if (ahead < {end}) {{
            {_seen(shape, pair)}
        }}
        __syncthreads();"""
    if shape.padding:
        words = range(shape.tile // 32)
        ballots = " ".join(
            f"shows[{n}] = __ballot_sync(0xffffffffu, shown[{n}] != 0);" for n in words
        )
        spread = " | ".join(f"bits_of_keys(shows[{n}], t) << {16 * n}" for n in words)
        return f"""uint32_t shows[{shape.tile // 32}];
        #pragma unroll 1
        for (; ahead < {end}; ahead += {shape.tile}) {{
            {ballots}
            {_padding_at(f"ahead + {shape.tile}", shape)}
            if ({" | ".join(f"shows[{n}]" for n in words)})
                break;
        }}
        if (ahead < {end}) {{
            {_seen(shape, pair)}
            seen_ahead &= {spread};
        }}
        __syncthreads();"""
    return f"""#pragma unroll 1
        for (; ahead < {end}; ahead += {shape.tile}) {{
            {_seen(shape, pair)}
            if (__syncthreads_or((int)seen_ahead))
                break;
        }}"""


def _seen(shape: CoreShape, pair: Pair) -> str:
    """Which pairs of the tile `ahead` are seen; all of most tiles, without a mask."""
    tests = f"place < queries && key < keys{' && key <= place' if shape.causal else ''}"
    shown = ""
    if shape.mask and not shape.padding:
        at = _mask_at("ahead")
        shown = f"{at} != 0" if shape.mask == "bool" else f"widened({at}) != -INFINITY"
        tests += f" && {shown}"
    of_place, of_key = (side.replace("begin", "ahead") for side in (pair.place, pair.key))
    found = f"""seen_ahead = 0;
            {each(shape)} {{
                const int place = {of_place}, key = {of_key};
                seen_ahead |= (uint32_t)({tests}) << (j * 4 + e);
            }}"""
    queries, keys = ("ahead", "first") if pair.by_keys else ("first", "ahead")
    own, other = (shape.tile, OWN) if pair.by_keys else (OWN, shape.tile)
    inside = f"{queries} + {own} <= queries && {keys} + {other} <= keys"
    if shape.causal:
        inside += f" && {keys} + {other} <= {queries} + 1"
    whole = f"seen_ahead = {_all(shape)};"
    if shown:
        whole = f"""seen_ahead = 0;
            {each(shape)}
                seen_ahead |= (uint32_t)({shown}) << (j * 4 + e);"""
    if shown and shape.mask == "bool" and not pair.by_keys:
        whole = f"{_seen_at_once(shape)} else {{\n            {whole}\n            }}"
    narrowed = "seen_ahead &= own_seen;" if shape.padding and pair.by_keys else ""
    return f"""if ({inside}) {{
                {whole}
            }} else {{
                {found}
            }}
            {narrowed}"""


def _seen_at_once(shape: CoreShape) -> str:
    """Of a mask of bools, the same by fewer loads: of two keys that lie side by side."""
    return f"""if (other_step == 1 && (((uint64_t)mask | (uint64_t)own_step) & 1) == 0) {{
                seen_ahead = 0;
                #pragma unroll
                for (int j = 0; j < {shape.across}; j++) {{
                    const uint8_t *const place = mask_row + ahead + j * 8;
                    const uint32_t low = *(const uint16_t *)place;
                    const uint32_t high = *(const uint16_t *)(place + 8 * own_step);
                    const uint32_t bits = (uint32_t)((low & 0xff) != 0) | (low > 0xff) << 1;
                    const uint32_t more = (uint32_t)((high & 0xff) != 0) | (high > 0xff) << 1;
                    seen_ahead |= (bits | more << 2) << (j * 4);
                }}
            }}"""


def scaled(shape: CoreShape, sums: str) -> str:
    """Scores in the place of products, to the base two when they are multiplied with `late`;
    -INFINITY where they are hidden."""
    if shape.is_added:
        added = f"widened({_mask_at('begin')}) * {LOG2E}"
        return f"""{each(shape)}
        {sums}[j][e] =
            seen >> (j * 4 + e) & 1 ? fmaf({sums}[j][e], by, {added}) : -INFINITY;"""
    return f"""if (late != by) {{
        {each(shape)}
            {sums}[j][e] *= by;
    }}
    if (!whole) {{
        {each(shape)}
            {sums}[j][e] = seen >> (j * 4 + e) & 1 ? {sums}[j][e] : -INFINITY;
    }}"""


def kept(shape: CoreShape, pair: Pair) -> str:
    """A bit for each sum whose key stays, `stay`; keys side by side have one block of words, which
    one thread finds."""
    if not shape.dropout:
        return ""
    one = f"""#pragma unroll 1
        for (int j = 0; j < {shape.across}; j++)
            #pragma unroll 1
            for (int e = 0; e < 4; e++)
                if (seen >> (j * 4 + e) & 1)
                    stay |= (uint32_t)stays(random, threshold, {element(pair.place, pair.key)})
                        << (j * 4 + e);"""
    if not pair.by_keys:
        place, key = pair.place, pair.key.replace("j * 8 + ", "")
        two = f"""#pragma unroll
        for (int r = 0; r < 2; r++) {{
            const int e = r * 2;
            const uint64_t block = ({element(place, key)}) / 2;
            #pragma unroll {_UNROLLED}
            for (int j = 0; j < {shape.across}; j++)
                stay |= both_stay(random, threshold, block + j * 4) << (j * 4 + e);
        }}"""
    else:
        key = pair.key.replace("+ g +", "+ g / 2 * 2 +")
        two = f"""#pragma unroll {_UNROLLED}
        for (int j = 0; j < {shape.across}; j++) {{
            /* Of two rows one thread finds the first sums of both, the other one their last. */
            uint32_t mine = 0;
            #pragma unroll
            for (int h = 0; h < 2; h++) {{
                const int e = g % 2 * 2 + h;
                const uint32_t both = both_stay(random, threshold,
                    ({element(pair.place, key)}) / 2);
                mine |= (both & 1) << h | (both >> 1) << (h + 2);
            }}
            const uint32_t theirs = __shfl_xor_sync(0xffffffffu, mine, 4);
            const uint32_t found =
                g % 2 ? (theirs >> 2) | (mine & 12) : (mine & 3) | (theirs & 3) << 2;
            stay |= found << (j * 4);
        }}"""
    return f"""uint32_t stay = 0;
    if (keys % 2 == 0) {{
        {two}
    }} else {{
        {one}
    }}"""
