"""What the library says of its dtypes, its devices and itself, by the Array API standard."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.dtypes import ALL_DTYPES
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError


def test_constants() -> None:
    assert (it.e, it.pi, it.inf) == (math.e, math.pi, math.inf)
    assert math.isnan(it.nan)
    assert it.ones(3)[it.newaxis].shape == (1, 3)
    assert it.__array_api_version__ == "2025.12"


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.is_inexact], ids=str)
def test_limits_of_floats(dtype: it.DType) -> None:
    expected: Any = ml_dtypes.finfo(np.zeros((), dtype.dtype).real.dtype)
    for given in (dtype, it.ones(2, dtype=dtype), dtype.name):
        info = it.finfo(given)
        assert info.bits == expected.bits
        for name in ("eps", "max", "min", "smallest_normal"):
            assert getattr(info, name) == float(getattr(expected, name))
            assert type(getattr(info, name)) is float
        assert not info.dtype.is_complex


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.is_integer], ids=str)
def test_limits_of_integers(dtype: it.DType) -> None:
    expected = np.iinfo(dtype.dtype)
    for given in (dtype, it.ones(2, dtype=dtype)):
        info = it.iinfo(given)
        assert (info.bits, info.max, info.min) == (expected.bits, expected.max, expected.min)
        assert info.dtype is dtype


def test_kinds() -> None:
    kinds = {
        "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
        "real floating": "f", "complex floating": "c", "numeric": "iufc",
    }  # fmt: skip
    for dtype in ALL_DTYPES:
        code = "f" if dtype is it.bfloat16 else dtype.dtype.kind
        for kind, codes in kinds.items():
            assert it.isdtype(dtype, kind) == (code in codes)
        assert it.isdtype(dtype, dtype)
        assert it.isdtype(dtype, ("bool", dtype))
        assert not it.isdtype(dtype, ())
    assert not it.isdtype(it.float32, it.float64)


INEXACT = {"float", "complex"}
SIGNED = {"signed", "unsigned"}


def _differs_from_numpy(a: it.DType, b: it.DType) -> bool:
    """NumPy widens floats so that they hold an integer's values, and has no bfloat16."""
    kinds = {a.kind, b.kind}
    if kinds & INEXACT and kinds & SIGNED:
        return True
    if kinds == SIGNED and it.uint64 in (a, b):
        return True
    return it.bfloat16 in (a, b)


def test_result_types_equal_numpys() -> None:
    for a in ALL_DTYPES:
        for b in ALL_DTYPES:
            if not _differs_from_numpy(a, b):
                expected = np.result_type(a.dtype, b.dtype).name
                assert it.result_type(a, b).name == expected
                assert it.can_cast(a, b) == (expected == b.name)


def test_result_types_with_numbers() -> None:
    x = it.ones(2, dtype=it.int8)
    assert it.result_type(x, 1000) is it.int8
    assert it.result_type(x, 1.0) is it.float32
    assert it.result_type(it.float16, 1.0, 2) is it.float16
    assert it.result_type(it.float64, 1j) is it.complex128
    assert it.result_type(it.bool, True) is it.bool
    assert it.result_type(it.bool, 1) is it.int64
    assert it.result_type(x, it.uint8, it.float32) is it.float32
    assert it.can_cast(x, it.int16)


def test_info() -> None:
    info = it.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64,
    }  # fmt: skip
    assert info.default_device() == it.default_device()
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": it.float32, "complex floating": it.complex64, "integral": it.int64,
        "indexing": it.int64,
    }  # fmt: skip
    with it.default_dtypes(floating=it.float64):
        assert info.default_dtypes()["complex floating"] is it.complex128
    assert len(info.dtypes()) == 13
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {
        "bool", "int8", "int16", "int32", "int64",
    }  # fmt: skip
    assert info.dtypes(device="numpy", kind="complex floating") == {
        "complex64": it.complex64, "complex128": it.complex128,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: it.finfo(it.int32), DTypeError, "use iinfo"),
        (lambda: it.iinfo(it.float32), DTypeError, "use finfo"),
        (lambda: it.isdtype(it.int8, "floats"), ArgumentError, "kind='floats'"),
        (lambda: it.result_type(1, 2.0), OperandError, "result_type: needs at least one"),
        (lambda: it.can_cast("text", it.int8), DTypeError, "'text'"),
        (lambda: it.__array_namespace_info__().dtypes(kind="x"), ArgumentError, "dtypes: kind='x'"),
    ],
)
def test_refusals(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()
