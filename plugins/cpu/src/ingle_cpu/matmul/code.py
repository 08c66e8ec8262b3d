"""The addresses of the code that contractions are made of, each compiled once a process."""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.targets import Target

from ..jit.engine import Code, engine
from .amx import release_source
from .beside_ir import beside_source
from .driver import driver_source
from .epilogue import Epilogue, epilogue_source
from .microkernel import micro_source
from .pack import pack_source
from .padded import pad_source
from .tile import Form, Tile
from .window_pack import window_source
from .winograd_form import PatchForm
from .winograd_ir import winograd_source
from .winograd_taps_ir import taps_source


@lru_cache(maxsize=1)
def driver_address() -> int:
    """Of the loops around the tiles."""
    return engine().addresses(driver_source())[0]


@lru_cache(maxsize=1024)
def micro_address(tile: Tile, dtype: str, target: Target) -> int:
    """Of a tile."""
    return engine().addresses(micro_source(tile, dtype, target))[0]


@lru_cache(maxsize=1)
def release_address() -> int:
    """Of what lets go of registers of tiles."""
    return engine().addresses(release_source())[0]


@lru_cache(maxsize=64)
def pack_addresses(dtype: str, form: Form, target: Target) -> tuple[int, ...]:
    """Of what packs one panel, and of the kernel that packs all."""
    return engine().addresses(pack_source(dtype, target, form))


@lru_cache(maxsize=64)
def window_address(dtype: str, over_places: bool, target: Target) -> int:
    """Of what packs a panel of windows."""
    return engine().addresses(window_source(dtype, over_places, target))[0]


@lru_cache(maxsize=8)
def pad_address(dtype: str, phases: int, target: Target) -> int:
    """Of what copies an image between zeros."""
    return engine().addresses(pad_source(dtype, phases, target))[0]


@lru_cache(maxsize=4)
def beside_address(dtype: str, target: Target) -> int:
    """Of what sums a gradient of a weight from images whose channels lie side by side."""
    return engine().addresses(beside_source(dtype, target))[0]


@lru_cache(maxsize=32)
def taps_address(form: PatchForm, rows: int) -> int:
    """Of what turns taps into what patches are multiplied by."""
    return engine().addresses(taps_source(form, rows))[0]


@lru_cache(maxsize=4)
def winograd_address(form: PatchForm, target: Target) -> int:
    """Of what computes convolutions from patches."""
    return engine().addresses(winograd_source(form, target))[0]


@lru_cache(maxsize=4096)
def epilogue_code(epilogue: Epilogue, outer: int, dtype: str, target: Target) -> Code:
    """Of an epilogue of so many outer axes."""
    return engine().code(epilogue_source(epilogue, outer, dtype, target))
