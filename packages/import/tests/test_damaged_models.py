"""ONNX files with bytes changed or cut off: an error of ours each time, and never a crash."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ingle.tensor as it
from ingle import importer
from ingle.tensor.errors import IngleError

TEXT = """<ir_version: 8, opset_import: ["": 17]>
net (float[N, 4] x) => (float[N, 2] y)
<float[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] b = {0, 1}, int64[2] shape = {-1, 2}> {
    a = Gemm <transB = 1> (x, w, b)
    c = Reshape(a, shape)
    positive = Constant <value = bool {1}> ()
    y = If (positive) <
        then_branch = yes () => (float[M, 2] p) { p = Relu(c) },
        else_branch = no () => (float[M, 2] q) { q = Neg(c) }
    >
}"""


def changed(whole: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes become others; sometimes the end is missing."""
    data = bytearray(whole)
    for _ in range(rng.integers(1, 5)):
        data[rng.integers(len(data))] = rng.integers(256)
    return bytes(data[: rng.integers(len(data))] if rng.random() < 0.2 else data)


def refused(count: int, seed: int) -> int:
    """How many of so many changed files are refused; the others run, or say why not."""
    whole = onnx.parser.parse_model(TEXT).SerializeToString()
    rng, found = np.random.default_rng(seed), 0
    with it.device("numpy"):
        for _ in range(count):
            try:
                importer.load_onnx(changed(whole, rng))(np.ones((2, 4), np.float32))
            except IngleError:
                found += 1
    return found


def test_damaged_models_are_refused() -> None:
    assert refused(60, seed=1) > 20


@pytest.mark.slow
def test_many_damaged_models_are_refused() -> None:
    assert refused(5000, seed=2) > 1000


@pytest.mark.parametrize(
    "body",
    [
        "n = Constant <value = int64[2] {4611686018427387904, 4}> ()\n y = ConstantOfShape(n)",
        "n = Constant <value = int64[2] {1099511627776, 2}> ()\n y = Expand(x, n)",
        "n = Constant <value = int64[2] {1099511627776, 1}> ()\n y = Tile(x, n)",
    ],
)
def test_a_shape_that_no_memory_holds_is_refused(body: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    net (float[1, 2] x) => (float[A, B] y) {{ {body} }}"""
    model = importer.load_onnx(onnx.parser.parse_model(text))
    with pytest.raises(importer.ModelError, match="elements"):
        model(np.ones((1, 2), np.float32))
