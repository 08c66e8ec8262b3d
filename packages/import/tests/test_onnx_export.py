"""Modules as ONNX models: onnxruntime computes what Ingle does, for other sizes too."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import ingle.tensor as it
from ingle import importer, nn
from ingle.importer import UnsupportedError
from ingle.tensor import Tensor
from ingle.tensor.pytree import flatten

ort = pytest.importorskip("onnxruntime")


def F(*shape: int) -> Tensor:  # noqa: N802
    return it.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def I(*shape: int) -> Tensor:  # noqa: E743, N802
    return it.asarray(np.random.default_rng(0).integers(0, 5, shape))


N = {"x": {0: "n"}}
NT = {"x": {0: "n", 1: "t"}}
Case = tuple[Callable[[], nn.Module], list[Tensor], Any]
CASES: dict[str, Case] = {}


def case(name: str, make: Callable[[], nn.Module], *inputs: Tensor, dyn: Any = None) -> None:
    CASES[name] = make, list(inputs), dyn


for n in [
    "CELU",
    "ELU",
    "GELU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "SiLU",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]:
    case(n, lambda n=n: getattr(nn, n)(), F(3, 4), dyn=N)
case("Threshold", lambda: nn.Threshold(0.1, 0.2), F(3, 4))
case("ThresholdedReLU", lambda: nn.ThresholdedReLU(), F(3, 4))
case("GLU", lambda: nn.GLU(), F(3, 4))
case("LogSoftmax", lambda: nn.LogSoftmax(-1), F(3, 4))
case("Softmax", lambda: nn.Softmax(-1), F(3, 4))
case("Softmin", lambda: nn.Softmin(-1), F(3, 4))
case("Softmax2d", lambda: nn.Softmax2d(), F(1, 3, 4, 4))
case("SwiGLU", lambda: nn.SwiGLU(4, 5), F(3, 4))
case("PReLU", lambda: nn.PReLU(), F(3, 4))
case("RReLU", lambda: nn.RReLU(), F(3, 4))
case("Linear", lambda: nn.Linear(4, 3), F(2, 5, 4), dyn=NT)
case("Identity", lambda: nn.Identity(), F(3))
case("Bilinear", lambda: nn.Bilinear(3, 4, 5), F(2, 3), F(2, 4))
for d in (1, 2, 3):
    sp = (6,) * d
    case(
        f"Conv{d}d",
        lambda d=d: getattr(nn, f"Conv{d}d")(2, 4, 3, padding=1, stride=2),
        F(2, 2, *sp),
        dyn=N,
    )
    case(
        f"ConvTranspose{d}d",
        lambda d=d: getattr(nn, f"ConvTranspose{d}d")(
            2, 4, 3, padding=1, stride=2, output_padding=1
        ),
        F(2, 2, *sp),
    )
    case(f"BatchNorm{d}d", lambda d=d: getattr(nn, f"BatchNorm{d}d")(2), F(2, 2, *sp), dyn=N)
    case(
        f"InstanceNorm{d}d",
        lambda d=d: getattr(nn, f"InstanceNorm{d}d")(2, affine=True),
        F(2, 2, *sp),
        dyn=N,
    )
    for k in ("AvgPool", "MaxPool"):
        case(f"{k}{d}d", lambda d=d, k=k: getattr(nn, f"{k}{d}d")(2), F(2, 2, *sp), dyn=N)
    case(f"{k}{d}d pad", lambda d=d, k=k: getattr(nn, f"{k}{d}d")(3, 2, 1), F(2, 2, *sp))
    case(f"LPPool{d}d", lambda d=d: getattr(nn, f"LPPool{d}d")(2, 2), F(2, 2, *sp))
    case(f"AdaptiveAvgPool{d}d", lambda d=d: getattr(nn, f"AdaptiveAvgPool{d}d")(2), F(2, 2, *sp))
    case(f"AdaptiveMaxPool{d}d", lambda d=d: getattr(nn, f"AdaptiveMaxPool{d}d")(2), F(2, 2, *sp))
    for k in ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad"):
        case(f"{k}{d}d", lambda d=d, k=k: getattr(nn, f"{k}{d}d")(1), F(2, 2, *sp))
    case(f"ConstantPad{d}d", lambda d=d: getattr(nn, f"ConstantPad{d}d")(1, 0.5), F(2, 2, *sp))
case("LayerNorm", lambda: nn.LayerNorm(4), F(2, 3, 4), dyn=N)
case("GroupNorm", lambda: nn.GroupNorm(2, 4), F(2, 4, 3), dyn=N)
case("RMSNorm", lambda: nn.RMSNorm(4), F(2, 3, 4), dyn=N)
case("LRN", lambda: nn.LocalResponseNorm(3), F(2, 4, 3, 3))
case("Embedding", lambda: nn.Embedding(5, 3), I(2, 3), dyn=N)
case("EmbeddingBag", lambda: nn.EmbeddingBag(5, 3), I(2, 3))
case("Dropout", lambda: nn.Dropout(), F(3))
case("Flatten", lambda: nn.Flatten(), F(2, 3, 4), dyn=N)
case("Unflatten", lambda: nn.Unflatten(1, (2, 2)), F(2, 4))
case("RNN", lambda: nn.RNN(3, 4), F(5, 2, 3))
case("LSTM", lambda: nn.LSTM(3, 4, 2, bidirectional=True), F(5, 2, 3))
case("GRU", lambda: nn.GRU(3, 4, batch_first=True), F(5, 2, 3))
case("LSTMCell", lambda: nn.LSTMCell(3, 4), F(2, 3))
case("GRUCell", lambda: nn.GRUCell(3, 4), F(2, 3))
case("RNNCell", lambda: nn.RNNCell(3, 4), F(2, 3))
case(
    "MultiheadAttention",
    lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    F(2, 5, 8),
    F(2, 5, 8),
    F(2, 5, 8),
    dyn=dict.fromkeys(("x0", "x1", "x2"), NT["x"]),
)
case(
    "TransformerEncoderLayer",
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    F(2, 5, 8),
    dyn=NT,
)
case(
    "TransformerDecoderLayer",
    lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
    F(2, 5, 8),
    F(2, 5, 8),
)
case(
    "Transformer", lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), F(2, 5, 8), F(2, 5, 8)
)
case("GroupedQueryAttention", lambda: nn.GroupedQueryAttention(8, 4, 2), F(2, 5, 8))
case("PixelShuffle", lambda: nn.PixelShuffle(2), F(1, 4, 3, 3))
case("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), F(1, 1, 4, 4))
case("ChannelShuffle", lambda: nn.ChannelShuffle(2), F(1, 4, 3, 3))
case("Upsample", lambda: nn.Upsample(scale_factor=2), F(1, 2, 3, 3))
case("Upsample bilinear", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), F(1, 2, 3, 3))
case("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), F(1, 2, 3, 3))
case("Unfold", lambda: nn.Unfold(2), F(1, 2, 4, 4))
case("Fold", lambda: nn.Fold((4, 4), 2), F(1, 8, 9))
case("DeformConv2d", lambda: nn.DeformConv2d(2, 3, 3, padding=1), F(1, 2, 4, 4), F(1, 18, 4, 4))
case("CosineSimilarity", lambda: nn.CosineSimilarity(), F(2, 3), F(2, 3))
case("PairwiseDistance", lambda: nn.PairwiseDistance(), F(2, 3), F(2, 3))
for n in ["L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "BCEWithLogitsLoss"]:
    case(n, lambda n=n: getattr(nn, n)(), F(2, 3), F(2, 3))
case("CrossEntropyLoss", lambda: nn.CrossEntropyLoss(), F(3, 5), I(3))
case("NLLLoss", lambda: nn.NLLLoss(), F(3, 5), I(3))
case("KLDivLoss", lambda: nn.KLDivLoss(), F(3, 5), F(3, 5))
case("SinusoidalEncoding", lambda: nn.SinusoidalEncoding(8), F(2, 3, 8))
case("RotaryEmbedding", lambda: nn.RotaryEmbedding(8), F(2, 2, 3, 8))
case("PositionWiseFeedForward", lambda: nn.PositionWiseFeedForward(8, 16), F(2, 3, 8))
case("LoRALinear", lambda: nn.LoRALinear(nn.Linear(4, 3), 2), F(2, 4))
case(
    "MaxUnpool2d",
    lambda: nn.MaxUnpool2d(2),
    F(1, 1, 2, 2),
    it.asarray(np.array([[[[0, 3], [9, 15]]]])),
)


def check(model: onnx.ModelProto, module: nn.Module, inputs: list[Tensor]) -> None:
    """onnxruntime and the module give the same."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    given = {p.name: x.numpy() for p, x in zip(model.graph.input, inputs, strict=True)}
    got = session.run(None, given)
    wanted = [t for t in flatten(module(*inputs)) if isinstance(t, Tensor)]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)


