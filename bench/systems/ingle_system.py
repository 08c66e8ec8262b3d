"""Ingle: `ingle-cpu` and `ingle-opencl` compile, names with `-eager` and `ingle-numpy` call the
same code plainly.

The middle of a name is the device.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from loops import Loops, functions, unrolled
from nets import GROUPS, HEADS, Nets
from workload import EPSILON, LEARNING_RATE, Workload

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.autodiff import no_grad
from systems import ingle_published

from . import Run, System, repeated


def chain(x: it.Tensor, pairs: int) -> it.Tensor:
    for _ in range(pairs):
        x = x * 1.01 + 0.1
    return x


def layernorm(x: it.Tensor, scale: it.Tensor, bias: it.Tensor) -> it.Tensor:
    return it.layer_norm(x, scale.shape, scale, bias, eps=EPSILON)


def conv(x: it.Tensor, weight: it.Tensor, stride: int) -> it.Tensor:
    groups = x.shape[1] // weight.shape[1]
    return it.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2, groups=groups)


def linear_gelu(x: it.Tensor, weight: it.Tensor, bias: it.Tensor) -> it.Tensor:
    return it.gelu(it.linear(x, weight, bias))


def mlp(p: dict[str, Any], x: it.Tensor, y: it.Tensor, layers: int) -> it.Tensor:
    for i in range(layers):
        x = it.linear(x, p[f"{i}.weight"], p[f"{i}.bias"])
        x = it.relu(x) if i < layers - 1 else x
    return it.cross_entropy(x, y)


def actor_critic(p: dict[str, Any], x: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
    h = it.tanh(it.linear(x, p["body.weight"], p["body.bias"]))
    return it.linear(h, p["actor.weight"], p["actor.bias"]), it.linear(
        h, p["critic.weight"], p["critic.bias"]
    )


def lenet(p: dict[str, Any], x: it.Tensor, y: it.Tensor) -> it.Tensor:
    for name in ("conv1", "conv2"):
        x = it.relu(it.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"]))
        x = it.max_pool2d(x, 2)
    x = it.reshape(x, (x.shape[0], -1))
    x = it.relu(it.linear(x, p["hidden.weight"], p["hidden.bias"]))
    return it.cross_entropy(it.linear(it.dropout(x, 0.5), p["out.weight"], p["out.bias"]), y)


def block(p: dict[str, Any], i: int, h: it.Tensor, attend: Callable[[Any], it.Tensor]) -> it.Tensor:
    """One transformer block; `attend` mixes the projected queries, keys and values."""
    q = {k.partition(".")[2]: v for k, v in p.items() if k.startswith(f"{i}.")}
    a = layernorm(h, q["norm1.scale"], q["norm1.bias"])
    a = attend(it.linear(a, q["qkv.weight"], q["qkv.bias"]))
    h = h + it.linear(a, q["proj.weight"], q["proj.bias"])
    a = layernorm(h, q["norm2.scale"], q["norm2.bias"])
    a = it.gelu(it.linear(a, q["up.weight"], q["up.bias"]))
    return h + it.linear(a, q["down.weight"], q["down.bias"])


def logits(p: dict[str, Any], x: it.Tensor, layers: int, heads: int) -> it.Tensor:
    batch, length = x.shape

    def attend(qkv: it.Tensor) -> it.Tensor:
        parts = it.permute_dims(
            it.reshape(qkv, (batch, length, 3, heads, -1)), (2, 0, 3, 1, 4)
        )  # fmt: skip
        mixed = it.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return it.reshape(it.permute_dims(mixed, (0, 2, 1, 3)), (batch, length, -1))

    h = it.embedding(x, p["token.embedding"]) + p["position.embedding"][:length]
    for i in range(layers):
        h = block(p, i, h, attend)
    h = layernorm(h, p["norm.scale"], p["norm.bias"])
    return it.linear(h, p["head.weight"])


def gpt(p: dict[str, Any], x: it.Tensor, y: it.Tensor, layers: int, heads: int) -> it.Tensor:
    found = logits(p, x, layers, heads)
    return it.cross_entropy(it.reshape(found, (y.size, -1)), it.reshape(y, (-1,)))


def next_token(
    p: dict[str, Any], caches: Sequence[it.Cell[it.Tensor]], token: int, at: int, heads: int
) -> it.Tensor:
    """The next token; each layer's keys and values (2, heads, length, size) get one more row."""

    def attend(i: int, qkv: it.Tensor) -> it.Tensor:
        q, *new = it.reshape(qkv, (3, heads, 1, -1))
        caches[i].value = it.slice_update(caches[i].value, it.stack(new), (0, 0, at, 0))
        keys, values = caches[i].value
        visible = it.arange(keys.shape[1]) <= at
        mixed = it.scaled_dot_product_attention(q, keys, values, visible)
        return it.reshape(mixed, (1, -1))

    h = p["token.embedding"][token] + p["position.embedding"][at]
    h = it.reshape(h, (1, -1))
    for i in range(len(caches)):
        h = block(p, i, h, partial(attend, i))
    h = layernorm(h, p["norm.scale"], p["norm.bias"])
    return it.argmax(it.linear(h, p["head.weight"]))


