"""Methods of modules by PyTorch's names, for programs that are moved over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError
from ingle.tensor.other_names import let_properties_raise

from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from .module import Module

P = TypeVar("P", bound="PyTorchMethods")

INSTEAD = {
    "type": 'model.to(dtype="float64")',
    **dict.fromkeys(("cpu", "cuda", "ipu", "mtia", "xpu"), 'model.to("cuda")'),
    "compile": "ingle.fusion.compile(model)",
    "set_submodule": "model.name = module",
    "zero_grad": "leave it out; nothing accumulates",
    **dict.fromkeys(
        ("get_extra_state", "set_extra_state"), 'nn.save(path, {"model": model, "extra": value})'
    ),
    "to_empty": "model.to(device)",
}
"""What to write for PyTorch's methods of modules that are missing here."""

KERAS = {
    "fit": "train.Learner(model, optimizer, loss).fit(loader, epochs=5)",
    "evaluate": "train.Learner(model, optimizer, loss).evaluate(loader)",
    "predict": "model.eval()(x), with autodiff.no_grad()",
    **dict.fromkeys(("save", "save_weights"), "nn.save(path, model)"),
    "load_weights": "nn.load(path, model)",
}
"""What to write for methods of Keras's models."""


class PyTorchMethods:
    """What assigning an attribute, `to` and `named_modules` do, as PyTorch spells it."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            let_properties_raise(self, name)
            raise AttributeError(missing(self, name), name=name, obj=self)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """`self.name = Buffer(tensor, persistent)`; None leaves the place empty.

        >>> import ingle.tensor as it
        >>> from ingle import nn
        >>> class Shift(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.register_buffer("by", it.ones(2))
        >>> list(Shift().state_dict())
        ['by']
        """
        _checked("register_buffer", name)
        setattr(self, name, None if tensor is None else Buffer(tensor, persistent))

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """`self.name = param`."""
        _checked("register_parameter", name)
        setattr(self, name, param)

    def register_module(self, name: str, module: Module | None) -> None:
        """`self.name = module`."""
        _checked("register_module", name)
        setattr(self, name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """`self.name = module`."""
        _checked("add_module", name)
        setattr(self, name, module)

    def get_submodule(self, target: str) -> Any:
        """The module at a path; the empty path is this one.

        Raises:
            ArgumentError: there is none.
        """
        found = dict(self.named_modules(remove_duplicate=False))  # type: ignore[attr-defined]
        return _at("get_submodule", self, target, found)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path.

        Raises:
            ArgumentError: there is none.
        """
        found = dict(self.named_parameters(remove_duplicate=False))  # type: ignore[attr-defined]
        parameter: Parameter = _at("get_parameter", self, target, found)
        return parameter

    def get_buffer(self, target: str) -> Buffer:
        """The buffer at a path.

        Raises:
            ArgumentError: there is none.
        """
        found = dict(self.named_buffers(remove_duplicate=False))  # type: ignore[attr-defined]
        buffer: Buffer = _at("get_buffer", self, target, found)
        return buffer

    def requires_grad_(self: P, requires_grad: bool = True) -> P:
        """`unfreeze()`, or `freeze()` if False."""
        self.unfreeze() if requires_grad else self.freeze()  # type: ignore[attr-defined]
        return self

    def float(self: P) -> P:
        """`to(dtype="float32")`."""
        return self._cast("float32")

    def double(self: P) -> P:
        """`to(dtype="float64")`."""
        return self._cast("float64")

    def half(self: P) -> P:
        """`to(dtype="float16")`."""
        return self._cast("float16")

    def bfloat16(self: P) -> P:
        """`to(dtype="bfloat16")`."""
        return self._cast("bfloat16")

    def _cast(self: P, dtype: str) -> P:
        moved: P = self.to(dtype=dtype)  # type: ignore[attr-defined]
        return moved


def missing(module: object, name: str) -> str:
    """Says that a module has no such attribute, and what stands for another library's."""
    said = f"{type(module).__name__} has no attribute {name!r}"
    for library, instead in (("PyTorch", INSTEAD), ("Keras", KERAS)):
        if name in instead:
            return f"{said}, as it has in {library}; here: {instead[name]}"
    return said


def _checked(method: str, name: object) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise ArgumentError(f"{method}: a name is a string without dots, got {name!r}")


def _at(method: str, module: object, target: str, found: dict[str, Any]) -> Any:
    if target not in found:
        known = ", ".join(path for path in list(found)[:8] if path) or "none"
        raise ArgumentError(
            f"{type(module).__name__}.{method}: there is no {target!r}; there are {known}"
        )
    return found[target]
