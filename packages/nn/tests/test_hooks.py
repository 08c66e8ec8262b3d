"""Forward hooks as in PyTorch, lists and dicts of parameters, and the search for the first NaN."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.autodiff import checkpoint
from ingle.fusion import compile
from ingle.tensor.contract import Aval
from ingle.tensor.dispatch import wrap
from ingle.tensor.errors import AnomalyError, OperandError
from ingle.tensor.programs import trace

torch = pytest.importorskip("torch")


def both(use: Any) -> None:
    """Runs a program of hooks on a layer that doubles, here and in PyTorch, and compares notes."""

    def doubling(base: Any) -> Any:
        class Doubling(base):  # type: ignore[misc]
            def forward(self, x: Any, scale: float = 2.0) -> Any:
                if scale == 0:
                    raise ValueError("scale")
                return x * scale

        return Doubling()

    notes: list[list[Any]] = [[], []]
    use(doubling(nn.Module), it.asarray([1.0, 2.0]), notes[0])
    use(doubling(torch.nn.Module), torch.tensor([1.0, 2.0]), notes[1])
    assert notes[0] == notes[1]
    assert notes[0]


def test_what_hooks_see_and_change() -> None:
    def program(layer: Any, x: Any, notes: list[Any]) -> None:
        def note(name: str, result: Any = None) -> Any:
            def hook(module: Any, *seen: Any) -> Any:
                shown = [s.tolist() if hasattr(s, "tolist") else [repr(type(s))] for s in seen]
                notes.append((name, module is layer, shown))
                return result(*seen) if result is not None else None

            return hook

        layer.register_forward_pre_hook(note("before"))
        layer.register_forward_pre_hook(note("arguments", lambda a: a[0] + 1))
        layer.register_forward_pre_hook(note("tuple", lambda a: (a[0] * 10,)), prepend=True)
        layer.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {**kwargs, "scale": 3.0}), with_kwargs=True
        )
        layer.register_forward_hook(note("behind"))
        changed = layer.register_forward_hook(note("output", lambda a, y: y - 100))
        layer.register_forward_hook(note("first", lambda a, y: y * 2), prepend=True)
        layer.register_forward_hook(note("kwargs"), with_kwargs=True)
        notes.append(layer(x).tolist())
        changed.remove()
        changed.remove()
        notes.append(layer(x, scale=5.0).tolist())
        notes.append(copy.deepcopy(layer)(x).tolist())

    both(program)


def test_hooks_of_a_forward_that_raises() -> None:
    def program(layer: Any, x: Any, notes: list[Any]) -> None:
        layer.register_forward_hook(lambda m, a, y: notes.append("not called"))
        layer.register_forward_hook(lambda m, a, y: notes.append(y is None), always_call=True)
        with pytest.raises(ValueError, match="scale"):
            layer(x, scale=0)
        with layer.register_forward_hook(lambda m, a, y: notes.append("once")):
            layer(x)
        layer(x)

    both(program)


def test_hooks_count_in_compiled_functions_and_in_checkpoints() -> None:
    layer, x = nn.Linear(2, 2), it.ones(2)
    call = compile(lambda x: layer(x))
    plain = [call(x).tolist() for _ in range(3)][-1]
    with layer.register_forward_hook(lambda m, a, y: y + 1):
        changed = [call(x).tolist() for _ in range(3)]
    np.testing.assert_allclose(changed, [np.add(plain, 1)] * 3, rtol=1e-6)
    assert call(x).tolist() == plain
    layer.checkpointed = True
    seen: list[Any] = []
    layer.register_forward_hook(lambda m, a, y: seen.append(y.shape))
    assert checkpoint(layer)(x).sum().backward()[layer.bias].tolist() == [1.0, 1.0]
    assert set(seen) == {(2,)}
    with pytest.raises(OperandError, match="function"):
        layer.register_forward_hook(3)  # type: ignore[arg-type]


def test_lists_and_dicts_of_parameters() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.row = nn.ParameterList([it.ones(2), nn.Parameter([3.0])])
            self.named = nn.ParameterDict({"a": it.zeros(1)})

    model = Model()
    model.row.append(it.ones(3))
    model.named["keys"] = nn.Parameter(it.ones(4))
    names = ["row.0", "row.1", "row.2", "named.a", "named.keys"]
    assert [n for n, _ in model.named_parameters()] == names == list(model.state_dict())
    assert [p.shape for p in model.row] == [(2,), (1,), (3,)]
    assert model.row[-1] is model.row[2]
    assert [p.shape for p in model.row[1:]] == [(1,), (3,)]
    assert (len(model.named), "keys" in model.named) == (2, True)
    del model.row[0]
    assert [n for n, _ in model.row.named_parameters()] == ["0", "1"]
    optimizer = optim.SGD(model, lr=1.0)
    optimizer.backward_step((model.row[0] * 2.0).sum() + model.named["a"].sum())
    assert (model.row[0].tolist(), model.named["a"].tolist()) == ([1.0], [-1.0])
    again = Model()
    del again.row[0]
    again.row.append(it.zeros(3))
    found = again.load_state_dict(model.state_dict(), strict=False)
    assert found == ([], ["named.keys"])
    assert again.named.a.tolist() == [-1.0]
    for bad in (nn.Linear(2, 2), 3, "a"):
        with pytest.raises(OperandError, match="must be a Parameter or a tensor"):
            model.row.append(bad)
    with pytest.raises(OperandError, match=r"named\.value|a\.value"):
        model.named.a = it.zeros(1)
    with pytest.raises(KeyError, match="no parameter 'b'"):
        model.named["b"]
    assert "keys: float32[4]" in repr(model)


class Rooted(nn.Module):
    """Its second step is the root of what may be 0 or negative."""

    def forward(self, x: Any) -> Any:
        return it.sqrt(x) + 1.0


def test_the_first_nan_is_named_forward() -> None:
    model = nn.Sequential({"first": nn.Linear(2, 2), "root": Rooted(), "last": nn.Linear(2, 1)})
    model.first.weight.value, model.first.bias.value = it.eye(2), it.zeros(2)
    x = it.asarray([[1.0, -4.0]])
    with it.anomaly():
        assert model(-x * x + 20).shape == (1, 1)
        with pytest.raises(AnomalyError) as caught:
            model(x)
    told = str(caught.value)
    assert told.startswith("sqrt: 1 of 2 elements of the result (float32, shape (1, 2)) are NaN")
    assert "is between -4 and 1, in 'root' of Sequential (Rooted), at " in told
    assert "test_hooks.py:" in told
    assert "return it.sqrt(x) + 1.0" in told
    assert np.isnan(model(x).item())


@pytest.mark.parametrize("compiled", [False, True])
def test_the_first_nan_is_named_backward(compiled: bool) -> None:
    model = nn.Sequential(nn.Linear(2, 2), Rooted())
    model[0].weight.value, model[0].bias.value = it.zeros((2, 2)), it.zeros(2)

    def gradient(x: Any) -> Any:
        # The root's slope at 0 is infinite, and times 0 it is NaN.
        return (model(x) * 0.0).sum().backward()[model[0].bias]

    run = compile(gradient) if compiled else gradient
    for _ in range(3):
        assert np.isnan(run(it.ones((1, 2))).numpy()).all()
    with it.anomaly(), pytest.raises(AnomalyError) as caught:
        run(it.ones((1, 2)))
    first, second = str(caught.value).splitlines()
    assert "are NaN" in first
    assert second.startswith(
        "This is the backward pass of sqrt, in '1' of Sequential (Rooted), at "
    )
    with it.anomaly(infinite=True), pytest.raises(AnomalyError, match="NaN or infinite"):
        run(it.ones((1, 2)))
    assert np.isnan(run(it.ones((1, 2))).numpy()).all()


@pytest.mark.parametrize("kind", ["scan", "while_loop", "cond"])
def test_the_operation_in_a_program_is_named_not_the_loop(kind: str) -> None:
    def written(x: Any) -> Any:
        if kind == "scan":
            return it.scan(lambda c, v: (c + v, it.log(v) * 2.0), it.asarray(0.0), x)[1]
        if kind == "while_loop":
            begun = x, it.asarray(0)
            return it.while_loop(lambda c: c[1] < 3, lambda c: (it.log(c[0]), c[1] + 1), begun)[0]
        return it.cond(it.sum(x) < 9.0, lambda: it.log(x) * 2.0, lambda: x)

    traced = trace(written, [Aval((3,), it.float32)])
    given = [it.asarray([1.0, -3.0, 2.0]), *map(wrap, traced.closed)]
    with it.anomaly(), pytest.raises(AnomalyError, match=r"^log: 1 of") as caught:
        traced.program.run(*given)
    assert kind == "cond" or str(caught.value).endswith(f"This is a step of {kind}")


def test_nothing_is_watched_behind_the_block() -> None:
    with it.anomaly(), it.anomaly():
        assert it.asarray([1, 2]).sum().item() == 3
        assert it.cond(it.asarray(True), lambda: it.ones(2), lambda: it.zeros(2)).tolist() == [1, 1]
        x = it.asarray([1.0, 2.0])
        assert it.scan(lambda c, v: (c + v, c * v), it.asarray(0.0), x)[0].item() == 3.0
    assert np.isnan(it.log(it.asarray(-1.0)).item())
