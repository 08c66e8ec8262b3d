"""`torch.nn.functional` by its name, for programs that are moved over: `ingle.tensor` once more,
with activations that take PyTorch's `inplace`, which changes nothing: use what is returned.

>>> import ingle.nn.functional as F
>>> import ingle.tensor as it
>>> F.softmax is it.softmax
True
>>> F.relu(it.asarray([-1.0, 2.0]), inplace=True).tolist()
[0.0, 2.0]
"""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ingle.tensor

_IN_PLACE = (
    "celu", "dropout", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu",
    "relu6", "selu", "silu", "threshold",
)  # fmt: skip


def _with_inplace(function: Callable[..., Any]) -> Callable[..., Any]:
    """An activation that takes `inplace` behind its other arguments, by name or position."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    before = len([kind for kind in kinds if kind is not inspect.Parameter.KEYWORD_ONLY])
    before += function.__name__ == "dropout"  # whose `training` goes by position, too

    @functools.wraps(function)
    def call(*args: Any, inplace: bool = False, **options: Any) -> Any:
        if len(args) == before + 1 and isinstance(args[-1], bool):
            args = args[:before]
        return function(*args, **options)

    return call


if TYPE_CHECKING:
    from ingle.tensor import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        found = getattr(ingle.tensor, name)
        if name in _IN_PLACE:
            found = globals()[name] = _with_inplace(found)
        return found
