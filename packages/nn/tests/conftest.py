"""Comparing a module with PyTorch's of the same name: state, output and every gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn

Parity = Callable[..., tuple[nn.Module, Any]]


def leaves(value: Any) -> Iterator[Any]:
    """The tensors in nested tuples, in order; None is left out."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from leaves(part)
    elif value is not None:
        yield value


def _array(value: Any) -> np.ndarray:
    found: np.ndarray = (value.detach() if hasattr(value, "detach") else value).numpy()
    return found


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(v, function) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(v, function) for k, v in value.items()}
    return function(value) if isinstance(value, np.ndarray) else value


def _drawn(value: Any, rng: np.random.Generator) -> Any:
    """Shapes, which are tuples of integers, as normal values; a list of them as a tuple."""
    if isinstance(value, list):
        return tuple(_drawn(v, rng) for v in value)
    if isinstance(value, tuple):
        return rng.normal(size=value)
    return value


def compare(ours: Any, theirs: Any, rtol: float, what: str) -> None:
    """The same values and shapes in the same places."""
    got, expected = list(leaves(ours)), list(leaves(theirs))
    assert len(got) == len(expected), what
    for mine, torchs in zip(got, expected, strict=True):
        assert tuple(mine.shape) == tuple(torchs.shape), what
        np.testing.assert_allclose(
            _array(mine), _array(torchs), rtol=rtol, atol=rtol * 10, err_msg=what
        )


def take_state(ours: nn.Module, theirs: Any, rng: np.random.Generator) -> None:
    """Random values for all parameters of PyTorch's module, and then for ours by name."""
    torch = pytest.importorskip("torch")
    for parameter in theirs.parameters():
        parameter.data = torch.tensor(rng.normal(size=tuple(parameter.shape)) * 0.5)
    theirs.double()
    given = theirs.state_dict()
    assert list(ours.state_dict()) == list(given)
    ours.to(dtype="float64").load_state_dict(given)


def check_parity(
    name: str, *args: Any, inputs: list[Any], call: dict[str, Any] | None = None,
    train: bool = True, rtol: float = 1e-9, differentiable: bool = True, torchs: Any = None,
    **options: Any,
) -> tuple[nn.Module, Any]:  # fmt: skip
    """Makes both modules with the same arguments, copies the weights, and compares.

    `inputs` are shapes of random float64 values, lists of shapes for tuples, or arrays as they are.
    """
    torch = pytest.importorskip("torch")
    ours = getattr(nn, name)(*args, **_mapped(options, it.asarray))
    theirs = (torchs or getattr(torch.nn, name))(*args, **_mapped(options, torch.tensor))
    rng = np.random.default_rng(len(name) + len(inputs))
    take_state(ours, theirs, rng)
    ours.train(train)
    theirs.train(train)
    drawn = [_drawn(value, rng) for value in inputs]
    call = call or {}

    def mine_of(value: Any, given: Any) -> Any:
        if isinstance(given, list):
            return tuple(mine_of(v, g) for v, g in zip(value, given, strict=True))
        if not isinstance(value, np.ndarray):
            return value
        x = it.asarray(value)
        return x.require_grad() if differentiable and isinstance(given, tuple) else x

    def torchs_of(value: Any, given: Any) -> Any:
        if isinstance(given, list):
            return tuple(torchs_of(v, g) for v, g in zip(value, given, strict=True))
        if not isinstance(value, np.ndarray):
            return value
        return torch.tensor(value, requires_grad=differentiable and isinstance(given, tuple))

    mine = [mine_of(v, g) for v, g in zip(drawn, inputs, strict=True)]
    given = [torchs_of(v, g) for v, g in zip(drawn, inputs, strict=True)]
    out = ours(*mine, **_mapped(call, it.asarray))
    expected = theirs(*given, **_mapped(call, torch.tensor))
    compare(out, expected, rtol, f"output of {name}")
    if not differentiable:
        return ours, theirs
    total, wanted = 0.0, 0.0
    for o, e in zip(leaves(out), leaves(expected), strict=True):
        if e.requires_grad:
            weights = np.cos(np.arange(e.numel(), dtype=np.float64)).reshape(tuple(e.shape))
            total = total + it.sum(o * it.asarray(weights))
            wanted = wanted + (e * torch.tensor(weights)).sum()
    grads = total.backward()  # type: ignore[attr-defined]
    wanted.backward()  # type: ignore[attr-defined]
    for x, t in zip(leaves(mine), leaves(given), strict=True):
        if t.grad is not None:
            compare(grads[x], t.grad, rtol * 10, f"gradient by an input of {name}")
    parameters = dict(ours.named_parameters())
    for path, parameter in theirs.named_parameters():
        if parameter.grad is not None:
            compare(grads[parameters[path]], parameter.grad, rtol * 10, f"{name}.{path}")
    for path, value in theirs.state_dict().items():
        compare(ours.state_dict()[path], value, rtol, f"{name}.{path} after")
    return ours, theirs


@pytest.fixture(name="parity")
def _parity() -> Parity:
    """`check_parity`, with what it takes."""
    return check_parity
