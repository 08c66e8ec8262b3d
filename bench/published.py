"""Published models as workloads: their weights by the published names, random, and their inputs.

Norms of convolutions are folded into these beforehand, on all systems (`folded`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shapes = dict[str, tuple[int, ...]]

FIRE = (
    (3, 64, 16, 64), (4, 128, 16, 64), (6, 128, 32, 128), (7, 256, 32, 128), (9, 256, 48, 192),
    (10, 384, 48, 192), (11, 384, 64, 256), (12, 512, 64, 256),
)  # fmt: skip
"""Blocks of SqueezeNet 1.1: place, channels that come in, are squeezed to, and are expanded to."""


def squeezenet_shapes() -> Shapes:
    """SqueezeNet 1.1."""
    shapes: Shapes = {"features.0.weight": (64, 3, 3, 3), "features.0.bias": (64,)}

    def conv(name: str, come: int, go: int, size: int = 1) -> None:
        shapes.update({f"{name}.weight": (go, come, size, size), f"{name}.bias": (go,)})

    for place, come, squeezed, expanded in FIRE:
        conv(f"features.{place}.squeeze", come, squeezed)
        conv(f"features.{place}.expand1x1", squeezed, expanded)
        conv(f"features.{place}.expand3x3", squeezed, expanded, 3)
    conv("classifier.1", 512, 1000)
    return shapes


def resnet18_shapes() -> Shapes:
    """ResNet-18."""
    shapes: Shapes = {"conv1.weight": (64, 3, 7, 7)} | _norm("bn1", 64)
    come = 64
    for i, go in enumerate((64, 128, 256, 512)):
        for j in range(2):
            name = f"layer{i + 1}.{j}"
            shapes |= {f"{name}.conv1.weight": (go, come, 3, 3)} | _norm(f"{name}.bn1", go)
            shapes |= {f"{name}.conv2.weight": (go, go, 3, 3)} | _norm(f"{name}.bn2", go)
            if come != go:
                shapes |= {f"{name}.downsample.0.weight": (go, come, 1, 1)}
                shapes |= _norm(f"{name}.downsample.1", go)
            come = go
    return shapes | {"fc.weight": (1000, 512), "fc.bias": (1000,)}


def _norm(name: str, size: int) -> Shapes:
    return {f"{name}.{part}": (size,) for part in ("weight", "bias", "running_mean", "running_var")}


@dataclass(frozen=True)
class Text:
    """Sizes of a transformer of texts."""

    vocabulary: int
    length: int
    width: int
    layers: int
    heads: int
    inner: int
    kv_heads: int = 0


MINILM = Text(30_522, 128, 384, 6, 12, 1536)
LLAMA = Text(32_000, 128, 768, 12, 12, 2048, 4)
SMALL = {MINILM: Text(99, 16, 32, 2, 4, 48), LLAMA: Text(99, 16, 32, 2, 4, 48, 2)}


def minilm_shapes(t: Text) -> Shapes:
    """all-MiniLM-L6-v2."""
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (t.vocabulary, t.width),
        "embeddings.position_embeddings.weight": (512, t.width),
        "embeddings.token_type_embeddings.weight": (2, t.width),
    }

    def layer(name: str, come: int, go: int) -> None:
        shapes.update({f"{name}.weight": (go, come), f"{name}.bias": (go,)})

    def norm(name: str) -> None:
        shapes.update({f"{name}.LayerNorm.{part}": (t.width,) for part in ("weight", "bias")})

    norm("embeddings")
    for i in range(t.layers):
        for part in ("query", "key", "value"):
            layer(f"encoder.layer.{i}.attention.self.{part}", t.width, t.width)
        layer(f"encoder.layer.{i}.attention.output.dense", t.width, t.width)
        norm(f"encoder.layer.{i}.attention.output")
        layer(f"encoder.layer.{i}.intermediate.dense", t.width, t.inner)
        layer(f"encoder.layer.{i}.output.dense", t.inner, t.width)
        norm(f"encoder.layer.{i}.output")
    layer("pooler.dense", t.width, t.width)
    return shapes


def llama_shapes(t: Text) -> Shapes:
    """A Llama of 100 million weights, with tied matrices."""
    narrow = t.kv_heads * t.width // t.heads
    shapes: Shapes = {"model.embed_tokens.weight": (t.vocabulary, t.width)}
    for i in range(t.layers):
        name = f"model.layers.{i}"
        for part, go in (("q", t.width), ("k", narrow), ("v", narrow), ("o", t.width)):
            shapes[f"{name}.self_attn.{part}_proj.weight"] = (go, t.width)
        shapes[f"{name}.mlp.gate_proj.weight"] = shapes[f"{name}.mlp.up_proj.weight"] = (
            t.inner, t.width,
        )  # fmt: skip
        shapes[f"{name}.mlp.down_proj.weight"] = (t.width, t.inner)
        shapes[f"{name}.input_layernorm.weight"] = (t.width,)
        shapes[f"{name}.post_attention_layernorm.weight"] = (t.width,)
    return shapes | {"model.norm.weight": (t.width,)}


def drawn(shapes: Mapping[str, tuple[int, ...]]) -> Callable[[], dict[str, Array]]:
    """Weights by name: normal by fan-in, those of norms and variances around 1."""

    def make() -> dict[str, Array]:
        rng = np.random.default_rng(7)
        made: dict[str, Array] = {}
        for name, shape in shapes.items():
            if len(shape) > 1:
                array = rng.standard_normal(shape) * math.sqrt(2.0 / math.prod(shape[1:]))
            elif name.endswith(("bias", "running_mean")):
                array = 0.1 * rng.standard_normal(shape)
            else:
                array = rng.uniform(0.5, 1.5, shape)
            made[name] = array.astype(np.float32)
        return made

    return make


def folded(p: Mapping[str, Array]) -> dict[str, Array]:
    """Convolutions with the batch norms behind them, as convolutions with biases."""
    found = {k: v for k, v in p.items() if ".bn" not in k and not k.startswith("bn")}
    for name in [k.removesuffix(".running_var") for k in p if k.endswith(".running_var")]:
        conv = name.replace("bn", "conv").replace("downsample.1", "downsample.0")
        scale = p[f"{name}.weight"] / np.sqrt(p[f"{name}.running_var"] + 1e-5)
        found[f"{conv}.weight"] = p[f"{conv}.weight"] * scale[:, None, None, None]
        found[f"{conv}.bias"] = p[f"{name}.bias"] - p[f"{name}.running_mean"] * scale
    return found
