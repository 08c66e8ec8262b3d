"""Transforms of streams: samples that come one after the other, of a number nobody knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from .batching import collate
from .errors import DataValueError
from .ordering import as_seed, generator

T = TypeVar("T")
U = TypeVar("U")
Make = Callable[[int], Iterator[T]]
"""Begins a stream anew, for an epoch."""


class Stream(Generic[T]):
    """A stream with transforms: each gives a new stream, and reads nothing before it is asked for.

    Each loop begins anew from the first sample, so that a loader can go on in the middle of an
    epoch: it passes over what was seen. A loader tells the epoch by `at_epoch`, on which the order
    of `shuffle` depends.

    Args:
        source: what is iterated over, such as a list, a file's lines or another stream; or a
            function that makes an iterator each time it is called. An iterator itself, which can be
            gone through only once, is refused.

    Raises:
        DataValueError: the source cannot begin anew.

    >>> from ingle.dataset import Loader, Stream
    >>> squares = Stream(range(100)).filter(lambda x: x % 3 == 0).map(lambda x: x * x)
    >>> list(squares.take(4))
    [0, 9, 36, 81]
    >>> sorted(squares.take(4).shuffle(2, seed=1))
    [0, 9, 36, 81]
    >>> len(list(Loader(squares, batch_size=10)))
    4
    """

    def __init__(self, source: Iterable[T] | Callable[[], Iterator[T]]) -> None:
        if isinstance(source, Iterator):
            raise DataValueError(
                f"Stream: a {type(source).__name__} can be gone through only once; give the "
                "function that makes it, such as one that yields"
            )
        if not callable(source) and not isinstance(source, Iterable):
            raise DataValueError(
                f"Stream: the source must be iterable or a function that makes an iterator, got "
                f"{type(source).__name__}"
            )
        self._make: Make[T] = _beginning(source)
        self._epoch = 0

    def __iter__(self) -> Iterator[T]:
        return self._make(self._epoch)

    def at_epoch(self, epoch: int) -> Stream[T]:
        """The stream as it is in an epoch: in another order where it is shuffled."""
        found = _stream(self._make)
        found._epoch = epoch
        return found

    def map(self, function: Callable[[T], U]) -> Stream[U]:
        """`function(sample)` of each sample."""
        return _stream(lambda epoch: map(function, self._make(epoch)))

    def filter(self, predicate: Callable[[T], object]) -> Stream[T]:
        """The samples for which `predicate(sample)` is true."""
        return _stream(lambda epoch: filter(predicate, self._make(epoch)))

    def take(self, count: int) -> Stream[T]:
        """The first samples, at most `count`."""
        _at_least("take", "count", count, 0)
        return _stream(lambda epoch: islice(self._make(epoch), count))

    def skip(self, count: int) -> Stream[T]:
        """All samples but the first `count`."""
        _at_least("skip", "count", count, 0)
        return _stream(lambda epoch: islice(self._make(epoch), count, None))

    def shuffle(self, buffer: int, seed: int = 0) -> Stream[T]:
        """In an order that depends on seed and epoch, as far as `buffer` samples allow.

        So many samples are held; each that is handed out is a random one of them, and the next of
        the stream takes its place. A buffer as long as the stream gives any order.

        Args:
            buffer: how many samples are held in memory.
            seed: which of the orders.
        """
        _at_least("shuffle", "buffer", buffer, 1)
        start = as_seed(seed, "shuffle")
        return _stream(lambda epoch: _shuffled(self._make(epoch), buffer, start, epoch))

    def windows(self, size: int, stride: int = 1) -> Stream[Any]:
        """Runs of `size` consecutive samples, `stride` apart, each as one batch."""
        _at_least("windows", "size", size, 1)
        _at_least("windows", "stride", stride, 1)
        return _stream(lambda epoch: _windows(self._make(epoch), size, stride))

    def __add__(self, other: Iterable[T]) -> Stream[T]:
        then = other if isinstance(other, Stream) else Stream(other)
        return _stream(lambda epoch: chain(self._make(epoch), then._make(epoch)))


def _stream(make: Make[T]) -> Stream[T]:
    stream: Stream[T] = Stream(())
    stream._make = make
    return stream


def _beginning(source: Iterable[T] | Callable[[], Iterator[T]]) -> Make[T]:
    """What begins a source anew; streams of others may know epochs, too."""

    def begin(epoch: int) -> Iterator[T]:
        of_epoch = getattr(source, "at_epoch", None)
        if of_epoch is not None:
            return iter(of_epoch(epoch))
        if isinstance(source, Iterable):
            return iter(source)
        return source()

    return begin


def _shuffled(samples: Iterator[T], buffer: int, seed: int, epoch: int) -> Iterator[T]:
    rng = generator(seed, epoch, 0)
    held = list(islice(samples, buffer))
    for sample in samples:
        at = int(rng.integers(len(held)))
        held[at], out = sample, held[at]
        yield out
    for at in rng.permutation(len(held)).tolist():
        yield held[at]


def _windows(samples: Iterator[Any], size: int, stride: int) -> Iterator[Any]:
    held: deque[Any] = deque(islice(samples, size), maxlen=size)
    while len(held) == size:
        yield collate(list(held))
        more = list(islice(samples, stride))
        if len(more) < stride:
            return
        held.extend(more)


def _at_least(name: str, argument: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DataValueError(
            f"Stream.{name}: {argument} must be an integer of at least {least}, got {value!r}"
        )
