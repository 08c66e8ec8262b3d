"""Matrix products, convolution, normalisation, attention, dropout, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, Input, N, between, case, constant, flags, normal

X = normal(N, 1024)
BYTES = Input((N, 1024), lambda rng, size: rng.integers(-128, 128, size, np.int8))
IMAGES = normal(16, 64, N, 56)
SMALL = normal(16, 64, N, 28)
HEADS = normal(4, 8, N, 64)


def _conv(name: str, rank: int, x: Any, weight: Any, n: int = 28, **options: Any) -> Case:
    return case(f"conv{rank}d/{name}", x, weight, n=n, torch=f"conv{rank}d", **options)


def _batch_norm(library: Any, *tensors: Any) -> Any:
    """Normalisation by the batch's own statistics."""
    return library.batch_norm_training(*tensors)[0]


def _deformed(torch: Any, x: Any, offset: Any, weight: Any) -> Any:
    """As torchvision has it, of PyTorch's own parts: one sampled image for each tap."""
    _, _, height, width = x.shape
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    out = 0
    for tap in range(9):
        y = rows + tap // 3 - 1 + offset[:, 2 * tap]
        z = columns + tap % 3 - 1 + offset[:, 2 * tap + 1]
        grid = torch.stack([(2 * z + 1) / width - 1, (2 * y + 1) / height - 1], -1)
        seen = torch.nn.functional.grid_sample(x, grid, align_corners=False)
        out = out + torch.einsum("bchw,oc->bohw", seen, weight[:, :, tap // 3, tap % 3])
    return out


def _random(name: str, torch: Any, *shape: Any, n: int = 1 << 20, **options: Any) -> Case:
    """A draw of `n` numbers."""
    return case(
        f"random.{name}",
        n=n,
        ingle=lambda it: getattr(it.random, name)(shape=shape or (n,), **options),
        torch=torch,
    )


NETWORKS: tuple[Case, ...] = (
    case("matmul", normal(N, 1024), normal(1024, 512), n=512),
    case("matmul/transposed", normal(512, N), normal(512, N),
         ingle=lambda it, x, y: it.matmul(x, it.matrix_transpose(y)),
         torch=lambda torch, x, y: x @ y.T),
    case("matmul/batch", normal(64, N, 64), normal(64, 64, 64), n=64),
    case("matmul_integer", BYTES, Input((1024, 512), BYTES.make), n=512, torch="_int_mm"),
    case("matmul/vector", normal(N, 1024), normal(1024)),
    case("linear", normal(N, 512), normal(512, 512), normal(512), n=512),
    case("outer", normal(N), normal(1024)), case("vecdot", X, X, torch="linalg.vecdot"),
    case("tensordot", normal(64, 32, N), normal(32, N, 64), n=32,
         ingle=lambda it, x, y: it.tensordot(x, y, axes=2),
         torch=lambda torch, x, y: torch.tensordot(x, y, 2)),
    *[case(f"einsum/{equation}", x, y, n=64,
           ingle=lambda it, x, y, e=equation: it.einsum(e, x, y),
           torch=lambda torch, x, y, e=equation: torch.einsum(e, x, y))
      for equation, x, y in (
          ("bij,bjk->bik", normal(64, 64, N), normal(64, N, 64)),
          ("bhid,bhjd->bhij", normal(4, 8, 64, N), normal(4, 8, 64, N)),
          ("ij,ij->i", normal(1024, N), normal(1024, N)),
          ("ijk,k->ij", normal(128, 128, N), normal(N)))],
    # Convolution.
    _conv("3x3", 2, SMALL, normal(64, 64, 3, 3), padding=1),
    _conv("1x1", 2, SMALL, normal(128, 64, 1, 1)),
    _conv("strided", 2, IMAGES, normal(64, 64, 3, 3), n=56, padding=1, stride=2),
    _conv("first", 2, normal(8, 3, N, 112), normal(32, 3, 7, 7), n=112, padding=3, stride=2),
    _conv("grouped", 2, SMALL, normal(64, 8, 3, 3), padding=1, groups=8),
    _conv("depthwise", 2, IMAGES, normal(64, 1, 3, 3), n=56, padding=1, groups=64),
    _conv("depthwise strided", 2, IMAGES, normal(64, 1, 3, 3), n=56, padding=1, groups=64,
          stride=2),
    _conv("depthwise 7x7", 2, SMALL, normal(64, 1, 7, 7), padding=3, groups=64),
    _conv("dilated", 2, SMALL, normal(64, 64, 3, 3), padding=2, dilation=2),
    _conv("sound", 1, normal(16, 64, N), normal(64, 64, 5), n=512, padding=2),
    _conv("depthwise sound", 1, normal(16, 256, N), normal(256, 1, 5), n=512, padding=2,
          groups=256),
    _conv("volume", 3, normal(2, 16, N, 16, 16), normal(16, 16, 3, 3, 3), n=16, padding=1),
    case("conv_transpose2d", SMALL, normal(64, 32, 4, 4), n=28, stride=2, padding=1),
    case("conv_transpose1d", normal(16, 64, N), normal(64, 32, 4), n=256, stride=2, padding=1),
    case("deform_conv2d", normal(2, 16, N, 28), between(-1, 1, 2, 18, N, 28),
         normal(16, 16, 3, 3), n=28, padding=1, torch=_deformed),
    # Normalisation and softmax.
    case("softmax", X, axis=-1), case("softmax/0", X, axis=0, torch="softmax"),
    case("log_softmax", X, axis=-1), case("log_softmax/0", X, axis=0, torch="log_softmax"),
    case("layer_norm", X, normal(1024), normal(1024),
         ingle=lambda it, x, w, b: it.layer_norm(x, 1024, w, b),
         torch=lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (1024,), w, b)),
    case("rms_norm", X, normal(1024), ingle=lambda it, x, w: it.rms_norm(x, 1024, w),
         torch=lambda torch, x, w: torch.nn.functional.rms_norm(x, (1024,), w)),
    case("batch_norm/training", IMAGES, normal(64), normal(64), n=56, ingle=_batch_norm,
         torch=lambda torch, x, w, b: torch.nn.functional.batch_norm(
             x, None, None, w, b, training=True)),
    case("batch_norm/rows", X, normal(1024), normal(1024), ingle=_batch_norm,
         torch=lambda torch, x, w, b: torch.nn.functional.batch_norm(
             x, None, None, w, b, training=True)),
    case("batch_norm/inference", IMAGES, constant(normal(64)), constant(between(0.5, 2, 64)),
         normal(64), normal(64), n=56, torch="batch_norm"),
    case("group_norm", IMAGES, normal(64), normal(64), n=56,
         ingle=lambda it, x, w, b: it.group_norm(x, 8, w, b),
         torch=lambda torch, x, w, b: torch.nn.functional.group_norm(x, 8, w, b)),
    case("instance_norm", IMAGES, n=56),
    case("local_response_norm", IMAGES, n=56, size=5),
    case("scaled_dot_product_attention", HEADS, HEADS, HEADS, n=256),
    case("scaled_dot_product_attention/causal", HEADS, HEADS, HEADS, n=256, is_causal=True,
         torch="scaled_dot_product_attention"),
    case("scaled_dot_product_attention/mask", HEADS, HEADS, HEADS, flags(N, N), n=256,
         torch="scaled_dot_product_attention"),
    case("dropout", X),
    # Random numbers.
    _random("uniform", lambda torch: torch.rand(1 << 20)),
    _random("normal", lambda torch: torch.randn(1 << 20)),
    _random("truncated_normal", lambda torch: torch.nn.init.trunc_normal_(torch.empty(1 << 20))),
    _random("randint", lambda torch: torch.randint(0, 1000, (1 << 20,)), low=0, high=1000),
    _random("bernoulli", lambda torch: torch.empty(1 << 20).bernoulli_(0.3), p=0.3),
    _random("exponential", lambda torch: torch.empty(1 << 20).exponential_()),
    _random("gumbel", lambda torch: -torch.empty(1 << 20).exponential_().log()),
    _random("cauchy", lambda torch: torch.empty(1 << 20).cauchy_()),
    _random("laplace", lambda torch: torch.distributions.Laplace(0.0, 1.0).sample((1 << 20,))),
    _random("gamma", lambda torch: torch._standard_gamma(torch.full((1 << 18,), 2.0)), n=1 << 18,
            concentration=2.0),
    _random("poisson", lambda torch: torch.poisson(torch.full((1 << 18,), 4.0)), n=1 << 18,
            rate=4.0),
    _random("beta", lambda torch: torch.distributions.Beta(2.0, 3.0).sample((1 << 16,)),
            n=1 << 16, a=2.0, b=3.0),
    case("random.permutation", ingle=lambda it: it.random.permutation(1 << 18),
         torch=lambda torch: torch.randperm(1 << 18)),
    case("random.multinomial", between(0, 1, 256, N), n=1000,
         ingle=lambda it, x: it.random.multinomial(x, 16, True),
         torch=lambda torch, x: x.multinomial(16, True)),
    case("random.categorical", normal(256, N), n=1000,
         ingle=lambda it, x: it.random.categorical(x, (16,)),
         torch=lambda torch, x: torch.distributions.Categorical(logits=x).sample((16,))),
)  # fmt: skip
