"""What is measured: each workload by name, with its inputs and how results are compared.

A workload says which function runs (`function`, a name that a system's table knows), on which
arrays, and in which way (`kind`):

- `forward`: the function of the arrays.
- `backward`: the function and the gradients of its result by all arrays, for a given cotangent.
- `train`: a whole step of a model: loss, gradients, AdamW. The result is the loss.
- `decode`: greedy decoding of a small GPT, token by token. The result is the tokens.
- `generate`: the same in plain code without a cache: each token reads all before it.
- `infer`: a published model on one input.
- `write`: a published model that writes, token by token with a cache; each time the likeliest token
  is read, and a given one goes in, so that rounded weights can be compared. The result is the last
  scores.
- `overhead`: the function many times on small arrays, for the time of one call.
- `import`: a fresh process imports the library and says how long it took.
- `first-call`: a fresh process, ready to train, says how long its first steps took.
- `act`: an action of a small actor and critic, read as a number, and a step that learns from it, in
  plain code: what counts is the time of a call. The result is the loss.
- `stall`: the same process says how much longer the slowest of them took than a later step.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from nets import convnet_shapes, unet_shapes
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

Array = np.ndarray[Any, Any]
Kind = Literal[
    "forward", "backward", "train", "decode", "generate", "overhead", "import", "first-call",
    "stall", "act", "infer", "write",
]  # fmt: skip
SELF_TIMED = ("import", "first-call", "stall")
"""Kinds whose runs answer with seconds instead of results."""
DRAWN = (1 << 23) - 15
"""Random numbers of an array at most; a prime, so that rows are not alike where they repeat."""
LENGTHS = 50
"""Batches of different lengths in a row."""


@dataclass(frozen=True)
class Workload:
    """One row of the benchmark.

    Attributes:
        name: `family/size[/variant]`.
        kind: how `function` is run.
        function: its name in the systems' tables.
        inputs: makes the arrays, always the same ones.
        options: sizes that the function needs besides.
        parameters: makes the weights of a model.
        repeat: calls in one run; times are divided by it.
        tolerance: of results, relative to the largest magnitude.
        flops: multiplications and additions that one call cannot do without.
        nbytes: bytes that one call must read and write, each once; 0 where neither bounds it.
        dtype: that the floats of the inputs have, and so the result.
        precision: in which a step of training computes while its weights stay float32; empty: in
            theirs.
    """

    name: str
    kind: Kind
    function: str
    inputs: Callable[[], tuple[Array, ...]] = tuple
    options: Mapping[str, Any] = field(default_factory=dict)
    parameters: Callable[[], dict[str, Array]] = dict
    repeat: int = 1
    tolerance: float = 1e-3
    flops: float = 0.0
    nbytes: float = 0.0
    dtype: str = "float32"
    precision: str = ""

    def cotangent(self, shape: tuple[int, ...]) -> Array:
        """What gradients are asked for, the same on every system; many repeat a part of them."""
        count = math.prod(shape)
        drawn = np.random.default_rng(1).standard_normal(min(count, DRAWN))
        return np.resize(drawn.astype(np.float32), count).reshape(shape)


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[], tuple[Array, ...]]:
    """Arrays of normal numbers, made when they are asked for."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(0)
        return tuple((rng.standard_normal(s) * scale).astype(np.float32) for s in shapes)

    return make


