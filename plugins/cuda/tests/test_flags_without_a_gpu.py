"""Flags are read into memory that is used again, on a played GPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import bool_
from ingle.tensor.errors import OutOfRangeError
from ingle_cuda.driver import flags


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    return opened(HostGpu(folder), "played", monkeypatch)


def flag(backend: HostBackend, *values: bool, on_device: bool = False) -> Any:
    aval = Aval((len(values),), bool_)
    handle = backend.empty(aval) if on_device else backend.empty_flag(aval)
    backend.write(handle.address, np.asarray(values, np.uint8))
    return handle


@pytest.mark.parametrize("on_device", [False, True])
def test_flags_under_way_have_places_of_their_own(backend: HostBackend, on_device: bool) -> None:
    made = partial(flag, backend, on_device=on_device)
    first = backend.begin_flags([made(False), made(False, True)])
    second = backend.begin_flags([made(True)])
    assert list(second()) == [True]
    third = backend.begin_flags([made(False), made(False), made(True)])
    assert list(first()) == [False, True]
    assert list(third()) == [False, False, True]
    assert list(first()) == [False, True]  # asked again, and its place is another's by now
    many = backend.begin_flags([made(*[False] * flags.BYTES, True)])
    assert list(many()) == [True]
    assert len(backend._flags._pages) == 1


def test_the_first_place_is_lent_again(backend: HostBackend) -> None:
    """A step has its flags where they were, whatever order they go in: graphs have addresses."""
    places = []
    for _ in range(3):
        made = [flag(backend, False) for _ in range(3)]
        places.append([handle.address for handle in made])
        wait = backend.begin_flags(made)
        while made:
            del made[len(made) // 2]
        wait()
    assert places[0] == places[1] == places[2] == sorted(places[0])


@pytest.mark.slow
def test_a_flag_that_is_a_value_too_lies_on_the_device(backend: HostBackend) -> None:
    """Its reader copies it from there."""
    x = it.asarray(np.arange(4, dtype=np.float32), device="played")

    @compile
    def taken(i: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
        return it.take(x, i, axis=0), it.any((i < -4) | (i > 3))

    for _ in range(3):
        row, wrong = taken(it.asarray([1, 3], device="played"))
        assert (row.tolist(), wrong.item()) == ([1.0, 3.0], False)
    with pytest.raises(OutOfRangeError, match="take"):
        taken(it.asarray([1, 4], device="played"))[0].numpy()
