"""Making batches in a background thread, a few ahead of the caller."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Channel(Generic[T]):
    """A bounded queue between two threads that either side can close.

    No lock is held where a handler of signals, as that of Ctrl-C, may raise in either thread.
    """

    def __init__(self, size: int) -> None:
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        for _ in range(size):
            self._room.put(None)

    def put(self, item: T) -> bool:
        """Waits for room; False once the channel is closed."""
        self._room.get()
        if self._closed:
            self._room.put(None)
        else:
            self._items.put(item)
        return not self._closed

    def get(self, producer: threading.Thread) -> T:
        """Waits for an item; raises if the channel closes or its producer dies without one."""
        while True:
            ended = not producer.is_alive()
            try:
                item = self._items.get(timeout=0 if ended else 1.0)
            except Empty:
                if ended:
                    raise RuntimeError(
                        "the loader's thread is gone: the process was forked while it was "
                        "iterated over; start the iteration in the child"
                    ) from None
            except BaseException:
                self._room.put(None)  # An item that was taken before is lost, its room is not.
                raise
            else:
                break
        if item is None:
            self._items.put(None)
            raise RuntimeError("the loader was closed while it was iterated over")
        self._room.put(None)
        return item

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(Empty):
            while True:
                self._items.get_nowait()
        self._items.put(None)
        self._room.put(None)


class _End:
    """Put into the channel after the last item, with the error that ended it, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Prefetcher(Generic[T]):
    """Iterates over `source` in a thread of its own, `size` items ahead.

    What the source raises is raised here, when the caller reaches that item. The thread ends when
    the source does, at `close()`, and when nobody holds the prefetcher any more.

    Attributes:
        produced: seconds that the thread spent making items.
    """

    def __init__(self, source: Iterator[T], size: int) -> None:
        self._channel: Channel[tuple[T, float] | _End] = Channel(size)
        self.produced = 0.0
        # The thread must not hold the prefetcher, or an abandoned one would live for ever.
        self._thread = threading.Thread(
            target=_produce, args=(source, self._channel), name="ingle-loader", daemon=True
        )
        self._finalizer = weakref.finalize(self, Channel.close, self._channel)
        self._thread.start()

    def __iter__(self) -> Prefetcher[T]:
        return self

    def __next__(self) -> T:
        got = self._channel.get(self._thread)
        if isinstance(got, _End):
            self.close()
            if got.error is None:
                raise StopIteration
            raise got.error
        item, seconds = got
        self.produced += seconds
        return item

    def close(self, *, wait: bool = True) -> None:
        """Ends the thread and, if wanted, waits until it has left the item that it is making."""
        self._finalizer()
        if wait and self._thread is not threading.current_thread():
            self._thread.join()


def _produce(source: Iterator[T], channel: Channel[tuple[T, float] | _End]) -> None:
    error: BaseException | None = None
    try:
        while True:
            start = time.perf_counter()
            try:
                item = next(source)
            except StopIteration:
                break
            if not channel.put((item, time.perf_counter() - start)):
                return
    except BaseException as raised:  # whatever it is, it belongs to the caller
        error = raised
    channel.put(_End(error))
