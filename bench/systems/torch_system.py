"""PyTorch, eager and through torch.compile; on a GPU where the name ends in `-cuda`.

`captured-cuda` compiles, and captures a whole step of training by hand as one CUDA graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from loops import Loops, functions, unrolled
from nets import GROUPS, HEADS, Nets
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from workload import EPSILON, LEARNING_RATE, Workload

from systems import torch_published

from . import Run, System, repeated

torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "2")))


def given(array: Any, dtype: str = "float32") -> Tensor:
    """An array on the device that is measured; floats in a dtype."""
    found = torch.from_numpy(array).to(torch.get_default_device())
    return found.to(getattr(torch, dtype)) if found.is_floating_point() else found


def operands(w: Workload) -> list[Tensor]:
    """A workload's inputs, images in the layout that is quickest on a GPU."""
    found = [given(a, w.dtype) for a in w.inputs()]
    if w.function == "conv" and found[0].is_cuda:
        return [x.to(memory_format=torch.channels_last) for x in found]
    return found


def peak() -> float:
    """MiB of the GPU's memory in use at most since this was called last."""
    found = float(torch.cuda.max_memory_allocated()) / 2**20
    torch.cuda.reset_peak_memory_stats()
    return found


def chain(x: Tensor, pairs: int) -> Tensor:
    for _ in range(pairs):
        x = x * 1.01 + 0.1
    return x


def layernorm(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, scale.shape, scale, bias, EPSILON)


def conv(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    groups = x.shape[1] // weight.shape[1]
    return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2, groups=groups)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """By the quickest way that there is for the dtype."""
    first = [SDPBackend.CUDNN_ATTENTION] if q.is_cuda and q.dtype == torch.bfloat16 else []
    ways = [*first, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(ways, set_priority=True):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x, weight, bias))


def mlp(p: dict[str, Tensor], x: Tensor, y: Tensor, layers: int) -> Tensor:
    for i in range(layers):
        x = F.linear(x, p[f"{i}.weight"], p[f"{i}.bias"])
        x = F.relu(x) if i < layers - 1 else x
    return F.cross_entropy(x, y)


def actor_critic(p: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    h = torch.tanh(F.linear(x, p["body.weight"], p["body.bias"]))
    return F.linear(h, p["actor.weight"], p["actor.bias"]), F.linear(
        h, p["critic.weight"], p["critic.bias"]
    )


def lenet(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    x = F.max_pool2d(F.relu(F.conv2d(x, p["conv1.weight"], p["conv1.bias"])), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p["conv2.weight"], p["conv2.bias"])), 2)
    x = F.relu(F.linear(x.flatten(1), p["hidden.weight"], p["hidden.bias"]))
    return F.cross_entropy(F.linear(F.dropout(x, 0.5), p["out.weight"], p["out.bias"]), y)


def block(p: dict[str, Tensor], i: int, h: Tensor, attend: Callable[..., Tensor]) -> Tensor:
    """One transformer block; `attend` mixes the projected queries, keys and values."""
    q = {k.partition(".")[2]: v for k, v in p.items() if k.startswith(f"{i}.")}
    a = layernorm(h, q["norm1.scale"], q["norm1.bias"])
    a = attend(F.linear(a, q["qkv.weight"], q["qkv.bias"]))
    h = h + F.linear(a, q["proj.weight"], q["proj.bias"])
    a = layernorm(h, q["norm2.scale"], q["norm2.bias"])
    a = F.gelu(F.linear(a, q["up.weight"], q["up.bias"]))
    return h + F.linear(a, q["down.weight"], q["down.bias"])


def logits(p: dict[str, Tensor], x: Tensor, layers: int, heads: int) -> Tensor:
    batch, length = x.shape

    def attend(qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, -1)

    h = F.embedding(x, p["token.embedding"]) + p["position.embedding"][:length]
    for i in range(layers):
        h = block(p, i, h, attend)
    h = layernorm(h, p["norm.scale"], p["norm.bias"])
    return F.linear(h, p["head.weight"])


