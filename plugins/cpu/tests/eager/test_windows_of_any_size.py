"""Convolutions of images of more sizes than have plans of their own."""

from __future__ import annotations

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.runtime import planning_work
from ingle.testkit.bits import same_bits
from ingle_cpu.eager import any_size
from ingle_cpu.eager.sized_call import CpuSizedCall

CONVOLUTIONS = {
    "one tap": (it.conv1d, (6, 4, 1), {}),
    "a signal": (it.conv1d, (8, 4, 3), {"padding": 1}),
    "a signal in steps": (it.conv1d, (8, 4, 5), {"padding": 2, "stride": 2}),
    "a signal in large steps": (it.conv1d, (8, 4, 4), {"stride": 4}),
    "taps apart": (it.conv1d, (5, 4, 3), {"padding": 4, "dilation": 4}),
    "pictures": (it.conv2d, (8, 4, 3, 3), {"padding": 1}),
    "pictures in steps": (it.conv2d, (8, 4, 3, 3), {"padding": 1, "stride": 2}),
    "high taps": (it.conv2d, (12, 4, 5, 1), {"padding": (2, 0)}),
    "groups": (it.conv2d, (8, 2, 3, 3), {"padding": 1, "groups": 2}),
    "each channel": (it.conv2d, (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    "volumes": (it.conv3d, (4, 4, 2, 3, 3), {"padding": 1}),
    "turned round": (it.conv_transpose2d, (4, 6, 3, 3), {"stride": 2}),
}
LINES = frozenset({"one tap", "a signal", "taps apart", "pictures", "high taps"})
"""Those whose sizes follow from that of the image without a division."""
SIZES = (20, 21, 22, 23, 25, 27, 30, 33, 34, 16, 40, 47, 48, 49, 64, 80, 9, 5)


@pytest.fixture
def device(first_operations):
    """The backend, which has seen no operation yet."""
    return first_operations


def drawn(rng, *shape, dtype="float32"):
    return it.asarray(rng.normal(size=shape).astype("float32")).astype(dtype)


def image(rng, size, axes, dtype):
    """Of four channels; a volume is thin."""
    sizes = {1: (size,), 2: (size // 2 + 4, size), 3: (size // 8 + 2, size // 4 + 3, size // 2)}
    return drawn(rng, 2, 4, *sizes[axes], dtype=dtype)


@pytest.mark.sampled(9, slow=3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows_of_any_sizes_have_the_bits_of_plans(name, dtype, device, monkeypatch):
    function, shape, options = CONVOLUTIONS[name]
    rng, used = np.random.default_rng(3), []
    weight = drawn(rng, *shape, dtype=dtype)
    call = CpuSizedCall.__call__
    monkeypatch.setattr(CpuSizedCall, "__call__", lambda *a: (used.append(1), call(*a))[1])
    for size in SIZES:
        x = image(rng, size, len(shape) - 2, dtype)
        found = function(x, weight, **options).numpy()
        with monkeypatch.context() as planned:
            planned.setattr(any_size.SizedOperation, "__call__", lambda *_: None)
            known, device._single_operations._known = device._single_operations._known, {}
            expected = function(x, weight, **options).numpy()
            device._single_operations._known = known
        assert same_bits(found, expected), (name, size)
    assert used or name not in LINES


@pytest.mark.parametrize("name", ["a signal", "pictures"])
def test_new_sizes_of_images_are_neither_planned_nor_laid_out(name, device, monkeypatch):
    function, shape, options = CONVOLUTIONS[name]
    rng, made = np.random.default_rng(4), []
    weight = drawn(rng, *shape)
    for size in range(24, 57):
        np.asarray(function(image(rng, size, len(shape) - 2, "float32"), weight, **options))
    for owner in (planning_work, any_size):
        for part in ("compile_graph", "any_size_plan"):
            if hasattr(owner, part):
                monkeypatch.setattr(owner, part, lambda *args: made.append(args))
    for size in range(57, 63):
        np.asarray(function(image(rng, size, len(shape) - 2, "float32"), weight, **options))
    assert not made
