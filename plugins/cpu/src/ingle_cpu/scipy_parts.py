"""SciPy's libraries, which this plugin does without where SciPy is not installed."""

from __future__ import annotations

from types import ModuleType

from ingle.tensor.late_imports import late

missing: dict[str, str] = {}
"""Why there are none: an error itself would keep what its first caller had."""


def scipy_part(name: str) -> ModuleType | None:
    """A library, such as `scipy.fft`; None where it is not installed, which is found out once."""
    if name in missing:
        return None
    try:
        return late(name)
    except ImportError as error:
        missing[name] = str(error)
        return None
