"""The routers of this process as plugins: `router:1` is found by name like any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingle.tensor import plugins
from ingle.tensor.errors import ArgumentError
from ingle.tensor.hooks import hookimpl

if TYPE_CHECKING:
    from .router import Router

_routers: dict[str, Router] = {}


class _Plugin:
    """Tells discovery of one router."""

    def __init__(self, name: str) -> None:
        self._name = name

    @hookimpl
    def ingle_backends(self) -> dict[str, str]:
        return {self._name: f"{__name__}:{self._name}"}


def __getattr__(name: str) -> Any:
    """The description of a router, which discovery asks for by its name."""
    found = _routers.get(name)
    if found is None:
        raise AttributeError(f"no router named {name!r} is open")
    return found.description


def install(router: Router) -> None:
    """Makes the devices of a router known.

    Raises:
        ArgumentError: the name is none, or some backend has it.
    """
    name = router.name
    if not name.isidentifier() or name.startswith("_") or name in globals():
        raise ArgumentError(
            f"Router: name={name!r} must be letters, digits and underscores, such as 'router'"
        )
    if name in plugins.discover().backends:
        what = "a router of this name is open: close() it" if name in _routers else "it is taken"
        raise ArgumentError(
            f"Router: there is a backend named {name!r} ({what}); give another name="
        )
    _routers[name] = router
    plugins.register(name, _Plugin(name))


def uninstall(router: Router) -> None:
    """Forgets the devices of a router; tensors that are on them stay what they are."""
    if _routers.get(router.name) is router:
        plugins.unregister(router.name)
        del _routers[router.name]
