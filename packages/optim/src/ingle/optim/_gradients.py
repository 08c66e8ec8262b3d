"""What is taken for a loss and for gradients, and what to write in place of anything else."""

from __future__ import annotations

from collections.abc import Iterable

from ingle.nn import Module, Parameter
from ingle.tensor import Gradients, Tensor
from ingle.tensor.errors import OperandError


def require_gradients(name: str, grads: object, call: str, given: str = "loss") -> None:
    """Refuses what are no gradients by an `OperandError` that says how `call` is written.

    Args:
        name: the function that was called.
        grads: what it was given.
        call: it, with `{}` where the gradients go.
        given: the loss whose `backward` makes them.
    """
    if isinstance(grads, Gradients):
        return
    made = f"{given}.backward()"
    cure = f"write {call.format(made)}"
    if isinstance(grads, tuple) and grads and isinstance(grads[0], Gradients):
        cure = (
            "clip_grad_norm returns gradients and their norm: write "
            f"grads, norm = clip_grad_norm({made}, max_norm) and {call.format('grads')}"
        )
    elif _parameters(grads):
        cure = f"parameters carry no gradients here, backward returns them: {cure}"
    got = "nothing" if grads is None else type(grads).__name__
    raise OperandError(f"{name}: expected the gradients that {made} returns, got {got}; {cure}")


def require_loss(name: str, loss: object) -> None:
    """Refuses what has no `backward`, by an `OperandError` that says what has."""
    if isinstance(loss, Tensor):
        return
    cure = "give the tensor, without float() or .item()"
    if callable(loss):
        cure = "call it, and give what it returns"
    raise OperandError(f"{name}: expected a loss, a tensor, got {type(loss).__name__}; {cure}")


def _parameters(value: object) -> bool:
    """Whether these are what PyTorch's functions of gradients take."""
    if isinstance(value, Module | Parameter):
        return True
    listed = isinstance(value, Iterable) and not isinstance(value, Tensor)
    return listed and any(isinstance(v, Parameter) for v in value)  # type: ignore[attr-defined]
