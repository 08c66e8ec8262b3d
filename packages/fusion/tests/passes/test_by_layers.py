"""Passes over a few of many layers make, number by number, what they make of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layer_models import Block, Residual

import ingle.tensor as it
from ingle import nn, optim
from ingle.autodiff import grad
from ingle.fusion import compile, pipeline
from ingle.fusion.runtime import graph_plans
from ingle.fusion.symbolic.families import Families, Family
from ingle.fusion.symbolic.first_graphs import FirstGraphs

from .layered_graphs import checked, recorded

LAYERS = 20


MODELS: dict[str, tuple[Callable[[], list[Any]], tuple[int, ...], Any]] = {
    "transformer": (lambda: [Block(8, wider=2)], (2, 4, 8), optim.AdamW),
    "residual": (lambda: [Residual(4)], (2, 4, 8, 8), optim.AdamW),
    "random": (
        lambda: [nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(8)],
        (4, 8),
        optim.SGD,
    ),
    "many rows": (lambda: [nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()], (300, 8), optim.SGD),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_steps_of_training(name: str) -> None:
    """The forward pass, the gradient in the other direction, and the updates of parameters."""
    make, shape, rule = MODELS[name]
    with it.device("cpu"):
        model = nn.Sequential(*[layer for _ in range(LAYERS) for layer in make()])
        optimizer = rule(model, lr=1e-3)
        x = it.ones(shape)
        assert all(np.isfinite(p.value.numpy()).all() for p in model.parameters())

    def step(x: it.Tensor) -> it.Tensor:
        y = model(x)
        loss = it.mean(y * y)
        optimizer.step(loss.backward())
        return loss.detach()

    decomposed, others = checked(*recorded(step, x))
    assert (decomposed, others) == (True, True)


def stacked(body: Callable[..., it.Tensor], layers: int = 24, inner: int = 6) -> Any:
    """A function of x and a weight for each layer; `body` gets x, the layer and all weights."""
    weights = np.random.default_rng(5).normal(size=(layers, inner, inner)).astype(np.float32)

    def run(x: it.Tensor, *w: it.Tensor) -> Any:
        kept: list[it.Tensor] = []
        for layer in range(layers):
            x = body(x, layer, w, kept)
            for _ in range(2):
                x = it.tanh(x * 0.5) + it.softmax(x, axis=-1) / 3.0
                x = it.concat([x[:, 1:], x[:, :1]], axis=1)
        return [x, *kept]

    with it.device("cpu"):
        return run, [it.ones((3, inner)), *[it.asarray(m) for m in weights]]


def plain(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[layer]


def all_kept(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    kept.append(x)
    return x @ w[layer]


def neighbours(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    """A layer takes the weight of the next one, too."""
    return x @ (w[layer] + w[min(layer + 1, len(w) - 1)])


def of_before(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    """A layer takes what the one before the last has made."""
    before = kept[-2] if len(kept) > 1 else x
    kept.append(x @ w[layer] + before)
    return kept[-1]


def shared(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[0]


def tied(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[10 if layer == 11 else layer]


def repeated_weight(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[3 if layer == 15 else layer]


def in_pairs(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[layer // 2]


def other_number(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[layer] * (0.25 if layer == 12 else 0.75)


def numbers(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return x @ w[layer] * (1.0 + layer)


def divided(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return it.mean(x @ w[layer], axis=0, keepdims=True) / (2.0 + layer % 2) + x


def other_operation(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return (it.sin if layer == 12 else it.cos)(x @ w[layer])


def other_type(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    if layer == 12:
        return (x.astype("float64") @ w[layer].astype("float64")).astype("float32")
    return x @ w[layer]


def other_shape(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    return it.concat([x, x], axis=0)[:3] @ w[layer] if layer == 12 else x @ w[layer]


def one_kept(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    if layer == 12:
        kept.append(x)
    return x @ w[layer]


def one_read_later(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    if layer == 12:
        kept.append(x)
    return x @ w[layer] + (it.exp(kept.pop()) if layer == 20 else 0.0)


def indexed(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    """Indices that may be out of range."""
    places = it.astype(it.sum(x, axis=1), "int64") % 3
    return it.take(x @ w[layer], places, axis=0)


def weight_read_apart(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    if layer == 23:
        x = x + it.sum(it.stack([it.sum(m * m) for m in w]))
    return x @ w[layer]


def there_and_back(x: it.Tensor, layer: int, w: Any, kept: Any) -> it.Tensor:
    """What the first half has made is taken by the second in the other order."""
    if layer < 12:
        kept.append(x)
        return x @ w[layer]
    return x @ w[layer] + kept.pop()


BY_LAYERS = plain, neighbours, shared, divided
OTHERS = (
    all_kept, of_before, tied, repeated_weight, in_pairs, other_number, numbers, other_operation,
    other_type, other_shape, one_kept, one_read_later, indexed, weight_read_apart, there_and_back,
)  # fmt: skip


@pytest.mark.sampled(4, slow=1)
@pytest.mark.parametrize("body", [*BY_LAYERS, *OTHERS], ids=lambda body: body.__name__)
@pytest.mark.parametrize("with_gradient", [False, True])
def test_irregular_layers(body: Callable[..., it.Tensor], with_gradient: bool) -> None:
    run, args = stacked(body)

    def slopes(*args: it.Tensor) -> Any:
        def loss(*args: it.Tensor) -> it.Tensor:
            return sum([it.sum(y) for y in run(*args)], it.asarray(0.0))

        return grad(loss, argnums=tuple(range(len(args))))(*args)

    decomposed, _ = checked(*recorded(slopes if with_gradient else run, *args))
    if body in BY_LAYERS:
        assert decomposed


def test_layers_of_few_operations() -> None:
    """In a few of them no layers would be found again."""

    def run(x: it.Tensor, *w: it.Tensor) -> it.Tensor:
        for weight in w:
            x = it.tanh(x @ weight)
        return x

    with it.device("cpu"):
        weights = [it.ones((4, 4)) for _ in range(130)]
        assert checked(*recorded(run, it.ones((3, 4)), *weights)) == (True, True)


def test_plans_are_made_by_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are those of the plan of the whole graph, to the bit."""
    monkeypatch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
    monkeypatch.setattr(pipeline, "first_graphs_of", lambda device: Families(FirstGraphs))
    monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
    run, args = stacked(plain)
    seen: list[bool] = []
    own = pipeline._by_layers

    def noting(*args: Any) -> Any:
        made = own(*args)
        seen.append(made is not None)
        return made

    monkeypatch.setattr(pipeline, "_by_layers", noting)
    with it.device("cpu"):
        now = compile(run)(*args)[0].numpy()
        monkeypatch.setattr(pipeline, "recorded_layers", lambda graph, legality: None)
        whole = compile(lambda *args: run(*args))(*args)[0].numpy()
    assert seen == [True]
    np.testing.assert_array_equal(now, whole)


def test_the_first_graph_of_layers_is_an_example_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whose plan is for all sizes when the third one comes, as of graphs without layers."""
    first, families = Families(FirstGraphs), Families(Family)
    monkeypatch.setattr(pipeline, "first_graphs_of", lambda device: first)
    monkeypatch.setattr(pipeline, "families_of", lambda device: families)
    for name in ("_sequence", "_scheduled"):
        monkeypatch.setattr(pipeline, name, lambda *args, **named: None)
    known: list[int] = []
    monkeypatch.setattr(pipeline, "_general", lambda *given: known.append(len(given[-1])))
    run, (_, *weights) = stacked(plain)
    for rows in (3, 3, 4, 5):
        device, fusion, graph, numbers, *_ = recorded(run, it.ones((rows, 6)), *weights)
        pipeline.compile_graph(device, fusion, graph, numbers, False)
    assert known == [3]
