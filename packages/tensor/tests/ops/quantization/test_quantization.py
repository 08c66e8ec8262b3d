"""Quantization against PyTorch's, ONNX's definition in NumPy, and the bounds of its error."""

import ml_dtypes
import numpy as np
import pytest

import ingle.tensor as it
from ingle import autodiff
from ingle.tensor.errors import ArgumentError, DTypeError, OperandError, ShapeError
from ingle.tensor.ops.quantization.decoding import decode_weight
from ingle.tensor.pytree import flatten, tree_map
from ingle.testkit.bits import same_bits

DEPRECATED = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
INTEGERS = ["int8", "uint8", "int4", "uint4", "int2", "uint2", "int16"]


def numbers(shape, scale=1.0, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def off_ties(shape, low, high, seed=0):
    """Whole numbers with a bit of noise, that every way of dividing rounds alike."""
    rng = np.random.default_rng(seed)
    return (rng.integers(low, high, shape) + rng.uniform(-0.4, 0.4, shape)).astype(np.float32)


def bits_of(dtype):
    return it.iinfo(dtype).min, it.iinfo(dtype).max


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (0, 3)], ids=str)
def test_codes_are_those_of_quantize_linear(dtype, shape):
    low, high = bits_of(dtype)
    x = np.asarray(off_ties(shape, low - 3, high + 4) * 0.25, np.float32)
    zero = 1 if dtype in ("int2", "uint2") else 2
    got = it.quantize(it.asarray(x), 0.25, zero, dtype=dtype)
    want = np.clip(np.rint(x / np.float32(0.25)) + zero, low, high)
    assert got.dtype.name == dtype
    np.testing.assert_array_equal(got.astype("int32").numpy(), want)
    back = it.dequantize(got, 0.25, zero)
    assert back.dtype is it.float32
    np.testing.assert_array_equal(back.numpy(), ((want - zero) * 0.25).astype(np.float32))


def test_ties_go_to_even():
    x = it.asarray([0.5, 1.5, 2.5, -0.5, -1.5])
    assert it.quantize(x, 1.0, 0).tolist() == [0, 2, 2, 0, -2]
    assert it.quantize(x, 1.0, 1).tolist() == [1, 3, 3, 1, -1]


def test_without_a_zero_point_codes_are_symmetric():
    x = it.asarray([-1e9, 1e9])
    assert it.quantize(x, 1.0).tolist() == [-127, 127]
    assert it.quantize(x, 1.0, 0).tolist() == [-128, 127]
    assert it.quantize(x, 1.0, dtype="int2").tolist() == [-1, 1]
    assert it.quantize(x, 1.0, dtype="uint4").tolist() == [0, 15]


def test_values_that_are_no_numbers():
    x = it.asarray([float("nan"), float("inf"), float("-inf")])
    assert it.quantize(x, 0.1, 5).tolist() == [5, 127, -128]
    got = it.quantize(x, 1.0, dtype="float8_e4m3fn").tolist()
    assert np.isnan(got[0])
    assert got[1:] == [448.0, -448.0]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8(dtype):
    x = numbers((5, 6), 300)
    got = it.quantize(it.asarray(x), 2.0, dtype=dtype)
    largest = float(ml_dtypes.finfo(dtype).max)
    want = np.clip(x / 2, -largest, largest).astype(getattr(ml_dtypes, dtype))
    assert same_bits(got, want)
    np.testing.assert_array_equal(it.dequantize(got, 2.0).numpy(), want.astype(np.float32) * 2)
    with pytest.raises(DTypeError, match=f"quantize: {dtype} has no zero points"):
        it.quantize(it.asarray(x), 2.0, 3, dtype=dtype)


