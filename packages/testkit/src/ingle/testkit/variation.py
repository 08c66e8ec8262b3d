"""Random variations of a room's samples: the same calls with other sizes, ranks and values.

A sample says by its sizes which of them belong together: where two are equal, they stay equal. So
a variation gives each size that occurs another one, everywhere; it may prepend axes to all arrays,
and gives elementwise operations any shapes that broadcast. What such a change makes of a call need
not make sense: then the function has to refuse it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ingle.tensor.dtypes import DType, as_dtype, from_numpy_dtype
from ingle.tensor.sample import Draw, Sample

from .cases import Case, Subject
from .trees import fill_arrays, map_leaves

Shape = tuple[int, ...]
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0)


class VariedDraw(Draw):
    """Draws what a room's samples ask for in other shapes.

    Args:
        seed, dtype: as for `Draw`.
        resized: the size to use for one that the room asks for.
        reshaped: what becomes of the shape that this gives.
    """

    def __init__(
        self,
        seed: int,
        dtype: DType | str,
        *,
        resized: Callable[[int], int],
        reshaped: Callable[[Shape], Shape],
    ) -> None:
        super().__init__(seed, dtype)
        self._resized = resized
        self._reshaped = reshaped
        self._made: set[Shape] = set()
        self.asked = False
        """Whether the room asked for its sizes, so that arrays get the very sizes it says."""
        self.sizes: dict[int, int] = {}
        """Which sizes were given instead of which."""

    def size(self, size: int, *, least: int = 0) -> int:
        self.asked = True
        return max(least, self._exchanged(size))

    def array(self, shape: Sequence[int], **options: Any) -> np.ndarray:
        return super().array(self._varied(shape), **options)

    def apart(self, shape: Sequence[int], **options: Any) -> np.ndarray:
        return super().apart(self._varied(shape), **options)

    def integers(self, shape: Sequence[int], high: int, dtype: DType | str = "int64") -> np.ndarray:
        varied = self._varied(shape)
        below = high if self.asked else self._exchanged(high)
        return super().integers(varied, max(1, below), dtype)

    def _exchanged(self, size: int) -> int:
        # 0 and 1 mean something, and stay.
        if size not in self.sizes:
            if size < 2 or size in self.sizes.values():
                return size
            self.sizes[size] = self._resized(size)
        return self.sizes[size]

    def _varied(self, shape: Sequence[int]) -> Shape:
        wanted = tuple(shape)
        # The shape of an array that was drawn before is meant as it is.
        if self.asked or wanted in self._made:
            return wanted
        varied = self._reshaped(tuple(map(self._exchanged, wanted)))
        self._made.add(varied)
        return varied


@dataclass(frozen=True, slots=True)
class Variation:
    """How a sample is varied.

    Attributes:
        number: which of the room's samples.
        seed: of the values.
        resized, reshaped: see `VariedDraw`.
        statics: whether sizes are exchanged among the other arguments as well.
        special: how many special values are strewn into each floating array.
    """

    number: int
    seed: int
    resized: Callable[[int], int]
    reshaped: Callable[[Shape], Shape]
    statics: bool
    special: int


def varied(subject: Subject, dtype: str, how: Variation) -> Case | None:
    """The varied call; None where the room's code does not make one of such sizes."""
    assert subject.samples is not None
    draw = VariedDraw(how.seed, dtype, resized=how.resized, reshaped=how.reshaped)
    try:
        sample = next(itertools.islice(subject.samples(draw), how.number, None))
    except (ValueError, IndexError, StopIteration):
        return None  # a room may count on the sizes that it wrote
    if how.statics and not draw.asked:
        sample = _with_sizes(sample, draw)
    case = Case(subject, as_dtype(dtype), sample, f"{dtype} sample {how.number}")
    return _with_special(case, how) if how.special and sample.special else case


def _with_sizes(sample: Sample, draw: VariedDraw) -> Sample:
    sizes = draw.sizes

    def exchanged(leaf: Any) -> Any:
        return sizes.get(leaf, leaf) if type(leaf) is int else leaf

    args, kwargs = map_leaves(exchanged, (sample.args, dict(sample.kwargs)))
    return replace(sample, args=args, kwargs=kwargs)


def _with_special(case: Case, how: Variation) -> Case:
    rng = np.random.default_rng(how.seed)
    arrays = [_strewn(a, rng, how.special) for a in case.arrays]
    args, kwargs = fill_arrays(case.tree(), arrays)
    return replace(case, sample=replace(case.sample, args=args, kwargs=kwargs, gradient=False))


def _strewn(array: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    if not array.size or not from_numpy_dtype(array.dtype).is_floating:
        return array
    out = array.copy()
    out.reshape(-1)[rng.integers(0, out.size, count)] = rng.choice(SPECIAL, count)
    return out