def gpt(p: dict[str, Tensor], x: Tensor, y: Tensor, layers: int, heads: int) -> Tensor:
    return F.cross_entropy(logits(p, x, layers, heads).flatten(0, 1), y.flatten())


def next_token(
    p: dict[str, Tensor], cache: Tensor, token: Tensor, at: Tensor, layers: int, heads: int
) -> Tensor:
    visible = (torch.arange(cache.shape[3]) <= at)[None]

    def attend(i: int, qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(3, heads, 1, -1)
        cache[0, i].index_copy_(1, at, k)
        cache[1, i].index_copy_(1, at, v)
        return F.scaled_dot_product_attention(q, cache[0, i], cache[1, i], visible).view(1, -1)

    h = F.embedding(token, p["token.embedding"]) + F.embedding(at, p["position.embedding"])
    for i in range(layers):
        h = block(p, i, h, partial(attend, i))
    h = layernorm(h, p["norm.scale"], p["norm.bias"])
    return F.linear(h, p["head.weight"]).argmax(-1)


PYTHON = Loops(torch.tanh, torch.sigmoid, torch.zeros, unrolled(torch.stack))


def lstm(xs: Tensor, inner: Tensor, outer: Tensor, bias: Tensor) -> Tensor:
    """What `nn.LSTM` runs."""
    zero = xs.new_zeros(1, xs.shape[1], len(outer))
    weights = [inner.T, outer.T, bias, torch.zeros_like(bias)]
    return torch.lstm(xs, [zero, zero], weights, True, 1, 0.0, False, False, False)[0]


def mix(qkv: Tensor) -> Tensor:
    n, channels, *size = qkv.shape
    q, k, v = qkv.view(n, 3, HEADS, channels // 3 // HEADS, -1).transpose(3, 4).unbind(1)
    mixed = F.scaled_dot_product_attention(q, k, v)
    return mixed.transpose(2, 3).reshape(n, channels // 3, *size)


def recurrent(p: dict[str, Tensor], x: Tensor, y: Tensor, layer: str) -> Tensor:
    """The loss of the last output of what `nn.LSTM` and `nn.GRU` run."""
    weights = [p[k] for k in p if not k.startswith("out")]
    count, zero = len(weights) // 4, x.new_zeros(len(weights) // 4, x.shape[1], len(weights[1][0]))
    states: Any = [zero, zero] if layer == "LSTM" else zero
    run = torch.lstm if layer == "LSTM" else torch.gru
    out = run(x, states, weights, True, count, 0.0, True, False, False)[0]
    return F.cross_entropy(F.linear(out[-1], p["out.weight"], p["out.bias"]), y)


NETS = Nets(
    conv=lambda x, w, b, stride: F.conv2d(x, w, b, stride, w.shape[-1] // 2), linear=F.linear,
    relu=F.relu, silu=F.silu, cross_entropy=F.cross_entropy,
    norm=lambda x, scale, bias: F.group_norm(x, GROUPS, scale, bias, EPSILON),
    batch_norm=lambda x, scale, bias: F.batch_norm(
        x, None, None, scale, bias, training=True, eps=EPSILON
    ),
    halved=lambda x: F.max_pool2d(x, 3, 2, 1), mix=mix,
    join=partial(torch.cat, dim=1), double=partial(F.interpolate, scale_factor=2),
    pooled=partial(torch.mean, dim=(2, 3)),
)  # fmt: skip

FUNCTIONS: dict[str, Any] = {
    **functions(PYTHON, PYTHON),
    "lstm": lstm,
    "add": torch.add,
    "add_recorded": torch.add,
    "chain": chain,
    "gelu": F.gelu,
    "softmax": partial(torch.softmax, dim=-1),
    "layernorm": layernorm,
    "sum": torch.sum,
    "matmul": torch.matmul,
    "conv": conv,
    "attention": attention,
    "linear_gelu": linear_gelu,
    "mlp": mlp,
    "lenet": lenet,
    "actor_critic": actor_critic,
    "gpt": gpt,
    "logits": logits,
    "convnet": NETS.convnet,
    "unet": NETS.unet,
    "resnet": NETS.resnet,
    "recurrent": recurrent,
    "decode": next_token,
    "squeezenet": torch_published.squeezenet,
    "resnet18": torch_published.resnet18,
    "minilm": torch_published.minilm,
    "llama": torch_published.Llama,
}


class Builders:
    """Runs of workloads, each through `compiled` first (which eager leaves as it is)."""

    def __init__(self, compiled: Callable[[Any], Any]) -> None:
        self.compiled = compiled

    def function(self, w: Workload) -> Any:
        return self.compiled(partial(FUNCTIONS[w.function], **w.options))

    def forward(self, w: Workload) -> Run:
        inputs, function = operands(w), self.function(w)
        return lambda: function(*inputs)

    def overhead(self, w: Workload) -> Run:
        inputs, function = [given(a) for a in w.inputs()], self.function(w)
        inputs[0].requires_grad_(w.function == "add_recorded")
        return repeated(lambda: function(*inputs), w.repeat)

    def backward(self, w: Workload) -> Run:
        inputs = [x.requires_grad_() for x in operands(w)]
        function = self.function(w)
        cotangent = given(w.cotangent(tuple(function(*inputs).shape)), w.dtype)
        return lambda: torch.autograd.grad(function(*inputs), inputs, cotangent)[0]

    def train(self, w: Workload) -> Run:
        p = {k: given(v).requires_grad_() for k, v in w.parameters().items()}
        batch, function = [given(a) for a in w.inputs()], within(w, self.function(w))
        optimizer = torch.optim.AdamW(p.values(), LEARNING_RATE, weight_decay=0.0, fused=True)

        def run(*other: Any) -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss: Tensor = function(p, *(map(given, other) if other else batch))
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    def captured(self, w: Workload) -> Run:
        """A step as a graph of the GPU; another batch would be copied over the first one."""
        p = {k: given(v).requires_grad_() for k, v in w.parameters().items()}
        batch, function = [given(a) for a in w.inputs()], within(w, self.function(w))
        optimizer = torch.optim.AdamW(
            p.values(), LEARNING_RATE, weight_decay=0.0, fused=True, capturable=True
        )

        def step() -> Tensor:
            loss: Tensor = function(p, *batch)
            loss.backward()
            optimizer.step()
            return loss.detach()

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        before = [x.detach().clone() for x in p.values()]
        with torch.cuda.stream(stream):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=True)
                step()
        torch.cuda.current_stream().wait_stream(stream)
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        with torch.no_grad():  # as if the first steps had not been
            for x, was in zip(p.values(), before, strict=True):
                x.copy_(was)
                for state in optimizer.state[x].values():
                    state.zero_()

        def run(*other: Any) -> Tensor:
            for old, new in zip(batch, other, strict=False):
                old.copy_(torch.from_numpy(new))
            graph.replay()
            return loss

        return run

    def act(self, w: Workload) -> Run:
        p = {k: given(v).requires_grad_() for k, v in w.parameters().items()}
        (x,), function = [given(a) for a in w.inputs()], FUNCTIONS[w.function]
        optimizer = torch.optim.AdamW(p.values(), LEARNING_RATE, weight_decay=0.0, fused=True)

        def step() -> Tensor:
            chances, value = function(p, x)
            action = int(torch.argmax(chances))
            missed = 1.0 - value[0, 0]
            chosen = torch.log_softmax(chances, dim=-1)[0, action]
            loss: Tensor = missed * missed - chosen * missed.detach()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return repeated(step, w.repeat)

    def decode(self, w: Workload) -> Run:
        p = {k: given(v) for k, v in w.parameters().items()}
        layers, heads = w.options["layers"], w.options["heads"]
        width = p["norm.scale"].shape[0]
        cache = torch.zeros(2, layers, heads, w.options["length"], width // heads)
        step = self.compiled(partial(next_token, layers=layers, heads=heads))
        places = [torch.tensor([n]) for n in range(w.options["steps"])]

        def run() -> Any:
            token, out = torch.tensor([1]), []
            with torch.no_grad():
                for place in places:
                    token = step(p, cache, token, place)
                    out.append(int(token))
            return torch.tensor(out)

        return run

    def infer(self, w: Workload) -> Run:
        p = torch_published.read(w.parameters(), fold=w.function == "resnet18")
        inputs, function = [given(a) for a in w.inputs()], self.function(w)

        def run() -> Any:
            with torch.inference_mode():
                return function(p, *inputs)

        return run

    def write(self, w: Workload) -> Run:
        model = torch_published.Llama(w.parameters(), w.options["sizes"], w.options["dtype"])
        caches = model.caches()
        places = [torch.tensor([n]) for n in range(w.options["steps"])]
        on_gpu = caches.is_cuda
        there = [torch.empty((), dtype=torch.int64, device="cpu", pin_memory=on_gpu) for _ in "ab"]
        arrived = [torch.cuda.Event() for _ in there] if on_gpu else []

        def token_after(caches: Any, token: Any, place: Any) -> Any:
            scores = model.step(caches, token, place)
            return scores, scores.argmax()

        step = self.compiled(token_after)

        def begin(chosen: Any, n: int) -> None:
            there[n % 2].copy_(chosen, non_blocking=True)
            if on_gpu:
                arrived[n % 2].record()

        def read(n: int) -> int:
            if on_gpu:
                arrived[n % 2].synchronize()
            return int(there[n % 2])

        def run() -> Any:
            with torch.inference_mode():
                for n, place in enumerate(places):
                    scores, chosen = step(caches, place[None] + 1, place)
                    begin(chosen, n)
                    if n:
                        read(n - 1)
                read(n)
            return scores

        return run

    def generate(self, w: Workload) -> Run:
        p = {k: given(v) for k, v in w.parameters().items()}
        layers, heads = w.options["layers"], w.options["heads"]

        def run() -> Tensor:
            ids = torch.ones(1, 1, dtype=torch.int64)
            with torch.no_grad():
                for _ in range(w.options["steps"]):
                    found = logits(p, ids, layers, heads)
                    ids = torch.cat([ids, found[:, -1:].argmax(-1)], dim=1)
            return ids

        return run


def within(w: Workload, function: Any) -> Any:
    """A loss computed in the workload's precision."""
    if not w.precision:
        return function

    def lowered(*operands: Any) -> Tensor:
        with torch.autocast(torch.get_default_device().type, getattr(torch, w.precision)):
            found: Tensor = function(*operands)
            return found

    return lowered


def to_numpy(result: Tensor) -> Any:
    result = result.detach()
    return np.asarray((result.float() if result.is_floating_point() else result).cpu())


def compile_afresh(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function)


SKIPS = {"import": "the same library as torch", "logits": "each length would be compiled"}


def system(name: str) -> System:
    compiles = not name.startswith("torch")
    builders = Builders(compile_afresh if compiles else lambda function: function)
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
    build = {kind: getattr(builders, kind) for kind in kinds}
    on_gpu = name.endswith("-cuda")
    if on_gpu:
        torch.set_default_device("cuda")
        torch.zeros(1)  # a GPU that is not there says so here
    if name.startswith("captured"):
        build = {"train": builders.captured}
    return System(
        library="torch",
        build=build,
        functions=FUNCTIONS,
        to_numpy=to_numpy,
        skips=SKIPS if compiles else {},
        cache={"TORCHINDUCTOR_CACHE_DIR": "{folder}"} if compiles else {},
        wait=torch.cuda.synchronize if on_gpu else None,
        peak=peak if on_gpu else None,
    )
