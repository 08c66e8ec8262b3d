"""Reductions, sorting, selection, movement, indexing and creation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, N, case, cases, fixed, flags, integers, normal

X = normal(512, N)
LONG = normal(N)
ROWS = integers(1000, N)
PLACES = integers(256, 256, N)
IMAGES = normal(16, 64, N, 56)


def _ordered(size: tuple[int, ...]) -> Any:
    return np.linspace(-3, 3, size[-1], dtype=np.float32)


ARRAYS: tuple[Case, ...] = (
    *[case(f"{name}/{axis}", X, axis=axis, torch=name)
      for name in ("sum", "mean", "var", "std", "logsumexp") for axis in (0, 1)],
    *[case(f"{name}/{axis}", X, axis=axis, torch=f"a{name}")
      for name in ("max", "min") for axis in (0, 1)],
    case("sum/all", X, torch="sum"), case("max/all", X, torch="max"),
    *[case(f"{name}/{axis}", X, axis=axis, torch=name)
      for name in ("prod", "any", "all", "argmax", "argmin") for axis in (0, 1)],
    case("count_nonzero", X, axis=1),
    *[case(f"{name}/{axis}", X, axis=axis, torch=other) for axis in (0, 1) for name, other in
      (("cumulative_sum", "cumsum"), ("cumulative_prod", "cumprod"), ("cummax", "cummax"),
       ("cummin", "cummin"), ("logcumsumexp", "logcumsumexp"))],
    *[case(f"{name}/{axis}", X, axis=axis, torch=name)
      for name in ("sort", "argsort", "median", "mode") for axis in (0, 1)],
    case("sort/long", LONG, torch="sort", n=1 << 18),
    case("sort/integers", integers(1000, N), torch="sort", n=1 << 18),
    case("median/all", LONG, torch="median", n=1 << 18),
    *[case(f"{name}/{axis}", X, args=(value,), axis=axis, torch=name) for axis in (0, 1)
      for name, value in (("kthvalue", 100), ("quantile", 0.3), ("topk", 10))],
    case("topk/long", LONG, args=(100,), torch="topk", n=1 << 18),
    case("searchsorted", fixed(_ordered, 1000), normal(N), n=1 << 18),
    case("histogram", LONG, n=1 << 18, args=(100,),
         torch=lambda torch, x, bins=100: torch.histogram(x.detach(), bins)),
    case("bincount", integers(1000, N), n=1 << 18),
    case("isin", integers(1000, N), integers(1000, 500), n=1 << 18),
    case("unique/axis", integers(2, N, 8), n=1 << 14, ingle=lambda it, x: it.unique(x, axis=0),
         torch=lambda torch, x: torch.unique(x, dim=0)),
    case("unique_consecutive", integers(2, N), n=1 << 18),
    *cases("nansum nanmean nanmedian", normal(N, 512), n=1024),
    case("trapezoid", normal(N, 512), n=1024),
    case("gradient", normal(N), n=1 << 18, ingle=lambda it, x: it.gradient(x)[0],
         torch=lambda torch, x: torch.gradient(x)[0]),
    case("unique_values", integers(1000, N), n=1 << 18, torch="unique"),
    case("unique_all", LONG, n=1 << 16, torch=lambda torch, x: torch.unique(
        x.detach(), return_inverse=True, return_counts=True)),
    case("nonzero", flags(512, N)),
    case("masked_select", X, flags(512, N)),
    case("masked_fill", X, flags(512, N), args=(0.0,)),
    # Movement.
    case("permute_dims/copied", IMAGES, n=56, ingle=lambda it, x: it.permute_dims(
        x, (0, 2, 3, 1)) + 0, torch=lambda torch, x: x.permute(0, 2, 3, 1).contiguous()),
    case("concat", X, X, ingle=lambda it, *x: it.concat(x, axis=1),
         torch=lambda torch, *x: torch.cat(x, 1)),
    case("stack", X, X, ingle=lambda it, *x: it.stack(x, axis=2),
         torch=lambda torch, *x: torch.stack(x, 2)),
    case("flip", X, ingle=lambda it, x: it.flip(x, axis=1) + 0,
         torch=lambda torch, x: x.flip(1)),
    case("roll", X, ingle=lambda it, x: it.roll(x, 3, axis=1),
         torch=lambda torch, x: x.roll(3, 1)),
    case("tile", X, ingle=lambda it, x: it.tile(x, (2, 2)),
         torch=lambda torch, x: x.tile(2, 2)),
    case("repeat", X, ingle=lambda it, x: it.repeat(x, 3, axis=1),
         torch=lambda torch, x: x.repeat_interleave(3, 1)),
    case("repeat/counts", X, integers(5, 512), ingle=lambda it, x, n: it.repeat(x, n, axis=0),
         torch=lambda torch, x, n: x.repeat_interleave(n, 0)),
    *[case(f"pad/{mode}", IMAGES, n=56, ingle=lambda it, x, mode=mode: it.pad(
        x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode=mode),
        torch=lambda torch, x, mode=mode: torch.nn.functional.pad(x, (2, 2, 2, 2), mode=mode))
      for mode in ("constant", "reflect", "replicate", "circular")],
    *[case(name, X) for name in ("tril", "triu")],
    case("diagonal", X, ingle=lambda it, x: it.diagonal(x) + 0,
         torch=lambda torch, x: x.diagonal() + 0),
    case("diag_embed", normal(64, N), n=128), case("diff", X), case("diff/0", X, axis=0,
                                                                    torch="diff"),
    case("block_diag", normal(N, 256), normal(N, 256)),
    case("slice/steps", X, ingle=lambda it, x: x[:, ::2] + 0, torch=lambda torch, x: x[:, ::2] + 0),
    case("slice_update", X, normal(256, 512), ingle=lambda it, x, y: it.slice_update(
        x, y, (100, 100)), torch=lambda torch, x, y: torch.slice_scatter(
        x, torch.slice_scatter(x[100:356], y, 1, 100, 612), 0, 100, 356)),
    # Indexing.
    case("take", X, integers(512, 2048), ingle=lambda it, x, i: it.take(x, i, axis=0),
         torch=lambda torch, x, i: x.index_select(0, i)),
    case("take/1", X, integers(1024, 2048), ingle=lambda it, x, i: it.take(x, i, axis=1),
         torch=lambda torch, x, i: x.index_select(1, i)),
    case("take/numbers", LONG, integers(1 << 18, 1 << 18), n=1 << 18,
         ingle=lambda it, x, i: it.take(x, i, axis=0), torch=lambda torch, x, i: x[i]),
    case("indexed", X, integers(512, 4096), integers(1024, 4096),
         ingle=lambda it, x, i, j: x[i, j], torch=lambda torch, x, i, j: x[i, j]),
    case("masked", X, flags(512, N), ingle=lambda it, x, m: x[m], torch=lambda torch, x, m: x[m]),
    case("take_along_axis/0", normal(256, N), PLACES, axis=0,
         torch=lambda torch, x, i: x.gather(0, i)),
    case("take_along_axis/1", normal(N, 256), integers(256, N, 256), axis=1,
         torch=lambda torch, x, i: x.gather(1, i)),
    case("embedding", ROWS, normal(1000, 256), n=4096),
    case("embedding/narrow", ROWS, normal(1000, 8), n=65536, torch="embedding"),
    case("embedding_bag", integers(1000, N, 8), normal(1000, 256), n=512),
    *[case(f"scatter_add/{width}", normal(1000, width), ROWS, normal(N, width), n=n,
           torch=lambda torch, x, i, u: x.index_add(0, i, u))
      for width, n in ((1, 1 << 17), (16, 1 << 14), (64, 1 << 12), (256, 4096), (1024, 1024))],
    case("scatter_add/numbers", normal(1000), ROWS, normal(N), n=1 << 17,
         torch=lambda torch, x, i, u: x.index_add(0, i, u)),
    case("scatter_set", normal(4096, 256), ROWS, normal(N, 256),
         torch=lambda torch, x, i, u: x.index_copy(0, i, u)),
    *[case(f"scatter_reduce/{mode}", normal(1000, 256), ROWS, normal(N, 256), n=4096,
           ingle=lambda it, x, i, u, mode=mode: it.scatter_reduce(x, i, u, mode),
           torch=lambda torch, x, i, u, mode=mode: x.index_reduce(0, i, u, mode))
      for mode in ("prod", "amax", "mean")],
    case("put_along_axis/add", normal(256, N), PLACES, normal(256, N),
         ingle=lambda it, x, i, u: it.put_along_axis(x, i, u, axis=0, reduce="sum"),
         torch=lambda torch, x, i, u: x.scatter_add(0, i, u)),
    case("put_along_axis", normal(256, N), PLACES, normal(256, N),
         ingle=lambda it, x, i, u: it.put_along_axis(x, i, u, axis=0),
         torch=lambda torch, x, i, u: x.scatter(0, i, u)),
    case("one_hot", integers(100, N), n=1 << 14, args=(100,)),
    # Creation.
    *[case(name, ingle=lambda it, name=name: getattr(it, name)((1024, 1024)),
           torch=lambda torch, name=name: getattr(torch, name)((1024, 1024)))
      for name in ("zeros", "ones")],
    case("arange", ingle=lambda it: it.arange(1 << 20), torch=lambda torch: torch.arange(1 << 20)),
    case("linspace", ingle=lambda it: it.linspace(0, 1, 1 << 20),
         torch=lambda torch: torch.linspace(0, 1, 1 << 20)),
    case("eye", ingle=lambda it: it.eye(1024), torch=lambda torch: torch.eye(1024)),
    case("hann_window", ingle=lambda it: it.hann_window(1 << 16),
         torch=lambda torch: torch.hann_window(1 << 16)),
    case("kaiser_window", ingle=lambda it: it.kaiser_window(1 << 14),
         torch=lambda torch: torch.kaiser_window(1 << 14)),
)  # fmt: skip
