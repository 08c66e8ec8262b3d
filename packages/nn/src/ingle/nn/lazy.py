"""Layers that learn the size of what comes in from the first thing that does."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Cell, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import OperandError, ShapeError

from . import structure
from .convolution import Conv1d, Conv2d, Conv3d
from .group_normalization import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .linear import Linear
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
    initialize,
    is_initialized,
)
from .transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d


class Lazy(Module):
    """The base of lazy layers; at the first call such a layer becomes an ordinary one, in place.

    Its parameters are there from the beginning, without a shape, so an optimizer may be made before
    the first call. A state that is loaded gives them shapes, too.
    """

    _kind: ClassVar[type[Module]]
    _size: ClassVar[str]
    _axis: ClassVar[int]
    """Which axis of the input has the size, counted from the end where it is negative."""
    _defaults: ClassVar[dict[str, Any]] = {}
    """Of arguments whose defaults are not those of the ordinary layer."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()

        def init(self: Lazy, *args: Any, **options: Any) -> None:
            Lazy.__init__(self, *args, **options)

        # What `help` and editors show: the arguments of the layer without its first.
        own, _, *others = inspect.signature(cls._kind.__init__).parameters.values()
        others = [p.replace(default=cls._defaults.get(p.name, p.default)) for p in others]
        init.__signature__ = inspect.Signature([own, *others])  # type: ignore[attr-defined]
        init.__doc__ = None
        cls.__init__ = init  # type: ignore[method-assign]

    def __init__(self, *args: Any, **options: Any) -> None:
        try:
            bound = inspect.signature(type(self).__init__).bind(self, *args, **options)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        for name, value in self._defaults.items():
            bound.arguments.setdefault(name, value)
        object.__setattr__(self, "_made_with", (bound.args[1:], bound.kwargs))
        for name, value in vars(self._made(bound.arguments.get("groups", 1))).items():
            if isinstance(value, Cell) and value.raw.shape:
                kept: Any = UninitializedParameter if isinstance(value, Parameter) else None
                empty = it.zeros((0,), dtype=value.raw.dtype, device=value.raw.device)
                setattr(self, name, (kept or UninitializedBuffer)(empty))
            elif isinstance(value, Cell) or value is None:
                setattr(self, name, value)

    def _made(self, size: int) -> Module:
        args, options = vars(self)["_made_with"]
        kind: Any = self._kind
        return kind(size, *args, **options)  # type: ignore[no-any-return]

    def has_uninitialized_params(self) -> bool:
        """Whether there are parameters or buffers without a shape."""
        cells = (v for v in vars(self).values() if isinstance(v, (Parameter, Buffer)))
        return any(not is_initialized(cell) for cell in cells)

    def initialize_parameters(self, x: TensorLike) -> None:
        """Gives parameters the shapes that fit an input, and values as any layer's at first.

        Raises:
            ShapeError: the input has too few axes, or does not fit a state that was loaded.
        """
        name, given = type(self).__name__, it.asarray(x)
        if given._handle.base().abstract:
            raise OperandError(
                f"{name}: its sizes are not known yet, and a function that is being compiled "
                "cannot make parameters; call the model once before"
            )
        if not -given.ndim <= self._axis < given.ndim:
            raise ShapeError(f"{name}: x has too few axes, got shape {given.shape}")
        real = self._made(given.shape[self._axis])
        for key, value in vars(real).items():
            cell = vars(self).get(key)
            if isinstance(value, Cell) and isinstance(cell, (Parameter, Buffer)):
                if not is_initialized(cell):
                    initialize(cell, value.raw)
                elif cell.shape != value.raw.shape:
                    raise ShapeError(
                        f"{name}: x of shape {given.shape} needs {key} of shape "
                        f"{value.raw.shape}, and a state of shape {cell.shape} was loaded"
                    )
            elif key not in vars(self):
                object.__setattr__(self, key, value)
        object.__delattr__(self, "_made_with")
        object.__setattr__(self, "__class__", self._kind)
        structure.changed()

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        self.initialize_parameters(args[0])
        out: Tensor = self.forward(*args, **kwargs)  # that of the ordinary layer, which it is now
        return out

    def extra_repr(self) -> str:
        args, options = vars(self)["_made_with"]
        return ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in options.items())])


def _lazy(kind: type[Module], size: str, axis: int, **defaults: Any) -> Any:
    name = f"Lazy{kind.__name__}"
    shape = (2, 3, *[4] * int(name[-2]))
    text = f"""A `{kind.__name__}` whose `{size}` is the size of the first input's axis {axis}.

    The arguments are those of `{kind.__name__}` without `{size}`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.{name}({"8, 2" if size == "in_channels" else ""})
    >>> out = layer(it.ones({shape}))
    >>> type(layer).__name__, layer.{size}
    ('{kind.__name__}', 3)
    """
    space = {
        "__doc__": text, "__module__": __name__, "_kind": kind, "_size": size, "_axis": axis,
        "_defaults": defaults,
    }  # fmt: skip
    return type(name, (Lazy,), space)


class LazyLinear(Lazy):
    """A `Linear` whose `in_features` is the size of the last axis of the first input.

    Args:
        out_features, bias, and what else `Linear` takes behind `in_features`.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> layer = nn.LazyLinear(3)
    >>> layer
    LazyLinear(3)
    >>> layer(it.ones((2, 5))).shape, layer
    ((2, 3), Linear(in_features=5, out_features=3, bias=True))
    """

    _kind, _size, _axis = Linear, "in_features", -1


LazyConv1d = _lazy(Conv1d, "in_channels", -2)
LazyConv2d = _lazy(Conv2d, "in_channels", -3)
LazyConv3d = _lazy(Conv3d, "in_channels", -4)
LazyConvTranspose1d = _lazy(ConvTranspose1d, "in_channels", -2)
LazyConvTranspose2d = _lazy(ConvTranspose2d, "in_channels", -3)
LazyConvTranspose3d = _lazy(ConvTranspose3d, "in_channels", -4)
LazyBatchNorm1d = _lazy(BatchNorm1d, "num_features", 1)
LazyBatchNorm2d = _lazy(BatchNorm2d, "num_features", 1)
LazyBatchNorm3d = _lazy(BatchNorm3d, "num_features", 1)
_WHOLE = {"affine": True, "track_running_stats": True}
"""What lazy instance norms are unless told otherwise, in PyTorch as well."""
LazyInstanceNorm1d = _lazy(InstanceNorm1d, "num_features", -2, **_WHOLE)
LazyInstanceNorm2d = _lazy(InstanceNorm2d, "num_features", -3, **_WHOLE)
LazyInstanceNorm3d = _lazy(InstanceNorm3d, "num_features", -4, **_WHOLE)
