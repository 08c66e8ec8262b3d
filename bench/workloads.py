"""What is measured: each workload by name, with its inputs and how results are compared.

A workload says which function runs (`function`, a name that a system's table knows), on which
arrays, and in which way (`kind`):

- `forward`: the function of the arrays.
- `backward`: the function and the gradients of its result by all arrays, for a given cotangent.
- `train`: a whole step of a model: loss, gradients, AdamW. The result is the loss.
- `decode`: greedy decoding of a small GPT, token by token. The result is the tokens.
- `overhead`: the function many times on small arrays, for the time of one call.
- `import`: a fresh process imports the library and says how long it took.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Kind = Literal["forward", "backward", "train", "decode", "overhead", "import"]


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
    """

    name: str
    kind: Kind
    function: str
    inputs: Callable[[], tuple[Array, ...]] = tuple
    options: Mapping[str, Any] = field(default_factory=dict)
    parameters: Callable[[], dict[str, Array]] = dict
    repeat: int = 1
    tolerance: float = 1e-3

    def cotangent(self, shape: tuple[int, ...]) -> Array:
        """What gradients are asked for, the same on every system."""
        return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


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


def _forward_and_backward(name: str, function: str, **rest: Any) -> list[Workload]:
    return [
        Workload(name, "forward", function, **rest),
        Workload(f"{name}/backward", "backward", function, **rest),
    ]


def _conv(n: int, c: int, size: int, out: int, stride: int) -> list[Workload]:
    def inputs() -> tuple[Array, ...]:
        x, w = normal((n, c, size, size), (out, c, 3, 3))()
        return x, w * np.float32(0.05)

    name = f"conv/{n},{c},{size}->{out}" + (f"/stride{stride}" if stride > 1 else "")
    options = {"stride": stride}
    return _forward_and_backward(name, "conv", inputs=inputs, options=options, tolerance=1e-2)


_norm_inputs = normal((4096, 1024), (1024,), (1024,))
_gpt = {"layers": 4, "heads": 4}

ALL: list[Workload] = [
    Workload("import", "import", "import"),
    Workload("add/4", "overhead", "add", normal((4,), (4,)), repeat=1000),
    Workload("add/4/recorded", "overhead", "add_recorded", normal((4,), (4,)), repeat=1000),
    *_forward_and_backward("gelu/4M", "gelu", inputs=normal((1 << 22,))),
    Workload("softmax/4096x1024", "forward", "softmax", normal((4096, 1024))),
    *_forward_and_backward("layernorm/4096x1024", "layernorm", inputs=_norm_inputs, tolerance=5e-3),
    *(
        Workload(f"sum/4096x4096/axis{i}", "forward", "sum", normal((4096, 4096)), {"axis": i})
        for i in (0, 1)
    ),
    Workload("matmul/1024", "forward", "matmul", normal((1024, 1024), (1024, 1024))),
    Workload("matmul/2048", "forward", "matmul", normal((2048, 2048), (2048, 2048))),
    Workload("matmul/256x64", "forward", "matmul", normal((256, 64, 64), (256, 64, 64))),
    Workload("gemv/1024", "forward", "matmul", normal((1, 1024), (1024, 1024))),
    *_conv(32, 3, 32, 64, 1),
    *_conv(32, 64, 32, 64, 1),
    *_conv(8, 64, 56, 128, 2),
    *(
        Workload(
            f"mlp/{batch}", "train", "mlp", labelled(batch, (784,), 10), {"layers": 3},
            weights(mlp_shapes()), tolerance=2e-2,
        )
        for batch in (128, 1024)
    ),
    # Each system drops out other units: losses are alike, not equal.
    Workload(
        "lenet/64", "train", "lenet", labelled(64, (1, 28, 28), 10), {}, weights(LENET),
        tolerance=0.5,
    ),
    Workload(
        "gpt/8x128", "train", "gpt", tokens(8, 128, 256), _gpt,
        weights(gpt_shapes(4, 128, 256, 128)), tolerance=2e-2,
    ),
    Workload(
        "decode/64", "decode", "decode", tuple, {**_gpt, "steps": 64, "length": 128},
        weights(gpt_shapes(4, 256, 256, 128)), repeat=64, tolerance=0.0,
    ),
]  # fmt: skip
"""Every workload, in the order in which it runs."""

LEARNING_RATE = 1e-3
EPSILON = 1e-5


def chosen(patterns: str) -> list[Workload]:
    """Workloads whose names contain one of the comma-separated patterns; all if there are none."""
    wanted = [p for p in patterns.split(",") if p]
    return [w for w in ALL if not wanted or any(p in w.name for p in wanted)]
