"""Windows that overlap, added up by one kernel: `fold`, and gradients of images made of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, explain

CASES = [
    # size, kernel, options
    ((12, 12), (5, 5), {}),
    ((7, 40), (3, 2), {"padding": (1, 0)}),
    ((9, 5), (2, 4), {"dilation": (3, 1), "padding": (2, 3)}),
    ((1, 33), (1, 7), {"padding": (0, 3)}),
    ((70,), (6,), {"dilation": (2,), "padding": (4,)}),
    ((1,), (1,), {}),
    ((31, 37), (3, 7), {"padding": (1, 3)}),  # rows by the four, and some left
]


@pytest.fixture(autouse=True)
def device():
    with it.device("cpu"):
        yield


def columns(size, kernel, more, dtype):
    rank = len(size)
    around, spread = more.get("padding", (0,) * rank), more.get("dilation", (1,) * rank)
    axes = zip(size, kernel, around, spread, strict=True)
    windows = math.prod(n + 2 * p - d * (k - 1) for n, k, p, d in axes)
    rng = np.random.default_rng(windows)
    return rng.standard_normal((2, 3 * math.prod(kernel), windows)).astype(dtype)


def agree(array, function, way=lambda x: x, *, kernels=True):
    """`function` of what `way` makes of an array, compiled and recorded, has NumPy's bits."""
    with it.device("numpy"):
        want = function(way(it.asarray(array))).numpy()
    x, compiled = it.asarray(array), compile(lambda x: function(way(x)))
    for call in (compiled, compiled, lambda x: function(way(x))):
        np.testing.assert_array_equal(call(x).numpy(), want)
    kinds = {step.kind for step in explain(lambda x: function(way(x)), x, runs=0).steps}
    assert ("host" not in kinds) == kernels


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("size", "kernel", "more"), CASES)
def test_columns_however_they_lie(size, kernel, more, dtype):
    x = columns(size, kernel, more, dtype)

    def fold(x):
        return it.fold(x, size, kernel, **more)

    agree(x, fold)
    agree(x.transpose(1, 0, 2).copy(), fold, lambda x: it.permute_dims(x, (1, 0, 2)))
    agree(x.transpose(2, 1, 0).copy(), fold, lambda x: it.permute_dims(x, (2, 1, 0)))
    agree(np.repeat(x, 2, axis=2), fold, lambda x: x[:, :, ::2])


def test_what_is_no_number_stays_where_it_is():
    x = columns((12, 12), (5, 5), {}, "float32")
    x[0, 7, 3], x[1, 20, 40], x[1, 21, 5] = np.nan, np.inf, -np.inf
    agree(x, lambda x: it.fold(x, (12, 12), (5, 5)))


def test_what_the_kernel_does_not_know_is_left_to_others():
    assert it.fold(it.ones((1, 4, 3)), (4,), 2).tolist() == [[[1, 2, 2, 1], [1, 2, 2, 1]]]
    strided = columns((3,), (3,), {}, "float32")
    agree(np.repeat(strided, 4, axis=2), lambda x: it.fold(x, (9,), 3, stride=2))
    agree(np.ones((2, 0, 4), "float32"), lambda x: it.fold(x, (5,), 2), kernels=False)
    with it.device("numpy"):
        want = it.fold(it.ones((1, 4, 3), dtype="float16"), (4,), 2).tolist()
    assert it.fold(it.ones((1, 4, 3), dtype="float16"), (4,), 2).tolist() == want


def test_gradients_of_images_are_one_product_and_one_kernel():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 32, 12, 12)).astype("float32")
    weight = rng.standard_normal((64, 32, 5, 5)).astype("float32")

    def gradient(x, weight):
        x = x.require_grad()
        return it.sum(it.conv2d(x, weight) ** 2).backward()[x]

    with it.device("numpy"):
        want = gradient(it.asarray(x), it.asarray(weight)).numpy()
    found = compile(gradient)(it.asarray(x), it.asarray(weight)).numpy()
    np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-3 * abs(want).max())
    steps = explain(gradient, it.asarray(x), it.asarray(weight), runs=0).steps
    assert sum("fold" in step.operations for step in steps) == 1


@pytest.mark.parametrize(
    ("channels", "features", "side", "padding", "adds"),
    [(8, 32, 32, 1, False), (16, 64, 28, 1, False), (16, 128, 28, 1, True), (16, 64, 10, 0, True)],
)
def test_taps_are_added_up_where_windows_take_longer(channels, features, side, padding, adds):
    """Windows slide along copies of images: they cost little where there are not many more of
    them than places of g, and features not many more than channels."""

    def gradient(x, weight):
        x = x.require_grad()
        return it.sum(it.conv2d(x, weight, padding=padding)).backward()[x]

    x, weight = it.ones((2, channels, side, side)), it.ones((features, channels, 3, 3))
    steps = explain(gradient, x, weight, runs=0).steps
    assert any("fold" in step.operations for step in steps) == adds


