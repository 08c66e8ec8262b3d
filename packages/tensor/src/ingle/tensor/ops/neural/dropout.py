"""Dropout, whose mask is a function of a place in the random stream and is never stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...contract import Handle, Scalar
from ...dispatch import TensorLike, as_floating, run, wrap
from ...dtypes import float32
from ...errors import ArgumentError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import elementwise_rule
from ..elementwise.where import where
from ..random.bits import WORDS, Place, as_words, bits_at, blocks, reference_bits

if TYPE_CHECKING:
    from ...random import Generator
    from ...tensor import Tensor


@guarded
def dropout(
    x: TensorLike,
    p: float = 0.5,
    *,
    training: bool = True,
    generator: Generator | None = None,
    place: tuple[int, int] | None = None,
) -> Tensor:
    """Sets elements to zero with probability `p` and scales the others by 1 / (1 - p).

    Srivastava et al.: Dropout (JMLR 15, 2014). The gradient computes the same mask again.

    Args:
        x: a float tensor.
        p: the probability, in [0, 1].
        training: whether to do that; if not, the result is `x`.
        generator: to draw the mask from; the default generator if not given.
        place: a key and counter to draw at, instead of from a generator; see `random_bits`.

    Raises:
        ArgumentError: `p` is not in [0, 1].

    >>> import ingle.tensor as it
    >>> sorted(set(it.dropout(it.ones(100), 0.5).tolist()))
    [0.0, 2.0]
    >>> it.dropout(it.ones(2), 0.5, training=False).tolist()
    [1.0, 1.0]
    """
    from ...random.generator import draws_from

    handle = as_floating(x, "dropout")
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p must be a probability in [0, 1], got {p}")
    if not training:
        return wrap(handle)
    if place is None:
        place = draws_from("dropout", generator).draw(blocks(handle.shape))
    return _at(handle, float(p), Place.of("dropout", place).words())


def _body(x: Tensor, p: float, *words: int) -> Tensor:
    threshold = min(round(p * 2.0**32), 2**32 - 1)
    keep = bits_at(words, x.shape, x.device) >= threshold
    return where(keep, x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0.0)


def _vjp(
    g: Tensor, p: float, key_low: int, key_high: int, counter_low: int, counter_high: int
) -> Tensor:
    return _at(g._handle, p, (key_low, key_high, counter_low, counter_high))


def _samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        for shape in ((33, 17), (5,), (0, 2), ()):
            yield Sample((draw.array(shape), 0.25), {"place": (3, 1)})


def _reference(x: Any, p: float, *, place: tuple[int, int]) -> Any:
    keep = reference_bits(x.shape, place) >= p * 2.0**32
    return x * keep / (1.0 - p)


_DROPOUT = Operation(
    "dropout",
    tensors=("x", "p", *WORDS),
    rule=lambda x, *scalars: elementwise_rule("dropout", ("float",))(x),
    traits=Traits("opaque"),
    vjp={"x": _vjp},
    body=_body,
    public=dropout,
    samples=_samples,
    reference=_reference,
).op()


def _at(x: Handle, p: float, words: Sequence[int | Tensor]) -> Tensor:
    return run(_DROPOUT, (x, Scalar(p, float32), *as_words(words)))[0]
