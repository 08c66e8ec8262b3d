"""What the environment wishes of fusion."""

from __future__ import annotations

from pathlib import Path

from ingle.tensor import settings


def is_fused() -> bool:
    """Whether operations are recorded and run together: not with `INGLE_FUSION=0`."""
    return settings.switch("INGLE_FUSION", default=True)


def is_exact() -> bool:
    """Whether each operation of a kernel rounds as it would alone: with `INGLE_FUSION_EXACT=1`."""
    return settings.switch("INGLE_FUSION_EXACT", default=False)


def is_logged() -> bool:
    """Whether each plan is shown on standard error: with `INGLE_LOG=fusion`."""
    return settings.one_of("INGLE_LOG", ("fusion",)) is not None


def is_kept() -> bool:
    """Whether compiled code is kept on disk: not with `INGLE_CACHE=0`."""
    return settings.switch("INGLE_CACHE", default=True)


def is_measured() -> bool:
    """Whether a backend may measure how to compute something: not with `INGLE_AUTOTUNE=0`."""
    return settings.switch("INGLE_AUTOTUNE", default=True)


def is_sliced() -> bool:
    """Whether plans of several operations are made between runs: not with `INGLE_PLAN_SLICES=0`."""
    return settings.switch("INGLE_PLAN_SLICES", default=True)


def cache_place() -> Path | None:
    """The folder for what is kept on disk, if `INGLE_CACHE_DIR` names one."""
    return settings.folder("INGLE_CACHE_DIR")


def check_settings() -> None:
    """Finds wrong settings before something is planned.

    Raises:
        SettingError: a variable has a value that makes no sense.
    """
    for wish in (is_fused, is_exact, is_logged, is_kept, is_measured, is_sliced, cache_place):
        wish()