def one_channel_each(x, weight, g, more):
    """A convolution of each channel by itself, and the gradient of its images."""
    rank = x.ndim - 2
    x = x.require_grad()
    y = (it.conv1d if rank == 1 else it.conv2d)(x, weight, groups=weight.shape[0], **more)
    return y.detach(), y.backward(g)[x]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("size", "kernel", "more"), CASES)
def test_convolutions_of_each_channel_by_itself(size, kernel, more, dtype):
    rank = len(size)
    around, spread = more.get("padding", (0,) * rank), more.get("dilation", (1,) * rank)
    images = [n + d * (k - 1) for n, k, d in zip(size, kernel, spread, strict=True)]
    out = [n + 2 * p for n, p in zip(size, around, strict=True)]
    rng = np.random.default_rng(len(out))
    shapes = (2, 3, *images), (3, 1, *kernel), (2, 3, *out)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]

    def function(x, weight, g):
        return one_channel_each(x, weight, g, more)

    with it.device("numpy"):
        wanted = [y.numpy() for y in function(*map(it.asarray, arrays))]
    tensors = [it.asarray(a) for a in arrays]
    compiled = compile(function)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    plain = [y.numpy() for y in function(*tensors)]
    for want, found in zip(wanted, plain, strict=True):
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * math.prod(kernel))
    for call in (compiled, compiled):
        for want, found in zip(plain, call(*tensors), strict=True):
            np.testing.assert_array_equal(found.numpy(), want)
    steps = explain(function, *tensors, runs=0).steps
    assert [step.operations for step in steps] == [("conv",), ("conv_input_gradient",)]


def test_other_convolutions_of_each_channel_are_left_to_others():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 9, 9)).astype("float32")
    weight = rng.standard_normal((2, 1, 3, 3)).astype("float32")
    for more in ({"stride": 2}, {"padding": 1}):
        with it.device("numpy"):
            want = it.conv2d(it.asarray(x), it.asarray(weight), groups=2, **more).numpy()
        found = it.conv2d(it.asarray(x), it.asarray(weight), groups=2, **more).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    half = it.conv2d(
        it.asarray(x).astype("float16"), it.asarray(weight).astype("float16"), groups=2
    )
    assert half.dtype is it.float16
    one = it.ones((1, 2, 5, 5))
    assert it.conv2d(one, it.ones((2, 1, 3, 3)), groups=2).tolist() == [[[[9.0] * 3] * 3] * 2]


@pytest.mark.parametrize("seed", range(16))
def test_channels_by_themselves_in_any_shape(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3))
    kernel = tuple(map(int, rng.integers(1, 7, rank)))
    spread, around = (tuple(map(int, rng.integers(low, 4, rank))) for low in (1, 0))
    step = tuple(map(int, rng.integers(1, 4, rank))) if seed >= 8 else (1,) * rank
    if seed % 8 >= 5:
        rank, kernel, spread = 2, (3, 3), (1, 1)
        around, step = (around * 2)[:2], (step * 2)[:2]
    axes = zip(kernel, spread, around, strict=True)
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in axes]
    size = [n + int(rng.integers(0, 40)) for n in least]
    if seed % 4 == 0:
        size[-1] += 3000  # wider than what a copy has room for
    batch, channels = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    x = rng.standard_normal((batch, channels, *size))
    weight = rng.standard_normal((channels, 1, *kernel))
    if seed % 2:
        x[0, 0].flat[0], x[-1, 1].flat[-1] = np.inf, np.nan
    more = {"padding": around, "dilation": spread, "stride": step, "groups": channels}
    conv = it.conv1d if rank == 1 else it.conv2d
    with it.device("numpy"):
        want = conv(it.asarray(x), it.asarray(weight), **more).numpy()
    tensors = it.asarray(x.astype("float32")), it.asarray(weight.astype("float32"))
    found = conv(*tensors, **more).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    compiled = compile(lambda x, weight: conv(x, weight, **more))
    np.testing.assert_array_equal(compiled(*tensors).numpy(), found)
    steps = explain(lambda x, weight: conv(x, weight, **more), *tensors, runs=0).steps
    assert [step.operations for step in steps] == [("conv",)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(7, 7), (14, 14), (5, 16), (23, 8), (3, 13)])
