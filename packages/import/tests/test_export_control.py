"""Loops, branches, Fourier transforms and what ONNX has no operator for, on their way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import importer
from ingle.importer import UnsupportedError
from ingle.tensor import Tensor
from ingle.tensor.pytree import flatten

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
SHAPES = (4, 6)


def halved(x: Tensor) -> Any:
    def goes_on(carry: Any) -> Tensor:
        return it.max(it.abs(carry[0])) > 0.1

    def step(carry: Any) -> Any:
        y, n = carry
        return y * 0.5 + bias, n + 1

    bias = x[0] * 0
    return it.while_loop(goes_on, step, (x, it.asarray(0)))


def counted(reverse: bool, give: bool) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Any:
        def step(s: Tensor, _: None) -> Any:
            return s * 0.5 + x, (it.sum(s, axis=0) if give else ())

        return it.scan(step, x, None, length=3, reverse=reverse)

    return run


def scanned(reverse: bool) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Any:
        def step(s: Tensor, row: Tensor) -> Any:
            s = s * 0.5 + row
            return s, it.where(it.sum(row) > 0, s, -s)

        return it.scan(step, x[0] * 0, x, reverse=reverse)

    return run


def chosen(x: Tensor) -> Any:
    scale = it.sum(x)
    return it.cond(
        scale > 0,
        lambda: it.cond(scale > 100, lambda: x * 2, lambda: it.sin(x)),
        lambda: it.while_loop(lambda y: it.min(y) < 0, lambda y: y + 1.0, x),
    )


CONTROL: dict[str, Callable[[Tensor], Any]] = {
    "while_loop": halved,
    "scan": scanned(False),
    "scan, backward": scanned(True),
    "scan of a length": counted(False, True),
    "scan of a length, backward": counted(True, True),
    "scan without results": counted(False, False),
    "cond, in it cond and while_loop": chosen,
}


def compared(function: Callable[[Tensor], Any], x: np.ndarray, model: Any = None) -> None:
    with it.device("numpy"):
        tensor = it.asarray(x)
        model = importer.export_onnx(function, tensor) if model is None else model
        options = ort.SessionOptions()
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options)
        got = session.run(None, {"x": x})
        wanted = [t for t in flatten(function(tensor)) if isinstance(t, Tensor)]
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            # The inverse transform of onnxruntime divides doubles by a number in float32.
            tolerance = 1e-7 if x.dtype == np.float64 else 2e-4
            np.testing.assert_allclose(a, b.numpy(), rtol=tolerance, atol=tolerance)
        back = importer.load_onnx(model)(tensor)
        for a, b in zip(back if isinstance(back, tuple) else (back,), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str, sign: int) -> None:
    x = sign * np.abs(RNG.normal(size=SHAPES)).astype(np.float32)
    with it.device("numpy"):  # recorded with other values than it runs with
        model = importer.export_onnx(CONTROL[name], it.asarray(-x))
    compared(CONTROL[name], x, model)


fft = it.fft
SPECTRA: dict[str, Callable[[Tensor], Any]] = {
    "rfft": lambda x: (it.real(y := fft.rfft(x)), it.imag(y)),
    "rfft, ortho, first axis": lambda x: it.abs(fft.rfft(x, axis=0, norm="ortho")),
    "fftn": lambda x: it.real(fft.fftn(x.astype(complex_of(x)))),
    "fft of a length": lambda x: it.imag(fft.fft(x, n=9, norm="forward")),
    "there and back": lambda x: fft.irfft(fft.rfft(x)),
    "irfft, odd": lambda x: fft.irfft(fft.rfft(x), n=5, norm="ortho"),
    "irfft, longer": lambda x: fft.irfft(fft.rfft(x, axis=0), n=11, axis=0, norm="forward"),
    "rfftn": lambda x: fft.irfftn(fft.rfftn(x) * 2.0, s=x.shape),
    "ifftn": lambda x: it.abs(fft.ifftn(x.astype(complex_of(x)), norm="ortho")),
    "shifted": lambda x: it.imag(fft.fftshift(fft.fft(x))),
    "a filter": lambda x: fft.irfft(fft.rfft(x) * (fft.rfft(x[:1]) - (1 + 2j)), n=x.shape[-1]),
    "a quotient": lambda x: it.abs(fft.rfft(x) / (fft.rfft(x[0]) + 30.0)),
    "angles": lambda x: it.angle(fft.fft(x) * (0.3 - 1j) + x),
    "a conjugate": lambda x: it.real(it.conj(fft.rfft(x)) * -fft.rfft(x)),
    "moved": lambda x: it.imag(it.reshape(it.permute_dims(fft.rfft(x), (1, 0))[::-1], (2, -1))),
    "a spectrogram": lambda x: it.abs(it.stft(it.reshape(x, (-1,)), 8, window=it.hann_window(8))),
}  # fmt: skip


def complex_of(x: Tensor) -> Any:
    return it.complex64 if x.dtype is it.float32 else it.complex128


# onnxruntime has no arc tangent of doubles, which angles are made of.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in SPECTRA for d in (np.float32, np.float64) if (n, d) != ("angles", np.float64)],
)
def test_fourier_transforms(name: str, dtype: Any) -> None:
    compared(SPECTRA[name], RNG.normal(size=SHAPES).astype(dtype))


def test_other_axes_of_transforms_may_be_dynamic() -> None:
    def run(x: Tensor) -> Tensor:
        return it.abs(fft.rfft(x, norm="ortho"))

    with it.device("numpy"):
        x = it.asarray(RNG.normal(size=SHAPES).astype(np.float32))
        model = importer.export_onnx(run, x, dynamic_axes={"x": {0: "n"}})
    compared(run, RNG.normal(size=(7, 6)).astype(np.float32), model)


def test_determinants_and_angles() -> None:
    compared(it.linalg.det, RNG.normal(size=(3, 4, 4)).astype(np.float32))
    grid = np.float32([-np.inf, -1, -0.5, 0, 0.25, 2])
    points = np.stack(np.meshgrid(grid[1:], grid[1:]))
    compared(lambda x: it.atan2(x[0], x[1]), points)


MISSING = {
    "svd": it.linalg.svd, "cholesky": lambda x: it.linalg.cholesky(x @ x.mT),
    "qr": it.linalg.qr, "eigh": lambda x: it.linalg.eigh(x + x.mT), "inv": it.linalg.inv,
    "solve": lambda x: it.linalg.solve(x, x), "slogdet": it.linalg.slogdet,
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_an_operation_that_onnx_has_not_is_named(name: str) -> None:
    x = it.asarray(RNG.normal(size=(3, 3)).astype(np.float32), device="numpy")
    with pytest.raises(UnsupportedError, match=rf"operation {name}.* no counterpart in ONNX"):
        importer.export_onnx(MISSING[name], x)


def test_complex_numbers_stay_inside() -> None:
    x = it.asarray(np.ones(4, np.float32), device="numpy")
    with pytest.raises(UnsupportedError, match="returns complex numbers"):
        importer.export_onnx(fft.rfft, x)
    with pytest.raises(UnsupportedError, match="takes complex numbers"):
        importer.export_onnx(it.real, x.astype(it.complex64))
    with pytest.raises(UnsupportedError, match=r"exp.* of complex numbers"):
        importer.export_onnx(lambda x: it.real(it.exp(fft.rfft(x))), x)
