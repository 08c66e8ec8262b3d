"""What is natural to write, and no function: `ingle.tensor([1, 2])`, `it.tensor([1, 2])`, `it.cat`.

The modules answer what to call.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn


class NoFunction(ModuleType):
    """The class of the module `ingle.tensor.tensor`, which PyTorch's programs call."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"{self.__name__} is a module, not a function; "
            "make a tensor with ingle.tensor.asarray([1, 2])"
        )

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By its name. Libraries that ship functions know this of plain modules only."""
        return importlib.import_module, (self.__name__,)


class TensorModule(NoFunction):
    """The class of the module `ingle.tensor`."""

    def __getattr__(self, name: str) -> NoReturn:
        from .pytorch_names import missing

        missing(name)


sys.modules["ingle.tensor"].__class__ = TensorModule
importlib.import_module("ingle.tensor.tensor").__class__ = NoFunction
