"""Convolutions by packed windows, beside the numpy device's in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain
from ingle.tensor import Tensor, plugins
from ingle.tensor.device import Device
from ingle.testkit.bits import same_bits
from ingle_opencl import matmul
from ingle_opencl.backend import OpenCLBackend
from ingle_opencl.devices import device_of

pytestmark = pytest.mark.sampled(6)

TOLERANCE = {"float32": 2e-5, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3e-2}
CASES: tuple[tuple[Any, ...], ...] = (
    # batch, groups, channels, features, image, kernel, stride, padding, dilation
    (2, 1, 3, 7, (9, 41), (3, 3), (1, 1), (1, 1), (1, 1)),  # whole panels in a line, and edges
    (3, 1, 1, 1, (12, 12), (5, 5), (1, 1), (0, 0), (1, 1)),
    (2, 2, 5, 4, (10, 21), (3, 2), (2, 2), (1, 0), (1, 1)),
    (2, 1, 4, 5, (13, 14), (3, 3), (3, 2), (2, 1), (1, 2)),
    (2, 1, 6, 8, (8, 8), (1, 1), (2, 2), (0, 0), (1, 1)),  # phases that see no tap
    (9, 3, 4, 5, (40,), (4,), (1,), (3,), (2,)),
    (2, 1, 3, 4, (5, 6, 37), (2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2)),
)  # fmt: skip


@pytest.fixture(params=["opencl", pytest.param("opencl_wide", marks=pytest.mark.slow)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "opencl_wide":
        request.getfixturevalue("wide_backend")
    name: str = request.param
    return name


def all_three(case: tuple[Any, ...], device: str, arrays: list[np.ndarray]) -> list[Tensor]:
    """Forward and both gradients."""
    _, groups, _, _, image, kernel, stride, padding, dilation = case
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w, g = [it.asarray(a, device=device) for a in arrays]

    def step(x: Tensor, w: Tensor, g: Tensor) -> list[Tensor]:
        return [
            it.conv(x, w, **options),
            it.conv_input_gradient(g, w, image, **options),
            it.conv_weight_gradient(x, g, kernel, **options),
        ]

    return compile(step)(x, w, g)


def operands(case: tuple[Any, ...], dtype: str) -> list[np.ndarray]:
    """Images, weight and a gradient of the result."""
    batch, groups, channels, features, image, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x = it.asarray(rng.standard_normal((batch, groups * channels, *image)), device="numpy")
    w = it.asarray(rng.standard_normal((groups * features, channels, *kernel)), device="numpy")
    out = it.conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    g = it.asarray(rng.standard_normal(out.shape), device="numpy")
    return [t.astype(dtype).numpy() for t in (x, w, g)]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [
    "float32", pytest.param("float64", marks=pytest.mark.slow),
    pytest.param("bfloat16", marks=pytest.mark.slow),
])  # fmt: skip
def test_forward_and_both_gradients(case: tuple[Any, ...], dtype: str, device: str) -> None:
    arrays = operands(case, dtype)
    expected = all_three(case, "numpy", [a.astype(np.float64) for a in arrays])
    for found, wanted in zip(all_three(case, device, arrays), expected, strict=True):
        assert found.shape == wanted.shape
        error = np.abs(found.astype("float64").numpy() - wanted.numpy()).max()
        assert error <= TOLERANCE[dtype] * (1 + np.abs(wanted.numpy()).max())


@pytest.fixture
def another() -> Iterator[Any]:
    """The same device with plans of its own."""
    device = Device("opencl_another")
    made = OpenCLBackend(device, device_of(0))
    plugins._backends[device] = made.composition()
    yield made
    del plugins._backends[device]


@pytest.mark.slow
@pytest.mark.parametrize("case", [CASES[0], CASES[5]])
def test_a_batch_in_parts_has_the_same_bits(
    case: tuple[Any, ...], another: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many windows are written out at a time."""
    launches: list[Any] = []
    enqueue = OpenCLBackend.enqueue

    def counted(backend: Any, *args: Any) -> None:
        launches.append(backend)
        enqueue(backend, *args)

    monkeypatch.setattr(OpenCLBackend, "enqueue", counted)
    arrays = operands(case, "float32")
    whole = all_three(case, "opencl", arrays)
    monkeypatch.setattr(matmul, "IMAGES", 1)
    for found, wanted in zip(all_three(case, "opencl_another", arrays), whole, strict=True):
        assert same_bits(found, wanted)
    assert launches.count(another) > len(launches) - launches.count(another) > 0


def test_missing_values_stay_where_they_are(device: str) -> None:
    """What lies outside of an image is zero, and not what lies at its first place."""
    x = np.zeros((1, 1, 6, 40), np.float32)
    x[0, 0, 0, 0], x[0, 0, 5, 39] = np.nan, np.inf
    w = np.ones((4, 1, 3, 3), np.float32)
    found = it.conv2d(it.asarray(x, device=device), it.asarray(w, device=device), padding=1)
    wanted = it.conv2d(it.asarray(x, device="numpy"), it.asarray(w, device="numpy"), padding=1)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.slow
def test_what_follows_is_the_epilogue() -> None:
    def block(x: Tensor, w: Tensor) -> Tensor:
        return it.relu(it.conv2d(x, w, padding=1) + x)

    x, w = [it.ones(shape, device="opencl") for shape in ((2, 6, 8, 9), (6, 6, 3, 3))]
    assert "1 kernels" in str(explain(block, x, w))
