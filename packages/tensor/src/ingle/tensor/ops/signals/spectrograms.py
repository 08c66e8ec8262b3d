"""Fourier transforms of short frames of a signal, and back: stft and istft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ...dispatch import TensorLike, as_floating, handle_of, wrap
from ...dtypes import int64, real_dtype
from ...errors import ArgumentError, DTypeError, ShapeError
from .._guarding import guarded
from .._rules import as_int
from ..creation.filled import ones, zeros
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.complex import real
from ..indexing.gathering import take
from ..indexing.scattering import scatter_add
from ..movement.padding import pad
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import slice_axis
from ..reductions.basic import min as reduce_min
from .fourier import fft, ifft
from .real_fourier import irfft, rfft

if TYPE_CHECKING:
    from ...tensor import Tensor

Mode = Literal["constant", "edge", "replicate", "reflect", "circular", "wrap"]


class Frames(NamedTuple):
    """How a signal is cut: the length of a frame, the distance of two, the weights in a frame."""

    size: int
    hop: int
    window: Tensor

    def places(self, count: int) -> Tensor:
        """The samples that each of `count` frames sees: (count, size)."""
        device = self.window.device
        starts = arange(count, dtype=int64, device=device) * self.hop
        return reshape(starts, (count, 1)) + arange(self.size, dtype=int64, device=device)


@guarded
def stft(
    x: TensorLike,
    /,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    pad_mode: Mode = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
) -> Tensor:
    """The Fourier transforms of frames of a signal, as in PyTorch.

    Args:
        x: (..., samples): a real or complex signal.
        n_fft: the length of a frame; any positive number.
        hop_length: from the start of a frame to that of the next; a quarter of `n_fft` if not
            given.
        win_length: the length of the window, which stands in the middle of the frame; `n_fft` if
            not given.
        window: the weights of the samples, such as `hann_window(win_length)`; ones if not given.
        center: put the middle of frame t at sample `t * hop_length`, for which the signal is
            padded on both sides.
        pad_mode: how; see `pad`.
        normalized: divide by the root of `n_fft`.
        onesided: leave out the negative frequencies; so for real signals if not given.

    Returns:
        Complex, (..., frequencies, frames).

    Raises:
        ShapeError: a signal without an axis, or shorter than a frame.
        DTypeError: one side of the transform of a complex signal.

    >>> import ingle.tensor as it
    >>> it.stft(it.ones(100), 16, window=it.hann_window(16)).shape
    (9, 26)
    """
    signal = wrap(as_floating(x, "stft"))
    frames = _frames("stft", signal, n_fft, hop_length, win_length, window)
    if not signal.ndim:
        raise ShapeError("stft: x must have an axis of samples, got a 0-d tensor")
    half = not signal.dtype.is_complex if onesided is None else onesided
    if half and signal.dtype.is_complex:
        raise DTypeError("stft: the transform of a complex signal has both sides: onesided=False")
    if center:
        sides = (frames.size // 2, frames.size // 2)
        signal = pad(signal, [*[(0, 0)] * (signal.ndim - 1), sides], mode=pad_mode)
    samples = signal.shape[-1]
    if samples < frames.size:
        raise ShapeError(
            f"stft: a frame has n_fft={frames.size} samples, but the signal only {samples}"
            + ("" if center else "; center=True pads it")
        )
    places = frames.places(1 + (samples - frames.size) // frames.hop)
    pieces = take(signal, places, axis=signal.ndim - 1) * frames.window
    norm: Literal["ortho", "backward"] = "ortho" if normalized else "backward"
    out = rfft(pieces, norm=norm) if half else fft(pieces, norm=norm)
    return out.swapaxes(-2, -1)


@guarded
def istft(
    x: TensorLike,
    /,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is the nearest: frames added up, divided by the sum of the windows.

    Griffin, Lim: Signal estimation from modified short-time Fourier transform (1984).

    Args:
        x: complex, (..., frequencies, frames), from `stft` with the same arguments.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as for `stft`.
        length: of the result; all that the frames cover if not given.
        return_complex: the signal is complex, for which `onesided` must be False.

    Raises:
        ArgumentError: there are samples that the windows of all frames hide.

    >>> import ingle.tensor as it
    >>> x, window = it.random.normal(100), it.hann_window(16)
    >>> y = it.istft(it.stft(x, 16, window=window), 16, window=window, length=100)
    >>> it.allclose(x, y, atol=1e-5)
    True
    """
    spectrum = wrap(handle_of(x, "istft"))
    if not spectrum.dtype.is_complex or spectrum.ndim < 2:
        raise ShapeError(
            "istft: x must be complex, (..., frequencies, frames), got "
            f"{spectrum.dtype} of shape {spectrum.shape}"
        )
    if onesided and return_complex:
        raise ArgumentError("istft: a complex signal needs both sides: onesided=False")
    kind = spectrum if return_complex else real(spectrum[..., :0, :0])
    frames = _frames("istft", kind, n_fft, hop_length, win_length, window)
    rows = frames.size // 2 + 1 if onesided else frames.size
    if spectrum.shape[-2] != rows or not spectrum.shape[-1]:
        raise ShapeError(
            f"istft: n_fft={frames.size} has {rows} frequencies and at least one frame, got "
            f"shape {spectrum.shape}"
        )
    norm: Literal["ortho", "backward"] = "ortho" if normalized else "backward"
    turned = spectrum.swapaxes(-2, -1)
    if return_complex:
        pieces = ifft(turned, norm=norm)
    else:
        # The negative frequencies of a real signal say nothing that the others do not.
        pieces = irfft(turned[..., : frames.size // 2 + 1], n=frames.size, norm=norm)
    return _joined(pieces, frames, frames.size // 2 if center else 0, length)


def _joined(pieces: Tensor, frames: Frames, skipped: int, length: int | None) -> Tensor:
    """Frames added up where they overlap, over the sum of the squares of their windows there."""
    count, lead = pieces.shape[-2], pieces.shape[:-2]
    total = frames.size + (count - 1) * frames.hop
    places = frames.places(count)
    device = pieces.device
    summed = scatter_add(
        zeros((*lead, total), dtype=pieces.dtype, device=device),
        places,
        pieces * frames.window,
        axis=len(lead),
    )
    window = frames.window
    squares = broadcast_to(window * window, (count, frames.size))
    weight = scatter_add(zeros((total,), dtype=window.dtype, device=device), places, squares)
    end = total - skipped if length is None else min(skipped + length, total)
    size = max(end - skipped, 0)
    weight = slice_axis(weight, 0, skipped, size)
    if size and float(reduce_min(weight)) < 1e-11:
        raise ArgumentError(
            "istft: the windows of all frames are 0 at some samples, which are lost; use a "
            "smaller hop_length, another window, or center=True"
        )
    out = slice_axis(summed, len(lead), skipped, size) / weight
    if length is not None and length > size:
        out = pad(out, [*[(0, 0)] * len(lead), (0, length - size)])
    return out


def _frames(
    name: str,
    signal: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: TensorLike | None,
) -> Frames:
    size = as_int(n_fft, name, "n_fft")
    hop = size // 4 if hop_length is None else as_int(hop_length, name, "hop_length")
    width = size if win_length is None else as_int(win_length, name, "win_length")
    if size < 1 or hop < 1 or not 0 < width <= size:
        raise ArgumentError(
            f"{name}: needs n_fft and hop_length above 0 and win_length up to n_fft, got {size}, "
            f"{hop} and {width}"
        )
    dtype = real_dtype(signal.dtype)
    if window is None:
        weights = ones((width,), dtype=dtype, device=signal.device)
    else:
        handle = as_floating(window, name, "window")
        if handle.shape != (width,) or not handle.dtype.is_floating:
            raise ShapeError(
                f"{name}: window must be real and have win_length={width} weights (n_fft={size} "
                f"if not given), got {handle.dtype} of shape {handle.shape}"
            )
        weights = astype(wrap(handle), dtype)
    before = (size - width) // 2
    return Frames(size, hop, pad(weights, [(before, size - width - before)]))