@pytest.mark.parametrize(
    ("kernel", "spread"), [((5, 5), 1), ((7, 7), 1), ((7, 4), 1), ((2, 6), 1), ((3, 7), 6)]
)
def test_rows_of_a_vector_at_most(size, kernel, spread, dtype):
    """Several rows are summed at once, and the last of these may be done twice."""
    rng = np.random.default_rng(0)
    around = tuple([spread * k // 2 for k in kernel])
    reach = [spread * (k - 1) for k in kernel]
    out = [n + 2 * p - far for n, p, far in zip(size, around, reach, strict=True)]
    more = {"padding": around, "dilation": spread}
    shapes = (2, 3, *size), (3, 1, *kernel), (2, 3, *out)
    arrays = [rng.standard_normal(shape) for shape in shapes]

    def function(x, weight, g):
        return one_channel_each(x, weight, g, more)

    with it.device("numpy"):
        wanted = [y.numpy() for y in function(*map(it.asarray, arrays))]
    tensors = [it.asarray(a.astype(dtype)) for a in arrays]
    far = 1e-4 if dtype == "float32" else 1e-12
    plain, found = function(*tensors), compile(function)(*tensors)
    for want, alone, planned in zip(wanted, plain, found, strict=True):
        np.testing.assert_allclose(alone.numpy(), want, rtol=far, atol=far)
        np.testing.assert_array_equal(planned.numpy(), alone.numpy())


@pytest.mark.parametrize("seed", range(6))
def test_gradients_of_near_taps(seed):
    rng = np.random.default_rng(seed)
    size = tuple(map(int, rng.integers(1, 70, 2)))
    step = (1, 1) if seed % 2 else tuple(map(int, rng.integers(1, 4, 2)))
    around = tuple(map(int, rng.integers(1, 4, 2)))
    x, weight = rng.standard_normal((2, 3, *size)), rng.standard_normal((3, 1, 3, 3))
    if seed >= 4:
        x[0, 0, 0, -1], x[1, 1, -1, 0] = np.inf, np.nan
    more = {"padding": around, "stride": step, "groups": 3}
    with it.device("numpy"):
        out = it.conv2d(it.asarray(x), it.asarray(weight), **more).shape
        g = rng.standard_normal(out)

    def function(x, weight, g):
        x, weight = x.require_grad(), weight.require_grad()
        found = it.conv2d(x, weight, **more).backward(g)
        return found[x], found[weight]

    with it.device("numpy"):
        wanted = [y.numpy() for y in function(*map(it.asarray, (x, weight, g)))]
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        tensors = [it.asarray(a.astype(dtype)) for a in (x, weight, g)]
        plain = [y.numpy() for y in function(*tensors)]
        for want, found in zip(wanted, plain, strict=True):
            np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * g[0, 0].size)
        for want, found in zip(plain, compile(function)(*tensors), strict=True):
            np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("seed", range(6))
def test_gradients_of_weights_of_channels_by_themselves(seed, dtype):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3)) if seed else 2
    kernel = tuple(map(int, rng.integers(1, 12 if seed % 3 == 1 else 5, rank)))
    spread, around, step = (tuple(map(int, rng.integers(n, 4, rank))) for n in (1, 0, 1))
    axes = zip(kernel, spread, around, strict=True)
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in axes]
    size = [n + int(rng.integers(0, 50)) for n in least]
    batch, channels = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    more = {"padding": around, "dilation": spread, "stride": step, "groups": channels}
    conv = it.conv1d if rank == 1 else it.conv2d
    x = rng.standard_normal((batch, channels, *size))
    weight = rng.standard_normal((channels, 1, *kernel))

    def gradient(x, weight, g):
        weight = weight.require_grad()
        return conv(x, weight, **more).backward(g)[weight]

    with it.device("numpy"):
        out = conv(it.asarray(x), it.asarray(weight), **more).shape
        g = rng.standard_normal(out)
        want = gradient(*map(it.asarray, (x, weight, g))).numpy()
    tensors = [it.asarray(a.astype(dtype)) for a in (x, weight, g)]
    tolerance = {"float64": 1e-11, "float32": 1e-4, "float16": 3e-2}[dtype] * math.sqrt(g.size)
    for function in (gradient, compile(gradient)):
        found = function(*tensors).numpy().astype(float)
        np.testing.assert_allclose(found, want, rtol=tolerance / 10, atol=tolerance)
    turned = [it.asarray(a.swapaxes(0, 1).copy()) for a in (x.astype(dtype), g.astype(dtype))]
    x, g = (it.permute_dims(a, (1, 0, *range(2, 2 + rank))) for a in turned)
    np.testing.assert_array_equal(gradient(x, tensors[1], g).numpy(), function(*tensors).numpy())


def test_gradients_of_weights_are_one_kernel_and_a_sum():
    x, weight = it.ones((4, 8, 12, 12)), it.ones((8, 1, 3, 3))

    def gradient(x, weight):
        weight = weight.require_grad()
        return it.sum(it.conv2d(x, weight, padding=1, groups=8) ** 2).backward()[weight]

    steps = [step.operations for step in explain(gradient, x, weight, runs=0).steps]
    assert sum("window_dot" in step for step in steps) == 1


@pytest.mark.parametrize("taps", [2, 3])
def test_sums_of_taps_know_nothing_of_what_they_do_not_see(taps):
    x = np.random.default_rng(0).standard_normal((2, 3, 7 + taps, 28 + taps)).astype("float32")
    g = np.random.default_rng(1).standard_normal((2, 3, 4, 10)).astype("float32")
    x[0, 1, -1, :], x[0, 1, :, -1] = np.nan, np.inf  # behind the last window of step (2, 3)
    weight = it.ones((3, 1, taps, taps)).require_grad()
    options = {"stride": (2, 3), "groups": 3}
    found = it.conv2d(it.asarray(x), weight, **options).backward(it.asarray(g))[weight]
    assert np.isfinite(found.numpy()).all()
