"""Where the time of a step goes: seconds by the name of what was done."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import TracebackType

Listener = Callable[[str, float, float], None]
"""Told of a span: its name, when it began and when it ended, by `time.perf_counter`."""


class Spans:
    """Adds up seconds by name: `with spans("forward"): ...`.

    Attributes:
        seconds: of each name since `take`.
        exact: whether the device shall be waited for at the end of each span of this step. Work
            is recorded and done later, so that without it a span holds what others asked for.
        always: the same for every step.
        listeners: told of each span as it ends.

    >>> from ingle.train.spans import Spans
    >>> spans = Spans()
    >>> with spans("data"):
    ...     pass
    >>> list(spans.take()), spans.seconds
    (['data'], {})
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.exact = False
        self.always = False
        self.listeners: list[Listener] = []

    def __call__(self, name: str) -> Span:
        return Span(self, name)

    def add(self, name: str, begin: float, end: float) -> None:
        """A span that was measured elsewhere."""
        self.seconds[name] = self.seconds.get(name, 0.0) + end - begin
        for listener in self.listeners:
            listener(name, begin, end)

    def take(self) -> dict[str, float]:
        """The seconds by name, which begin anew."""
        found, self.seconds = self.seconds, {}
        return found


class Span:
    """The time within a `with` block; what raises counts, too."""

    __slots__ = ("_begin", "_name", "_spans")

    def __init__(self, spans: Spans, name: str) -> None:
        self._spans = spans
        self._name = name
        self._begin = 0.0

    def __enter__(self) -> Span:
        self._begin = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spans.add(self._name, self._begin, perf_counter())
