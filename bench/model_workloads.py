"""Workloads that are whole models: steps of training, decoding, models as they are published."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from nets import unet_shapes
from published import (
    LLAMA,
    MINILM,
    SMALL,
    drawn,
    llama_shapes,
    minilm_shapes,
    resnet18_shapes,
    squeezenet_shapes,
)  # fmt: skip
from workload import Array, Workload, labelled, normal, sizes_of, tokens, weights

MLP = (784, 512, 256, 10)


def mlp_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(MLP)):
        shapes |= {f"{i}.weight": (fan_out, fan_in), f"{i}.bias": (fan_out,)}
    return shapes


LENET = {
    "conv1.weight": (32, 1, 5, 5), "conv1.bias": (32,),
    "conv2.weight": (64, 32, 5, 5), "conv2.bias": (64,),
    "hidden.weight": (1024, 1024), "hidden.bias": (1024,),
    "out.weight": (10, 1024), "out.bias": (10,),
}  # fmt: skip


def gpt_shapes(layers: int, width: int, vocabulary: int, length: int) -> dict[str, tuple[int, ...]]:
    """A decoder-only transformer with learned positions, norms before the blocks."""
    d = width
    shapes: dict[str, tuple[int, ...]] = {
        "token.embedding": (vocabulary, d),
        "position.embedding": (length, d),
    }
    for i in range(layers):
        block = {
            "norm1.scale": (d,), "norm1.bias": (d,), "qkv.weight": (3 * d, d), "qkv.bias": (3 * d,),
            "proj.weight": (d, d), "proj.bias": (d,), "norm2.scale": (d,), "norm2.bias": (d,),
            "up.weight": (4 * d, d), "up.bias": (4 * d,),
            "down.weight": (d, 4 * d), "down.bias": (d,),
        }  # fmt: skip
        shapes |= {f"{i}.{name}": shape for name, shape in block.items()}
    return shapes | {"norm.scale": (d,), "norm.bias": (d,), "head.weight": (vocabulary, d)}


def mlp_step(name: str, batch: int, **rest: Any) -> Workload:
    shapes, given = mlp_shapes(), labelled(batch, (MLP[0],), MLP[-1])
    inner = sum(map(math.prod, itertools.pairwise(MLP)))
    # The first layer needs no gradient of its input. AdamW reads and writes weights and moments.
    flops, nbytes = 2.0 * batch * (3 * inner - MLP[0] * MLP[1]), 24.0 * sizes_of(shapes)
    return Workload(
        name, "train", "mlp", given, {"layers": 3}, weights(shapes), tolerance=2e-2,
        flops=flops, nbytes=nbytes, **rest,
    )  # fmt: skip


def lenet(batch: int) -> Workload:
    # Each system drops out other units: losses are alike, not equal.
    first, second, dense = 24**2 * 32 * 25, 8**2 * 64 * 32 * 25, 1024 * 1034
    return Workload(
        "lenet/64", "train", "lenet", labelled(batch, (1, 28, 28), 10), {}, weights(LENET),
        tolerance=0.5, flops=2.0 * batch * (2 * first + 3 * second + 3 * dense),
        nbytes=24.0 * sizes_of(LENET),
    )  # fmt: skip


def pictures(cut: int) -> list[Workload]:
    """Nets with norms: ResNet-18, and the UNet of a diffusion with attention at two sizes."""
    batch, side = max(2, 8 // cut), 64 if cut == 1 else 32
    shapes = {k: v for k, v in resnet18_shapes().items() if "running" not in k}
    resnet = Workload(
        "resnet18/8x64", "train", "resnet", labelled(batch, (3, side, side), 1000), {},
        drawn(shapes), tolerance=2e-2,
    )  # fmt: skip
    channels, side, colours = (64, 32, 3) if cut == 1 else (8, 8, 3)
    shapes = unet_shapes(channels, 4 * channels, colours, ("down2", "middle", "up2"))
    images = (batch, colours, side, side)
    ddpm = Workload(
        "ddpm/8x32", "train", "unet", normal(images, (batch, 4 * channels), images), {},
        weights(shapes), tolerance=2e-2,
    )  # fmt: skip
    return [resnet, ddpm]


def recurrent(cut: int, layer: str, gates: int) -> Workload:
    """Two layers that read a sequence, in PyTorch's order of axes and weights."""
    size, steps, batch = 256 // cut, 128 // cut, 32 // cut
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(2):
        shapes |= {f"weight_{part}_l{i}": (gates * size, size) for part in ("ih", "hh")}
        shapes |= {f"bias_{part}_l{i}": (gates * size,) for part in ("ih", "hh")}
    products = sum(math.prod(s) for s in shapes.values() if len(s) > 1)
    shapes |= {"out.weight": (10, size), "out.bias": (10,)}

    def inputs() -> tuple[Array, ...]:
        x, y = labelled(batch, (steps, size), 10)()
        return np.ascontiguousarray(np.swapaxes(x, 0, 1)), y

    def parameters() -> dict[str, Array]:
        rng = np.random.default_rng(7)
        return {
            k: (rng.uniform(-1, 1, s) / size**0.5).astype(np.float32) for k, s in shapes.items()
        }

    # The input needs no gradient.
    flops = 2.0 * steps * batch * (3 * products - gates * size**2)
    return Workload(
        f"{layer.lower()}/2x256", "train", "recurrent", inputs, {"layer": layer}, parameters,
        tolerance=2e-2, flops=flops,
    )  # fmt: skip


