"""JAX: everything under jit, with donated state."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from loops import Loops, functions, unrolled
from workload import EPSILON, LEARNING_RATE, Workload

from . import Run, System, repeated


def chain(x: Any, pairs: int) -> Any:
    for _ in range(pairs):
        x = x * 1.01 + 0.1
    return x


def layernorm(x: Any, scale: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + EPSILON) * scale + bias


def conv(x: Any, weight: Any, stride: int = 1, padding: int | None = None) -> Any:
    names = ("NCHW", "OIHW", "NCHW")
    around = weight.shape[-1] // 2 if padding is None else padding
    return lax.conv_general_dilated(
        x, weight, (stride, stride), [(around, around)] * 2, dimension_numbers=names,
        feature_group_count=x.shape[1] // weight.shape[1],
    )  # fmt: skip


def attention(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    return jnp.swapaxes(mixed_by_rows(q, k, v), 1, 2)


def mixed_by_rows(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of (batch, length, heads, width), by cuDNN where it takes the dtype."""
    way = "cudnn" if q.dtype == jnp.bfloat16 and jax.default_backend() == "gpu" else None
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=way)


def cross_entropy(logits: Any, y: Any) -> Any:
    logits = logits.astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()


def linear_gelu(x: Any, weight: Any, bias: Any) -> Any:
    return jax.nn.gelu(x @ weight.T + bias, approximate=False)


def mlp(p: Any, key: Any, x: Any, y: Any, layers: int) -> Any:
    for i in range(layers):
        x = x @ p[f"{i}.weight"].T + p[f"{i}.bias"]
        x = jax.nn.relu(x) if i < layers - 1 else x
    return cross_entropy(x, y)


def lenet(p: Any, key: Any, x: Any, y: Any) -> Any:
    for name in ("conv1", "conv2"):
        bias = p[f"{name}.bias"][:, None, None]
        x = jax.nn.relu(conv(x, p[f"{name}.weight"], padding=0) + bias)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = jax.nn.relu(x.reshape(len(x), -1) @ p["hidden.weight"].T + p["hidden.bias"])
    x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x * 2, 0)
    return cross_entropy(x @ p["out.weight"].T + p["out.bias"], y)


def block(p: Any, i: int, h: Any, attend: Any) -> Any:
    q = {k.partition(".")[2]: v for k, v in p.items() if k.startswith(f"{i}.")}
    a = layernorm(h, q["norm1.scale"], q["norm1.bias"])
    h = h + attend(a @ q["qkv.weight"].T + q["qkv.bias"]) @ q["proj.weight"].T + q["proj.bias"]
    a = layernorm(h, q["norm2.scale"], q["norm2.bias"])
    a = jax.nn.gelu(a @ q["up.weight"].T + q["up.bias"], approximate=False)
    return h + a @ q["down.weight"].T + q["down.bias"]


