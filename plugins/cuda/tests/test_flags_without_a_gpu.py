"""Flags are read into memory that is used again, on a played GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import bool_
from ingle_cuda.driver import flags


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    return opened(HostGpu(folder), "played", monkeypatch)


def flag(backend: HostBackend, *values: bool) -> object:
    handle = backend.empty(Aval((len(values),), bool_))
    backend.write(handle.address, np.asarray(values, np.uint8))
    return handle


def test_flags_under_way_have_places_of_their_own(backend: HostBackend) -> None:
    first = backend.begin_flags([flag(backend, False), flag(backend, False, True)])
    second = backend.begin_flags([flag(backend, True)])
    assert list(second()) == [True]
    third = backend.begin_flags([flag(backend, False), flag(backend, False), flag(backend, True)])
    assert list(first()) == [False, True]
    assert list(third()) == [False, False, True]
    assert list(first()) == [False, True]  # asked again, and its place is another's by now
    assert len(backend._flags._free) == 2
    many = backend.begin_flags([flag(backend, *[False] * (flags._BYTES + 1))])
    assert list(many()) == [False]
    assert len(backend._flags._free) == 2
