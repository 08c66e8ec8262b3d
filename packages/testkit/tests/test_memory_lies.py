"""Devices that lie about memory of their own: uploads, views, streams, errors, other devices."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingle.tensor.contract import Handle
from ingle.tensor.errors import LostDeviceError, OutOfRangeError
from ingle.testkit import own_memory
from ingle_numpy.backend import NumpyBackend

Devices = Callable[..., str]
KERNELS = NumpyBackend.kernels
Check = Callable[[str], None]


def caught(check: Check, where: str, told: str | None = None) -> None:
    """The check fails: by what it says itself, or by what it did not get."""
    with pytest.raises((AssertionError, pytest.fail.Exception, OutOfRangeError), match=told):
        check(where)


@pytest.mark.parametrize("where", ["numpy", "cpu"])
def test_honest_devices_pass(where: str) -> None:
    own_memory.check_uploads(where)
    own_memory.check_views(where)
    own_memory.check_streams(where)
    own_memory.check_late_errors(where)
    own_memory.check_several(["numpy", "cpu"])


def test_an_upload_that_sees_later_writes(make_device: Devices) -> None:
    class Sharing(NumpyBackend):
        def upload(self, array: np.ndarray) -> Handle:
            return self.adopt(array)

    caught(own_memory.check_uploads, make_device("sharing", kind=Sharing), "later write")


def test_a_view_without_its_offset(make_device: Devices) -> None:
    def from_the_start(op: Any, x: Any, *rest: Any) -> Any:
        found = KERNELS["slice"](op, x, *rest)
        return np.lib.stride_tricks.as_strided(x, found.shape, found.strides)

    caught(own_memory.check_views, make_device("lying", slice=from_the_start))


def test_one_scratch_buffer_for_all_streams(make_device: Devices) -> None:
    buffers: dict[tuple[int, ...], np.ndarray] = {}

    def by_way_of_scratch(op: Any, x: Any, y: Any) -> Any:
        found = np.asarray(np.add(x, y))
        scratch = buffers.setdefault(found.shape, np.empty_like(found))
        scratch[...] = found
        time.sleep(1e-4)
        return scratch.copy()

    caught(own_memory.check_streams, make_device("lying", add=by_way_of_scratch))


def clamped(op: Any, x: Any, indices: Any) -> Any:
    return np.take(x, np.clip(indices, 0, x.shape[0] - 1), axis=op.attributes["axis"])


def test_an_error_that_nobody_hears_of(make_device: Devices) -> None:
    where = make_device("lying", take=clamped)
    caught(own_memory.check_late_errors, where, "DID NOT RAISE")


class Sticky(NumpyBackend):
    """Tells an error late, and to whom it does not concern."""

    error = ""

    def download(self, handle: Handle) -> np.ndarray:
        if type(self).error:
            raise OutOfRangeError(type(self).error)
        return super().download(handle)


def test_an_error_that_all_hear_of(make_device: Devices) -> None:
    def noting(op: Any, x: Any, indices: Any) -> Any:
        Sticky.error = "take: an index is out of range"
        return clamped(op, x, indices)

    where = make_device("lying", kind=Sticky, take=noting)
    try:
        caught(own_memory.check_late_errors, where, "an index is out of range")
    finally:
        Sticky.error = ""


def test_a_move_that_loses_values(make_device: Devices) -> None:
    class Losing(NumpyBackend):
        def upload(self, array: np.ndarray) -> Handle:
            return super().upload(np.where(array > 100, 0, array).astype(array.dtype))

    where = make_device("losing", kind=Losing)
    caught(lambda w: own_memory.check_several(["numpy", w]), where)


class Single(NumpyBackend):
    """Has float32 alone on the device, which can be lost; the rest stays on the host."""

    lost = False

    def download(self, handle: Handle) -> np.ndarray:
        if type(self).lost and handle.dtype.name == "float32":
            raise LostDeviceError("unplugged")
        return super().download(handle)


def test_a_device_of_one_dtype_can_be_lost(make_device: Devices) -> None:
    def lose() -> None:
        Single.lost = True

    try:
        own_memory.check_loss(make_device("unplugged", kind=Single), lose)
    finally:
        Single.lost = False


def test_a_device_that_denies_its_end(make_device: Devices) -> None:
    immortal, endless = make_device("immortal"), make_device("endless")
    caught(lambda w: own_memory.check_loss(w, lambda: None), immortal, "DID NOT RAISE")
    caught(lambda w: own_memory.check_out_of_memory(w, 4096), endless, "DID NOT RAISE")
