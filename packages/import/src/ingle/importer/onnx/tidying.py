"""Puts right what exporters leave behind, before a graph becomes a module.

They write one initializer where two parameters happen to hold the same numbers, so that a statistic
of a batch norm and a trained weight are one; and they write weights as `Constant` nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .graph import Graph, note_last_uses

STATISTICS = {"BatchNormalization": {3: "running_mean", 4: "running_var"}}
"""Inputs that are kept and not trained, with PyTorch's names for them."""


def tidy(graph: Graph) -> set[str]:
    """Changes a graph in place; returns the initializers that are not to be trained."""
    kept = _constants(graph)
    kept |= _lifted(graph)
    _aliases(graph)
    kept |= _statistics(graph)
    note_last_uses(graph)
    return kept


def _constants(graph: Graph) -> set[str]:
    """Constants of floats become initializers, so that they lie on the device."""
    found = set()
    outputs = {p.name for p in graph.outputs}
    for node in [n for n in graph.nodes if n.kind == "Constant" and not n.domain]:
        value = node.attributes.get("value")
        name = node.outputs[0]
        if value is None or value.dtype.kind not in "fV" or value.ndim == 0 or name in outputs:
            continue
        graph.initializers[name] = value
        graph.nodes.remove(node)
        found.add(name)
    return found


def _lifted(graph: Graph) -> set[str]:
    """Weights of inner graphs move to the outermost, so that they are weights of the module.

    Those whose name means something else in another graph get the place of their graph before it.
    """
    made: Counter[str] = Counter()
    _count(graph, made)
    kept: set[str] = set()
    for place, inner in _inner(graph):
        kept |= _lift(inner, place, graph.initializers, made)
    return kept


def _count(graph: Graph, made: Counter[str]) -> None:
    made.update([*graph.initializers, *(p.name for p in graph.inputs)])
    for node in graph.nodes:
        made.update(node.outputs)
        for inner in node.graphs:
            _count(inner, made)


def _lift(graph: Graph, owner: str, weights: dict[str, np.ndarray], made: Counter[str]) -> set[str]:
    constants, kept = _constants(graph), set()
    returned = {p.name for p in graph.outputs}
    for name, array in list(graph.initializers.items()):
        alone = made[name] == 1
        if array.dtype.kind not in "fV" or array.ndim == 0 or (name in returned and not alone):
            continue
        new = name if alone else f"{owner}.{name}"
        while made[new] > alone:
            new += "_"
        made[new] += not alone
        weights[new] = graph.initializers.pop(name)
        kept |= {new} if name in constants else set()
        for node in graph.walk():
            node.inputs = tuple(new if n == name else n for n in node.inputs)
    for place, inner in _inner(graph):
        kept |= _lift(inner, f"{owner}.{place}", weights, made)
    return kept


def _inner(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graphs of its nodes, with the node's name and what they are to it."""
    for node in graph.nodes:
        for key, value in node.attributes.items():
            if isinstance(value, Graph):
                yield f"{node.name}.{key}", value


def _aliases(graph: Graph) -> None:
    """`Identity` of an initializer is a copy of it that only has another name."""
    outputs = {p.name for p in graph.outputs}
    for node in [n for n in graph.nodes if n.kind == "Identity" and not n.domain]:
        source, name = node.inputs[0], node.outputs[0]
        if source in graph.initializers and name not in outputs:
            graph.initializers[name] = graph.initializers[source]
            graph.nodes.remove(node)


def _statistics(graph: Graph) -> set[str]:
    """Each statistic gets an initializer of its own."""
    uses: dict[str, int] = {}
    for node in graph.walk():
        for name in node.inputs:
            uses[name] = uses.get(name, 0) + 1
    kept = set()
    for i, node in enumerate(graph.nodes):
        inputs = list(node.inputs)
        for at, kind in STATISTICS.get(node.kind, {}).items():
            name = inputs[at] if at < len(inputs) else ""
            if name not in graph.initializers:
                continue
            if uses[name] > 1:
                owner = inputs[1].rpartition(".")[0] or node.name
                own = f"{owner}.{kind}"
                if own not in graph.initializers:
                    graph.initializers[own] = np.array(graph.initializers[name])
                inputs[at] = name = own
            kept.add(name)
        if tuple(inputs) != node.inputs:
            graph.nodes[i] = replace(node, inputs=tuple(inputs))
    return kept
