"""From noise to a picture in few steps: DDIM, PLMS and Euler's method.

Each is told what noise a model sees in a picture, and returns the picture with less of it. Numbers
of steps are those of training, 0 to 999; `alphas` say how much of the picture is left at each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

import ingle.tensor as it
from ingle.importer import UnsupportedError
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from .pretrained import require


def schedule(
    steps: int = 1000, start: float = 0.00085, end: float = 0.012, kind: str = "scaled_linear"
) -> np.ndarray:
    """The share of the picture's power that is left after each step of training, (steps,).

    Args:
        steps: how many.
        start, end: the share of noise that the first and the last step add.
        kind: whether these, `linear`, or their roots, `scaled_linear`, grow evenly.
    """
    if kind == "scaled_linear":
        betas = np.linspace(start**0.5, end**0.5, steps) ** 2
    elif kind == "linear":
        betas = np.linspace(start, end, steps)
    else:
        raise UnsupportedError(f"schedule: beta_schedule={kind!r} is none of scaled_linear, linear")
    return np.asarray(np.cumprod(1 - betas))


class Sampler:
    """A way through the steps of training.

    Args:
        count: how many steps to take.
        alphas: of `schedule`.
        offset: added to the numbers of steps.
        end: what is left of the picture behind the last step; 1 is all, None is `alphas[0]`.

    Attributes:
        steps: numbers of the steps that the model is asked about, in order.
        scale: what the noise that all begins with is multiplied by.
    """

    scale: float = 1.0

    def __init__(
        self, count: int, alphas: np.ndarray, offset: int = 1, end: float | None = None
    ) -> None:
        if not 1 <= count <= len(alphas):
            raise ArgumentError(f"{type(self).__name__}: {count} steps of {len(alphas)}")
        self.alphas, self.stride = alphas, len(alphas) // count
        self.end = float(alphas[0]) if end is None else end
        self.steps: list[float] = self._chosen(count, offset)

    @classmethod
    def from_config(cls, count: int, config: Mapping[str, Any]) -> Self:
        """For a published `scheduler_config.json`."""
        require(
            cls.__name__, config, prediction_type="epsilon", clip_sample=False, trained_betas=None,
            thresholding=False, skip_prk_steps=True,
        )  # fmt: skip
        alphas = schedule(
            config.get("num_train_timesteps", 1000), config.get("beta_start", 0.0001),
            config.get("beta_end", 0.02), config.get("beta_schedule", "linear"),
        )  # fmt: skip
        end = 1.0 if config.get("set_alpha_to_one") else None
        return cls(count, alphas, config.get("steps_offset", 0), end)

    def _chosen(self, count: int, offset: int) -> list[float]:
        last = len(self.alphas) - 1
        return [float(min(i * self.stride + offset, last)) for i in reversed(range(count))]

    def seen(self, x: Tensor, at: int) -> Tensor:
        """What the model is shown of a picture before the step of that place."""
        return x

    def step(self, x: Tensor, noise: Tensor, at: int) -> Tensor:
        """The picture behind the step of that place.

        Args:
            x: the picture before it.
            noise: what the model takes for noise in it.
            at: place in `steps`; each is taken once, in order.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def _left(self, number: float) -> float:
        return float(self.alphas[int(number)]) if number >= 0 else self.end


class DDIM(Sampler):
    """Song et al.: Denoising diffusion implicit models (ICLR 2021), without noise of its own.

    >>> import numpy as np
    >>> import ingle.tensor as it
    >>> sampler = DDIM(2, schedule())
    >>> sampler.steps
    [501.0, 1.0]
    >>> sampler.step(it.ones(2), it.zeros(2), 0).shape
    (2,)
    """

    def step(self, x: Tensor, noise: Tensor, at: int) -> Tensor:
        number = self.steps[at]
        now, then = self._left(number), self._left(number - self.stride)
        picture = (x - math.sqrt(1 - now) * noise) / math.sqrt(now)
        return math.sqrt(then) * picture + math.sqrt(1 - then) * noise


class PLMS(Sampler):
    """Liu et al.: Pseudo numerical methods for diffusion models on manifolds (ICLR 2022).

    Of earlier steps it keeps what noise was seen; the second step is taken twice, to have one. The
    first release of Stable Diffusion used it.
    """

    WEIGHTS: ClassVar[dict[int, tuple[float, ...]]] = {
        1: (1.0,), 2: (3 / 2, -1 / 2), 3: (23 / 12, -16 / 12, 5 / 12),
        4: (55 / 24, -59 / 24, 37 / 24, -9 / 24),
    }  # fmt: skip
    """Of the last noises, the newest first: those of Adams and Bashforth."""

    def _chosen(self, count: int, offset: int) -> list[float]:
        self._seen: list[Tensor] = []
        self._first: Tensor | None = None
        once = super()._chosen(count, offset)
        return [once[0], *once[1:2], *once[1:]]

    def step(self, x: Tensor, noise: Tensor, at: int) -> Tensor:
        number = self.steps[at]
        then = number - self.stride
        if at == 0:
            self._seen, self._first = [noise], x
            mixed = noise
        elif at == 1:  # the first step again, with the mean of the noises at its ends
            assert self._first is not None
            number, then, x = number + self.stride, number, self._first
            mixed = (noise + self._seen[0]) / 2
        else:
            self._seen = [noise, *self._seen[:3]]
            weights = self.WEIGHTS[len(self._seen)]
            mixed = weights[0] * noise
            for weight, earlier in zip(weights[1:], self._seen[1:], strict=True):
                mixed = mixed + weight * earlier
        now, left = self._left(number), self._left(then)
        below = now * math.sqrt(1 - left) + math.sqrt(now * (1 - now) * left)
        return math.sqrt(left / now) * x - ((left - now) / below) * mixed


class Euler(Sampler):
    """Karras et al.: Elucidating the design space of diffusion models (2022), algorithm 2.

    Without noise of its own: Euler's method for the picture as a function of the noise's size.
    """

    def _chosen(self, count: int, offset: int) -> list[float]:
        places = np.linspace(0, len(self.alphas) - 1, count)[::-1]
        sizes = np.sqrt((1 - self.alphas) / self.alphas)
        at = np.interp(places, np.arange(len(sizes)), sizes)
        self.sizes: list[float] = [*at.tolist(), 0.0]
        self.scale = self.sizes[0]
        return [float(p) for p in places]

    def seen(self, x: Tensor, at: int) -> Tensor:
        return x / math.sqrt(self.sizes[at] ** 2 + 1)

    def step(self, x: Tensor, noise: Tensor, at: int) -> Tensor:
        return x + noise * (self.sizes[at + 1] - self.sizes[at])


SAMPLERS: dict[str, type[Sampler]] = {"ddim": DDIM, "plms": PLMS, "euler": Euler}


def noise(shape: tuple[int, ...], seed: int | None) -> Tensor:
    """Where a picture begins; a seed gives the same on every device."""
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    begun: Tensor = it.asarray(drawn)
    return begun
