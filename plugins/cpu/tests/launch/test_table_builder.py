"""Tables of executables: what equal layers have in common is found once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.fusion.runtime import graph_plans
from ingle_cpu.launch import table_builder
from ingle_cpu.matmul import prepacking

WIDTH, LENGTH, HEADS = 128, 24, 4


def drawn(*shape: int) -> it.Tensor:
    numbers = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32) * 0.3
    return it.asarray(numbers, device="cpu")


def calls_of(layers: int) -> Counter[str]:
    """What is asked of the templates for so many layers of attention."""
    found: Counter[str] = Counter()

    def counted(patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any, **options: Any) -> Any:
            found[name] += 1
            return function(*args, **options)

        patch.setattr(module, name, call)

    weights = [(drawn(WIDTH, 3 * WIDTH), drawn(WIDTH, WIDTH)) for _ in range(layers)]

    def f(x: it.Tensor) -> it.Tensor:
        for inner, outer in weights:
            parts = it.reshape(x @ inner, (1, LENGTH, 3, HEADS, -1))
            query, key, value = it.unstack(it.permute_dims(parts, (2, 0, 3, 1, 4)))
            mixed = it.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + it.reshape(it.permute_dims(mixed, (0, 2, 1, 3)), (1, LENGTH, WIDTH)) @ outer
        return x

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_plans, "stored_plans", lambda device, graph: None)
        counted(patch, table_builder, "entries_of")
        counted(patch, table_builder, "contraction")
        counted(patch, prepacking, "choose")
        compile(f)(drawn(1, LENGTH, WIDTH)).numpy()
    return found


def test_more_of_the_same_layers_take_no_more_templates() -> None:
    few, many = calls_of(2), calls_of(5)
    assert few == many
    assert few["entries_of"] == 1
    assert few["contraction"] == 2
    assert not few["choose"]  # operands in panels go by the guess that there is
