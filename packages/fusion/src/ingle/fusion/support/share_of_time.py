"""Work that can wait, done in a part of the time: what is due everywhere at once stalls nobody."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager


class ShareOfTime:
    """Says when work of one kind may go on, so that it takes a part of the time at most.

    After a piece of it there is a pause in proportion to how long that took; the first piece waits
    for nothing. Threads may come at the same time, and do a piece each.

    Args:
        part: of the time, above 0; 1 or more is no limit.

    >>> share = ShareOfTime(0.1)
    >>> if share.is_due:
    ...     with share.taken():
    ...         total = sum(range(1000))
    """

    def __init__(self, part: float) -> None:
        self.part = part
        self._resumes_at = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next piece may be done now."""
        return self.part >= 1.0 or time.perf_counter() >= self._resumes_at

    @contextmanager
    def taken(self) -> Generator[None, None, None]:
        """Measures a piece of the work, also one that fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self._resumes_at = start + (end - start) / self.part
