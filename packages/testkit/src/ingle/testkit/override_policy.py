"""Exceptions and overrides: each has a reason, and none is there for nothing."""

from __future__ import annotations

import numpy as np

from ingle.tensor import asarray
from ingle.tensor.dtypes import ALL_DTYPES, STORAGE_DTYPES, as_dtype

from .cases import cases, subjects
from .checks import check_forward
from .storage import check_storage

_UNTOUCHABLE = ("test_exceptions_are_needed", "test_overrides_have_reasons", "_chosen", "_cases")


def refuse_silenced_checks(cls: type, contract: type) -> None:
    """Raises `TypeError` for a class that replaces the checks of its own honesty."""
    for name in _UNTOUCHABLE:
        if getattr(cls, name) is not getattr(contract, name):
            raise TypeError(f"{cls.__name__} overrides {name}, which keeps exceptions honest")


def check_overrides(cls: type, contract: type) -> None:
    """Every standard test that a class replaces says why."""
    for name in dir(contract):
        if not name.startswith("test_"):
            continue
        method = getattr(cls, name)
        if method is not getattr(contract, name):
            reason = getattr(method, "override_reason", "")
            assert reason.strip(), (
                f"{cls.__name__} overrides {name} without a reason; decorate it with "
                "@overrides('why'), or name what the device cannot do in `unsupported`"
            )


def check_exception(where: str, key: str, reason: str) -> None:
    """An exception names something real that fails, with a reason."""
    assert reason.strip(), f"unsupported[{key!r}] gives no reason"
    operation, _, dtype = key.rpartition(":")
    names = [d.name for d in ALL_DTYPES]
    if key in names or key in [d.name for d in STORAGE_DTYPES]:
        assert not _dtype_works(where, key), f"{key} works on {where}: remove it from unsupported"
        return
    if not operation:
        operation, dtype = key, ""
    known = {s.name for s in subjects()}
    assert operation in known, f"unsupported names {key!r}, which is no operation and no dtype"
    assert dtype in ("", *names), f"unsupported names {key!r}, but {dtype!r} is no dtype"
    fails = any(not _works(where, operation, d) for d in ([dtype] if dtype else names))
    assert fails, f"{key} works on {where}: remove it from unsupported"


def _dtype_works(where: str, dtype: str) -> bool:
    kind = as_dtype(dtype)
    values = np.asarray([0, 1, 1, 0]).astype(kind.dtype)
    # Whatever a device raises for a dtype that it lacks, it lacks it.
    try:
        if kind.is_storage:
            check_storage(where, dtype)
            return True
        x = asarray(values, device=where)
        return bool(np.array_equal((x == x).numpy() & (x.numpy() == values), values == values))
    except Exception:
        return False


def _works(where: str, operation: str, dtype: str) -> bool:
    subject = next(s for s in subjects() if s.name == operation)
    try:
        for case in cases(subject, dtype):
            check_forward(case, where)
    except Exception:
        return False
    return True
