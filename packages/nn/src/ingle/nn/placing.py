"""A module in the place of another."""

from __future__ import annotations

from typing import Any, TypeVar

from .module import Module

M = TypeVar("M", bound=Module)


def replace(model: M, path: str, layer: Module) -> M:
    """Puts a module at a path; returns the model, or the module where the path is empty."""
    if not path:
        return layer  # type: ignore[return-value]
    *above, name = path.split(".")
    holder: Any = model
    for step in above:
        holder = dict(holder._registered())[step]
    if name in vars(holder):
        setattr(holder, name, layer)
    else:
        holder._put(name, layer)
    return model
