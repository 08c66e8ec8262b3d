"""Products with the windows of images beside convolutions in float64, written out here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ingle.fusion
import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.device.kernels import Windows
from ingle.fusion.render.llvm.targets import AVX2, SSE2, Target
from ingle.tensor import Tensor
from ingle.testkit.bits import same_bits
from ingle_cpu.jit.engine import engine
from ingle_cpu.matmul import blocking, launches, window_blocking
from ingle_cpu.matmul.code import window_address
from ingle_cpu.matmul.problem import Problem

Array = Any
TOLERANCE = {"float32": 2e-5, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3e-2}
CASES: tuple[tuple[Any, ...], ...] = (
    # batch, groups, channels, features, image, kernel, stride, padding, dilation
    (2, 1, 3, 7, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 1, 1, 6, (12, 12), (5, 5), (1, 1), (0, 0), (1, 1)),
    (1, 1, 130, 9, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1)),  # k is taken in several parts
    (2, 2, 5, 4, (10, 21), (3, 2), (2, 2), (1, 0), (1, 1)),
    (2, 1, 4, 5, (13, 14), (3, 3), (3, 2), (2, 1), (1, 2)),
    (4, 1, 6, 8, (7, 7), (1, 1), (1, 1), (0, 0), (1, 1)),  # all places are one row
    (2, 1, 6, 8, (8, 8), (1, 1), (2, 2), (0, 0), (1, 1)),  # phases that see no tap
    (2, 3, 2, 5, (40,), (4,), (1,), (3,), (2,)),
    (2, 1, 3, 4, (5, 6, 7), (2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2)),
    (2, 1, 3, 66, (20, 37), (3, 3), (1, 1), (2, 2), (2, 2)),
    (2, 1, 20, 24, (9, 71), (3, 4), (2, 2), (1, 2), (1, 1)),  # vectors of every second element
    (1, 1, 5, 24, (7, 130), (3, 5), (2, 3), (1, 4), (1, 1)),  # of every third, fourth and eighth
    (2, 1, 3, 24, (9, 270), (3, 7), (2, 4), (1, 3), (1, 1)),
    (1, 2, 4, 24, (5, 300), (2, 4), (1, 4), (0, 0), (1, 3)),
    (1, 1, 3, 24, (9, 530), (2, 9), (2, 8), (1, 6), (1, 1)),
    (2, 1, 20, 24, (30, 70), (3, 3), (1, 1), (1, 1), (1, 1)),  # several panels an image
    # few windows in each image; gradients of images by all taps at once
    (3, 1, 6, 64, (2, 3), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 2, 5, 40, (5, 4), (3, 2), (2, 3), (1, 0), (1, 1)),
    (4, 1, 5, 3, (3,), (3,), (1,), (1,), (1,)),
    (2, 1, 3, 70, (2, 3, 2), (2, 2, 2), (1, 1, 1), (1, 0, 1), (1, 1, 2)),
    (1, 1, 7, 90, (6, 6), (3, 3), (2, 2), (2, 2), (2, 1)),
    (1, 1, 2, 40, (40,), (31,), (1,), (0,), (1,)),  # too many taps for that
    (3, 1, 2, 130, (9, 10), (3, 3), (1, 1), (1, 1), (1, 1)),  # all images at once for many rows
    (5, 2, 3, 4, (4, 3), (4, 3), (1, 1), (0, 0), (1, 1)),  # one window: its taps are the image
    (3, 1, 4, 6, (4, 5), (4, 4), (3, 2), (1, 0), (1, 1)),  # with a border, and places unseen
)


def convolved(x: Array, w: Array, groups: int, stride: Any, padding: Any, dilation: Any) -> Array:
    """By definition: for each tap the sum over channels of what it sees."""
    kernel = w.shape[2:]
    image = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(image.shape[2:], dilation, kernel, stride, strict=True)
    ]
    total = np.zeros((x.shape[0], groups, w.shape[0] // groups, *out))
    weight = w.reshape(groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, kernel)):
        cuts = [
            slice(t * d, t * d + (m - 1) * s + 1, s)
            for t, d, m, s in zip(tap, dilation, out, stride, strict=True)
        ]
        seen = image[(slice(None), slice(None), *cuts)]
        seen = seen.reshape(x.shape[0], groups, -1, *out)
        total += np.einsum("gfc,bgc...->bgf...", weight[(..., *tap)], seen)
    return total.reshape(x.shape[0], -1, *out)


def operands(case: tuple[Any, ...], dtype: str, seed: int = 0) -> tuple[list[Tensor], list[Array]]:
    """Images, weight and a gradient of the result, on the device and in float64."""
    batch, groups, channels, features, image, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, groups * channels, *image))
    w = rng.standard_normal((groups * features, channels, *kernel))
    g = rng.standard_normal(convolved(x, w, groups, stride, padding, dilation).shape)
    given = [it.asarray(v, device="cpu").astype(dtype) for v in (x, w, g)]
    return given, [t.astype("float64").numpy() for t in given]


def assert_close(found: Tensor, expected: Array, dtype: str) -> None:
    error = np.abs(found.astype("float64").numpy() - expected).max(initial=0)
    assert error <= TOLERANCE[dtype] * (1 + np.abs(expected).max(initial=0)), error


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_forward_and_both_gradients(case: tuple[Any, ...], dtype: str) -> None:
    _, groups, _, _, image, kernel, stride, padding, dilation = case
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    (x, w, g), (x64, w64, g64) = operands(case, dtype)
    statics = groups, stride, padding, dilation
    assert_close(it.conv(x, w, **options), convolved(x64, w64, *statics), dtype)
    # The map is linear, so <g, conv(x', w)> = <gradient of x, x'> for every x'.
    of_x = it.conv_input_gradient(g, w, image, **options).astype("float64").numpy()
    of_w = it.conv_weight_gradient(x, g, kernel, **options).astype("float64").numpy()
    rng = np.random.default_rng(7)
    for _ in range(3):
        other, weight = rng.standard_normal(x64.shape), rng.standard_normal(w64.shape)
        size = np.sqrt(of_x.size) * np.abs(of_x).max()
        wanted = (g64 * convolved(other, w64, *statics)).sum()
        assert abs((of_x * other).sum() - wanted) <= 4 * TOLERANCE[dtype] * size
        size = np.sqrt(of_w.size) * np.abs(of_w).max()
        wanted = (g64 * convolved(x64, weight, *statics)).sum()
        assert abs((of_w * weight).sum() - wanted) <= 4 * TOLERANCE[dtype] * size


@pytest.mark.parametrize(("other", "width"), [(AVX2, 331), (SSE2, 347)])
def test_kernels_of_other_processors_pack_the_same(
    other: Target, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not {"avx2", "fma", "f16c"} <= set(engine().machine.present):
        pytest.skip("this machine has other kernels")
    monkeypatch.setattr(
        launches, "window_address", lambda dtype, over, _: window_address(dtype, over, other)
    )
    for stride in (2, 3, 4, 5, 8):
        case = (1, 1, 3, 24, (5, width), (3, 6), (2, stride), (1, 4), (1, 1))
        (x, w, _), (x64, w64, _) = operands(case, "float32")
        found = it.conv2d(x, w, stride=(2, stride), padding=(1, 4))
        assert_close(found, convolved(x64, w64, 1, (2, stride), (1, 4), (1, 1)), "float32")


def test_images_that_lie_otherwise() -> None:
    """Windows are read along any strides: of a transposed, a reversed and a repeated image."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 6, 9, 8)).astype(np.float32)
    w = rng.standard_normal((5, 6, 3, 3)).astype(np.float32)

    def swapped(x: Tensor, w: Tensor) -> Tensor:
        return it.conv2d(it.permute_dims(x, (0, 1, 3, 2)), w[:, :, ::-1], padding=1)

    found = compile(swapped)(it.asarray(x, device="cpu"), it.asarray(w, device="cpu"))
    expected = convolved(x.transpose(0, 1, 3, 2), w[:, :, ::-1], 1, (1, 1), (1, 1), (1, 1))
    assert_close(found, expected, "float32")

    def repeated(x: Tensor, w: Tensor) -> Tensor:
        return it.conv2d(it.broadcast_to(x[:, :1], x.shape), w, stride=2)

    found = compile(repeated)(it.asarray(x, device="cpu"), it.asarray(w, device="cpu"))
    expected = convolved(np.repeat(x[:, :1], 6, 1), w, 1, (2, 2), (0, 0), (1, 1))
    assert_close(found, expected, "float32")


