"""Published models in PyTorch: functions of weights by their published names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from published import FIRE, Text, folded
from torch import Tensor

Weights = dict[str, Tensor]


def squeezenet(p: Weights, x: Tensor) -> Tensor:
    x = F.relu(F.conv2d(x, p["features.0.weight"], p["features.0.bias"], stride=2))
    for place, *_ in FIRE:
        if place in (3, 6, 9):
            x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        name = f"features.{place}"
        x = F.relu(F.conv2d(x, p[f"{name}.squeeze.weight"], p[f"{name}.squeeze.bias"]))
        one = F.conv2d(x, p[f"{name}.expand1x1.weight"], p[f"{name}.expand1x1.bias"])
        three = F.conv2d(x, p[f"{name}.expand3x3.weight"], p[f"{name}.expand3x3.bias"], padding=1)
        x = F.relu(torch.cat([one, three], 1))
    x = F.relu(F.conv2d(x, p["classifier.1.weight"], p["classifier.1.bias"]))
    return x.mean((2, 3))


def resnet18(p: Weights, x: Tensor) -> Tensor:
    def conv(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = p[f"{name}.weight"]
        return F.conv2d(x, weight, p[f"{name}.bias"], stride, weight.shape[2] // 2)

    x = F.max_pool2d(F.relu(conv("conv1", x, 2)), 3, 2, 1)
    for i in range(1, 5):
        for j in range(2):
            name, stride = f"layer{i}.{j}", 2 if i > 1 and not j else 1
            out = conv(f"{name}.conv2", F.relu(conv(f"{name}.conv1", x, stride)))
            x = F.relu(out + (conv(f"{name}.downsample.0", x, 2) if stride > 1 else x))
    return F.linear(x.mean((2, 3)), p["fc.weight"], p["fc.bias"])


def minilm(p: Weights, tokens: Tensor, sizes: Text) -> Tensor:
    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        weight, bias = p[f"{name}.LayerNorm.weight"], p[f"{name}.LayerNorm.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, 1e-12)

    batch, length = tokens.shape
    x = F.embedding(tokens, p["embeddings.word_embeddings.weight"])
    x = x + p["embeddings.token_type_embeddings.weight"][0]
    x = norm("embeddings", x + p["embeddings.position_embeddings.weight"][:length])
    for i in range(sizes.layers):
        name = f"encoder.layer.{i}"
        q, k, v = (
            linear(f"{name}.attention.self.{part}", x)
            .view(batch, length, sizes.heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )  # fmt: skip
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = norm(f"{name}.attention.output", linear(f"{name}.attention.output.dense", out) + x)
        out = linear(f"{name}.output.dense", F.gelu(linear(f"{name}.intermediate.dense", x)))
        x = norm(f"{name}.output", out + x)
    return x


class Llama:
    """Scores of the next token, one token at a time; int8 by PyTorch's dynamic quantization."""

    def __init__(self, p: dict[str, np.ndarray[Any, Any]], sizes: Text, dtype: str) -> None:
        int8 = dtype == "int8"
        kind = torch.float32 if int8 else getattr(torch, dtype)
        where = torch.get_default_device()
        self.p = {k: torch.from_numpy(v).to(where, kind) for k, v in p.items()}
        self.sizes = sizes
        self.layers: dict[str, Any] = {}
        matrices = [k for k, v in self.p.items() if v.ndim == 2]
        for name in matrices:
            weight = self.p[name]
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            linear.weight = torch.nn.Parameter(weight, requires_grad=False)
            self.layers[name.removesuffix(".weight")] = _bytes(linear) if int8 else linear
        half = sizes.width // sizes.heads // 2
        angles = torch.arange(sizes.length)[:, None] * 10_000.0 ** (-torch.arange(half) / half)
        self.cos, self.sin = torch.cos(angles).to(kind), torch.sin(angles).to(kind)
        self.kind = kind

    def caches(self) -> Tensor:
        s = self.sizes
        shape = (2, s.layers, 1, s.kv_heads, s.length, s.width // s.heads)
        return torch.zeros(shape, dtype=self.kind)

    def step(self, caches: Tensor, token: Tensor, at: Tensor) -> Tensor:
        s, p = self.sizes, self.p
        seen = (torch.arange(s.length) <= at)[None]
        cos, sin = self.cos[at], self.sin[at]

        def norm(name: str, x: Tensor) -> Tensor:
            return F.rms_norm(x, (s.width,), p[f"{name}.weight"], 1e-5)

        def turned(x: Tensor) -> Tensor:
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        x = F.embedding(token, p["model.embed_tokens.weight"])
        for i in range(s.layers):
            name = f"model.layers.{i}"
            h = norm(f"{name}.input_layernorm", x)
            q, k, v = (
                self.layers[f"{name}.self_attn.{part}_proj"](h)
                .view(1, 1, -1, s.width // s.heads).transpose(1, 2)
                for part in "qkv"
            )  # fmt: skip
            caches[0, i].index_copy_(2, at, turned(k))
            caches[1, i].index_copy_(2, at, v)
            out = F.scaled_dot_product_attention(
                turned(q), caches[0, i], caches[1, i], seen, enable_gqa=True
            )
            x = x + self.layers[f"{name}.self_attn.o_proj"](out.reshape(1, 1, -1))
            h = norm(f"{name}.post_attention_layernorm", x)
            gate = F.silu(self.layers[f"{name}.mlp.gate_proj"](h))
            up = self.layers[f"{name}.mlp.up_proj"](h)
            x = x + self.layers[f"{name}.mlp.down_proj"](gate * up)
        scores: Tensor = self.layers["model.embed_tokens"](norm("model.norm", x))
        return scores[:, 0]


def _bytes(linear: torch.nn.Linear) -> Any:
    with warnings.catch_warnings():
        # It says that it will move to another package.
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(
            torch.nn.Sequential(linear), {torch.nn.Linear}, dtype=torch.qint8
        )


def read(p: dict[str, np.ndarray[Any, Any]], fold: bool) -> Weights:
    """Weights of a workload as tensors."""
    return {k: torch.from_numpy(v) for k, v in (folded(p) if fold else p).items()}
