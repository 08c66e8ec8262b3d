"""Which keys stay, in memory between the kernels of a gradient by tensor cores: one kernel draws
words, which takes 20 rounds for two scores, and the other one reads a bit for each score.

A thread of the first has a bit for each of its sums of a tile, rows of which are keys. So it leaves
them: for each 64 queries and 16 keys a warp's 32 words. A thread of the other one has queries as
rows, and finds its bits in the words of eight threads for 64 keys.
"""

from __future__ import annotations

from .core_products import STEP
from .core_tiles import OWN, CoreShape

MOST_BYTES = 1 << 28
"""Of the bits of all scores; for more, words are drawn again."""
_WARP = 32


def words_bytes(lines: int, queries: int, keys: int) -> int:
    """How much memory the bits of so many heads take.

    >>> words_bytes(1, 64, 64), words_bytes(2, 65, 1)
    (512, 2048)
    """
    tiles = -(-queries // OWN) * -(-keys // OWN)
    return lines * tiles * OWN * OWN // 8


def words_of_head() -> str:
    """Where the words of a head begin."""
    each = f"(uint64_t)((queries + {OWN - 1}) / {OWN}) * of_row"
    return f"(((i0 * at[1] + i1) * at[2] + i2) * at[3] + group) * ({each})"


def of_row() -> str:
    """The number of words for 64 queries."""
    strips = f"(keys + {OWN - 1}) / {OWN} * {OWN // STEP}"
    return f"const int of_row = {strips} * {_WARP};"


def put_words(shape: CoreShape) -> str:
    """Leaves the bits of a tile's sums, `stay`."""
    if not shape.words:
        return ""
    strip = f"first / {STEP} + warp"
    place = f"(begin / {OWN}) * (int64_t)of_row + ({strip}) * {_WARP} + lane"
    if shape.tile == OWN:
        return f"words[{place}] = stay;"
    return f"((uint16_t *)words)[({place}) * 2 + begin / {shape.tile} % 2] = (uint16_t)stay;"


def read_words(shape: CoreShape) -> str:
    """The bits of a tile's sums, `stay`."""
    return f"""uint32_t stay = 0;
        {{
            const int strip = first / {STEP} + warp;
            const uint32_t *const line = words + (strip / {OWN // STEP}) * (int64_t)of_row
                + begin / {STEP} * {_WARP} + t * 8 + g / 2;
            uint32_t given_bits[{shape.tile // STEP}][2];
            #pragma unroll
            for (int s = 0; s < {shape.tile // STEP}; s++)
                #pragma unroll
                for (int i = 0; i < 2; i++)
                    given_bits[s][i] = line[s * {_WARP} + i * 4];
            #pragma unroll
            for (int s = 0; s < {shape.tile // STEP}; s++)
                #pragma unroll
                for (int i = 0; i < 2; i++) {{
                    const uint32_t bits =
                        given_bits[s][i] >> (strip % {OWN // STEP} * 8 + g % 2);
                    stay |= (bits & 0x41 | (bits & 4) << 2 | (bits & 16) >> 2) << (s * 8 + i);
                }}
        }}"""
