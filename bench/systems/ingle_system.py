"""Ingle, on the backend that the system's name says: `ingle-numpy` runs on the device `numpy`."""

from __future__ import annotations

from functools import partial
from typing import Any

from workloads import EPSILON, LEARNING_RATE, Workload

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it

from . import Run, System, repeated


def layernorm(x: it.Tensor, scale: it.Tensor, bias: it.Tensor) -> it.Tensor:
    return it.layer_norm(x, scale.shape, scale, bias, eps=EPSILON)


def conv(x: it.Tensor, weight: it.Tensor, stride: int) -> it.Tensor:
    return it.conv2d(x, weight, stride=stride, padding=1)


def mlp(p: dict[str, Any], x: it.Tensor, y: it.Tensor, layers: int) -> it.Tensor:
    for i in range(layers):
        x = it.linear(x, p[f"{i}.weight"], p[f"{i}.bias"])
        x = it.relu(x) if i < layers - 1 else x
    return it.cross_entropy(x, y)


def lenet(p: dict[str, Any], x: it.Tensor, y: it.Tensor) -> it.Tensor:
    for name in ("conv1", "conv2"):
        x = it.relu(it.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"]))
        x = it.max_pool2d(x, 2)
    x = it.reshape(x, (x.shape[0], -1))
    x = it.relu(it.linear(x, p["hidden.weight"], p["hidden.bias"]))
    return it.cross_entropy(it.linear(it.dropout(x, 0.5), p["out.weight"], p["out.bias"]), y)


FUNCTIONS: dict[str, Any] = {
    "add": it.add,
    "add_recorded": it.add,
    "gelu": it.gelu,
    "softmax": it.softmax,
    "layernorm": layernorm,
    "sum": it.sum,
    "matmul": it.matmul,
    "conv": conv,
    "mlp": mlp,
    "lenet": lenet,
}


def finished(result: it.Tensor) -> it.Tensor:
    result.backend.synchronize()
    return result


class Builders:
    """Runs of workloads on one device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def tensors(self, w: Workload) -> list[it.Tensor]:
        return [it.asarray(a, device=self.device) for a in w.inputs()]

    def forward(self, w: Workload) -> Run:
        inputs, function = self.tensors(w), partial(FUNCTIONS[w.function], **w.options)
        return lambda: finished(function(*inputs))

    def overhead(self, w: Workload) -> Run:
        inputs, function = self.tensors(w), FUNCTIONS[w.function]
        if w.function == "add_recorded":
            inputs[0] = inputs[0].require_grad()
        return repeated(lambda: function(*inputs), w.repeat)

    def backward(self, w: Workload) -> Run:
        inputs = [x.require_grad() for x in self.tensors(w)]
        function = partial(FUNCTIONS[w.function], **w.options)
        cotangent = it.asarray(w.cotangent(function(*inputs).shape), device=self.device)
        return lambda: finished(function(*inputs).backward(cotangent)[inputs[0]])

    def train(self, w: Workload) -> Run:
        p = {k: nn.Parameter(it.asarray(v, device=self.device)) for k, v in w.parameters().items()}
        batch, function = self.tensors(w), partial(FUNCTIONS[w.function], **w.options)
        optimizer = optim.AdamW(list(p.values()), lr=LEARNING_RATE, weight_decay=0.0)

        def run() -> it.Tensor:
            loss: it.Tensor = function(p, *batch)
            optimizer.step(loss.backward())
            return finished(loss)

        return run


def system(name: str) -> System:
    builders = Builders(name.removeprefix("ingle-"))
    return System(
        library="ingle.tensor",
        build={k: getattr(builders, k) for k in ("forward", "overhead", "backward", "train")},
        functions=FUNCTIONS,
        to_numpy=lambda result: result.numpy(),
        skips={
            "gpt": "waits for attention with a causal mask",
            "decode": "waits for attention and caches that are updated in place",
        },
    )