OWN = Loops(it.tanh, it.sigmoid, it.zeros, it.scan)
PYTHON = Loops(it.tanh, it.sigmoid, it.zeros, unrolled(it.stack))


def double(x: it.Tensor) -> it.Tensor:
    n, c, rows, columns = x.shape
    parts = it.broadcast_to(x[:, :, :, None, :, None], (n, c, rows, 2, columns, 2))
    return it.reshape(parts, (n, c, 2 * rows, 2 * columns))


def mix(qkv: it.Tensor) -> it.Tensor:
    n, channels, *size = qkv.shape
    parts = it.reshape(qkv, (n, 3, HEADS, channels // 3 // HEADS, -1))
    mixed = it.scaled_dot_product_attention(*it.permute_dims(parts, (1, 0, 2, 4, 3)))
    return it.reshape(it.swapaxes(mixed, 2, 3), (n, channels // 3, *size))


NETS = Nets(
    conv=lambda x, w, b, s: it.conv2d(x, w, b, stride=s, padding=w.shape[-1] // 2),
    linear=it.linear, relu=it.relu, silu=it.silu, cross_entropy=it.cross_entropy,
    norm=lambda x, scale, bias: it.group_norm(x, GROUPS, scale, bias, eps=EPSILON),
    batch_norm=lambda x, scale, bias: it.batch_norm_training(x, scale, bias, eps=EPSILON)[0],
    halved=lambda x: it.max_pool2d(x, 3, stride=2, padding=1), mix=mix,
    join=partial(it.concat, axis=1), double=double, pooled=partial(it.mean, axis=(2, 3)),
)  # fmt: skip


class Recurrent:
    """A recurrent layer of `nn` with a workload's weights, and the loss of its last output."""

    def __init__(self, p: dict[str, Any], layer: str) -> None:
        self.p = p
        count = sum(k.startswith("weight_hh") for k in p)
        size = p["weight_hh_l0"].shape[1]
        self.layer = getattr(nn, layer)(p["weight_ih_l0"].shape[1], size, count)
        for name in self.layer.state_dict():
            setattr(self.layer, name, p[name])

    def __call__(self, x: it.Tensor, y: it.Tensor) -> it.Tensor:
        last = self.layer(x)[0][-1]
        return it.cross_entropy(it.linear(last, self.p["out.weight"], self.p["out.bias"]), y)


FUNCTIONS: dict[str, Any] = {
    **functions(OWN, PYTHON),
    "add": it.add,
    "add_recorded": it.add,
    "chain": chain,
    "gelu": it.gelu,
    "softmax": it.softmax,
    "layernorm": layernorm,
    "sum": it.sum,
    "matmul": it.matmul,
    "conv": conv,
    "attention": partial(it.scaled_dot_product_attention, is_causal=True),
    "linear_gelu": linear_gelu,
    "mlp": mlp,
    "lenet": lenet,
    "actor_critic": actor_critic,
    "gpt": gpt,
    "logits": logits,
    "convnet": NETS.convnet,
    "unet": NETS.unet,
    "resnet": NETS.resnet,
    "recurrent": Recurrent,
    "decode": next_token,
    **dict.fromkeys(("squeezenet", "resnet18", "minilm", "llama")),
}


def finished(*results: it.Tensor) -> it.Tensor:
    """The first of some results, once all are computed; what nobody holds would never be.

    On a GPU, once all have begun: the worker waits.
    """
    backend: Any = results[0].backend
    if backend.device.name == "cuda":
        backend.flush()
    else:
        backend.synchronize()
    return results[0]


class Builders:
    """Runs of workloads on one device, through `compiled` first (which eager leaves out)."""

    def __init__(self, device: str, compiled: Callable[[Any], Any] = lambda f: f) -> None:
        self.device = device
        self.compiled = compiled

    def tensor(self, array: Any, dtype: str = "float32") -> it.Tensor:
        """An array on the device; floats in a dtype."""
        found = it.asarray(array, device=self.device)
        return found.astype(dtype) if found.dtype.is_floating else found

    def tensors(self, w: Workload) -> list[it.Tensor]:
        found = [self.tensor(a, w.dtype) for a in w.inputs()]
        if w.function == "conv" and w.name.startswith("gpu/"):  # as on other systems
            pixels = np.moveaxis(w.inputs()[0], 1, -1)
            found[0] = it.permute_dims(
                self.tensor(np.ascontiguousarray(pixels), w.dtype), (0, 3, 1, 2)
            )
        return found

    def peak(self) -> float:
        """MiB of the device's memory in use at most since this was called last."""
        pool = it.memory.pool_of(self.device)
        found = pool.statistics().peak / 2**20
        pool.reset_peak()
        return found

    def forward(self, w: Workload) -> Run:
        function = self.compiled(partial(FUNCTIONS[w.function], **w.options))
        inputs = self.tensors(w)
        return lambda: finished(function(*inputs))

    def overhead(self, w: Workload) -> Run:
        if w.function != "add_recorded":
            return repeated(self.forward(w), w.repeat)
        x, y = self.tensors(w)
        x = x.require_grad()
        return repeated(lambda: finished(it.add(x, y)), w.repeat)

    def backward(self, w: Workload) -> Run:
        inputs, function = self.tensors(w), partial(FUNCTIONS[w.function], **w.options)
        cotangent = self.tensor(w.cotangent(function(*inputs).shape), w.dtype)

        def both(cotangent: it.Tensor, *inputs: it.Tensor) -> list[it.Tensor]:
            leaves = [x.require_grad() for x in inputs]
            y = function(*leaves)
            grads = y.backward(cotangent)
            return [*(grads[x] for x in leaves), y.detach()]

        compiled = self.compiled(both)
        return lambda: finished(*compiled(cotangent, *inputs))

    def train(self, w: Workload) -> Run:
        p = {k: nn.Parameter(self.tensor(v)) for k, v in w.parameters().items()}
        batch, function = self.tensors(w), FUNCTIONS[w.function]
        made = isinstance(function, type)  # a model that is made once and holds the weights
        loss_of = function(p, **w.options) if made else partial(function, p, **w.options)
        optimizer = optim.AdamW(list(p.values()), lr=LEARNING_RATE, weight_decay=0.0)

        def step(*batch: it.Tensor) -> it.Tensor:
            with it.precision(w.precision) if w.precision else nullcontext():
                loss: it.Tensor = loss_of(*batch)
            optimizer.step(loss.backward())
            return loss.detach()

        compiled = self.compiled(step)
        return lambda *other: finished(compiled(*(map(self.tensor, other) if other else batch)))

    def act(self, w: Workload) -> Run:
        p = {k: nn.Parameter(self.tensor(v)) for k, v in w.parameters().items()}
        (x,), function = self.tensors(w), FUNCTIONS[w.function]
        optimizer = optim.AdamW(list(p.values()), lr=LEARNING_RATE, weight_decay=0.0)

        def step() -> it.Tensor:
            chances, value = function(p, x)
            action = int(it.argmax(chances))
            missed = 1.0 - value[0, 0]
            chosen = it.log_softmax(chances, axis=-1)[0, action]
            loss: it.Tensor = missed * missed - chosen * missed.detach()
            optimizer.step(loss.backward())
            return loss.detach()

        return repeated(step, w.repeat)

    def decode(self, w: Workload) -> Run:
        p = {k: it.Cell(self.tensor(v)) for k, v in w.parameters().items()}
        layers, heads, length = (w.options[k] for k in ("layers", "heads", "length"))
        empty = np.zeros((2, heads, length, p["norm.scale"].shape[0] // heads), np.float32)
        caches = [it.Cell(self.tensor(empty)) for _ in range(layers)]
        step = self.compiled(lambda token, at: next_token(p, caches, token, at, heads))

        def run() -> it.Tensor:
            out: list[int] = []
            with it.device(self.device):
                for at in range(w.options["steps"]):
                    out.append(int(step(out[-1] if out else 1, at)))
            return it.asarray(out)

        return run

    def infer(self, w: Workload) -> Run:
        inputs = self.tensors(w)
        with it.device(self.device):
            model = ingle_published.loaded(w.function, w.parameters(), w.options.get("sizes"))
        function = self.compiled(lambda x: model(x))

        def run() -> it.Tensor:
            with no_grad():
                return finished(function(*inputs))

        return run

    def write(self, w: Workload) -> Run:
        with it.device(self.device):
            model: Any = ingle_published.loaded("llama", w.parameters(), w.options["sizes"])
            if w.options["dtype"] == "int8":
                nn.quantize(model, nn.QuantizationConfig("int8"))
            elif w.options["dtype"] != "float32":
                model.to(dtype=w.options["dtype"])
            caches = model.caches(1, w.options["sizes"].length)
            given = [it.asarray([[n + 1]]) for n in range(w.options["steps"])]

        def token_after(token: it.Tensor) -> tuple[it.Tensor, it.Tensor]:
            scores = model(token, None, caches)[:, 0]
            return scores, it.argmax(scores)

        step = self.compiled(token_after)

        def run() -> it.Tensor:
            for cache in caches:
                cache.reset()
            scores, before = given[0], None
            with it.device(self.device), no_grad():
                for token in given:
                    scores, chosen = step(token)
                    chosen.begin_download()
                    if before is not None:
                        int(before)
                    before = chosen
                int(chosen)
            return scores

        return run

    def generate(self, w: Workload) -> Run:
        p = {k: self.tensor(v) for k, v in w.parameters().items()}
        layers, heads = w.options["layers"], w.options["heads"]

        def run() -> it.Tensor:
            ids = self.tensor(np.ones((1, 1), np.int64))
            for _ in range(w.options["steps"]):
                found = logits(p, ids, layers, heads)
                ids = it.concat([ids, it.argmax(found[:, -1:], axis=-1)], axis=1)
            return finished(ids)

        return run


def system(name: str) -> System:
    device = name.removeprefix("ingle-").removesuffix("-eager")
    compiling = device != "numpy" and not name.endswith("-eager")
    compiled = importlib.import_module("ingle.fusion").compile if compiling else lambda f: f
    builders = Builders(device, compiled)
    it.zeros(1, device=device)  # a device that is not installed says so here
    skips = {}
    if name.endswith("-eager"):
        skips["first-call"] = "plans are made when a step comes for the second time"
    if device != "numpy":
        skips["import"] = "the same library as ingle-numpy"
    if compiling:
        skips["add_recorded"] = "compile hands recorded operands to the plain function"
    kinds = (
        "forward",
        "overhead",
        "backward",
        "train",
        "act",
        "decode",
        "generate",
        "infer",
        "write",
    )
    return System(
        library="ingle.tensor",
        build={k: getattr(builders, k) for k in kinds},
        functions=FUNCTIONS,
        to_numpy=lambda result: (
            result.astype("float32") if result.dtype.is_floating else result
        ).numpy(),
        skips=skips,
        cache={"INGLE_CACHE_DIR": "{folder}"} if device in ("cpu", "cuda") else {},
        wait=it.zeros(1, device=device).backend.synchronize if device == "cuda" else None,
        peak=builders.peak if device == "cuda" else None,
    )