def labelled(batch: int, shape: tuple[int, ...], classes: int) -> Callable[[], tuple[Array, ...]]:
    """A batch of normal numbers with labels."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(3)
        x = rng.standard_normal((batch, *shape)).astype(np.float32)
        return x, rng.integers(0, classes, batch)

    return make


def tokens(batch: int, length: int, vocabulary: int) -> Callable[[], tuple[Array, ...]]:
    """Token ids and the ids to predict."""

    def make() -> tuple[Array, ...]:
        rng = np.random.default_rng(5)
        x, y = rng.integers(0, vocabulary, (2, batch, length))
        return x, y

    return make


def weights(shapes: Mapping[str, tuple[int, ...]]) -> Callable[[], dict[str, Array]]:
    """Weights by name: zeros for `.bias`, ones for `.scale`, else normal by fan-in."""

    def make() -> dict[str, Array]:
        rng = np.random.default_rng(7)
        made = {}
        for name, shape in shapes.items():
            if name.endswith(".bias"):
                made[name] = np.zeros(shape, np.float32)
            elif name.endswith(".scale"):
                made[name] = np.ones(shape, np.float32)
            else:
                spread = 0.02 if name.endswith("embedding") else 1 / math.sqrt(np.prod(shape[1:]))
                made[name] = (rng.standard_normal(shape) * spread).astype(np.float32)
        return made

    return make


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


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many numbers a model has."""
    return sum(math.prod(s) for s in shapes.values())


def with_gradient(forward: Workload, *, flops: float = 3, nbytes: float = 2) -> list[Workload]:
    """A workload and the same with gradients, which take some times as much."""
    backward = replace(
        forward, name=f"{forward.name}/backward", kind="backward",
        flops=flops * forward.flops, nbytes=nbytes * forward.nbytes,
    )  # fmt: skip
    return [forward, backward]


def _calls(cut: int) -> list[Workload]:
    """Where the time of a call shows, not that of the work."""
    pair = normal((4,), (4,))
    repeat = 200 // cut
    return [
        Workload("import", "import", "import"),
        Workload("add/4", "overhead", "add", pair, repeat=repeat),
        Workload("add/4/recorded", "overhead", "add_recorded", pair, repeat=repeat),
        Workload("chain/20", "overhead", "chain", normal((32, 32)), {"pairs": 10}, repeat=repeat),
    ]


def _rows(cut: int) -> list[Workload]:
    """What memory bounds."""
    n, rows, columns, side = (1 << 22) // cut**2, 4096 // cut, 1024 // cut, 4096 // cut
    square = normal((side, side))
    shape, nbytes = (rows, columns), 8 * rows * columns
    gelu = Workload("gelu/4M", "forward", "gelu", normal((n,)), nbytes=8 * n)
    softmax = Workload("softmax/4096x1024", "forward", "softmax", normal(shape), nbytes=nbytes)
    layernorm = Workload(
        "layernorm/4096x1024", "forward", "layernorm", normal(shape, (columns,), (columns,)),
        tolerance=5e-3, nbytes=nbytes,
    )  # fmt: skip
    sums = [
        Workload(
            f"sum/4096x4096/axis{i}", "forward", "sum", square, {"axis": i}, nbytes=4 * side * side
        )
        for i in (0, 1)
    ]
    return [*with_gradient(gelu), softmax, *with_gradient(layernorm), *sums]


def _product(
    name: str, batch: tuple[int, ...], m: int, n: int, k: int, **rest: Any
) -> Workload:  # fmt: skip
    count = math.prod(batch)
    return Workload(
        name, "forward", "matmul", normal((*batch, m, k), (*batch, k, n)), **rest,
        flops=2.0 * count * m * n * k, nbytes=4.0 * count * (m * k + k * n + m * n),
    )  # fmt: skip


