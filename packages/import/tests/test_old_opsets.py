"""Operators of opsets 1 to 6 where they meant something else, against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ingle.importer import onnx_backend
from ingle.importer.onnx.registry import find

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
POSITIVE = np.abs(X) + 0.5


def run(kind: str, opset: int, *inputs: np.ndarray, outputs: int = 1, **attributes: Any) -> Any:
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, results, **attributes)
    found = onnx_backend.run_node(node, list(inputs), device="numpy", opset_version=opset)
    return found[0] if outputs == 1 else found


def test_every_operator_of_every_opset_is_there() -> None:
    missing = []
    for s in onnx.defs.get_all_schemas_with_history():
        if s.domain or s.deprecated:
            continue
        found = find("", s.name, s.since_version)
        fits = found is not None and set(s.attributes) <= found.attributes
        if not fits or (found.variadic is None and s.max_input > len(found.inputs)):
            missing.append((s.name, s.since_version))
    assert not missing


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
    "Less": np.less, "Greater": np.greater,
}  # fmt: skip


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("kind", BINARY)
def test_broadcasting_along_an_axis(kind: str, opset: int) -> None:
    for shape, axis, placed in [
        ((3, 4), 1, (1, 3, 4, 1)), ((2,), 0, (2, 1, 1, 1)), ((5,), None, (5,)),
        ((4, 5), -1, (4, 5)), ((), None, ()), ((1, 1), 2, (1, 1)), ((2, 3, 4, 5), 0, (2, 3, 4, 5)),
    ]:  # fmt: skip
        y = RNG.uniform(0.5, 2, size=shape).astype(np.float32)
        more = {} if axis is None else {"axis": axis}
        got = run(kind, opset, POSITIVE, y, broadcast=1, **more)
        np.testing.assert_allclose(got, BINARY[kind](POSITIVE, y.reshape(placed)), rtol=1e-5)
    np.testing.assert_allclose(run(kind, opset, POSITIVE, X), BINARY[kind](POSITIVE, X), rtol=1e-5)


@pytest.mark.parametrize("kind", ["And", "Or", "Xor"])
def test_logic_along_an_axis(kind: str) -> None:
    x, y = X > 0, np.asarray([True, False, True])
    got = run(kind, 1, x, y, broadcast=1, axis=1)
    function = getattr(np, f"logical_{kind.lower()}")
    np.testing.assert_array_equal(got, function(x, y.reshape(3, 1, 1)))


def test_shapes_as_attributes() -> None:
    np.testing.assert_array_equal(run("Reshape", 1, X, shape=[0, -1, 5]), X.reshape(2, 12, 5))
    np.testing.assert_array_equal(
        run("Pad", 1, X[0, 0], paddings=[1, 0, 0, 2], value=3.0),
        np.pad(X[0, 0], [(1, 0), (0, 2)], constant_values=3),
    )
    np.testing.assert_array_equal(
        run("Pad", 2, X[0, 0], pads=[1, 1, 2, 0], mode="reflect"),
        np.pad(X[0, 0], [(1, 2), (1, 0)], mode="reflect"),
    )
    np.testing.assert_array_equal(
        run("Slice", 1, X, starts=[1, -3], ends=[9, -1], axes=[0, 3]), X[1:, :, :, -3:-1]
    )
    parts = run("Split", 1, X, outputs=2, axis=3, split=[2, 3])
    np.testing.assert_array_equal(parts[1], X[..., 2:])
    parts = run("Split", 1, X, np.asarray([1, 4], np.float32), outputs=2, axis=3)
    np.testing.assert_array_equal(parts[0], X[..., :1])
    np.testing.assert_array_equal(run("Concat", 1, X, X), np.concatenate([X, X], 1))
    values, places = run("TopK", 1, X, outputs=2, k=2, axis=1)
    np.testing.assert_array_equal(values, -np.sort(-X, axis=1)[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(X, places, 1), values)


def test_tiles_and_scales() -> None:
    got = run("Tile", 1, X, np.asarray(3, np.int64), np.asarray(2, np.int64))
    np.testing.assert_array_equal(got, np.tile(X, (1, 1, 3, 1)))
    got = run("Upsample", 1, X, height_scale=2.0, width_scale=3.0)
    np.testing.assert_array_equal(got, X.repeat(2, 2).repeat(3, 3))
    torch = pytest.importorskip("torch")
    got = run("Upsample", 1, X, height_scale=2.0, width_scale=2.0, mode="bilinear")
    places = np.minimum(np.arange(8) / 2, 3), np.minimum(np.arange(10) / 2, 4)
    grid = np.stack(np.meshgrid(places[1] / 2 - 1, places[0] / 1.5 - 1), -1).astype(np.float32)
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(X), torch.from_numpy(grid)[None].expand(2, -1, -1, -1), align_corners=True
    )
    np.testing.assert_allclose(got, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_whose_last_term_is_broadcast(opset: int) -> None:
    a, b, c = X[0, :, :, 0], X[1, :, :, 1].T, np.float32([1, 2, 3])
    got = run("Gemm", opset, a, b, c, broadcast=1, alpha=0.5, beta=2.0)
    np.testing.assert_allclose(got, 0.5 * a @ b + 2 * c, rtol=1e-5, atol=1e-6)
    got = run("Gemm", opset, a.T.copy(), b, np.outer(c, c), transA=1)
    np.testing.assert_allclose(got, a @ b + np.outer(c, c), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
def test_normalized_over_all_axes_from_one_on(kind: str) -> None:
    rows = X.reshape(6, 20).astype(np.float64)
    soft = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    hard = (rows == rows.max(1, keepdims=True)).astype(float)
    expected = {"Softmax": soft, "LogSoftmax": np.log(soft), "Hardmax": hard}[kind]
    np.testing.assert_allclose(run(kind, 1, X, axis=2), expected.reshape(X.shape), rtol=1e-5)


def test_slopes_of_channels() -> None:
    slope = np.float32([0.1, 0.2, 0.3])
    expected = np.where(X < 0, X * slope.reshape(3, 1, 1), X)
    np.testing.assert_allclose(run("PRelu", 1, X, slope), expected, rtol=1e-6)
    np.testing.assert_allclose(run("PRelu", 6, X, slope[:1]), np.where(X < 0, 0.1 * X, X), 1e-6)
    np.testing.assert_allclose(
        run("PRelu", 6, X[:, :, 0, 0], slope), expected[:, :, 0, 0], rtol=1e-6
    )


def batch_norm(x: np.ndarray, mean: Any, var: Any, scale: Any, bias: Any) -> np.ndarray:
    return (x - mean) / np.sqrt(var + 1e-5) * scale + bias


@pytest.mark.parametrize("opset", [1, 6, 7])
@pytest.mark.parametrize("spatial", [0, 1])
def test_batch_norm_in_training_and_without(opset: int, spatial: int) -> None:
    shape, axes = ((3,), (0, 2, 3)) if spatial else ((3, 4, 5), (0,))
    scale, bias, mean = (RNG.normal(size=shape).astype(np.float32) for _ in range(3))
    var = RNG.uniform(0.5, 2, shape).astype(np.float32)
    old: dict[str, Any] = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    testing: dict[str, Any] = {"is_test": 1} if opset < 7 else {}

    def wide(t: np.ndarray) -> np.ndarray:
        return t.reshape(3, 1, 1) if spatial else t

    inputs = X, scale, bias, mean, var
    got = run("BatchNormalization", opset, *inputs, spatial=spatial, **old, **testing)
    told = [wide(t) for t in (mean, var, scale, bias)]
    np.testing.assert_allclose(got, batch_norm(X, *told), rtol=1e-4, atol=1e-5)
    got = run("BatchNormalization", opset, *inputs, spatial=spatial, outputs=5, **old)
    now, spread = X.mean(axes), X.var(axes)
    told = [wide(t) for t in (now, spread, scale, bias)]
    np.testing.assert_allclose(got[0], batch_norm(X, *told), rtol=1e-3, atol=1e-4)
    for found, expected in zip(
        got[1:], (0.9 * mean + 0.1 * now, 0.9 * var + 0.1 * spread, now, spread), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [1, 6, 7, 10])
def test_dropout(opset: int) -> None:
    testing = {"is_test": 1} if opset < 7 else {}
    y, mask = run("Dropout", opset, X, outputs=2, **testing)
    np.testing.assert_array_equal(y, X)
    assert mask.dtype == (np.bool_ if opset == 10 else np.float32)
    assert mask.all()
    if opset < 7:
        y, mask = run("Dropout", opset, POSITIVE, outputs=2, ratio=0.25)
        np.testing.assert_allclose(y, POSITIVE * mask / 0.75, rtol=1e-6)
        assert 0.5 < mask.mean() < 0.95


def test_dtypes_by_name() -> None:
    for name, dtype in [("INT32", np.int32), ("FLOAT", np.float32), ("BOOL", np.bool_),
                        ("DOUBLE", np.float64), ("INT64", np.int64)]:  # fmt: skip
        got = run("Cast", 1, X, to=name)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, X.astype(dtype))


def test_bounds_as_attributes() -> None:
    np.testing.assert_array_equal(run("Clip", 1, X, min=-0.5, max=0.25), np.clip(X, -0.5, 0.25))
    np.testing.assert_array_equal(run("Clip", 6, X, max=0.25), np.minimum(X, np.float32(0.25)))


def test_selu_with_its_first_constants() -> None:
    expected = 1.0507 * np.where(X > 0, X, 1.6732 * np.expm1(X))
    np.testing.assert_allclose(run("Selu", 1, X), expected, rtol=1e-5)


def test_axes_as_attributes() -> None:
    np.testing.assert_allclose(
        run("ReduceSum", 1, X, axes=[1, 2], keepdims=0), X.sum((1, 2)), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(run("Squeeze", 1, X[:1, :, :1], axes=[0, 2]), X[0, :, 0])
    assert run("Unsqueeze", 1, X, axes=[0, 3]).shape == (1, 2, 3, 1, 4, 5)
