"""Quantized layers beside the same arithmetic in NumPy and PyTorch's own quantization."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile, explain
from ingle.nn.quantization import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    normal_floats,
)
from ingle.nn.quantization.weights import codes_of, decoded
from ingle.tensor.errors import ArgumentError, OperandError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3, 16)).astype(np.float32)
Config = nn.QuantizationConfig


def linear(inputs: int = 16, outputs: int = 6) -> nn.Linear:
    it.random.seed(1)
    return nn.Linear(inputs, outputs)


def blocks(weight: np.ndarray, per: Any) -> np.ndarray:
    """The numbers that share a scale in the last axis."""
    size = {"tensor": weight.size, "channel": weight[0].size}.get(per, per)
    return weight.reshape(-1, size)


@pytest.mark.parametrize("per", ["tensor", "channel", 8])
@pytest.mark.parametrize("dtype", ["int8", "int4", "int2", "uint4"])
def test_weights_are_those_of_the_formula(dtype: str, per: Any) -> None:
    layer = linear()
    kept = nn.QuantizedLinear(layer, Config(dtype, per))
    w, bits = blocks(layer.weight.numpy().astype(np.float64), per), int(dtype[-1])
    if dtype.startswith("uint"):
        low = np.minimum(w.min(1, keepdims=True), 0)
        scale = (np.maximum(w.max(1, keepdims=True), 0) - low) / (2**bits - 1)
        zero = np.rint(-low / scale)
        want = (np.clip(np.rint(w / scale) + zero, 0, 2**bits - 1) - zero) * scale
    else:
        most = 2 ** (bits - 1) - 1
        scale = np.abs(w).max(1, keepdims=True) / most
        want = np.clip(np.rint(w / scale), -most, most) * scale
    np.testing.assert_allclose(kept.weight.numpy(), want.reshape(6, 16), rtol=1e-5, atol=1e-6)
    assert kept.codes.raw.nbytes == 6 * 16 * bits // 8


def test_normal_floats_are_the_published_ones() -> None:
    published = [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
        0.7229568362236023, 1.0,
    ]  # fmt: skip
    np.testing.assert_allclose(normal_floats.values(), published, atol=2e-7)
    w = RNG.normal(size=(4, 64)).astype(np.float32)
    config = Config("nf4", per=32)
    made = decoded(*codes_of(it.asarray(w), config), (4, 64), config).numpy()
    scale = np.abs(w.reshape(8, 32)).max(1, keepdims=True)
    table = np.asarray(published)
    nearest = table[np.abs((w.reshape(8, 32) / scale)[..., None] - table).argmin(-1)]
    np.testing.assert_allclose(made, (nearest * scale).reshape(4, 64), rtol=1e-5)


def test_the_least_squared_error_is_found() -> None:
    w = RNG.standard_t(2, size=(4, 64)).astype(np.float32)
    made = {}
    for method in ("minmax", "mse"):
        config = Config("int4", "channel", weight_method=method)  # type: ignore[arg-type]
        made[method] = decoded(*codes_of(it.asarray(w), config), w.shape, config).numpy()
    errors = {k: ((v - w) ** 2).sum(1) for k, v in made.items()}
    assert (errors["mse"] <= errors["minmax"]).all()
    for row, least in zip(w.astype(np.float64), errors["mse"], strict=True):
        tried = []
        for cut in np.linspace(1.0, 0.4, 31):
            scale = np.abs(row).max() * cut / 7
            tried.append(((np.clip(np.rint(row / scale), -7, 7) * scale - row) ** 2).sum())
        np.testing.assert_allclose(least, min(tried), rtol=1e-3)


@pytest.mark.parametrize("per", ["tensor", "channel"])
@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_dynamic_products_are_those_of_integers(dtype: str, per: Any) -> None:
    layer = linear()
    kept = nn.QuantizedLinear(layer, Config(dtype, per, activations="dynamic"))
    rows = X.reshape(-1, 16).astype(np.float64)
    scale = np.abs(rows).max(1, keepdims=True) / 127
    codes = np.clip(np.rint(rows / scale), -127, 127).astype(np.int64)
    w_scale = kept.scale.numpy().reshape(1, -1).astype(np.float64)
    w_codes = np.rint(kept.weight.numpy() / w_scale.T).astype(np.int64)
    want = (codes @ w_codes.T) * scale * w_scale + layer.bias.numpy()
    found = kept(it.asarray(X)).numpy().reshape(-1, 6)
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-5)


def test_static_products_take_the_zero_point_off() -> None:
    layer = linear()
    kept = nn.quantize(layer, Config(activations="static"), calibrate=[it.asarray(X + 1.0)])
    assert type(kept) is nn.QuantizedLinear
    low, high = min((X + 1).min(), 0.0), (X + 1).max()
    scale = (high - low) / 255
    zero = np.rint(-low / scale)
    assert kept.input_zero_point.raw.item() == zero  # type: ignore[union-attr]
    codes = np.clip(np.rint((X + 1) / scale) + zero, 0, 255) - zero
    want = codes * scale @ kept.weight.numpy().T.astype(np.float64) + layer.bias.numpy()
    np.testing.assert_allclose(kept(it.asarray(X + 1.0)).numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activations", [None, "dynamic", "static"])
@pytest.mark.parametrize(("rank", "groups"), [(1, 1), (2, 2), (3, 1)])
def test_convolutions(rank: int, groups: int, activations: Any) -> None:
    it.random.seed(2)
    options: dict[str, Any] = {"stride": 2, "padding": 1, "groups": groups}
    layer = getattr(nn, f"Conv{rank}d")(4, 6, 3, **options)
    x = it.asarray(RNG.normal(size=(2, 4, *(7,) * rank)).astype(np.float32))
    plain = layer(x).numpy()
    kept = nn.quantize(layer, Config(activations=activations), calibrate=[x])
    found = kept(x).numpy()
    assert type(kept).__name__ == f"QuantizedConv{rank}d"
    assert found.shape == plain.shape
    assert 0.0 < np.abs(found - plain).max() < 0.03
    # What gradients are recorded of is the same numbers.
    np.testing.assert_allclose(kept(x.require_grad()).numpy(), found, atol=2e-6)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("dtype", ["int4", "int2", "uint4", "uint2"])
def test_codes_of_few_bits_become_weights_in_kernels(dtype: str, rows: int) -> None:
    """No device computes with dtypes of less than a byte: where they stood between the bytes and
    the weight, the host had to make both."""
    with it.device("cpu"):
        layer = nn.QuantizedLinear(linear(64, 8), Config(dtype, per=32))
        x = it.asarray(RNG.normal(size=(rows, 64)).astype(np.float32))
    run = compile(lambda x: layer(x))
    assert "host" not in {step.kind for step in explain(run, x, runs=0).steps}
    wanted = x.numpy() @ layer.weight.numpy().T + layer.bias.numpy()  # type: ignore[union-attr]
    np.testing.assert_allclose(run(x).numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int4", "uint4", "nf4"])
def test_embeddings_decode_the_rows_asked_for(dtype: str) -> None:
    it.random.seed(3)
    table = nn.Embedding(10, 8)
    kept = nn.QuantizedEmbedding(table, Config(dtype, per=4))
    places = it.asarray([[1, 9], [0, 1]])
    np.testing.assert_array_equal(kept(places).numpy(), kept.weight.numpy()[places.numpy()])
    far = np.abs(kept.weight.numpy() - table.weight.numpy()).max()
    assert far < (0.02 if dtype == "int8" else 0.5)


def test_pytorch_quantizes_weights_alike() -> None:
    torch = pytest.importorskip("torch")
    layer = linear()
    kept = nn.QuantizedLinear(layer, Config())
    theirs = torch.fake_quantize_per_channel_affine(
        torch.tensor(layer.weight.numpy()), torch.tensor(kept.scale.numpy().ravel()),
        torch.zeros(6), 0, -127, 127,
    )  # fmt: skip
    np.testing.assert_allclose(kept.weight.numpy(), theirs.numpy(), rtol=1e-6)


def test_observers() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(2048,)).astype(np.float32) * s for s in (1.0, 3.0, 0.5)]
    widest = MinMaxObserver()
    moving = MovingAverageMinMaxObserver(0.25)
    percentile = HistogramObserver("percentile", 90.0, bins=4096)
    low = high = None
    for batch in batches:
        for observer in (widest, moving, percentile):
            observer(it.asarray(batch))
        ends = batch.min(), batch.max()
        low = ends[0] if low is None else low + 0.25 * (ends[0] - low)
        high = ends[1] if high is None else high + 0.25 * (ends[1] - high)
    every = np.concatenate(batches)
    assert [v.item() for v in widest.range()] == [every.min(), every.max()]
    np.testing.assert_allclose([v.item() for v in moving.range()], [low, high], rtol=1e-6)
    found = [v.item() for v in percentile.range()]
    np.testing.assert_allclose(found, np.percentile(every, [5, 95]), atol=0.05)


def test_a_range_of_least_error_leaves_outliers_out() -> None:
    values = np.concatenate([RNG.normal(size=20000), [60.0]]).astype(np.float32)
    observer = HistogramObserver("mse", codes=16)
    observer(it.asarray(values[:100]))
    observer(it.asarray(values[100:]))
    low, high = (v.item() for v in observer.range())
    assert high < 30.0

    def error(a: float, b: float) -> float:
        scale = (b - a) / 15
        zero = np.rint(-a / scale)
        codes = np.clip(np.rint(values / scale) + zero, 0, 15)
        return float((((codes - zero) * scale - values) ** 2).sum())

    assert error(low, high) < error(values.min(), values.max())


def network() -> nn.Sequential:
    it.random.seed(4)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Sequential(nn.Linear(32, 4)))


def test_paths_choose_layers() -> None:
    model = nn.quantize(network(), {"2.*": Config("int4", 8), "*": Config()})
    assert [m.config.weights for m in (model[0], model[2][0])] == ["int8", "int4"]
    model = nn.quantize(network(), {"0": None, "*": Config()})
    assert type(model[0]) is nn.Linear
    assert type(model[2][0]) is nn.QuantizedLinear


@pytest.mark.slow
def test_training_passes_through_the_rounding() -> None:
    model, x = network(), it.asarray(X.reshape(-1, 16))
    y = it.asarray(np.arange(15) % 4)
    optimizer = optim.Adam(model, lr=3e-2)
    names = list(model.state_dict())
    prepared = nn.prepare(model, Config("int4", activations="static"), train=True)
    assert [n for n in prepared.state_dict() if "observer" not in n] == names

    @compile
    def step(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        loss = it.cross_entropy(prepared(x), y)
        optimizer.step(loss.backward())
        return loss

    losses = [step(x, y).item() for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]
    prepared.eval()
    rounded = prepared(x).numpy()
    converted = nn.convert(prepared)
    assert type(converted[0]) is nn.QuantizedLinear
    np.testing.assert_allclose(converted(x).numpy(), rounded, rtol=1e-3, atol=1e-3)


def test_the_gradient_of_rounding_is_that_of_the_layer() -> None:
    layer, x = linear(), it.asarray(X).require_grad()
    plain = layer(x).sum().backward()
    config = Config("int8", activations="dynamic")
    prepared = nn.prepare(layer, config, train=True)
    rounded = prepared(x).sum().backward()
    np.testing.assert_allclose(rounded[layer.bias].numpy(), plain[layer.bias].numpy())
    # Of the input it is the rounded weight, of the weight the rounded input.
    np.testing.assert_allclose(rounded[x].numpy(), plain[x].numpy(), atol=0.03)
    np.testing.assert_allclose(rounded[layer.weight].numpy(), plain[layer.weight].numpy(), atol=0.1)


def test_quantized_models_are_saved_and_run_compiled(tmp_path: Path) -> None:
    config = Config("int4", per=8, activations="static")
    x = it.asarray(X)
    model = nn.quantize(network(), config, calibrate=[(x,)])
    nn.save(tmp_path / "q.safetensors", model)
    other = nn.quantize(network(), config, calibrate=[x * 3.0])
    nn.load(tmp_path / "q.safetensors", other)
    want = model(x).numpy()
    np.testing.assert_array_equal(other(x).numpy(), want)
    step = compile(model)
    for _ in range(3):
        np.testing.assert_allclose(step(x).numpy(), want, rtol=1e-5, atol=1e-6)
    assert nn.footprint(model) < nn.footprint(network()) / 3


def test_transformers_and_low_rank_changes() -> None:
    it.random.seed(5)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), it.asarray(X)
    plain, before = model(x).numpy(), nn.footprint(model)
    nn.quantize(model, Config(activations="dynamic"))
    assert np.abs(model(x).numpy() - plain).max() < 0.1
    assert nn.footprint(model) < before / 2
    tuned = nn.apply_lora(network(), r=2, quantize="nf4")
    trained = [p for p in tuned.parameters() if p.requires_grad]
    grads = tuned(x).sum().backward()
    assert len(grads) == len(trained) == 4
    assert type(nn.merge_lora(tuned)[0]) is nn.Linear


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_keep_codes(kind: str) -> None:
    it.random.seed(6)
    layer = getattr(nn, kind)(16, 8, num_layers=2)
    plain, _ = layer(it.asarray(X))
    before = nn.footprint(layer)
    kept = copy.deepcopy(nn.quantize(layer, Config(activations="static"), calibrate=[]))
    assert np.abs(kept(it.asarray(X))[0].numpy() - plain.numpy()).max() < 0.02
    assert nn.footprint(kept) < before / 2
    assert not [p for n, p in kept.named_parameters() if "original" in n and p.requires_grad]


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match=r"weights must be one of 'int8'.*got 'int3'"):
        Config("int3")
    with pytest.raises(ArgumentError, match="a block's size, got 0"):
        Config(per=0)
    with pytest.raises(ArgumentError, match="percentile must be above 50"):
        Config(percentile=1.0)
    with pytest.raises(ArgumentError, match=r"no layer's path matches 'head'; there are 0, 2\.0"):
        nn.quantize(network(), {"head": Config()})
    with pytest.raises(ArgumentError, match="no layer to quantize in ReLU"):
        nn.quantize(nn.ReLU())
    with pytest.raises(OperandError, match="must be a QuantizationConfig or None, got str"):
        nn.quantize(network(), {"*": "int8"})  # type: ignore[dict-item]
    static = Config(activations="static")
    with pytest.raises(ArgumentError, match="pass calibrate=batches"):
        nn.quantize(network(), static)
    with pytest.raises(ArgumentError, match="calibrate holds no batches"):
        nn.quantize(network(), static, calibrate=[])
    with pytest.raises(OperandError, match="nothing was observed"):
        nn.convert(nn.prepare(network(), static))
    with pytest.raises(OperandError, match="there is no prepared layer"):
        nn.convert(network())
    with pytest.raises(ArgumentError, match="input_range"):
        nn.QuantizedLinear(linear(), static)
    with pytest.raises(OperandError, match="finite floats"):
        HistogramObserver()(it.asarray([1.0, float("nan")]))
    with pytest.raises(ArgumentError, match="max_norm"):
        nn.QuantizedEmbedding(nn.Embedding(3, 2, max_norm=1.0))
    with pytest.raises(ArgumentError, match="'static' would freeze"):
        nn.apply_lora(network(), quantize=static)