def _products(cut: int) -> list[Workload]:
    a, b = 1024 // cut, 2048 // cut
    return [
        _product("matmul/1024", (), a, a, a),
        _product("matmul/2048", (), b, b, b),
        _product("matmul/1024/bfloat16", (), a, a, a, dtype="bfloat16", tolerance=2e-2),
        _product("matmul/256x64", (256 // cut,), 64, 64, 64),
        _product("gemv/1024", (), 1, a, a),
    ]


def _conv(
    cut: int, n: int, c: int, size: int, out: int, stride: int = 1, taps: int = 3, groups: int = 1
) -> list[Workload]:
    """A convolution that keeps the size, but for its stride; the weight's shape says the rest."""
    name = f"conv/{n},{c},{size}->{out}" + (f"/stride{stride}" if stride > 1 else "")
    if groups > 1:
        name += f"/depthwise{taps}" if groups == c else f"/groups{groups}"
    n = max(1, n // cut)

    def inputs() -> tuple[Array, ...]:
        x, w = normal((n, c, size, size), (out, c // groups, taps, taps))()
        return x, w * np.float32(0.05)

    pixels = n * (size // stride) ** 2
    forward = Workload(
        name, "forward", "conv", inputs, {"stride": stride}, tolerance=1e-2,
        flops=2.0 * taps**2 * pixels * c // groups * out,
        nbytes=4.0 * (n * c * size * size + pixels * out),
    )  # fmt: skip
    return with_gradient(forward)


def _attention(cut: int) -> list[Workload]:
    """Causal attention of eight heads: half of the products between positions are needed."""
    batch, heads, length, width = max(1, 8 // cut), 8, 512 // cut, 64
    shape = (batch, heads, length, width)
    forward = Workload(
        "attention/8,8,512,64", "forward", "attention", normal(shape, shape, shape),
        tolerance=1e-2, flops=2.0 * batch * heads * length**2 * width,
        nbytes=16.0 * math.prod(shape),
    )  # fmt: skip
    return with_gradient(forward, flops=3.5)


def mlp_step(name: str, batch: int, **rest: Any) -> Workload:
    shapes, given = mlp_shapes(), labelled(batch, (MLP[0],), MLP[-1])
    inner = sum(map(math.prod, itertools.pairwise(MLP)))
    # The first layer needs no gradient of its input. AdamW reads and writes weights and moments.
    flops, nbytes = 2.0 * batch * (3 * inner - MLP[0] * MLP[1]), 24.0 * sizes_of(shapes)
    return Workload(
        name, "train", "mlp", given, {"layers": 3}, weights(shapes), tolerance=2e-2,
        flops=flops, nbytes=nbytes, **rest,
    )  # fmt: skip


def _first_calls() -> list[Workload]:
    """The first step, and the first three: some systems compile again, or later, in those. And
    fifty steps whose batches have another length each."""
    mlp = replace(mlp_step("first-call", 128), kind="first-call", flops=0.0, nbytes=0.0)
    lengths = {**mlp.options, "cache": "warm", "steps": LENGTHS, "shorter": 1}
    calls = [
        replace(
            mlp, name=f"first-call/{cache}" + (f"/{steps}-steps" if steps > 1 else ""),
            options={**mlp.options, "cache": cache, "steps": steps},
        )
        for steps in (1, 3)
        for cache in ("cold", "warm")
    ]  # fmt: skip
    calls.append(replace(mlp, name=f"first-call/{LENGTHS}-lengths", options=lengths))
    for layers in (8, 16, 32):
        gpt = replace(_small_gpt(layers), kind="first-call")
        calls += [
            replace(
                gpt, name=f"first-call/gpt-{layers}/{cache}",
                options={**gpt.options, "cache": cache, "steps": 3},
            )
            for cache in ("cold", "warm")
        ]  # fmt: skip
    return calls


def _small_gpt(layers: int) -> Workload:
    """One that takes longer to prepare than to run."""
    shapes = gpt_shapes(layers, 64, 256, 32)
    return Workload(
        f"gpt-{layers}", "train", "gpt", tokens(2, 32, 256), {"layers": layers, "heads": 4},
        weights(shapes),
    )  # fmt: skip


def _stalls() -> list[Workload]:
    """The first six steps: plans are made in one of them."""
    convnet = Workload(
        "convnet", "train", "convnet", labelled(8, (3, 16, 16), 10), {"layers": 10},
        weights(convnet_shapes(10, 16)),
    )  # fmt: skip
    unet = Workload(
        "unet", "train", "unet", normal((8, 1, 16, 16), (8, 32), (8, 1, 16, 16)), {},
        weights(unet_shapes(16, 32)),
    )  # fmt: skip
    return [
        replace(
            w, name=f"stall/{name}", kind="stall", flops=0.0, nbytes=0.0,
            options={**w.options, "cache": "warm", "steps": 6},
        )
        for name, w in (
            ("mlp", mlp_step("mlp", 128)), ("gpt", _small_gpt(8)), ("unet", unet),
            ("convnet", convnet),
        )
    ]  # fmt: skip


def _lenet(batch: int) -> Workload:
    # Each system drops out other units: losses are alike, not equal.
    first, second, dense = 24**2 * 32 * 25, 8**2 * 64 * 32 * 25, 1024 * 1034
    return Workload(
        "lenet/64", "train", "lenet", labelled(batch, (1, 28, 28), 10), {}, weights(LENET),
        tolerance=0.5, flops=2.0 * batch * (2 * first + 3 * second + 3 * dense),
        nbytes=24.0 * sizes_of(LENET),
    )  # fmt: skip


def _pictures(cut: int) -> list[Workload]:
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


def _recurrent(cut: int, layer: str, gates: int) -> Workload:
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


def _loops(cut: int) -> list[Workload]:
    """Recurrence: the library's own loop, and one of Python beside it."""
    steps, batch, size = 64 // cut, 32, 128
    small, wide = normal((50 // cut, 8, 32), (32, 32), scale=0.2), (steps, batch, size // 2)
    lstm = normal(wide, (size // 2, 4 * size), (size, 4 * size), (4 * size,), scale=0.1)
    ode = normal((32, 2), (100 // cut,), (2, 50), (50,), (50, 2), (2,), scale=0.1)
    flops = 2.0 * steps * batch * 4 * size * (size + size // 2)
    found = [
        Workload("scan/rnn/8,32x50", "forward", "rnn", small, tolerance=1e-3),
        Workload("unrolled/rnn/8,32x50", "forward", "rnn_unrolled", small, tolerance=1e-3),
        Workload("scan/lstm/32,128x64", "forward", "lstm", lstm, tolerance=1e-3, flops=flops),
        Workload("scan/ode/32,2x100", "forward", "ode", ode, tolerance=1e-3),
    ]
    return [row for forward in found for row in with_gradient(forward)]


def _transformers(cut: int) -> list[Workload]:
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


def _published(small: bool) -> list[Workload]:
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


ACTOR = {
    "body.weight": (128, 4), "body.bias": (128,), "actor.weight": (2, 128), "actor.bias": (2,),
    "critic.weight": (1, 128), "critic.bias": (1,),
}  # fmt: skip


def _actor(cut: int) -> Workload:
    return Workload(
        "actor-critic", "act", "actor_critic", normal((1, 4)), {}, weights(ACTOR),
        repeat=max(1, 48 // cut), tolerance=2e-2,
    )  # fmt: skip


def registry(small: bool = False) -> list[Workload]:
    """Every workload, in the order in which it runs.

    Args:
        small: sizes that only show whether everything works; names stay.
    """
    cut = 16 if small else 1
    return [
        *_calls(cut), *_rows(cut), *_products(cut),
        *_conv(cut, 32, 3, 32, 64), *_conv(cut, 32, 64, 32, 64), *_conv(cut, 8, 64, 56, 128, 2),
        *_conv(cut, 8, 128, 28, 128, groups=8), *_conv(cut, 8, 128, 28, 128, groups=128),
        *_conv(cut, 8, 128, 28, 128, taps=7, groups=128), *_attention(cut),
        mlp_step("mlp/128", 128), mlp_step("mlp/1024", 1024 // cut), *_first_calls(), *_stalls(),
        _lenet(64 // cut), _actor(cut), *_transformers(cut), *_loops(cut),
        *_pictures(cut), _recurrent(cut, "LSTM", 4), _recurrent(cut, "GRU", 3),
        *_published(small),
    ]  # fmt: skip


ALL = registry(os.environ.get("BENCH_SMALL") == "1")
"""The workloads of this process."""

LEARNING_RATE = 1e-3
EPSILON = 1e-5


def chosen(rows: Sequence[Workload], patterns: str) -> list[Workload]:
    """Workloads whose names contain one of the comma-separated patterns; all if there are none."""
    wanted = [p for p in patterns.split(",") if p]
    return [w for w in rows if not wanted or any(p in w.name for p in wanted)]
