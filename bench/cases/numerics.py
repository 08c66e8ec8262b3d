"""Linear algebra, Fourier transforms, spectrograms, sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, N, case, cases, constant, fixed, normal, positive_definite

MATRICES = normal(64, N, 64)
SQUARE = positive_definite(64, N, N)
STACKS = positive_definite(N, 4, 4)


def _ctc(batch: int, classes: int, targets: int) -> Case:
    def ingle(it: Any, x: Any, labels: Any) -> Any:
        lengths = (np.full(batch, x.shape[0]), np.full(batch, targets))
        return it.ctc_loss(x, labels, *(it.asarray(n) for n in lengths))

    def torch(torch: Any, x: Any, labels: Any) -> Any:
        lengths = (torch.full((batch,), x.shape[0]), torch.full((batch,), targets))
        return torch.nn.functional.ctc_loss(x, labels, *lengths)

    def labels(size: tuple[int, ...]) -> Any:
        return np.random.default_rng(1).integers(1, classes, size)

    x = normal(N, batch, classes)
    return case(
        f"ctc_loss/{batch}", x, fixed(labels, batch, targets), n=200, ingle=ingle, torch=torch
    )


def _stft(library: Any, x: Any, window: Any) -> Any:
    if hasattr(library, "nn"):
        return library.stft(x, 512, 128, window=window, return_complex=True)
    return library.stft(x, 512, hop_length=128, window=window)


def _istft(library: Any, x: Any, window: Any) -> Any:
    return library.istft(_stft(library, x, window), 512, hop_length=128, window=window)


def _hann(size: tuple[int, ...]) -> Any:
    return np.hanning(size[0] + 1)[:-1].astype(np.float32)


WINDOW = fixed(_hann, 512)

NUMERICS: tuple[Case, ...] = (
    *[case(f"linalg.{name}", SQUARE, n=32) for name in (
        "inv", "cholesky", "det", "slogdet", "eigh", "eigvalsh", "qr", "svd", "svdvals", "pinv",
        "matrix_rank")],
    *[case(f"linalg.{name}/large", constant(normal(N, N)), n=256, torch=f"linalg.{name}")
      for name in ("lu", "lu_factor", "eigvals", "matrix_exp")],
    *[case(f"linalg.{name}/large", positive_definite(N, N), n=256, torch=f"linalg.{name}")
      for name in ("inv", "cholesky", "eigh", "qr", "svd")],
    *[case(f"linalg.{name}/stacks", STACKS, n=4096, torch=f"linalg.{name}") for name in (
        "inv", "det", "slogdet", "cholesky")],
    case("linalg.solve/stacks", STACKS, normal(N, 4, 2), n=4096, torch="linalg.solve"),
    case("linalg.solve_triangular/stacks", STACKS, normal(N, 4, 2), n=4096, upper=False,
         torch="linalg.solve_triangular"),
    case("linalg.solve", SQUARE, normal(64, N, 8), n=32),
    case("linalg.solve/vector", positive_definite(N, N), normal(N), n=256, torch="linalg.solve"),
    case("linalg.vector_norm", normal(512, N), axis=1),
    case("linalg.vector_norm/3", normal(512, N), axis=1, ord=3, torch="linalg.vector_norm"),
    case("linalg.matrix_norm", MATRICES, n=64),
    case("linalg.matrix_power", normal(64, N, N), n=32, ingle=lambda it, x: it.linalg.matrix_power(
        x, 5), torch=lambda torch, x: torch.linalg.matrix_power(x, 5)),
    case("linalg.cross", normal(N, 3), normal(N, 3), n=1 << 17),
    case("linalg.trace", MATRICES, n=64, torch=lambda torch, x: x.diagonal(
        dim1=-2, dim2=-1).sum(-1)),
    case("cov", normal(64, N), n=4096), case("corrcoef", normal(64, N), n=4096),
    *[case(f"fft.{name}/{size}", normal(64, size), torch=f"fft.{name}")
      for name in ("fft", "rfft") for size in (1024, 1000, 1021, 1155)],
    case("fft.fftn", normal(16, 64, N), n=64), case("fft.irfft", normal(64, N), n=513),
    *cases("fft.ifft fft.hfft", normal(64, N), n=512),
    case("fft.fftshift", normal(512, N)),
    case("stft", normal(8, N), WINDOW, n=16000, ingle=_stft, torch=_stft),
    case("istft", normal(8, N), WINDOW, n=16000, ingle=_istft, torch=_istft),
    _ctc(8, 64, 40), _ctc(64, 128, 20),
    case("meshgrid", normal(N), normal(1024), ingle=lambda it, x, y: it.meshgrid(x, y)[0] + 0,
         torch=lambda torch, x, y: torch.meshgrid(x, y, indexing="xy")[0] + 0),
    case("tril_indices", ingle=lambda it: it.tril_indices(512),
         torch=lambda torch: torch.tril_indices(512, 512)),
)  # fmt: skip
