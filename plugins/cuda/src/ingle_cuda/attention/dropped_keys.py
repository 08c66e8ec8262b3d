"""Which keys a query leaves out at random, in CUDA C++: the words of `random_bits`, computed where
a kernel meets a score.

The numbers of an argument hold what the keys that stay count more, the threshold, and the four
words of a place in the random stream. A plan gives the words anew for each run; a graph's kernels
read them from memory.
"""

from __future__ import annotations

import numpy as np

from ingle.tensor.ops.neural.attention_dropout import factor, threshold
from ingle.tensor.ops.random.bits import PARITY, ROTATIONS, WORDS

from .head_axes import BATCH

FACTOR, THRESHOLD, PLACE = range(3)
"""Where these stand, behind the first number."""
COUNT = PLACE + len(WORDS)
"""How many numbers there are."""


def dropout_numbers(p: float) -> list[int]:
    """The numbers for a probability, with zeros in the place of the words."""
    bits = int(np.asarray(factor(p), np.float32).view(np.int32))
    return [bits, threshold(p), *[0] * len(WORDS)]


def drawn_source() -> str:
    """Functions that give two neighbouring words, a block, and that say whether a key stays, or
    which of the two of a block do."""
    rounds = []
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            rounds.append(f"x0 += x1; x1 = (x1 << {turn} | x1 >> {32 - turn}) ^ x0;")
        rounds.append(f"x0 += key{(group + 1) % 3}; x1 += key{(group + 2) % 3} + {group + 1}u;")
    lines = "\n    ".join(rounds)
    return f"""\
struct random_t {{ uint32_t key0, key1, key2; uint64_t place; }};
struct words_t {{ uint32_t at[2]; }};
static random_t random_at(const int64_t *words)
{{
    const uint32_t key0 = words[0], key1 = words[1];
    return random_t{{key0, key1, {PARITY}u ^ key0 ^ key1,
        (uint64_t)(uint32_t)words[2] | (uint64_t)words[3] << 32}};
}}
static words_t drawn(const random_t &random, uint64_t block)
{{
    const uint32_t key0 = random.key0, key1 = random.key1, key2 = random.key2;
    block += random.place;
    uint32_t x0 = (uint32_t)block + key0, x1 = (uint32_t)(block >> 32) + key1;
    {lines}
    return words_t{{{{x0, x1}}}};
}}
static bool stays(const random_t &random, uint32_t threshold, uint64_t element)
{{
    const words_t words = drawn(random, element / 2);
    return (element % 2 ? words.at[1] : words.at[0]) >= threshold;
}}
static uint32_t both_stay(const random_t &random, uint32_t threshold, uint64_t block)
{{
    const words_t words = drawn(random, block);
    return (words.at[0] >= threshold) | (words.at[1] >= threshold) << 1;
}}"""


def begun_dropout(at: int) -> str:
    """What a kernel knows of it.

    Args:
        at: where its numbers begin.
    """
    return f"""const random_t random =
        random_at(given.numbers ? given.numbers : at + {at + PLACE});
    const float more = __builtin_bit_cast(float, (int32_t)at[{at + FACTOR}]);
    const uint32_t threshold = at[{at + THRESHOLD}];"""


def of_head(group: str) -> str:
    """The number of a head's first score among all, whose strides `draw_step` holds."""
    along = " + ".join(f"i{n} * draw_step[{n}]" for n in range(BATCH))
    return f"const uint64_t draw = {along} + {group} * draw_step[{BATCH}];"


def element(place: str, key: str) -> str:
    """The number of a score among all."""
    return f"draw + (uint64_t)({place}) * (uint32_t)keys + (uint32_t)({key})"
