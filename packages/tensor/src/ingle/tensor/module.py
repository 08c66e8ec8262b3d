"""What is natural to write, and no function: `ingle.tensor([1, 2])`, `it.cell(0)`, `it.cat`.

The modules answer what to call.
"""

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn


class NoFunction(ModuleType):
    """The class of `ingle.tensor.tensor` and `ingle.tensor.cell`, which programs call."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        meant = (
            "a cell with ingle.tensor.Cell(value)"
            if self.__name__ == "ingle.tensor.cell"
            else "a tensor with ingle.tensor.asarray([1, 2])"
        )
        raise TypeError(f"{self.__name__} is a module, not a function; make {meant}")

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By its name. Libraries that ship functions know this of plain modules only."""
        return importlib.import_module, (self.__name__,)


class TensorModule(NoFunction):
    """The class of the module `ingle.tensor`."""

    def __getattr__(self, name: str) -> NoReturn:
        # Imports ask for modules of the package before they load them: advice would take longer.
        if not name.startswith("_") and find_spec(f"{self.__name__}.{name}") is not None:
            raise AttributeError(
                f"{self.__name__} has no attribute {name!r}; import the module "
                f"{self.__name__}.{name}",
                name=name,
            )
        from .pytorch_names import missing

        missing(name)


sys.modules["ingle.tensor"].__class__ = TensorModule
for _called in ("cell", "tensor"):
    importlib.import_module(f"ingle.tensor.{_called}").__class__ = NoFunction
