"""Packages that import what they export when one of its names is first asked for.

Finding plugins and devices imports a module of each package that is installed, and with it the
package itself, for programs that use little of it. The package's file `names` has its exports, one
explicit line each, and its `__init__` says so to type checkers and to Python:

    if TYPE_CHECKING:
        from .names import *
    else:
        late_names(__name__)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .late_imports import load
from .other_names import Answering


class LateNames(Answering):
    """The class of modules that have their names when the first of them is asked for."""

    def __getattr__(self, name: str) -> Any:
        # Python and its tools ask modules for names of their own, which none of ours is.
        if name == "__all__" or not name.startswith("__"):
            exported = _exported(self.__name__)
            if name == "__all__":
                return sorted(exported)
            if name in exported:
                vars(self).update(exported)
                return exported[name]
            if name in vars(self):  # a module of the package that the others have imported
                return vars(self)[name]
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_exported(self.__name__)})


def _exported(package: str) -> dict[str, Any]:
    found = vars(load(f"{package}.names"))
    return {name: value for name, value in found.items() if not name.startswith("_")}


def exporting(module: ModuleType) -> ModuleType:
    """The module whose lines list what a module exports: itself, or its `names`.

    >>> from ingle import fusion, nn
    >>> exporting(fusion).__name__, exporting(nn).__name__
    ('ingle.fusion.names', 'ingle.nn')
    """
    return load(f"{module.__name__}.names") if isinstance(module, LateNames) else module


def late_names(package: str) -> None:
    """Lets a package import its module `names`, and export what that has, when it is first used.

    A name that a module of the package has too would be that module until then: there is none.

    Args:
        package: its name, `__name__` in its `__init__`.

    >>> import ingle.tensor.late_names as here
    >>> from types import ModuleType
    >>> import sys
    >>> sys.modules["shop"] = shop = ModuleType("shop")
    >>> here.late_names("shop")
    >>> sys.modules["shop.names"] = ModuleType("shop.names")
    >>> sys.modules["shop.names"].price = 3
    >>> shop.price, shop.__all__
    (3, ['price'])
    >>> del sys.modules["shop"], sys.modules["shop.names"]
    """
    sys.modules[package].__class__ = LateNames
