"""Graphs as text: the same graph comes back, in another process too, and bad text is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import GraphFormatError, dumps, graph_of, loads
from ingle.fusion.ir.graph import Graph
from ingle.tensor.contract import Aval


def training_graph():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        loss = it.cross_entropy(model(x), y)
        optimizer.step(loss.backward())
        return loss

    return graph_of(step, it.ones((5, 4)), it.asarray([0, 1, 2, 1, 0]))


def loop_graph():
    def f(x):
        total, rows = it.scan(lambda c, r: (c + it.sin(r) * 0.1, c * r), x[0], x)
        return it.cond(it.sum(total) > 0, lambda t: t * 2.0, lambda t: -t, total), rows

    return graph_of(f, it.ones((6, 3)))


@pytest.mark.parametrize("make", [training_graph, loop_graph])
def test_a_graph_comes_back_as_it_was(make):
    graph = make()
    again = loads(dumps(graph))
    assert again == graph
    assert dumps(again) == dumps(graph)


@pytest.mark.slow
def test_it_computes_the_same_in_another_process(tmp_path):
    def f(x, y):
        return it.softmax(x @ y, axis=-1), it.sum(x, axis=0, keepdims=True).T

    x, y = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    with it.device("numpy"):
        graph = graph_of(f, it.asarray(x), it.asarray(y))
        want = [t.numpy() for t in f(it.asarray(x), it.asarray(y))]
    (tmp_path / "graph.json").write_text(dumps(graph))
    np.savez(tmp_path / "given.npz", x=x, y=y)
    code = """
import sys, numpy as np, ingle.tensor as it
from ingle.fusion import loads
from ingle.fusion.runtime.replay import Replay
from ingle.tensor.device import backend_of
folder = sys.argv[1]
given = np.load(folder + "/given.npz")
graph = loads(open(folder + "/graph.json").read())
handles = [it.asarray(given[k], device="numpy")._handle for k in "xy"]
results = Replay(backend_of("numpy"), graph)(handles, [])
np.savez(folder + "/results.npz", *[it.Tensor(h).numpy() for h in results])
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    with np.load(tmp_path / "results.npz") as found:
        for got, expected in zip(found.values(), want, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("number", [0.1, -0.0, float("nan"), float("-inf"), 2**63, True, 1 + 2j])
def test_numbers_keep_type_and_value(number):
    graph = Graph()
    dtype = it.complex64 if isinstance(number, complex) else it.float32
    graph.outputs = (graph.constant(number, dtype),)
    back = loads(dumps(graph)).values[0].data
    assert type(back) is type(number)
    assert repr(back) == repr(number)


def test_bad_text_is_refused():
    good = json.loads(dumps(graph_of(lambda x: it.sum(x, axis=1), it.ones((2, 3)))))

    def refused(match, **changes):
        with pytest.raises(GraphFormatError, match=match):
            loads(json.dumps({**good, **changes}))

    refused("version 9", **{"ingle-graph": 9})
    refused("not known here", entries=[["input", [2], "float32"], ["frobnicate", {}, 0]])
    refused("attributes", entries=[["input", [2], "float32"], ["sum", {}, 0]])
    refused("not right", entries=[["input", [2, 3], "float32"], ["matmul", {}, 0, 0]])
    refused("no entry like", entries=[["input"]])
    refused("not the text", entries=[["exp", {}, 7]])
    refused("returns values", outputs=[99])
    deep = "[" * 100_000
    huge = '{"ingle-graph":1,"entries":[["input",[1e400],"float32"]],"outputs":[0]}'
    for text in ("", "[]", "{}", '"graph"', deep, '{"ingle-graph": 1, "entries": ' + deep, huge):
        with pytest.raises(GraphFormatError, match="not the text of a graph"):
            loads(text)


def test_a_text_is_small_and_readable():
    graph = Graph()
    x = graph.input(Aval((2, 3), it.float32))
    graph.outputs = (x,)
    assert dumps(graph) == ('{"ingle-graph":1,"entries":[["input",[2,3],"float32"]],"outputs":[0]}')
