"""Hooks on the modules of a model by path."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from ingle.tensor.errors import ArgumentError

from .hooks import Handle
from .module import Module

Seen = Callable[[str, Module, tuple[Any, ...], Any], Any]


class Handles:
    """Several handles as one: `remove()`, or the end of a `with` block, takes all hooks away."""

    def __init__(self, handles: list[Handle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Handles:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_hooks(model: Module, hook: Seen, *paths: str) -> Handles:
    """Calls `hook(path, module, args, output)` behind the `forward` of modules by path.

    Args:
        model: holds the modules.
        hook: what it returns is the output, unless None.
        paths: globs of paths, such as `"encoder.*"`; all modules without others below if none.

    Raises:
        ArgumentError: a glob names no module.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model, seen = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), {}
    >>> with nn.register_hooks(model, lambda path, m, args, y: seen.update({path: y.shape})):
    ...     y = model(it.ones((5, 2)))
    >>> seen
    {'0': (5, 3), '1': (5, 3)}
    """
    modules = dict(model.named_modules())
    chosen = [p for p, m in modules.items() if not paths and next(m.children(), None) is None]
    for glob in paths:
        found = [path for path in modules if fnmatchcase(path, glob)]
        if not found:
            known = ", ".join(list(modules)[1:9]) or "none"
            raise ArgumentError(
                f"register_hooks: no module's path matches {glob!r}; there are for example {known}"
            )
        chosen += [path for path in found if path not in chosen]

    def attached(path: str) -> Handle:
        return modules[path].register_forward_hook(
            lambda module, args, output: hook(path, module, args, output)
        )

    return Handles([attached(path) for path in chosen])
