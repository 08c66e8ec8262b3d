"""`to_python`: models with branches, loops and scans as code that gives the same outputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ingle.tensor as it
from ingle import importer
from ingle.testkit.bits import same_bits

ort = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["": 17]>'
MODELS = {
    "branches": """net (float[N, 2] x, bool yes) => (float[N, 2] y)
    <float[2] scale = {2.0, 3.0}> {
        h = Mul(x, scale)
        y = If (yes) <
            then_branch = first () => (float[A, 2] p)
                <float[2] w = {1.0, -1.0}> { q = Add(h, w)  p = Relu(q) },
            else_branch = second () => (float[B, 2] p2)
                <float[2] w = {5.0, 7.0}> { q = Sub(h, w)  p2 = Neg(q) }
        >
    }""",
    "a loop": """net (float[N, 2] x, int64 n) => (float[N, 2] y, float[K, N, 2] all)
    <bool go = {1}, float[2, 2] w = {1, 0.5, -0.5, 1}> {
        y, all = Loop (n, go, x) <
            body = step (int64 i, bool before, float[N, 2] s)
                => (bool after, float[N, 2] t, float[N, 2] shown)
            {
                after = Identity(before)
                f = Cast <to = 1> (i)
                moved = Add(s, f)
                t = MatMul(moved, w)
                shown = Identity(t)
            }
        >
    }""",
    "a scan in a branch": """net (float[T, 2] x, bool yes) => (float[2] y) {
        y = If (yes) <
            then_branch = first () => (float[2] total) {
                none = Constant <value = float[2] {0.0, 1.0}> ()
                total, steps = Scan <num_scan_inputs = 1,
                    body = one (float[2] s, float[2] v) => (float[2] u, float[2] k)
                        { u = Add(s, v)  k = Identity(u) }
                > (none, x)
            },
            else_branch = second () => (float[2] least)
                { least = ReduceMin <axes = [0], keepdims = 0> (x) }
        >
    }""",
}
X = np.float32([[1, -2], [3, 4], [-0.5, 2]])


def written(model: importer.OnnxModule, path: Path) -> Any:
    code, _ = importer.to_python(model, path)
    spec = importlib.util.spec_from_file_location("written", code)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_inner_graphs_become_functions(tmp_path: Path, name: str) -> None:
    proto = onnx.parser.parse_model(HEAD + MODELS[name])
    model = importer.load_onnx(proto)
    own = written(model, tmp_path / "net.py")
    assert {n for n, _ in own.named_parameters()} == {n for n, _ in model.named_parameters()}
    second = proto.graph.input[1].name
    kinds = {"n": [np.int64(0), np.int64(3)], "yes": [np.bool_(True), np.bool_(False)]}
    session = ort.InferenceSession(proto.SerializeToString())
    for chosen in kinds[second]:
        inputs = {"x": X, second: np.asarray(chosen)}
        expected = session.run(None, inputs)
        for net in (model, own):
            got = net(it.asarray(X), np.asarray(chosen))
            got = got if isinstance(got, tuple) else (got,)
            for a, b in zip(got, expected, strict=True):
                a = a.numpy() if isinstance(a, it.Tensor) else a
                assert len(a) == len(b)
                np.testing.assert_allclose(a if len(a) else b, b, rtol=1e-6)


def test_code_reads_like_code(tmp_path: Path) -> None:
    model = importer.load_onnx(onnx.parser.parse_model(HEAD + MODELS["branches"]))
    code, _ = importer.to_python(model, tmp_path / "net.py")
    text = code.read_text("utf-8")
    assert (
        """
        @importer.body('p: float32[A, 2]')
        def then_branch():
            q = ops.Add(h, self.If_1.then_branch.w)
            p = ops.Relu(q)
            return [p]
"""
        in text
    )
    assert "y = ops.If(yes, then_branch=then_branch, else_branch=else_branch)" in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_weights_of_inner_graphs_are_parameters() -> None:
    model = importer.load_onnx(onnx.parser.parse_model(HEAD + MODELS["branches"]))
    names = [n for n, _ in model.named_parameters()]
    assert names == ["scale", "If_1.then_branch.w", "If_1.else_branch.w"]
    grads = model(it.asarray(X), np.asarray(False)).sum().backward()
    assert same_bits(
        grads[dict(model.named_parameters())["If_1.else_branch.w"]].numpy(), np.float32([3, 3])
    )