QUICK = {
    "GELU", "Linear", "Conv2d", "MaxPool2d pad", "LayerNorm", "LSTM", "Embedding",
    "TransformerEncoderLayer", "Upsample bilinear",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_onnxruntime_gives_the_same(name: str) -> None:
    make, inputs, dynamic = CASES[name]
    with it.device("numpy"):
        module = make().eval()
        inputs = [x.to_device("numpy") for x in inputs]
        model = importer.export_onnx(module, inputs, dynamic_axes=dynamic)
        check(model, module, inputs)
        if dynamic:
            larger = []
            for port, x in zip(model.graph.input, inputs, strict=True):
                for axis in dynamic.get(port.name, {}):
                    x = it.concat([x, x, x], axis=axis)
                larger.append(x)
            check(model, module, larger)


def test_a_model_goes_out_and_comes_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "net.onnx"
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    x = F(2, 1, 4, 4)
    importer.export_onnx(net.eval(), x, path, dynamic_axes=N, output_names=["scores"])
    back = importer.load_onnx(path)
    assert [str(p) for p in back.outputs] == ["scores: float32[n, 3]"]
    np.testing.assert_allclose(back(F(5, 1, 4, 4)).numpy(), net(F(5, 1, 4, 4)).numpy(), atol=1e-5)
    names = [name for name, _ in back.named_parameters()]
    assert names == [name for name, _ in net.named_parameters()]


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(UnsupportedError, match="inv"):
        importer.export_onnx(it.linalg.inv, F(2, 2))
    with pytest.raises(UnsupportedError, match="eval"):
        importer.export_onnx(nn.BatchNorm1d(3), F(2, 3))
