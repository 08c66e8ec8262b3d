"""What users ask of a device's memory."""

from __future__ import annotations

from .. import settings
from ..contract import offered
from ..device import Device, backend_of
from ..errors import ArgumentError, BackendError, SettingError
from .blocks import Source
from .pool import Pool
from .statistics import Statistics, read_bytes
from .strategies import STRATEGIES


def stats(device: Device | str | None = None) -> Statistics:
    """What a device's pool has lent and kept; `print` shows it as a table.

    What this thread has asked for is computed before.

    >>> import ingle.tensor as it
    >>> x = it.ones((1024, 1024))
    >>> it.memory.stats().in_use >= x.nbytes
    True
    """
    backend_of(device).synchronize()
    return pool_of(device).statistics()


def limit(nbytes: int | str | None, device: Device | str | None = None) -> None:
    """Sets the most bytes that a device's pool may take; None for no limit.

    Args:
        nbytes: a number, or text such as `"2GiB"`.
        device: the default device if not given.

    >>> import ingle.tensor as it
    >>> it.memory.limit("2GiB")
    >>> it.memory.stats().limit
    2147483648
    >>> it.memory.limit(None)
    """
    pool_of(device).limit = None if nbytes is None else read_bytes(nbytes, "memory.limit")


def release(device: Device | str | None = None) -> int:
    """Gives back what a device's pool keeps for later; returns how many bytes that was.

    >>> import ingle.tensor as it
    >>> it.memory.release() >= 0
    True
    """
    return pool_of(device).release()


def strategy(name: str, device: Device | str | None = None) -> None:
    """Chooses how a device's pool keeps unused memory: `"bins"`, `"ordered"`, `"slices"` or
    `"direct"`.

    Raises:
        ArgumentError: there is no such strategy.

    >>> import ingle.tensor as it
    >>> it.memory.strategy("slices")
    >>> it.memory.stats().strategy
    'slices'
    >>> it.memory.strategy("bins")
    """
    pool_of(device).strategy = name


def pool_of(device: Device | str | None = None) -> Pool:
    """The pool of a device.

    Raises:
        BackendError: its backend has none.

    >>> from ingle.tensor.memory import pool_of
    >>> pool_of("cpu").statistics().in_use >= 0
    True
    """
    backend = backend_of(device)
    memory = offered(backend, "memory")
    if memory is None:
        raise BackendError(
            f"memory: backend {backend.name!r} leaves its memory to its library, and has no pool "
            "to ask"
        )
    pool: Pool = memory()
    return pool


def pool_from_environment(source: Source, strategy: str = "bins") -> Pool:
    """A pool as `INGLE_MEMORY` (a strategy) and `INGLE_MEMORY_LIMIT` (such as `8GiB`) say.

    Args:
        source: of its memory.
        strategy: where `INGLE_MEMORY` says nothing.

    Raises:
        SettingError: a variable holds something else.

    >>> from ingle.tensor.memory import HostSource, pool_from_environment
    >>> pool_from_environment(HostSource(), "ordered").statistics().strategy
    'ordered'
    """
    strategy = settings.one_of("INGLE_MEMORY", (*STRATEGIES, "off")) or strategy
    bound = settings.setting("INGLE_MEMORY_LIMIT")
    try:
        limit = read_bytes(bound, "the variable INGLE_MEMORY_LIMIT") if bound else None
    except ArgumentError as error:
        raise SettingError(str(error)) from None
    return Pool(source, "direct" if strategy == "off" else strategy, limit)
