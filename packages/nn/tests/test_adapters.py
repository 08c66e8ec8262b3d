"""LoRA, quantized bases, and averages of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.tensor.errors import ArgumentError, OperandError, ShapeError

X = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("quantize", [None, "int8", "int4", "nf4"])
def test_only_the_thin_matrices_train(quantize: str | None) -> None:
    model, x = network(), it.asarray(X)
    before = model(x).numpy()
    nn.apply_lora(model, r=2, alpha=8.0, quantize=quantize)
    close = {None: 1e-6, "int8": 0.02, "int4": 0.3, "nf4": 0.3}[quantize]
    np.testing.assert_allclose(model(x).numpy(), before, atol=close)
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trained == ["0.lora_A", "0.lora_B", "2.0.lora_A", "2.0.lora_B"]
    frozen = {k: v.numpy() for k, v in model.state_dict().items() if "lora" not in k}
    optimizer = optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    losses = [it.mse_loss(model(x), it.zeros((6, 4)))]
    for _ in range(15):
        optimizer.step(losses[-1].backward())
        losses.append(it.mse_loss(model(x), it.zeros((6, 4))))
    assert losses[-1].item() < 0.3 * losses[0].item()
    for key, value in frozen.items():
        np.testing.assert_array_equal(model.state_dict()[key].numpy(), value)
    trained_out = model(x).numpy()
    merged = nn.merge_lora(model)
    assert list(merged.state_dict()) == list(network().state_dict())
    np.testing.assert_allclose(merged(x).numpy(), trained_out, rtol=1e-4, atol=1e-4)


def test_lora_is_its_formula() -> None:
    base = nn.Linear(3, 2).to(dtype="float64")
    layer = nn.LoRALinear(base, r=2, alpha=6.0)
    rng = np.random.default_rng(0)
    a, b, x = rng.normal(size=(2, 3)), rng.normal(size=(2, 2)), rng.normal(size=(4, 3))
    layer.lora_A.value, layer.lora_B.value = it.asarray(a), it.asarray(b)
    want = x @ (base.weight.numpy() + 3.0 * b @ a).T + base.bias.numpy()  # type: ignore[union-attr]
    np.testing.assert_allclose(layer(it.asarray(x)).numpy(), want, rtol=1e-12)


def test_a_quantized_layer_is_small_and_saved(tmp_path: Any) -> None:
    layer = nn.QuantizedLinear(nn.Linear(64, 32), nn.QuantizationConfig("int8", per=32))
    kept = layer.codes.raw.nbytes + layer.scale.raw.nbytes
    assert kept < 64 * 32 * 4 / 3
    nn.save(tmp_path / "q.safetensors", layer)
    other = nn.QuantizedLinear(nn.Linear(64, 32), nn.QuantizationConfig("int8", per=32))
    nn.load(tmp_path / "q.safetensors", other)
    x = it.ones((2, 64))
    np.testing.assert_array_equal(other(x).numpy(), layer(x).numpy())


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("decay", [None, 0.8])
def test_averages_are_pytorchs(decay: float | None, use_buffers: bool) -> None:
    torch = pytest.importorskip("torch")
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    theirs = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).double()
    ours = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype="float64")
    function = None if decay is None else get_ema_multi_avg_fn(decay)
    mine = nn.AveragedModel(ours, decay, use_buffers)
    torchs = AveragedModel(theirs, multi_avg_fn=function, use_buffers=use_buffers)
    assert list(mine.state_dict()) == list(torchs.state_dict())
    for seed in range(4):
        theirs(torch.tensor(np.random.default_rng(seed).normal(size=(5, 3))))
        for p in theirs.parameters():
            p.data += 0.1 * seed
        ours.load_state_dict(theirs.state_dict())
        mine.update_parameters(ours)
        torchs.update_parameters(theirs)
        for key, value in torchs.state_dict().items():
            if use_buffers and "num_batches" in key:
                continue  # PyTorch averages counters and cuts the result off.
            np.testing.assert_allclose(mine.state_dict()[key].numpy(), value.numpy(), rtol=1e-9)


def norms_of(m: Any) -> Any:
    return m.Sequential(m.BatchNorm1d(3, momentum=0.3), m.Linear(3, 2), m.BatchNorm1d(2), m.Tanh())


def test_statistics_for_averaged_weights_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    from torch.optim.swa_utils import update_bn

    theirs, ours = norms_of(torch.nn).double(), norms_of(nn).to(dtype="float64")
    data = [np.random.default_rng(i).normal(i, 1 + i, size=(4 + i, 3)) for i in range(4)]
    theirs(torch.tensor(data[3]))  # what was before does not count
    ours.load_state_dict(theirs.state_dict())
    ours.eval()
    ours[2].train()
    update_bn([(torch.tensor(x), 0) for x in data[:3]], theirs)
    nn.update_bn([(it.asarray(x), 0) for x in data[:3]], ours)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-12)
    assert [m.training for m in ours.modules()] == [False, False, False, True, False]
    assert [ours[0].momentum, ours[2].momentum] == [0.3, 0.1]


def test_statistics_for_averaged_weights_where_there_are_none_and_of_bad_batches() -> None:
    def batches() -> Any:
        raise AssertionError("nobody asks for them")
        yield

    nn.update_bn(batches(), nn.Sequential(nn.Linear(2, 2), nn.InstanceNorm1d(2)))
    nn.update_bn(batches(), nn.BatchNorm1d(2, track_running_stats=False))
    layer = nn.BatchNorm1d(2).eval()
    with pytest.raises(ShapeError):
        nn.update_bn([it.ones((3, 5))], layer)
    assert not layer.training
    assert layer.momentum == 0.1
    with pytest.raises(OperandError, match="update_parameters: model must be a module, got 3"):
        nn.AveragedModel(layer).update_parameters(3)  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="update_bn: model must be a module, got "):
        nn.update_bn(layer, [it.ones((3, 2))])  # type: ignore[arg-type]


def test_running_statistics_begin_anew() -> None:
    layer = nn.BatchNorm1d(2)
    fresh = {k: v.tolist() for k, v in layer.state_dict().items()}
    layer(it.asarray([[1.0, 2.0], [3.0, 5.0]]))
    layer.reset_running_stats()
    assert {k: v.tolist() for k, v in layer.state_dict().items()} == fresh
    nn.BatchNorm1d(2, track_running_stats=False).reset_running_stats()


def test_an_average_in_a_compiled_step() -> None:
    model = nn.Linear(2, 1)
    average, optimizer = nn.AveragedModel(model, 0.5), optim.SGD(model, lr=0.1)

    @compile
    def step(x: it.Tensor) -> it.Tensor:
        loss = it.sum(model(x) ** 2)
        optimizer.step(loss.backward())
        average.update_parameters(model)
        return loss

    want = None
    for _ in range(5):
        step(it.ones((3, 2)))
        now = model.weight.numpy()
        want = now if want is None else want * 0.5 + now * 0.5
    np.testing.assert_allclose(average.module.weight.numpy(), want, rtol=1e-5)
    assert step.recordings <= 2


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match=r"matches head; there are 0, 2\.0"):
        nn.apply_lora(network(), "head")
    with pytest.raises(OperandError, match="base must be a Linear or QuantizedLinear, got ReLU"):
        nn.LoRALinear(nn.ReLU())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="r must be at least 1"):
        nn.LoRALinear(nn.Linear(2, 2), r=0)
    with pytest.raises(ArgumentError, match="decay must be None or in"):
        nn.AveragedModel(network(), decay=2.0)
    with pytest.raises(nn.StateError, match="different are"):
        nn.AveragedModel(network()).update_parameters(nn.Linear(2, 2))
