"""Making batches in a background thread, a few ahead of the caller."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Channel(Generic[T]):
    """A bounded queue between two threads that either side can close."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: T) -> bool:
        """Waits for room; False once the channel is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._size)
            if not self._closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._closed

    def get(self, producer: threading.Thread) -> T:
        """Waits for an item; raises if the channel closes or its producer dies without one."""
        with self._changed:
            while not self._items:
                if self._closed:
                    raise RuntimeError("the loader was closed while it was iterated over")
                if not producer.is_alive():
                    raise RuntimeError(
                        "the loader's thread is gone: the process was forked while it was "
                        "iterated over; start the iteration in the child"
                    )
                self._changed.wait(1.0)
            # Ctrl-C may come behind a call: nobody waits for room then that is there already.
            self._changed.notify_all()
            item = self._items[0]
            del self._items[0]
            return item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


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