@pytest.mark.parametrize("scales", [(), (1, 1), (4, 1), (1, 6), (2, 1), (4, 2), (2, 3)], ids=str)
def test_blocks(scales):
    """The shape of a scale says what shares it."""
    x = numbers((4, 6), 3)
    rng = np.random.default_rng(1)
    scale = rng.uniform(0.1, 1, scales).astype(np.float32)
    zero = rng.integers(-5, 5, scales).astype(np.int32)
    wide, wide_zero = scale, zero
    for axis, count in enumerate(scales):
        wide = np.repeat(wide, x.shape[axis] // count, axis)
        wide_zero = np.repeat(wide_zero, x.shape[axis] // count, axis)
    codes = it.quantize(it.asarray(x), it.asarray(scale), it.asarray(zero))
    want = np.clip(np.rint(x / wide) + wide_zero, -128, 127)
    np.testing.assert_array_equal(codes.numpy(), want)
    back = it.dequantize(codes, it.asarray(scale), it.asarray(zero))
    np.testing.assert_allclose(back.numpy(), (want - wide_zero) * wide, rtol=1e-6)
    assert np.all(np.abs(back.numpy() - x) <= wide / 2 * (1 + 1e-5))


@DEPRECATED
@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_per_tensor_agrees_with_torch(dtype):
    torch = pytest.importorskip("torch")
    ours = dtype[1:]
    low, high = bits_of(ours)
    x = off_ties((50, 7), low - 20, high + 20) * np.float32(0.25)
    theirs = torch.quantize_per_tensor(torch.from_numpy(x), 0.25, 3, getattr(torch, dtype))
    q = it.quantize_per_tensor(it.asarray(x), 0.25, 3, ours)
    np.testing.assert_array_equal(q.values.numpy(), theirs.int_repr().numpy())
    np.testing.assert_array_equal(q.dequantize().numpy(), theirs.dequantize().numpy())
    assert (q.scale.item(), q.zero_point.item()) == (0.25, 3)


@DEPRECATED
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_per_channel_agrees_with_torch(axis):
    torch = pytest.importorskip("torch")
    x = off_ties((4, 5), -150, 150, seed=2)
    n = x.shape[axis]
    scales = 2.0 ** np.arange(n)
    zeros = np.arange(n) - 1
    theirs = torch.quantize_per_channel(
        torch.from_numpy(x), torch.from_numpy(scales), torch.from_numpy(zeros), axis % 2,
        torch.qint8,
    )  # fmt: skip
    q = it.quantize_per_channel(
        it.asarray(x), it.asarray(scales, dtype="float32"), it.asarray(zeros), axis
    )
    near = np.abs(np.modf(x / scales.reshape(-1, 1) if axis == 0 else x / scales)[0]) - 0.5
    clear = np.abs(near) > 1e-3
    np.testing.assert_array_equal(q.values.numpy()[clear], theirs.int_repr().numpy()[clear])
    np.testing.assert_array_equal(q.dequantize().numpy()[clear], theirs.dequantize().numpy()[clear])


@pytest.mark.parametrize("seed", range(4))
def test_parameters_agree_with_torchs_observers(seed):
    torch = pytest.importorskip("torch")
    x = numbers((6, 5), 3, seed) + np.float32([-9, 0, 1, 9][seed])
    affine = torch.ao.quantization.MinMaxObserver(dtype=torch.quint8)
    affine(torch.from_numpy(x))
    scale, zero = affine.calculate_qparams()
    q = it.quantize_dynamic(it.asarray(x), dtype="uint8", scheme="affine")
    np.testing.assert_allclose(q.scale.item(), scale.item(), rtol=1e-6)
    assert q.zero_point.item() == zero.item()
    assert q.zero_point.dtype is it.int32
    channels = torch.ao.quantization.PerChannelMinMaxObserver(ch_axis=0, dtype=torch.quint8)
    channels(torch.from_numpy(x))
    scale, zero = channels.calculate_qparams()
    q = it.quantize_dynamic(it.asarray(x), dtype="uint8", scheme="affine", axis=0)
    assert q.scale.shape == q.zero_point.shape == (6, 1)
    np.testing.assert_allclose(q.scale.numpy()[:, 0], scale.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(q.zero_point.numpy()[:, 0], zero.numpy())


@pytest.mark.parametrize("dtype", ["int8", "int4", "int2", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    "shared", [{}, {"axis": 0}, {"axis": (0, 2)}, {"block_size": 4}, {"block_size": (1, 2, 8)}],
    ids=str,
)  # fmt: skip
def test_symmetric_scales_reach_the_largest_code(dtype, shared):
    x = numbers((3, 4, 8), 2)
    q = it.quantize_dynamic(it.asarray(x), dtype=dtype, **shared)
    assert q.zero_point is None
    largest = it.finfo(dtype).max if "float" in dtype else it.iinfo(dtype).max
    codes = np.abs(q.values.astype("float32").numpy())
    sizes = [n // c for n, c in zip(x.shape, q.scale.shape or (1, 1, 1), strict=True)]
    split = [v for n, b in zip(x.shape, sizes, strict=True) for v in (n // b, b)]
    np.testing.assert_array_equal(codes.reshape(split).max(axis=(1, 3, 5)), largest)
    expected = np.abs(x).reshape(split).max(axis=(1, 3, 5)) / largest
    np.testing.assert_allclose(q.scale.numpy().reshape(expected.shape), expected, rtol=1e-6)
    if "float" not in dtype:
        wide = it.dequantize(it.ones(x.shape, dtype="int8"), q.scale).numpy()
        assert np.all(np.abs(q.dequantize().numpy() - x) <= wide / 2 * (1 + 1e-5))


def test_block_scales_have_one_entry_for_each_block():
    x = it.asarray(numbers((4, 6)))
    assert it.quantize_dynamic(x).scale.shape == ()
    assert it.quantize_dynamic(x, axis=1).scale.shape == (1, 6)
    assert it.quantize_dynamic(x, block_size=3).scale.shape == (4, 2)
    assert it.quantize_dynamic(x, block_size=(2, 6)).scale.shape == (2, 1)
    low, high = it.quantization_range(x, block_size=(2, 3))
    v = x.numpy().reshape(2, 2, 2, 3)
    np.testing.assert_array_equal(low.numpy(), v.min(axis=(1, 3)))
    np.testing.assert_array_equal(high.numpy(), v.max(axis=(1, 3)))


def test_ternary_weights():
    """BitNet b1.58: the scale is the mean of absolute values, and codes are -1, 0 and 1."""
    w = numbers((8, 8))
    q = it.quantize_dynamic(it.asarray(w), dtype="int2", method="absmean")
    mean = np.abs(w).mean()
    np.testing.assert_allclose(q.scale.item(), mean, rtol=1e-6)
    np.testing.assert_array_equal(
        q.values.astype("int8").numpy(), np.clip(np.rint(w / mean), -1, 1)
    )


def test_zeros_have_the_code_0_and_stay_zeros():
    for scheme, dtype in (("symmetric", "int8"), ("affine", "uint8"), ("symmetric", "float8_e5m2")):
        q = it.quantize_dynamic(it.zeros((2, 3)), dtype=dtype, scheme=scheme)
        assert not np.any(q.dequantize().numpy())


def test_zero_is_exact_in_affine_codes():
    x = np.float32([3.0, 5.0, 7.5])
    q = it.quantize_dynamic(it.asarray(x), dtype="uint8", scheme="affine")
    assert q.zero_point.item() == 0
    code = it.quantize(it.asarray([0.0]), q.scale, q.zero_point, dtype="uint8")
    assert it.dequantize(code, q.scale, q.zero_point).tolist() == [0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes_of_numbers(dtype):
    x = it.asarray(numbers((4, 4))).astype(dtype)
    q = it.quantize_dynamic(x, axis=0)
    assert q.scale.dtype is q.dequantize().dtype is x.dtype
    error = np.abs(q.dequantize().astype("float64").numpy() - x.astype("float64").numpy())
    half = dtype != "float64"
    assert np.all(error <= q.scale.astype("float64").numpy() * (0.5 + half))
    assert it.fake_quantize(x, q.scale).dtype is x.dtype


def test_a_quantized_tensor_is_a_tree_and_can_be_saved(tmp_path):
    nn = pytest.importorskip("ingle.nn")
    q = it.quantize_dynamic(it.asarray(numbers((4, 6))), dtype="int4", block_size=3)
    assert (q.shape, q.dtype, q.device) == ((4, 6), it.int4, it.default_device())
    assert [type(x) for x in flatten({"w": q})] == [it.Tensor, it.Tensor, type(None)]
    again = tree_map(lambda x: x, q)
    assert isinstance(again, it.QuantizedTensor)
    assert again.values is q.values
    path = tmp_path / "quantized.safetensors"
    nn.save(path, {"w": q})
    held = nn.load(path).section("w")
    loaded = it.QuantizedTensor(**held)
    np.testing.assert_array_equal(loaded.dequantize().numpy(), q.dequantize().numpy())
    with pytest.raises(TypeError):
        q + q


@pytest.mark.parametrize(("low", "high", "zero"), [(-128, 127, 0), (0, 255, 7), (-8, 7, -1)])
def test_fake_quantization_agrees_with_torch(low, high, zero):
    torch = pytest.importorskip("torch")
    x = off_ties((9, 11), low - 30, high + 30, seed=3) * np.float32(0.5)
    g = numbers(x.shape, seed=4)
    theirs = torch.from_numpy(x).requires_grad_()
    out = torch.fake_quantize_per_tensor_affine(theirs, 0.5, zero, low, high)
    out.backward(torch.from_numpy(g))
    ours = it.asarray(x).require_grad()
    got = it.fake_quantize_per_tensor_affine(ours, 0.5, zero, low, high)
    np.testing.assert_array_equal(got.numpy(), out.detach().numpy())
    grads = got.backward(it.asarray(g))
    np.testing.assert_array_equal(grads[ours].numpy(), theirs.grad.numpy())
    assert not np.all(theirs.grad.numpy() == g)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_fake_quantization_per_channel_agrees_with_torch(axis):
    torch = pytest.importorskip("torch")
    x = off_ties((3, 4, 5), -40, 40, seed=5)
    n = x.shape[axis]
    scale = np.asarray([0.25, 0.5, 1, 2, 4][:n], np.float32)
    zero = np.arange(n, dtype=np.int32)
    along = [n if i == axis else 1 for i in range(3)]
    x = x * scale.reshape(along)
    theirs = torch.from_numpy(x).requires_grad_()
    out = torch.fake_quantize_per_channel_affine(
        theirs, torch.from_numpy(scale), torch.from_numpy(zero), axis, -16, 15
    )
    out.sum().backward()
    ours = it.asarray(x).require_grad()
    got = it.fake_quantize_per_channel_affine(
        ours, it.asarray(scale), it.asarray(zero), axis, -16, 15
    )
    np.testing.assert_array_equal(got.numpy(), out.detach().numpy())
    np.testing.assert_array_equal(got.sum().backward()[ours].numpy(), theirs.grad.numpy())


def test_the_gradients_of_a_learned_scale_and_zero_point_agree_with_torch():
    torch = pytest.importorskip("torch")
    x = off_ties((6, 7), -30, 30, seed=6) * np.float32(0.5)
    g = numbers(x.shape, seed=7)
    theirs = [torch.from_numpy(x).requires_grad_(), torch.tensor([0.5]), torch.tensor([2.0])]
    theirs[1].requires_grad_()
    theirs[2].requires_grad_()
    out = torch._fake_quantize_learnable_per_tensor_affine(*theirs, -16, 15, 1.0)
    out.backward(torch.from_numpy(g))
    ours = [v.require_grad() for v in (it.asarray(x), it.asarray(0.5), it.asarray(2.0))]
    got = it.fake_quantize_per_tensor_affine(*ours, -16, 15)
    grads = got.backward(it.asarray(g))
    np.testing.assert_array_equal(grads[ours[0]].numpy(), theirs[0].grad.numpy())
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(grads[a].numpy(), b.grad.numpy()[0], rtol=1e-5)


@pytest.mark.parametrize("scales", [(), (4, 1), (1, 6), (2, 3)], ids=str)
def test_the_gradient_of_block_scales(scales):
    """Learned step sizes: (code - x / scale) inside, the code outside, summed over the block."""
    x = numbers((4, 6), 12)
    scale = np.random.default_rng(8).uniform(0.05, 0.2, scales).astype(np.float32)
    ours, step = it.asarray(x).require_grad(), it.asarray(scale).require_grad()
    grads = it.sum(it.fake_quantize(ours, step)).backward()
    wide = scale
    for axis, count in enumerate(scales):
        wide = np.repeat(wide, x.shape[axis] // count, axis)
    codes = np.rint(x / wide)
    inside = np.abs(codes) <= 127
    assert 0 < inside.sum() < inside.size
    np.testing.assert_array_equal(grads[ours].numpy(), inside)
    each = np.clip(codes, -127, 127) - np.where(inside, x / wide, 0)
    counts = scales or (1, 1)
    blocks = each.reshape(counts[0], 4 // counts[0], counts[1], 6 // counts[1]).sum(axis=(1, 3))
    np.testing.assert_allclose(grads[step].numpy(), blocks.reshape(scales), rtol=1e-4, atol=1e-4)


def test_fake_quantization_is_quantization_and_back():
    x = it.asarray(numbers((4, 6), 50))
    for dtype, zero in (("int8", None), ("int8", 3), ("int4", None), ("float8_e5m2", None)):
        q = it.quantize(x, 0.5, zero, dtype=dtype)
        same = it.dequantize(q, 0.5, zero)
        np.testing.assert_array_equal(
            it.fake_quantize(x, 0.5, zero, dtype=dtype).numpy(), same.numpy()
        )


def test_fake_quantization_in_float8_passes_gradients_of_what_fits():
    x = it.asarray([1.3, -500.0, 448.0]).require_grad()
    y = it.fake_quantize(x, 1.0, dtype="float8_e4m3fn")
    assert y.tolist() == [1.25, -448.0, 448.0]
    assert y.sum().backward()[x].tolist() == [1.0, 0.0, 1.0]


def test_gradients_flow_through_dequantize_to_the_scale():
    codes = it.asarray([[1, -2], [3, 4]], dtype="int4")
    scale = it.asarray([[0.5], [2.0]]).require_grad()
    grads = it.sum(it.dequantize(codes, scale)).backward()
    assert grads[scale].tolist() == [[-1.0], [7.0]]
    x = it.asarray([1.0, 2.0]).require_grad()
    assert it.sum(it.quantize(x, 0.5).astype("float32") * x).backward()[x].tolist() == [2.0, 4.0]


def test_batches():
    x, scale = it.asarray(numbers((3, 5))), it.asarray([0.1, 0.2, 0.3])
    for function in (it.quantize, it.fake_quantize):
        got = autodiff.vmap(function)(x, scale)
        want = np.stack([function(x[i], scale[i]).numpy() for i in range(3)])
        np.testing.assert_array_equal(got.numpy(), want)


def per_channel(x):
    return it.quantize_per_channel(x, it.ones(3), it.zeros(3, dtype="int32"), 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: it.quantize(x.astype("int8"), 1.0), DTypeError, "x must be floats, got int8"),
        (lambda x: it.quantize(x, 1.0, dtype="float32"), DTypeError, "dtype must be .* float32"),
        (lambda x: it.quantize(x, 0.0), ArgumentError, "quantize: scale=0.0 must be positive"),
        (lambda x: it.quantize(x, 1.0, 0.5), OperandError, "quantize: zero_point must be"),
        (lambda x: it.quantize(x, 1.0, it.ones(())), DTypeError, "zero_point must be integers"),
        (
            lambda x: it.quantize(x, it.ones((3, 1))),
            ShapeError,
            r"scale of shape \(3, 1\) does not",
        ),
        (lambda x: it.quantize(x, it.ones(6)), ShapeError, r"scale of shape \(6,\) does not"),
        (lambda x: it.dequantize(x, 1.0), DTypeError, "dequantize: values must be .* float32"),
        (lambda x: it.quantize_dynamic(x, dtype="uint8"), DTypeError, "no symmetric codes"),
        (
            lambda x: it.quantize_dynamic(x, dtype="float8_e5m2", scheme="affine"),
            DTypeError,
            "float8_e5m2 has no zero points",
        ),
        (lambda x: it.quantize_dynamic(x, scheme="odd"), ArgumentError, "scheme='odd' must be"),
        (lambda x: it.quantize_dynamic(x, method="odd"), ArgumentError, "method='odd' must be"),
        (lambda x: it.quantize_dynamic(x, block_size=4), ShapeError, "block_size=4 must divide"),
        (lambda x: it.quantize_dynamic(x, block_size=(4, 0)), ShapeError, "must divide"),
        (lambda x: it.quantize_dynamic(x, axis=0, block_size=2), ArgumentError, "not both"),
        (per_channel, ShapeError, r"scales must have shape \(4,\)"),
        (
            lambda x: it.fake_quantize_per_tensor_affine(x, 1.0, 0, 5, 5),
            ArgumentError,
            "quant_min=5 must be less than quant_max=5",
        ),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call(it.asarray(numbers((4, 6))))


def test_a_zero_point_has_the_blocks_of_the_scale() -> None:
    codes, zero = it.zeros((2, 8), dtype="int8"), it.zeros((2, 8), dtype="int32")
    with pytest.raises(ShapeError, match=r"dequantize: .*scale.*zero_point"):
        it.dequantize(codes, it.ones((2, 4)), zero)
    with pytest.raises(ShapeError, match=r"quantized_linear: .*scale.*zero_point"):
        it.quantized_linear(it.ones((1, 8)), codes, it.ones((2, 4)), zero, dtype="int8")


def test_a_weight_of_packed_codes():
    rng = np.random.default_rng(0)
    codes = it.pack(it.asarray(rng.integers(0, 16, (4, 9)).astype(np.uint8)).astype("uint4"))
    scale, zero = (
        it.asarray(rng.uniform(0.1, 1, (4, 3)).astype(np.float32)),
        it.ones((4, 3), dtype="int32"),
    )
    found = decode_weight(codes, scale, zero, dtype="uint4", size=9)
    each = it.unpack(codes, "uint4", size=9, into="uint8")
    assert same_bits(found, it.dequantize(each, scale, zero))
    assert same_bits(
        decode_weight(codes, scale, 3, dtype="uint4", size=9), it.dequantize(each, scale, 3)
    )
    with pytest.raises(DTypeError, match=r"decode_weight: dtype must be int4.*int8"):
        decode_weight(codes, scale, dtype="int8", size=9)
    with pytest.raises(DTypeError, match=r"decode_weight: codes must be uint8.*int8"):
        decode_weight(codes.astype("int8"), scale, dtype="int4", size=9)
    with pytest.raises(ShapeError, match=r"decode_weight: 11 numbers need 6 bytes"):
        decode_weight(codes, scale, dtype="int4", size=11)
    with pytest.raises(ShapeError, match=r"decode_weight: scale of shape \(4, 2\)"):
        decode_weight(codes, scale[:, :2], dtype="int4", size=9)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_codes_of_few_bits_are_made_and_packed_as_bytes(dtype):
    """What keeps narrow dtypes and computes with none does both by itself."""
    x = it.asarray(off_ties((3, 9), -20, 20) * 0.25)
    into = "int8" if dtype.startswith("int") else "uint8"
    codes = it.quantize(x, 0.5, 1, dtype=dtype, into=into)
    wanted = it.quantize(x, 0.5, 1, dtype=dtype)
    assert codes.dtype.name == into
    assert codes.tolist() == wanted.tolist()
    assert it.pack(codes, dtype=dtype).tolist() == it.pack(wanted).tolist()


def test_dtypes_that_do_not_hold_codes_are_refused():
    for dtype, into in (
        ("int4", "uint8"),
        ("uint8", "int8"),
        ("int16", "int8"),
        ("int8", "float32"),
    ):
        with pytest.raises(DTypeError, match=rf"quantize: into must be {dtype} or an integer"):
            it.quantize(it.ones(3), 1.0, dtype=dtype, into=into)
    with pytest.raises(DTypeError, match=r"pack: numbers of int4 .* got float32"):
        it.pack(it.ones(3), dtype="int4")
    with pytest.raises(DTypeError, match=r"pack: numbers of int4 .* got int2"):
        it.pack(it.ones(3, dtype="int8").astype("int2"), dtype="int4")


def test_a_scale_of_a_product_is_a_tensor() -> None:
    codes = it.zeros((2, 8), dtype="int8")
    with pytest.raises(OperandError, match=r"quantized_linear: scale must be a tensor"):
        it.quantized_linear(it.ones((1, 8)), codes, 0.5, dtype="int8")  # type: ignore[arg-type]


@pytest.mark.parametrize("scales", [(), (2, 4), (2, 1)], ids=str)
@pytest.mark.parametrize("batched", [(0, 1, 2), (0,), (1,), (0, 2)], ids=str)
def test_gradients_pass_straight_through_the_rounding_of_a_batch(batched, scales):
    """What a batch is made of rounds, too, and its own gradient would be 0."""
    rng = np.random.default_rng(1)
    values = [off_ties((3, 2, 8), -90, 90) / 4, 0.25 * 2.0 ** rng.integers(0, 2, (3, *scales)),
              rng.integers(-3, 4, (3, *scales)).astype("f")]  # fmt: skip
    given = [it.asarray(v if i in batched else v[0], dtype="f") for i, v in enumerate(values)]
    weight = it.asarray(numbers((2, 8)))

    def loss(*parts):
        return it.sum(it.fake_quantize(*parts) * weight)

    def each(*parts):
        axes = tuple(0 if i in batched else None for i in range(3))
        return it.sum(autodiff.vmap(loss, in_axes=axes)(*parts))

    def one_by_one(*parts):
        rows = [[p[n] if i in batched else p for i, p in enumerate(parts)] for n in range(3)]
        return it.sum(it.stack([loss(*row) for row in rows]))

    got, wanted = (autodiff.grad(f, (0, 1, 2))(*given) for f in (each, one_by_one))
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)