def gpt(p: Any, key: Any, x: Any, y: Any, layers: int, heads: int) -> Any:
    batch, length = x.shape
    visible = jnp.tril(jnp.ones((length, length), bool))

    def attend(qkv: Any) -> Any:
        if qkv.dtype == jnp.bfloat16:
            q, k, v = jnp.moveaxis(qkv.reshape(batch, length, 3, heads, -1), 2, 0)
            return mixed_by_rows(q, k, v).reshape(batch, length, -1)
        q, k, v = qkv.reshape(batch, length, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        mixed = jax.nn.softmax(jnp.where(visible, scores, -1e30), -1) @ v
        return mixed.swapaxes(1, 2).reshape(batch, length, -1)

    h = p["token.embedding"][x] + p["position.embedding"]
    for i in range(layers):
        h = block(p, i, h, attend)
    h = layernorm(h, p["norm.scale"], p["norm.bias"])
    return cross_entropy(h @ p["head.weight"].T, y)


def next_token(p: Any, cache: Any, token: Any, at: Any, layers: int, heads: int) -> Any:
    kept = [cache]

    def attend(i: int, qkv: Any) -> Any:
        q, k, v = qkv.reshape(3, heads, -1)
        kept[0] = kept[0].at[:, i, :, at].set(jnp.stack([k, v]))
        keys, values = kept[0][:, i]
        scores = jnp.einsum("hcd,hd->hc", keys, q) / math.sqrt(q.shape[-1])
        scores = jnp.where(jnp.arange(keys.shape[1]) <= at, scores, -1e30)
        return jnp.einsum("hc,hcd->hd", jax.nn.softmax(scores, -1), values).reshape(-1)

    h = p["token.embedding"][token] + p["position.embedding"][at]
    for i in range(layers):
        h = block(p, i, h, partial(attend, i))
    h = layernorm(h, p["norm.scale"], p["norm.bias"])
    return (p["head.weight"] @ h).argmax(), kept[0]


OWN = Loops(jnp.tanh, jax.nn.sigmoid, jnp.zeros, lax.scan)
PYTHON = Loops(jnp.tanh, jax.nn.sigmoid, jnp.zeros, unrolled(jnp.stack))

FUNCTIONS: dict[str, Any] = {
    **functions(OWN, PYTHON),
    "add": jnp.add,
    "chain": chain,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "softmax": partial(jax.nn.softmax, axis=-1),
    "layernorm": layernorm,
    "sum": jnp.sum,
    "matmul": jnp.matmul,
    "conv": conv,
    "attention": attention,
    "linear_gelu": linear_gelu,
    "mlp": mlp,
    "lenet": lenet,
    "gpt": gpt,
    "decode": next_token,
}


def given(array: Any, dtype: str) -> Any:
    """An array on the device; floats in a dtype."""
    return jnp.asarray(array, dtype if array.dtype.kind == "f" else None)


def done(results: Any) -> Any:
    """Results that are there; on a GPU the worker waits."""
    return results if jax.default_backend() == "gpu" else jax.block_until_ready(results)


def wait() -> None:
    """Until the GPU is done with what came before."""
    (jnp.zeros(()) + 1).block_until_ready()


def forward(w: Workload) -> Run:
    inputs = [given(a, w.dtype) for a in w.inputs()]
    function = jax.jit(partial(FUNCTIONS[w.function], **w.options))
    return lambda: done(function(*inputs))


def backward(w: Workload) -> Run:
    inputs = [given(a, w.dtype) for a in w.inputs()]
    function = partial(FUNCTIONS[w.function], **w.options)
    cotangent = given(w.cotangent(jax.eval_shape(function, *inputs).shape), w.dtype)

    def both(cotangent: Any, *inputs: Any) -> Any:
        y, pull = jax.vjp(function, *inputs)
        return y, pull(cotangent)

    compiled = jax.jit(both)
    return lambda: done(compiled(cotangent, *inputs))[1][0]


def train(w: Workload) -> Run:
    batch = [jnp.asarray(a) for a in w.inputs()]
    exact = partial(FUNCTIONS[w.function], **w.options)

    def loss_of(p: Any, *rest: Any) -> Any:
        return exact({k: v.astype(w.precision) for k, v in p.items()} if w.precision else p, *rest)

    p = {k: jnp.asarray(v) for k, v in w.parameters().items()}
    state = [p, *({k: jnp.zeros_like(v) for k, v in p.items()} for _ in "mv")]

    def step(p: Any, m: Any, v: Any, count: Any, key: Any, *batch: Any) -> Any:
        key, now = jax.random.split(key)
        loss, g = jax.value_and_grad(loss_of)(p, now, *batch)
        count = count + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        rate, unbias = LEARNING_RATE / (1 - 0.9**count), 1 / (1 - 0.999**count)
        p = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v * unbias) + 1e-8), p, m, v)
        return loss, p, m, v, count, key

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    state += [jnp.float32(0), jax.random.key(0)]

    def run(*other: Any) -> Any:
        loss, *state[:] = compiled(*state, *(map(jnp.asarray, other) if other else batch))
        done(state)
        return loss

    return run


def overhead(w: Workload) -> Run:
    return repeated(forward(w), w.repeat)


def decode(w: Workload) -> Run:
    p = {k: jnp.asarray(v) for k, v in w.parameters().items()}
    layers, heads = w.options["layers"], w.options["heads"]
    size = p["norm.scale"].shape[0] // heads
    step = jax.jit(partial(next_token, layers=layers, heads=heads), donate_argnums=(1,))
    state = [jnp.zeros((2, layers, heads, w.options["length"], size))]

    def run() -> Any:
        token, out = 1, []
        for n in range(w.options["steps"]):
            chosen, state[0] = step(p, state[0], token, n)
            token = int(chosen)
            out.append(token)
        return np.array(out)

    return run


def system(name: str) -> System:
    on_gpu = name.endswith("-cuda")
    jax.config.update("jax_platforms", "cuda" if on_gpu else "cpu")
    # Products of float32 in float32, as elsewhere, not in tensor float 32.
    jax.config.update("jax_default_matmul_precision", "highest" if on_gpu else None)
    jnp.zeros(1)  # a GPU that is not there says so here
    return System(
        library="jax",
        build={
            "forward": forward, "overhead": overhead, "backward": backward, "train": train,
            "decode": decode,
        },
        functions=FUNCTIONS,
        to_numpy=lambda result: np.asarray(
            result.astype(jnp.float32) if result.dtype == jnp.bfloat16 else result
        ),
        skips={"add_recorded": "JAX traces functions instead of recording operations"},
        cache={
            "JAX_COMPILATION_CACHE_DIR": "{folder}",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        },
        wait=wait if on_gpu else None,
    )  # fmt: skip
