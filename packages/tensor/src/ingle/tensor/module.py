"""`ingle.tensor([1, 2])` and `ingle.tensor.cat` are natural: the module answers what to call."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn


class TensorModule(ModuleType):
    """The class of the module `ingle.tensor`."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"{self.__name__} is a module, not a function; "
            "make a tensor with ingle.tensor.asarray([1, 2])"
        )

    def __getattr__(self, name: str) -> NoReturn:
        from .pytorch_names import missing

        missing(name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By its name. Libraries that ship functions know this of plain modules only."""
        return importlib.import_module, (self.__name__,)


sys.modules["ingle.tensor"].__class__ = TensorModule