def test_what_follows_is_the_epilogue() -> None:
    """Bias, activation and a residual are computed where the sums are."""
    (x, w, _), _ = operands((2, 1, 6, 6, (8, 9), (3, 3), (1, 1), (1, 1), (1, 1)), "float32")
    b = it.asarray(np.arange(6, dtype=np.float32), device="cpu")

    def block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return it.relu(it.conv2d(x, w, b, padding=1) + x)

    text = str(ingle.fusion.explain(block, x, w, b))
    assert "1 kernels" in text
    assert "window_product add" in text
    expected = convolved(x.numpy(), w.numpy(), 1, (1, 1), (1, 1), (1, 1))
    expected = np.maximum(expected + b.numpy().reshape(-1, 1, 1) + x.numpy(), 0)
    assert_close(compile(block)(x, w, b), expected, "float32")


@pytest.mark.parametrize("case", [CASES[1], CASES[2], CASES[3]])
def test_bits_follow_from_the_problem_alone(
    case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from the number of workers, nor from how the work is cut, nor from `compile`."""
    _, groups, _, _, image, kernel, stride, padding, dilation = case
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    (x, w, g), _ = operands(case, "float32")

    def all_three(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        return (
            it.conv(x, w, **options),
            it.conv_input_gradient(g, w, image, **options),
            it.conv_weight_gradient(x, g, kernel, **options),
        )

    expected = [t.numpy() for t in all_three(x, w, g)]
    choose = blocking.with_windows
    for workers in (1, 2, 3, 8):
        monkeypatch.setattr(blocking, "with_windows", lambda *of, n=workers: choose(*of[:-1], n))
        fresh = compile(lambda x, w, g: all_three(x, w, g))
        for found, of in zip(fresh(x, w, g), expected, strict=True):
            assert np.array_equal(found.numpy(), of)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "kernel", "options"),
    [
        ((1, 6, 15, 7), (3, 2, 1, 3), {"padding": (1, 0), "dilation": (1, 2), "groups": 3}),
        ((2, 2, 8, 12), (2, 1, 5, 5), {"stride": (3, 1), "padding": (0, 2), "groups": 2}),
        ((2, 2, 8, 2, 12), (2, 1, 5, 2, 5), {"stride": 3, "padding": (0, 2, 2), "groups": 2}),
        ((1, 4, 12, 13), (4, 1, 7, 5), {"groups": 4}),
        ((2, 3, 20), (3, 1, 15), {"groups": 3, "padding": 3}),
    ],
)  # fmt: skip
def test_a_body_is_as_long_wherever_it_stands(image: Any, kernel: Any, options: Any) -> None:
    """Beside a convolution that uses the same numbers a gradient's body was shorter, and so not
    too long: it had other bits than by itself."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("f") for shape in (image, kernel)]
    x, weight = (it.asarray(a, device="cpu") for a in arrays)
    convolve = (it.conv1d, it.conv2d, it.conv3d)[len(image) - 3]

    def program(x: Tensor, weight: Tensor) -> list[Tensor]:
        x, weight = x.require_grad(), weight.require_grad()
        y = convolve(x, weight, **options)
        gradients = it.sum(y * y).backward()
        return [y.detach(), gradients[x], gradients[weight]]

    first = [t.numpy() for t in program(x, weight)]
    for run in (program, compile(program)):
        for _ in range(3):
            for expected, found in zip(first, run(x, weight), strict=True):
                assert same_bits(found.numpy(), expected)


@pytest.mark.parametrize(("workers", "columns"), [(1, 1), (2, 2), (3, 3), (8, 8)])
def test_workers_pack_the_rows_of_a_gradient_of_a_weight_once_each(
    workers: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_blocking, "beside_of", lambda problem: None)
    size, places = (14, 14), 196
    windows = Windows(
        True, (5, 5), size, (1, 1), (1, 1), (-2, -2), size, places, (14, 1),
        4, 64 * places, 32 * places,
    )  # fmt: skip
    problem = Problem(
        "float32", "float32", (1,), 64, 800, places, (0, places, 1), (0, 0, 0), windows
    )
    chosen = blocking.choose(problem, workers)
    assert chosen.pack_a == "local"
    assert (chosen.row_blocks, chosen.panel_blocks) == (1, columns)
