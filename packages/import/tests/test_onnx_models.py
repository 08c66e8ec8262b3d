"""ONNX models as modules: they run, train, compile, and keep the names of what made them."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import ingle.tensor as it
from ingle import importer, nn, optim
from ingle.importer import ModelError, UnsupportedError
from ingle.tensor.errors import IngleError


def mlp() -> onnx.ModelProto:
    """Two layers with a batch norm, as an exporter of PyTorch writes them."""
    rng = np.random.default_rng(0)
    weights = {
        "0.weight": rng.normal(size=(16, 4)), "0.bias": np.zeros(16), "1.weight": np.ones(16),
        "1.bias": np.zeros(16), "3.weight": rng.normal(size=(3, 16)), "3.bias": np.zeros(3),
    }  # fmt: skip
    nodes = [
        helper.make_node("Identity", ["1.weight"], ["1.running_var"]),
        helper.make_node("Identity", ["1.bias"], ["1.running_mean"]),
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["a"], transB=1),
        helper.make_node(
            "BatchNormalization",
            ["a", "1.weight", "1.bias", "1.running_mean", "1.running_var"],
            ["b"],
        ),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "3.weight", "3.bias"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_runs_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(mlp(), path)
    model = importer.load_onnx(path)
    x = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    expected = ReferenceEvaluator(mlp()).run(None, {"x": x})[0]
    np.testing.assert_allclose(model(it.asarray(x)).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model(x=x).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert "y = Gemm(c, 3.weight, 3.bias, transB=1)" in repr(model)


def test_names_are_those_of_the_initializers() -> None:
    model = importer.load_onnx(mlp())
    names = [name for name, _ in model.named_parameters()]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
    # One initializer stood for weight and variance; trained is only the first.
    assert sorted(n for n, _ in model.named_buffers()) == ["1.running_mean", "1.running_var"]
    twin = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).eval()
    skipped = twin.load_state_dict(model.state_dict(), strict=False)
    assert skipped.missing_keys == ["1.num_batches_tracked"]
    assert not skipped.unexpected_keys
    x = it.asarray(np.ones((2, 4), np.float32))
    np.testing.assert_allclose(model(x).numpy(), twin(x).numpy(), rtol=1e-5)


@pytest.mark.slow
def test_a_model_trains() -> None:
    model = importer.load_onnx(mlp())
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    x = it.asarray(np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32))
    y = it.asarray([0, 1, 2, 0, 1, 2, 0, 1])
    losses = []
    for _ in range(30):
        loss = it.cross_entropy(model(x), y)
        optimizer.step(loss.backward())
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    frozen = importer.load_onnx(mlp(), trainable=False)
    assert not any(p.requires_grad for p in frozen.parameters())


def test_a_model_compiles_with_its_shapes_on_the_host() -> None:
    pytest.importorskip("ingle.fusion")
    from ingle.fusion import compile

    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[N, 6] x) => (float[N, 2] y)
    <int64[1] two = {2}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] rest = {-1}> {
        all = Shape(x)
        n = Slice(all, zero, one)
        shape = Concat <axis = 0> (n, two, rest)
        parts = Reshape(x, shape)
        y = ReduceSum <keepdims = 0> (parts, two)
    }"""
    model = importer.load_onnx(onnx.parser.parse_model(text))
    run = compile(model)
    for n in (2, 3):
        x = np.arange(6 * n, dtype=np.float32).reshape(n, 6)
        expected = x.reshape(n, 2, 3).sum(2)
        np.testing.assert_allclose(run(it.asarray(x)).numpy(), expected)


def test_branches_and_loops() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[3] x) => (float[3] y) <float zero = {0.0}> {
        total = ReduceSum <keepdims = 0> (x)
        positive = Greater(total, zero)
        y = If (positive) <
            then_branch = yes () => (float[3] a) { a = Add(x, x) },
            else_branch = no () => (float[3] b) { b = Neg(x) }
        >
    }"""
    model = importer.load_onnx(onnx.parser.parse_model(text))
    assert model(np.float32([1, 2, 3])).tolist() == [2, 4, 6]
    assert model(np.float32([1, -2, -3])).tolist() == [-1, 2, 3]
    from ingle.fusion import compile

    run = compile(model)
    assert run(it.asarray(np.float32([1, 2, 3]))).tolist() == [2, 4, 6]
    assert run(it.asarray(np.float32([1, -2, -3]))).tolist() == [-1, 2, 3]


def one_node(kind: str, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], name="here", **attributes)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ModelError, match="no ONNX model"):
        importer.load_onnx(b"\x08\x99 nothing of the kind")
    with pytest.raises(ModelError, match="holds no graph"):
        importer.load_onnx(b"")
    with pytest.raises(ModelError, match=r"missing\.onnx: it cannot be read"):
        importer.load_onnx("missing.onnx")
    foreign = one_node("Relu")
    foreign.graph.node[0].domain = "com.example"
    foreign.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedError, match=r"node 'here' .*com\.example\.Relu"):
        importer.load_onnx(foreign)
    newer = one_node("Relu")
    newer.opset_import[0].version = 99
    with pytest.raises(IngleError, match="opset"):
        importer.load_onnx(newer)
    lost = one_node("Relu")
    lost.graph.node[0].input[0] = "nobody"
    with pytest.raises(ModelError, match="nobody"):
        importer.load_onnx(lost)


def test_arguments_are_checked() -> None:
    model = importer.load_onnx(mlp())
    with pytest.raises(ModelError, match=r"x: float32\[n, 4\], got the shape \(2, 5\)"):
        model(np.zeros((2, 5), np.float32))
    with pytest.raises(ModelError, match="got float64"):
        model(np.zeros((2, 4)))
    with pytest.raises(ModelError, match="missing"):
        model()
    with pytest.raises(ModelError, match="another 'z'"):
        model(np.zeros((2, 4), np.float32), z=1)


def test_an_error_names_the_node() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[A] x, float[B] z) => (float[C] y) { y = Add(x, z) }"""
    model = importer.load_onnx(onnx.parser.parse_model(text))
    with pytest.raises(IngleError) as caught:
        model(np.zeros(2, np.float32), np.zeros(3, np.float32)).numpy()
    assert any("node 'Add_0' (Add)" in note for note in caught.value.__notes__)


