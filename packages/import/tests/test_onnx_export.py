"""Modules as ONNX models: onnxruntime computes what Ingle does, for other sizes too."""

from __future__ import annotations

import inspect
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from export_cases import CASES, NO_GRAPH, F, N

import ingle.tensor as it
from ingle import importer, nn
from ingle.importer import UnsupportedError
from ingle.tensor import Tensor
from ingle.tensor.errors import OperandError
from ingle.tensor.pytree import flatten

ort = pytest.importorskip("onnxruntime")


def check(model: onnx.ModelProto, module: nn.Module, inputs: list[Tensor]) -> None:
    """onnxruntime and the module give the same."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    given = {p.name: x.numpy() for p, x in zip(model.graph.input, inputs, strict=True)}
    got = session.run(None, given)
    wanted = [t for t in flatten(module(*inputs)) if isinstance(t, Tensor)]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)


QUICK = {
    "GELU", "Linear", "Conv2d", "MaxPool2d pad", "LayerNorm", "LSTM", "Embedding",
    "TransformerEncoderLayer", "Upsample bilinear",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_onnxruntime_gives_the_same(name: str) -> None:
    make, inputs, dynamic = CASES[name]
    with it.device("numpy"):
        module = make().eval()
        inputs = [x.to_device("numpy") for x in inputs]
        model = importer.export_onnx(module, inputs, dynamic_axes=dynamic)
        check(model, module, inputs)
        if dynamic:
            larger = []
            for port, x in zip(model.graph.input, inputs, strict=True):
                for axis in dynamic.get(port.name, {}):
                    x = it.concat([x, x, x], axis=axis)
                larger.append(x)
            check(model, module, larger)


def test_every_module_has_a_case_or_a_reason() -> None:
    found = {
        name
        for name, kind in vars(nn).items()
        if inspect.isclass(kind) and issubclass(kind, nn.Module)
    }
    written = {type(m).__name__ for make, *_ in CASES.values() for _, m in make().named_modules()}
    written |= {name.split()[0] for name in CASES}  # lazy ones become others
    assert found - written <= set(NO_GRAPH) <= found


NOTHING: dict[str, Any] = {
    "borders of no width": nn.ReplicationPad2d((1, 2, 1, 0)),
    "zeros of no width": nn.ZeroPad2d((0, 1, 0, 0)),
    "a part of no rows beside the whole": lambda x: it.concat([x[:0] * 2.0, x], axis=0),
    "repeated no times": lambda x: it.broadcast_to(x[:1], (0, *x.shape[1:])).sum(axis=0),
    "full of nothing": lambda x: x.sum() + it.full((0, 3), 2.0).sum(),
    "reshaped": lambda x: it.reshape(x[:, :, :0], (0, 4, 7)) + 1.0,
    "a product over nothing": lambda x: x[..., :0] @ it.permute_dims(x, (0, 1, 3, 2))[:, :, :0],
    "no row taken": lambda x: it.take(x, it.zeros((0,), dtype=it.int64), axis=0),
    "complex": lambda x: it.real(it.reshape(it.fft.fft(x)[:0], (4, 0)) + 1.0),
    "complex, repeated no times": lambda x: it.real(
        it.broadcast_to(it.fft.fft(x)[:1], (0, *x.shape[1:]))
    ).sum(axis=0),
}


@pytest.mark.parametrize("name", NOTHING)
def test_tensors_without_elements_on_the_way(name: str) -> None:
    with it.device("numpy"):
        x = it.asarray(np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype(np.float32))
        check(importer.export_onnx(NOTHING[name], x), NOTHING[name], [x])


def test_a_model_goes_out_and_comes_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "net.onnx"
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    x = F(2, 1, 4, 4)
    importer.export_onnx(net.eval(), x, path, dynamic_axes=N, output_names=["scores"])
    back = importer.load_onnx(path)
    assert [str(p) for p in back.outputs] == ["scores: float32[n, 3]"]
    np.testing.assert_allclose(back(F(5, 1, 4, 4)).numpy(), net(F(5, 1, 4, 4)).numpy(), atol=1e-5)
    names = [name for name, _ in back.named_parameters()]
    assert names == [name for name, _ in net.named_parameters()]


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(UnsupportedError, match="inv"):
        importer.export_onnx(it.linalg.inv, F(2, 2))
    with pytest.raises(UnsupportedError, match=r"running_mean.*eval"):
        importer.export_onnx(nn.BatchNorm1d(3), F(2, 3))
    pool = nn.FractionalMaxPool2d(2, output_size=3).eval()
    with pytest.raises(UnsupportedError, match="random numbers"):
        importer.export_onnx(pool, F(1, 2, 8, 8))


def test_arguments_that_are_none_are_named(tmp_path: pathlib.Path) -> None:
    net = nn.Linear(4, 3)
    for given, what in (((2, 4), "int"), ("net.onnx", "str"), ({"x": F(2, 4)}, "dict")):
        with pytest.raises(OperandError, match=f"example_inputs .* got {what}"):
            importer.export_onnx(net, given)
    with pytest.raises(OperandError, match=r"got Tensor.*\(module, example_inputs, path\)"):
        importer.export_onnx(F(2, 4), net)
    with pytest.raises(OperandError, match="got Linear"):
        importer.to_python(net, tmp_path / "net.py")
    with pytest.raises(OperandError, match=r"got str; the arguments are \(module, path\)"):
        importer.load_weights("net.safetensors", net)
    assert not list(tmp_path.iterdir())
    for example in (np.ones((2, 4), np.float32), [np.ones((2, 4), np.float32)]):
        model = importer.export_onnx(net, example)
        check(model, net, [it.ones((2, 4))])
