"""Pooling, windows, interpolation and sampling of images."""

from __future__ import annotations

from typing import Any

from .case import Case, N, between, case, constant, integers, normal

IMAGES = normal(16, 64, N, 56)
SMALL = normal(16, 64, N, 28)
SOUND = normal(16, 64, N)


def _unpooled(library: Any, x: Any) -> Any:
    functional = getattr(library, "nn", library)
    functional = getattr(functional, "functional", functional)
    out, places = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(out, places, 2)


def _fractional(name: str) -> Any:
    def call(library: Any, x: Any, samples: Any) -> Any:
        if hasattr(library, "nn"):
            return library.nn.functional.fractional_max_pool2d(
                x, 2, output_size=30, _random_samples=samples
            )
        return library.fractional_max_pool2d(x, 2, output_size=30, samples=samples)

    return case(name, IMAGES, constant(between(0, 1, 16, 64, 2)), n=56, ingle=call, torch=call)


def _interpolate(mode: str, n: int = 28, **options: Any) -> Case:
    return case(f"interpolate/{' '.join([mode, *options])}", SMALL, n=n, scale_factor=2.0,
                mode=mode, torch="interpolate", **options)  # fmt: skip


VISION: tuple[Case, ...] = (
    case("max_pool2d", IMAGES, n=56, kernel_size=2),
    case("max_pool2d/overlapping", IMAGES, n=56, kernel_size=3, stride=2, padding=1,
         torch="max_pool2d"),
    case("max_pool1d", SOUND, kernel_size=4),
    case("max_pool3d", normal(2, 16, N, 32, 32), n=32, kernel_size=2),
    case("avg_pool2d", IMAGES, n=56, kernel_size=2),
    case("avg_pool2d/overlapping", IMAGES, n=56, kernel_size=3, stride=1, padding=1,
         torch="avg_pool2d"),
    case("avg_pool1d", SOUND, kernel_size=4),
    case("lp_pool2d", IMAGES, n=56, norm_type=2.0, kernel_size=2),
    case("adaptive_avg_pool2d/1", IMAGES, n=56, output_size=1, torch="adaptive_avg_pool2d"),
    case("adaptive_avg_pool2d/7", IMAGES, n=56, output_size=7, torch="adaptive_avg_pool2d"),
    case("adaptive_avg_pool2d/uneven", IMAGES, n=56, output_size=15, torch="adaptive_avg_pool2d"),
    case("adaptive_avg_pool2d/long", IMAGES, n=200, output_size=3, torch="adaptive_avg_pool2d"),
    case("adaptive_max_pool2d/7", IMAGES, n=56, output_size=7, torch="adaptive_max_pool2d"),
    case("adaptive_max_pool2d/uneven", IMAGES, n=56, output_size=15, torch="adaptive_max_pool2d"),
    _fractional("fractional_max_pool2d"),
    case("max_unpool2d", IMAGES, n=56, ingle=_unpooled, torch=_unpooled),
    case("unfold", SMALL, n=28, kernel_size=3, padding=1),
    case("fold", normal(16, 288, N), n=784, kernel_size=3, padding=1,
         ingle=lambda it, x: it.fold(x, (x.shape[2] // 28, 28), 3, padding=1),
         torch=lambda torch, x: torch.nn.functional.fold(x, (x.shape[2] // 28, 28), 3, padding=1)),
    case("pixel_shuffle", SMALL, n=28, upscale_factor=4),
    case("pixel_unshuffle", IMAGES, n=56, downscale_factor=4),
    case("channel_shuffle", SMALL, n=28, groups=8),
    _interpolate("nearest"),
    _interpolate("bilinear"),
    _interpolate("bilinear", align_corners=True),
    _interpolate("bicubic"),
    case("interpolate/down antialiased", IMAGES, n=56, size=20, mode="bilinear", antialias=True,
         torch="interpolate"),
    case("interpolate/linear", SOUND, n=1024, scale_factor=2.0, mode="linear", torch="interpolate"),
    case("interpolate/trilinear", normal(2, 16, N, 16, 16), n=16, scale_factor=2.0,
         mode="trilinear", torch="interpolate"),
    *[case(f"grid_sample/{mode} {padding}", normal(4, 32, N, 56), between(-1.1, 1.1, 4, 56, 56, 2),
           n=56, mode=mode, padding_mode=padding, align_corners=False, torch="grid_sample")
      for mode, padding in (("bilinear", "zeros"), ("bilinear", "border"), ("nearest", "zeros"),
                            ("bicubic", "zeros"), ("bilinear", "reflection"))],
    case("affine_grid", normal(16, 2, 3), args=((16, 3, 128, 128),), align_corners=False),
    case("one_hot/image", integers(21, 8, N, 64), n=64, args=(21,),
         torch="one_hot"),
)  # fmt: skip
