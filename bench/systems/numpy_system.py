"""NumPy, used as one would by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from loops import Loops, functions, unrolled
from scipy.special import erf
from workload import EPSILON, LEARNING_RATE, Array, Workload

from . import Run, System, repeated

_ROOT_HALF = np.float32(math.sqrt(0.5))


def gelu(x: Array) -> Any:
    return x * (erf(x * _ROOT_HALF) + 1) / 2


def softmax(x: Array) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(x: Array, scale: Array, bias: Array) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = np.square(centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * scale + bias


def chain(x: Array, pairs: int) -> Any:
    for _ in range(pairs):
        x = x * np.float32(1.01) + np.float32(0.1)
    return x


def mlp(p: dict[str, Array], x: Array, y: Array, layers: int) -> tuple[Any, dict[str, Array]]:
    """Loss and gradients."""
    rows = np.arange(len(x))
    hidden = [x]
    for i in range(layers):
        h = hidden[-1] @ p[f"{i}.weight"].T + p[f"{i}.bias"]
        hidden.append(np.maximum(h, 0) if i < layers - 1 else h)
    shifted = hidden[-1] - hidden[-1].max(1, keepdims=True)
    e = np.exp(shifted)
    total = e.sum(1, keepdims=True)
    loss = (np.log(total)[:, 0] - shifted[rows, y]).mean()
    d = e / total
    d[rows, y] -= 1
    d /= len(x)
    grads = {}
    for i in reversed(range(layers)):
        grads[f"{i}.weight"], grads[f"{i}.bias"] = d.T @ hidden[i], d.sum(0)
        if i:
            d = (d @ p[f"{i}.weight"]) * (hidden[i] > 0)
    return loss, grads


def forward(w: Workload) -> Run:
    inputs, function = w.inputs(), FUNCTIONS[w.function]
    return lambda: function(*inputs, **w.options)


def overhead(w: Workload) -> Run:
    return repeated(forward(w), w.repeat)


def train(w: Workload) -> Run:
    p, batch = w.parameters(), w.inputs()
    moments = {k: (np.zeros_like(v), np.zeros_like(v)) for k, v in p.items()}
    steps = 0

    def run() -> Any:
        nonlocal steps
        loss, grads = FUNCTIONS[w.function](p, *batch, **w.options)
        steps += 1
        rate, unbias = LEARNING_RATE / (1 - 0.9**steps), (1 - 0.999**steps) ** -0.5
        for name, g in grads.items():
            m, v = moments[name]
            m += np.float32(0.1) * (g - m)
            v += np.float32(0.001) * (g * g - v)
            p[name] -= np.float32(rate) * m / (np.sqrt(v) * np.float32(unbias) + np.float32(1e-8))
        return loss

    return run


def decode(w: Workload) -> Run:
    p, layers, heads = w.parameters(), w.options["layers"], w.options["heads"]
    width = p["norm.scale"].shape[0]
    cache = np.zeros((2, layers, heads, w.options["length"], width // heads), np.float32)

    def step(token: int, n: int) -> int:
        h = p["token.embedding"][token] + p["position.embedding"][n]
        for i in range(layers):
            q = {k: p[f"{i}.{k}"] for k in BLOCK}
            a = layernorm(h, q["norm1.scale"], q["norm1.bias"])
            a = (q["qkv.weight"] @ a + q["qkv.bias"]).reshape(3, heads, -1)
            cache[:, i, :, n] = a[1:]
            keys, values = cache[:, i, :, : n + 1]
            scores = softmax((keys @ a[0][:, :, None])[..., 0] / math.sqrt(width // heads))
            mixed = (scores[:, None] @ values).reshape(width)
            h = h + q["proj.weight"] @ mixed + q["proj.bias"]
            a = layernorm(h, q["norm2.scale"], q["norm2.bias"])
            a = gelu(q["up.weight"] @ a + q["up.bias"])
            h = h + q["down.weight"] @ a + q["down.bias"]
        h = layernorm(h, p["norm.scale"], p["norm.bias"])
        return int((p["head.weight"] @ h).argmax())

    def run() -> Any:
        token, out = 1, []
        for n in range(w.options["steps"]):
            token = step(token, n)
            out.append(token)
        return np.array(out)

    return run


BLOCK = (
    "norm1.scale", "norm1.bias", "qkv.weight", "qkv.bias", "proj.weight", "proj.bias",
    "norm2.scale", "norm2.bias", "up.weight", "up.bias", "down.weight", "down.bias",
)  # fmt: skip

PYTHON = Loops(
    np.tanh, lambda x: 1 / (1 + np.exp(-x)), lambda shape: np.zeros(shape, np.float32),
    unrolled(np.stack),
)  # fmt: skip

FUNCTIONS: dict[str, Any] = {
    **functions(PYTHON, PYTHON),
    "add": np.add,
    "chain": chain,
    "gelu": gelu,
    "softmax": softmax,
    "layernorm": layernorm,
    "sum": np.sum,
    "matmul": np.matmul,
    "mlp": mlp,
    "decode": decode,
}


def system(name: str) -> System:
    return System(
        library="numpy",
        build={"forward": forward, "overhead": overhead, "train": train, "decode": decode},
        functions=FUNCTIONS,
        to_numpy=np.asarray,
        skips={"backward": "NumPy has no gradients", "add_recorded": "NumPy has no gradients"},
    )
