"""Modules as ONNX models: onnxruntime computes what Ingle does, for other sizes too."""

from __future__ import annotations

import inspect
import math
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
from ingle.tensor.errors import OperandError, ShapeError
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


def _batches(module: nn.Module, inputs: list[Tensor]) -> tuple[Any, list[Tensor]] | None:
    """The axis of a batch in each input of a module, and other inputs with a larger batch."""
    axis = 0 if getattr(module, "batch_first", True) else 1
    if any(x.ndim <= axis or x.shape[axis] != inputs[0].shape[axis] for x in inputs):
        return None
    names = ["x"] if len(inputs) == 1 else [f"x{i}" for i in range(len(inputs))]
    larger = [it.concat([x, x, x], axis=axis) for x in inputs]
    return {name: {axis: "n"} for name in names}, larger


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (*_, dynamic) in CASES.items() if not dynamic])
def test_a_batch_of_another_size_gives_the_same_or_is_refused(name: str) -> None:
    make, inputs, _ = CASES[name]
    with it.device("numpy"):
        module = make().eval()
        inputs = [x.to_device("numpy") for x in inputs]
        found = _batches(module, inputs)
        if found is None:
            pytest.skip("no axis of batches in all inputs")
        dynamic, larger = found
        try:
            module(*larger)
            model = importer.export_onnx(module, inputs, dynamic_axes=dynamic)
        except (UnsupportedError, ShapeError):
            pytest.skip("the batch is of a fixed size")
        check(model, module, inputs)
        check(model, module, larger)


BATCHES: dict[str, Any] = {
    "statistics of the batch": lambda: nn.BatchNorm1d(3, track_running_stats=False),
    "a state that begins at zero": lambda: nn.Sequential(nn.GRU(4, 3, batch_first=True)),
    "two layers, both directions": lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True),
    "written into zeros": lambda: nn.ConvTranspose1d(3, 2, 3, 2, padding=1),
    "maxima by places": lambda: nn.AdaptiveMaxPool1d(3),
    "borders": lambda: nn.Sequential(nn.ReflectionPad1d(2), nn.ConstantPad1d((0, 2), 1.5)),
    "windows over the border": lambda: nn.Sequential(
        nn.MaxPool1d(2, 3, ceil_mode=True), nn.AvgPool1d(2, 1, 1, ceil_mode=True)
    ),
    "a mean over all": lambda: lambda x: x - it.mean(x) + it.sum(x) / x.shape[0],
    "a loop": lambda: (
        lambda x: it.scan(
            lambda c, _: ((c + x) / x.shape[0], None), it.zeros(x.shape), None, length=3
        )[0]
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_numbers_and_states_follow_the_batch(name: str) -> None:
    with it.device("numpy"):
        made = BATCHES[name]()
        x = it.asarray(np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32))
        model = importer.export_onnx(made, x, dynamic_axes={"x": {0: "n"}})
        for given in (x, it.concat([x, x[:2] * 2.0]), x[:1]):
            check(model, made, [given])


def test_images_of_another_size() -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 3, 1)
    )
    with it.device("numpy"):
        net.to("numpy")
        x, larger = (F(2, 2, n, 9).to_device("numpy") for n in (11, 16))
        model = importer.export_onnx(net, x, dynamic_axes={"x": {0: "n", 2: "h"}})
        check(model, net, [x])
        check(model, net, [it.concat([larger, larger])])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (lambda x: it.sum(x) / math.sqrt(x.shape[0]), "the number 1.73.* depends on n"),
        (lambda x: x + it.asarray(np.arange(float(x.shape[0])))[:, None], "a constant of shape"),
        (lambda x: it.broadcast_to(it.sum(x), (x.shape[0] // 2, 2)), "a size of 1 depends on n"),
        (lambda x: x if x.shape[0] == 3 else x + 1.0, "computes otherwise for other sizes of n"),
        (lambda x: it.reshape(x, (3, 4)), "does not run for n = 5: .*; leave sizes"),
    ],
)  # fmt: skip
def test_what_depends_on_a_size_in_another_way_is_refused(written: Any, told: str) -> None:
    with pytest.raises(UnsupportedError, match=told):
        importer.export_onnx(written, F(3, 4), dynamic_axes={"x": {0: "n"}})


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


def test_dtypes_that_onnx_has_no_operator_for() -> None:
    with it.device("numpy"):
        for dtype in ("uint8", "int32"):
            x = it.asarray([[0, 1], [2, 200]], dtype=dtype)
            f = lambda x: (-x, it.isnan(x))  # noqa: E731
            check(importer.export_onnx(f, x), f, [x])
        with pytest.raises(UnsupportedError, match=r"no such operator .*MatMul.*uint8.*; cast"):
            importer.export_onnx(lambda x: x @ x, it.ones((2, 2), dtype="uint8"))


@pytest.mark.parametrize("axis", [None, -1, 0, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_real_and_complex_numbers(axis: Any, keepdims: bool) -> None:
    def f(x: Tensor) -> Tensor:
        z = it.fft.fft(x)
        means = it.mean(z, axis=axis, keepdims=keepdims)
        sums = it.sum(x, axis=axis, keepdims=keepdims) * it.max(x, axis=axis, keepdims=keepdims)
        return sums + it.imag(it.sum(z * 2.0, axis=axis, keepdims=keepdims)) + it.real(means)

    with it.device("numpy"):
        x = it.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
        check(importer.export_onnx(f, x), f, [x])


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
