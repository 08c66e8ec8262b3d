"""A case of each module of `nn` for the tests of export: how it is made, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor


def F(*shape: int) -> Tensor:  # noqa: N802
    return it.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def I(*shape: int) -> Tensor:  # noqa: E743, N802
    return it.asarray(np.random.default_rng(0).integers(0, 5, shape))


def P(*shape: int) -> Tensor:  # noqa: N802
    """Shares between 0 and 1."""
    return it.asarray(np.random.default_rng(1).uniform(0.1, 0.9, shape).astype(np.float32))


def S(*shape: int) -> Tensor:  # noqa: N802
    """Signs, 1 and -1."""
    return it.asarray(np.sign(np.random.default_rng(2).normal(size=shape)).astype(np.float32))


class Lengths(nn.Module):
    """CTC with fixed lengths, which decide what is read and so are no inputs of a graph."""

    def __init__(self) -> None:
        self.loss = nn.CTCLoss()

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Of two texts of two letters."""
        return self.loss(scores, targets, [6, 5], [2, 2])


def quantized(module: nn.Module) -> nn.Module:
    """The module with weights of eight bits."""
    return nn.quantize(nn.Sequential(module))


def lazy(name: str, size: tuple[int, ...], *arguments: int) -> nn.Module:
    """A module that has seen its first input."""
    module: nn.Module = getattr(nn, name)(*arguments)
    module(F(*size))
    return module


N = {"x": {0: "n"}}
NT = {"x": {0: "n", 1: "t"}}
Case = tuple[Callable[[], nn.Module], list[Tensor], Any]
CASES: dict[str, Case] = {}


def case(name: str, make: Callable[[], nn.Module], *inputs: Tensor, dyn: Any = None) -> None:
    CASES[name] = make, list(inputs), dyn


ACTIVATIONS = (
    "CELU", "ELU", "GELU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "Mish", "ReLU", "ReLU6", "Sigmoid", "SiLU", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink",
)  # fmt: skip
for n in ACTIVATIONS:
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
for d in (1, 2, 3):
    size = 2, 2, *(6,) * d
    for k in ("LazyBatchNorm", "LazyInstanceNorm"):
        case(f"{k}{d}d", lambda d=d, k=k, size=size: lazy(f"{k}{d}d", size), F(*size))
    for k in ("LazyConv", "LazyConvTranspose"):
        case(f"{k}{d}d", lambda d=d, k=k, size=size: lazy(f"{k}{d}d", size, 4, 3), F(*size))
    case(
        f"QuantizedConv{d}d",
        lambda d=d: quantized(getattr(nn, f"Conv{d}d")(2, 4, 3)),
        F(*size),
    )
    case(f"Dropout{d}d", lambda d=d: getattr(nn, f"Dropout{d}d")(), F(*size))
case("LazyLinear", lambda: lazy("LazyLinear", (2, 4), 3), F(2, 4))
case("QuantizedLinear", lambda: quantized(nn.Linear(32, 4)), F(2, 32))
case("QuantizedEmbedding", lambda: quantized(nn.Embedding(5, 32)), I(2, 3))
case("SyncBatchNorm", lambda: nn.SyncBatchNorm(2), F(2, 2, 4, 4))
case("AlphaDropout", lambda: nn.AlphaDropout(), F(3, 4))
case("FeatureAlphaDropout", lambda: nn.FeatureAlphaDropout(), F(1, 2, 3, 3))
case("GaussianNoise", lambda: nn.GaussianNoise(0.1), F(3, 4))
case("AveragedModel", lambda: nn.AveragedModel(nn.Linear(3, 4)), F(2, 3))
case("Sequential", lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU()), F(2, 3))
case("MaxUnpool1d", lambda: nn.MaxUnpool1d(2), F(1, 1, 2), it.asarray([[[0, 3]]]))
case("MaxUnpool3d", lambda: nn.MaxUnpool3d(2), F(1, 1, 1, 1, 2), it.asarray([[[[[0, 3]]]]]))
case("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), F(1, 2, 3, 3))
case(
    "TransformerEncoder",
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
    F(2, 5, 8),
    dyn=NT,
)
case(
    "TransformerDecoder",
    lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2),
    F(2, 5, 8),
    F(2, 5, 8),
)
case("AdaptiveLogSoftmax", lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 7]), F(3, 8), I(3))
case("BCELoss", lambda: nn.BCELoss(), P(2, 3), P(2, 3))
case("CTCLoss", Lengths, F(6, 2, 5), I(2, 2) % 4 + 1)
case("CosineEmbeddingLoss", lambda: nn.CosineEmbeddingLoss(), F(3, 4), P(3, 4), S(3))
case("GaussianNLLLoss", lambda: nn.GaussianNLLLoss(), F(2, 3), P(2, 3), P(2, 3))
case("GramMatrixLoss", lambda: nn.GramMatrixLoss(), F(1, 2, 3, 3), P(1, 2, 3, 3))
case("HingeEmbeddingLoss", lambda: nn.HingeEmbeddingLoss(), F(2, 3), S(2, 3))
case("LpLoss", lambda: nn.LpLoss(2), F(2, 3), P(2, 3))
case("MarginRankingLoss", lambda: nn.MarginRankingLoss(), F(3), P(3), S(3))
case(
    "MultiLabelMarginLoss",
    lambda: nn.MultiLabelMarginLoss(),
    F(2, 4),
    it.asarray([[3, 0, -1, 1], [1, -1, 0, 0]]),
)
case("MultiLabelSoftMarginLoss", lambda: nn.MultiLabelSoftMarginLoss(), F(2, 4), P(2, 4))
case("MultiMarginLoss", lambda: nn.MultiMarginLoss(), F(3, 5), I(3))
case("PoissonNLLLoss", lambda: nn.PoissonNLLLoss(), F(2, 3), P(2, 3))
case(
    "RNNTLoss",
    lambda: nn.RNNTLoss(),
    F(1, 4, 3, 5),
    it.asarray([[1, 2]]),
    it.asarray([4]),
    it.asarray([2]),
)
case("SoftMarginLoss", lambda: nn.SoftMarginLoss(), F(2, 3), S(2, 3))
case("TripletMarginLoss", lambda: nn.TripletMarginLoss(), F(3, 4), P(3, 4), 2 * P(3, 4))
case(
    "TripletMarginWithDistanceLoss",
    lambda: nn.TripletMarginWithDistanceLoss(),
    F(3, 4),
    P(3, 4),
    2 * P(3, 4),
)

NO_GRAPH = {
    **dict.fromkeys(("Module", "RNNBase", "RNNCellBase"), "a base class"),
    **dict.fromkeys(
        ("ModuleDict", "ModuleList", "ParameterDict", "ParameterList"),
        "holds others and computes nothing",
    ),
    "KVCache": "state of a generation, which ONNX has no place for",
    "FractionalMaxPool2d": "draws its windows anew at each call",
    "FractionalMaxPool3d": "draws its windows anew at each call",
}
"""Modules that have no ONNX graph, and why."""
