"""Writing in the background: values that stay as they are, and a thread that takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ingle.tensor import Cell, Tensor

from .callbacks import Snapshot


def frozen(part: Any) -> Snapshot:
    """The state of a part as it is now: what the part becomes later does not change it.

    Values never change, so that nothing is copied; all are computed when it returns, so that
    another thread may read them.

    >>> from ingle import nn
    >>> from ingle.train.background import frozen
    >>> model = nn.Linear(2, 1)
    >>> kept = frozen(model)
    >>> model.weight.value = model.weight.value * 0.0
    >>> bool((kept.state_dict()["weight"] != 0.0).all())
    True
    """
    backends: dict[int, Any] = {}
    found = _frozen(part.state_dict(), backends)
    for backend in backends.values():
        backend.synchronize()
    snapshot = Snapshot()
    snapshot.load_state_dict(found)
    return snapshot


def _frozen(value: Any, backends: dict[int, Any]) -> Any:
    if isinstance(value, Cell):
        value = value.raw
    if isinstance(value, Tensor):
        value = value.detach()
        backends[id(value.backend)] = value.backend
        return value
    if isinstance(value, Mapping):
        return {name: _frozen(inner, backends) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_frozen(inner, backends) for inner in value)
    return value


class BackgroundWrite:
    """Runs a function in a thread, which a program waits for before it ends.

    >>> from ingle.train.background import BackgroundWrite
    >>> BackgroundWrite(lambda: 1 + 1).result()
    2
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._value: Any = None
        self._error: BaseException | None = None
        # No daemon: the interpreter ends it in no half of a file.
        self._thread = threading.Thread(target=self._run, name="ingle-checkpoint")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Waits, and returns what the function did, or raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value
