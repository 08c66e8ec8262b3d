"""tinygrad: everything under TinyJit, on its CPU device."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tinygrad import Device, Tensor, TinyJit
from tinygrad.helpers import Context
from tinygrad.nn.optim import AdamW
from workload import EPSILON, LEARNING_RATE, Workload

from . import Run, System, repeated


def gelu(x: Any) -> Any:
    return x * ((x * math.sqrt(0.5)).erf() + 1) / 2


def chain(x: Any, pairs: int) -> Any:
    for _ in range(pairs):
        x = x * 1.01 + 0.1
    return x


def layernorm(x: Any, scale: Any, bias: Any) -> Any:
    return x.layernorm(eps=EPSILON) * scale + bias


def mlp(p: Any, x: Any, y: Any, layers: int) -> Any:
    for i in range(layers):
        x = x.linear(p[f"{i}.weight"].T, p[f"{i}.bias"])
        x = x.relu() if i < layers - 1 else x
    return x.sparse_categorical_crossentropy(y)


def lenet(p: Any, x: Any, y: Any) -> Any:
    for name in ("conv1", "conv2"):
        x = x.conv2d(p[f"{name}.weight"], p[f"{name}.bias"]).relu().max_pool2d(2)
    x = x.flatten(1).linear(p["hidden.weight"].T, p["hidden.bias"]).relu().dropout(0.5)
    return x.linear(p["out.weight"].T, p["out.bias"]).sparse_categorical_crossentropy(y)


def gpt(p: Any, x: Any, y: Any, layers: int, heads: int) -> Any:
    batch, length = x.shape
    h = p["token.embedding"][x] + p["position.embedding"]
    for i in range(layers):
        q = {k.partition(".")[2]: v for k, v in p.items() if k.startswith(f"{i}.")}
        a = layernorm(h, q["norm1.scale"], q["norm1.bias"])
        a = a.linear(q["qkv.weight"].T, q["qkv.bias"])
        a = a.reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        a = a[0].scaled_dot_product_attention(a[1], a[2], is_causal=True)
        a = a.transpose(1, 2).reshape(batch, length, -1)
        h = h + a.linear(q["proj.weight"].T, q["proj.bias"])
        a = layernorm(h, q["norm2.scale"], q["norm2.bias"])
        a = gelu(a.linear(q["up.weight"].T, q["up.bias"]))
        h = h + a.linear(q["down.weight"].T, q["down.bias"])
    h = layernorm(h, p["norm.scale"], p["norm.bias"]).linear(p["head.weight"].T)
    return h.flatten(0, 1).sparse_categorical_crossentropy(y.flatten())


FUNCTIONS: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "chain": chain,
    "gelu": gelu,
    "softmax": lambda x: x.softmax(-1),
    "layernorm": layernorm,
    "sum": lambda x, axis: x.sum(axis),
    "matmul": lambda x, y: x @ y,
    "conv": lambda x, w, stride: x.conv2d(
        w, stride=stride, padding=w.shape[-1] // 2, groups=x.shape[1] // w.shape[1]
    ),
    "attention": lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
    "mlp": mlp,
    "lenet": lenet,
    "gpt": gpt,
}


def on_device(array: Any) -> Any:
    return Tensor(array).realize()


def finished(result: Any) -> Any:
    Device[Device.DEFAULT].synchronize()
    return result


def forward(w: Workload) -> Run:
    inputs = [on_device(a) for a in w.inputs()]
    function = partial(FUNCTIONS[w.function], **w.options)
    jitted = TinyJit(lambda *inputs: function(*inputs).realize())
    return lambda: finished(jitted(*inputs))


def overhead(w: Workload) -> Run:
    return repeated(forward(w), w.repeat)


def backward(w: Workload) -> Run:
    inputs = [on_device(a) for a in w.inputs()]
    function = partial(FUNCTIONS[w.function], **w.options)
    cotangent = on_device(w.cotangent(function(*inputs).shape))

    def both(cotangent: Any, *inputs: Any) -> Any:
        y = function(*inputs)
        grads = (y * cotangent).sum().gradient(*inputs)
        Tensor.realize(y, *grads)
        return grads[0]

    jitted = TinyJit(both)
    return lambda: finished(jitted(cotangent, *inputs))


def train(w: Workload) -> Run:
    p = {k: on_device(v) for k, v in w.parameters().items()}
    for value in p.values():
        value.requires_grad = True
    batch = [on_device(a) for a in w.inputs()]
    function = partial(FUNCTIONS[w.function], **w.options)
    optimizer = AdamW(list(p.values()), lr=LEARNING_RATE, weight_decay=0.0)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = function(p, *batch).backward()
        return loss.realize(*optimizer.schedule_step())

    jitted = TinyJit(step)

    def run(*other: Any) -> Any:
        with Context(TRAINING=1):
            return finished(jitted(*(map(on_device, other) if other else batch)))

    return run


def system(name: str) -> System:
    return System(
        library="tinygrad",
        build={"forward": forward, "overhead": overhead, "backward": backward, "train": train},
        functions=FUNCTIONS,
        to_numpy=lambda result: result.numpy(),
        skips={"add_recorded": "tinygrad records nothing before backward"},
        cache={"CACHEDB": "{folder}/cache.db"},
    )
