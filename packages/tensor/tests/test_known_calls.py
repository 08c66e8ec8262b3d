"""Functions that are traced once: what makes a call another one than those before."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor.control.known_calls import call_known


def _made(length: int, x: it.Tensor) -> tuple[it.Tensor, ...]:
    return it.zeros(length, device=x.device), it.arange(length, device=x.device), x + 1


def _dtypes_of(length: int) -> list[it.DType]:
    given = [it.asarray([1.0, 2.0], dtype=it.float32, device="numpy")]
    return [t.dtype for t in call_known(_made, length, given, "made")]


def test_default_dtypes_are_those_of_the_call() -> None:
    assert _dtypes_of(3) == [it.float32, it.int64, it.float32]
    with it.default_dtypes(floating=it.float64):
        assert _dtypes_of(3) == [it.float64, it.int64, it.float32]
    with it.default_dtypes(integer=it.int32):
        assert _dtypes_of(3) == [it.float32, it.int32, it.float32]
    assert _dtypes_of(3) == [it.float32, it.int64, it.float32]