def test_an_operator_of_ones_own() -> None:
    @importer.operator("Twice", domain="org.example.test")
    def twice(x, *, times: int = 2):
        return x * times

    model = one_node("Relu")
    node = model.graph.node[0]
    node.op_type, node.domain = "Twice", "org.example.test"
    node.attribute.append(helper.make_attribute("times", 3))
    model.opset_import.append(helper.make_opsetid("org.example.test", 1))
    assert importer.load_onnx(model)(np.float32([1, 2])).tolist() == [3, 6]


def test_functions_of_the_model_are_put_in_their_places() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "local": 1]>
    net (float[N] x) => (float[N] y) { y = local.double(x) }
    <opset_import: ["": 17], domain: "local"> double (a) => (b) { b = Add(a, a) }"""
    model = importer.load_onnx(onnx.parser.parse_model(text))
    assert model(np.float32([1, 2])).tolist() == [2, 4]


def test_inspect_lists_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ingle.tensor.cli import main

    path = tmp_path / "mlp.onnx"
    onnx.save(mlp(), path)
    assert main(["import", "inspect", str(path)]) == 0
    told = capsys.readouterr().out
    assert "x: float32[n, 4]" in told
    assert "2 Gemm" in told
    foreign = one_node("Relu")
    foreign.graph.node[0].domain = "com.example"
    foreign.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(foreign, path)
    assert main(["import", "inspect", str(path)]) == 1
    assert "com.example.Relu of opset 1, first at node 'here'" in capsys.readouterr().out


def test_external_data_stays_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "big.onnx"
    onnx.save(mlp(), path, save_as_external_data=True, location="big.bin", size_threshold=0)
    model = importer.load_onnx(path)
    assert model.state_dict()["0.weight"].shape == (16, 4)
    outside = onnx.load(path, load_external_data=False)
    for tensor in outside.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../big.bin"
    (tmp_path / "inner").mkdir()
    hostile = tmp_path / "inner" / "model.onnx"
    hostile.write_bytes(outside.SerializeToString())
    with pytest.raises(ModelError, match=r"model\.onnx"):
        importer.load_onnx(hostile)


def test_a_model_becomes_python(tmp_path: Path) -> None:
    model = importer.load_onnx(mlp())
    code, weights = importer.to_python(model, tmp_path / "net.py", name="Net")
    text = code.read_text("utf-8")
    assert "y = ops.Gemm(c, self.layer3.weight, self.layer3.bias, transB=1)" in text
    spec = importlib.util.spec_from_file_location("written_net", code)
    assert spec is not None
    assert spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    own = written.load()
    x = it.asarray(np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32))
    np.testing.assert_array_equal(own(x).numpy(), model(x).numpy())
    assert len(list(own.parameters())) == len(list(model.parameters()))
    assert set(importer.open_weights(weights)) == {
        "layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias", "layer1.running_mean",
        "layer1.running_var", "layer3.weight", "layer3.bias",
    }  # fmt: skip


def test_constants_of_a_written_model_stay_on_the_host(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[N, 6] x) => (float[M, 3] y, float[K, 3] z)
    <int64[2] shape = {-1, 3}, int64[2] parts = {1, 1}> {
        r = Reshape(x, shape)
        y, z = Split <axis = 0> (r, parts)
    }"""
    model = importer.load_onnx(onnx.parser.parse_model(text))
    code, _ = importer.to_python(model, tmp_path / "net.py")
    names: dict[str, Any] = {"__name__": "net", "__file__": str(code)}
    exec(compile(code.read_text("utf-8"), code, "exec"), names)
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    y, z = names["Model"]()(it.asarray(x))
    assert y.tolist() == [[0, 1, 2]]
    assert z.tolist() == [[3, 4, 5]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["transformer", "recurrent", "pictures"])
def test_exports_of_pytorch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    from ingle.fusion import compile

    if kind == "transformer":
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        net = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        shape, axes = (2, 5, 16), {0: "n", 1: "t"}
    elif kind == "recurrent":
        net = torch.nn.LSTM(4, 8, 2, bidirectional=True, batch_first=True)
        shape, axes = (2, 5, 4), {0: "n", 1: "t"}
    else:
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.SiLU(),
            torch.nn.Upsample(scale_factor=2, mode="bilinear"),
            torch.nn.ConvTranspose2d(8, 4, 3, 2, 1), torch.nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        shape, axes = (2, 3, 16, 16), {0: "n"}
    net.eval()
    file = io.BytesIO()
    torch.onnx.export(
        net, (torch.zeros(shape),), file, dynamo=False, input_names=["x"], dynamic_axes={"x": axes}
    )
    model = importer.load_onnx(file.getvalue())
    run = compile(model)
    for n in (2, 3):
        x = torch.randn(n, *shape[1:])
        with torch.no_grad():
            expected = net(x)
        expected = expected[0] if isinstance(expected, tuple) else expected
        for f in (model, run):
            got = f(it.asarray(x.numpy()))
            got = got[0] if isinstance(got, tuple) else got
            np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-5)
