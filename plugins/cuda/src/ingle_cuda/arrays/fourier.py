"""Fourier transforms, by cuFFT; their arguments are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.tensor.operation import Op


def _transform(name: str) -> Callable[..., Any]:
    def call(xp: Any, op: Op, x: Any) -> Any:
        return getattr(xp.fft, name)(x, **op.attributes)

    return call


CALLS: dict[str, Callable[..., Any]] = {
    name: _transform(name) for name in ("fftn", "ifftn", "rfft", "irfft")
}
