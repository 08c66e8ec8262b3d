"""What the LLVM renderer must know of a processor family."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Target(NamedTuple):
    """A family of processors.

    Attributes:
        name: for people and cache keys.
        width: bytes of a vector register.
        registers: how many vector registers there are.
        fma: whether it multiplies and adds with one rounding.
        rounding: whether it rounds vectors of floats to whole numbers.
        half: whether it converts float16 to and from float32.
        scale: whether it multiplies by powers of two in one instruction (AVX-512's scalef).
        permute: whether it chooses among 16 numbers in a register.
        estimates: whether it estimates inverse roots and takes numbers apart (AVX-512), which with
            multiply-adds is faster than its roots and divisions.
        masks: whether it loads and stores some lanes of a vector as fast as all, of any dtype.
        gathers: whether it loads and stores lanes that lie apart about as fast as neighbours.
    """

    name: str
    width: int
    registers: int
    fma: bool
    rounding: bool
    half: bool
    scale: bool = False
    permute: bool = False
    estimates: bool = False
    gathers: bool = False
    masks: bool = False


AVX512 = Target(
    "avx512", 64, 32, True, True, True, scale=True, permute=True, estimates=True, gathers=True,
    masks=True,
)  # fmt: skip
AVX2 = Target("avx2", 32, 16, True, True, True)
SSE2 = Target("sse2", 16, 16, False, False, False)
NEON = Target("neon", 16, 32, True, True, True)
TARGETS = {t.name: t for t in (AVX512, AVX2, SSE2, NEON)}

_AVX512 = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"})
_AVX2 = frozenset({"avx2", "fma", "f16c"})


def target_of(features: Collection[str], architecture: str = "x86_64") -> Target:
    """The family of a machine with these features, by LLVM's names.

    >>> target_of({"avx2", "fma", "f16c", "sse4.2"}).name, target_of((), "aarch64").name
    ('avx2', 'neon')
    """
    if architecture in ("aarch64", "arm64"):
        return NEON
    have = frozenset(features)
    if have >= _AVX512 | _AVX2:
        return AVX512
    return AVX2 if have >= _AVX2 else SSE2