def transformers(cut: int) -> list[Workload]:
    batch, length, width, layers, heads = max(1, 8 // cut), 128 // cut, 128, 4, 4
    shapes = gpt_shapes(layers, width, 256, length)
    inner = sum(math.prod(s) for name, s in shapes.items() if name.endswith(".weight"))
    mixing = 2 * layers * length * width  # scores and mixtures of values, without the hidden half
    options = {"layers": layers, "heads": heads}
    gpt = Workload(
        "gpt/8x128", "train", "gpt", tokens(batch, length, 256), options, weights(shapes),
        tolerance=2e-2, flops=6.0 * batch * length * (inner + mixing // 2),
        nbytes=24.0 * sizes_of(shapes),
    )  # fmt: skip
    shapes = gpt_shapes(layers, 256, 256, 128)
    steps = 64 // cut
    decode = Workload(
        "decode/64", "decode", "decode", tuple, {**options, "steps": steps, "length": 128},
        weights(shapes), repeat=steps, tolerance=0.0,
        nbytes=4.0 * sum(math.prod(s) for n, s in shapes.items() if n.endswith(".weight")),
    )  # fmt: skip
    steps = 100 // cut
    generate = Workload(
        "generate/100", "generate", "logits", tuple, {**options, "steps": steps},
        weights(gpt_shapes(layers, width, 256, 128)), repeat=steps, tolerance=0.0,
    )  # fmt: skip
    return [gpt, decode, generate]


ACTOR = {
    "body.weight": (128, 4), "body.bias": (128,), "actor.weight": (2, 128), "actor.bias": (2,),
    "critic.weight": (1, 128), "critic.bias": (1,),
}  # fmt: skip


def actor(cut: int) -> Workload:
    return Workload(
        "actor-critic", "act", "actor_critic", normal((1, 4)), {}, weights(ACTOR),
        repeat=max(1, 48 // cut), tolerance=2e-2,
    )  # fmt: skip


def published_models(small: bool) -> list[Workload]:
    """Models as they are used: pictures to scores, sentences to features, the next token."""
    found, side = [], 64 if small else 224
    for name, shapes, flops in (
        ("squeezenet", squeezenet_shapes(), 0.70e9), ("resnet18", resnet18_shapes(), 3.63e9),
    ):  # fmt: skip
        for batch in (1, 32):
            found.append(
                Workload(
                    f"published/{name}/{batch}", "infer", name,
                    normal((2 if small else batch, 3, side, side)), {}, drawn(shapes),
                    tolerance=1e-3, flops=0.0 if small else batch * flops,
                )
            )  # fmt: skip
    sizes = SMALL[MINILM] if small else MINILM
    shapes = minilm_shapes(sizes)
    inner = sum(math.prod(s) for n, s in shapes.items() if n.startswith("enc") and len(s) > 1)
    mixing = 2 * sizes.layers * sizes.length * sizes.width
    found.append(
        Workload(
            "published/minilm/128", "infer", "minilm",
            lambda: tokens(1, sizes.length, sizes.vocabulary)()[:1], {"sizes": sizes},
            drawn(shapes), tolerance=1e-3, flops=2.0 * sizes.length * (inner + mixing),
        )
    )  # fmt: skip
    written = SMALL[LLAMA] if small else LLAMA
    shapes, steps = llama_shapes(written), 8 if small else 32
    # Systems round weights to bytes in different ways, by rows or matrices, and random ones suffer.
    for dtype, size, tolerance in (("float32", 4.0, 1e-3), ("int8", 1.0, 0.5)):
        found.append(
            Workload(
                f"published/llama/{dtype}", "write", "llama", tuple,
                {"sizes": written, "steps": steps, "dtype": dtype}, drawn(shapes), repeat=steps,
                tolerance=tolerance, nbytes=size * sizes_of(shapes),
            )
        )  # fmt: skip
    return found
