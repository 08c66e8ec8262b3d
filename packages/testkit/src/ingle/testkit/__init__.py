"""The compliance suite for backends: a class to derive from and a pytest plugin."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contract import BackendContract as BackendContract
    from .contract import overrides as overrides


def __getattr__(name: str) -> object:
    # Lazy, because every run of pytest imports this package for its plugin: the plugin must come
    # first, to have assertions in the contract rewritten, and must not cost other suites anything.
    if name in ("BackendContract", "overrides"):
        from . import contract

        return getattr(contract, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
