"""`ingle.tensor([1, 2])` is a natural mistake: the module answers what to call instead."""

import sys
from types import ModuleType
from typing import NoReturn


class TensorModule(ModuleType):
    """The class of the module `ingle.tensor`."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"{self.__name__} is a module, not a function; "
            "make a tensor with ingle.tensor.asarray([1, 2])"
        )


sys.modules["ingle.tensor"].__class__ = TensorModule
