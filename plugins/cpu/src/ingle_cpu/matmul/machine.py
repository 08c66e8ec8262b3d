"""What this machine's processor has for products."""

from __future__ import annotations

import functools
from pathlib import Path

from ingle.fusion.device.targets import AVX512, NEON, Target, target_of

from ..jit.engine import engine

CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
"""Where Linux says how large a core's second-level cache is."""
USUAL_CACHE = 1 << 20
"""Bytes of it where nothing says so."""


@functools.cache
def target() -> Target:
    """The family of this machine's processor."""
    machine = engine().machine
    return target_of(machine.present, machine.triple.split("-")[0])


def multiplies_pairs() -> bool:
    """Whether this machine's processor multiplies and adds pairs of bfloat16."""
    return target() == AVX512 and "avx512bf16" in engine().machine.present


def multiplies_tiles(dtype: str) -> bool:
    """Whether it multiplies whole tiles of bfloat16 or bytes, and this process may use them."""
    products = "amx-bf16" if dtype == "bfloat16" else "amx-int8"
    return target() == AVX512 and {"amx-tile", products} <= engine().machine.present


def takes_bytes(k: int) -> bool:
    """Whether there are tiles for products of bytes that are summed over so much."""
    return k > 0 and (takes_quads(k) or (k % 2 == 0 and target() != NEON))


def takes_quads(k: int) -> bool:
    """Whether this machine's processor multiplies four bytes at once, and these are so many."""
    quads = {64: "avx512vnni", 32: "avxvnni"}.get(target().width, "")
    return k % 4 == 0 and quads in engine().machine.present


@functools.cache
def second_level_bytes() -> int:
    """What a core's second-level cache holds: half a megabyte on some processors, two on others.

    It decides how work is cut, and no bit of a result.
    """
    try:
        said = CACHE.read_text().strip()
    except OSError:  # Another system than Linux, or a container that hides it.
        return USUAL_CACHE
    number, unit = said[:-1], said[-1:]
    scale = {"K": 1 << 10, "M": 1 << 20}.get(unit)
    return int(number) * scale if scale and number.isdigit() else USUAL_CACHE
