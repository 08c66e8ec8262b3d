"""The nets of all examples go out as ONNX models, which onnxruntime runs with equal results."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from models import (
    autoencoder,
    bert,
    clip_text,
    gpt2,
    llama,
    mobilenet_v2,
    resnet,
    squeezenet,
    unet,
    whisper,
)

import ingle.tensor as it
from ingle import importer, nn
from ingle.tensor import Tensor

EXAMPLES = Path(__file__).parents[2]
LLAMA = llama.Sizes(
    vocabulary=60, max_length=16, width=16, layers=2, heads=4, kv_heads=2, head_dim=4, inner=24
)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A function that loads a file of an example, such as `gan/train.py`, as its script would."""
    loaded: list[str] = []

    def by_path(path: str) -> ModuleType:
        file = EXAMPLES / path
        monkeypatch.syspath_prepend(file.parent)
        spec = importlib.util.spec_from_file_location(path.replace("/", "_")[:-3], file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        loaded.append(spec.name)
        spec.loader.exec_module(module)
        return module

    yield by_path
    for name in loaded:
        del sys.modules[name]


def normal(*shape: int) -> Tensor:
    return it.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def whole(*shape: int) -> Tensor:
    return it.asarray(np.random.default_rng(0).integers(0, 10, shape))


class Pair(nn.Module):
    """A net that takes its inputs as one tuple."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net

    def forward(self, *inputs: Tensor) -> Any:
        return self.net(inputs)


def nets(load: Callable[[str], ModuleType]) -> Iterator[tuple[str, nn.Module, list[Tensor]]]:
    """Each net with inputs."""
    mnist = load("mnist/model.py")
    yield "mnist/linear", mnist.LinearNet(), [normal(2, 1, 28, 28)]
    yield "mnist/mlp", mnist.MLP(16), [normal(2, 1, 28, 28)]
    yield "mnist/conv", mnist.ConvNet(), [normal(2, 1, 28, 28)]
    yield "mnist_learner", load("mnist_learner/train.py").Net(4), [normal(2, 1, 28, 28)]
    texts = load("text_classification/train.py")
    yield "text_classification", texts.Classifier(50, 3, 12, 16, 2), [whole(2, 12)]
    writer = load("text_generation/train.py").Writer(20, 12, 16, 4, 2)
    yield "text_generation", writer, [whole(2, 12)]
    gan = load("gan/train.py")
    yield "gan/generator", gan.Generator(8, 8, 8), [normal(2, 8)]
    yield "gan/critic", gan.Critic(8, 8), [normal(2, 1, 8, 8)]
    denoiser = load("diffusion/train.py").Denoiser(16, 10)
    yield "diffusion", Pair(denoiser), [normal(2, 1, 8, 8), whole(2)]
    pictures = load("custom_image_dataset/train.py").Net(3, 8)
    yield "custom_image_dataset", pictures, [normal(2, 3, 32, 32)]
    yield "named_tensor", load("named_tensor/train.py").Reader(10, 6, 16, 4), [whole(2, 6)]
    yield "import_model_weights", load("import_model_weights/run.py").Reader(), [normal(2, 64)]
    copier = load("custom_kernel/copying.py").Copier(4)
    yield "custom_kernel", copier, [normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4)]
    split = load("router/split.py").Split("numpy", "numpy")
    yield "router", split, [normal(3, 2)]
    yield "resnet", resnet.ResNet("basic", (1, 1, 1, 1), 5, 8), [normal(1, 3, 32, 32)]
    yield "resnet/50", resnet.ResNet("bottleneck", (1, 1, 1, 1), 5, 8), [normal(1, 3, 32, 32)]
    yield "squeezenet", squeezenet.SqueezeNet(classes=5), [normal(1, 3, 48, 48)]
    yield "mobilenet_v2", mobilenet_v2.MobileNetV2(5, 0.25), [normal(1, 3, 32, 32)]
    yield "bert", bert.Bert(60, 16, 2, 16, 2, 4, 32), [whole(2, 6)]
    yield "gpt2", gpt2.GPT2(60, 16, 16, 2, 4), [whole(2, 6)]
    yield "llama", llama.Llama(LLAMA), [whole(2, 6)]
    heard = whisper.Whisper(60, 8, 16, (1, 1), (2, 2), (32, 32), 10, 16)
    yield "whisper", heard, [normal(1, 8, 20), whole(1, 4)]
    yield "clip_text", clip_text.CLIPText(60, 8, 16, 1, 2, 32), [whole(1, 8)]
    net = unet.UNet(4, 4, (8, 16), 1, (True, False), (2, 2), 16, 4)
    yield "unet", net, [normal(1, 4, 8, 8), whole(1), normal(1, 8, 16)]
    yield "autoencoder", autoencoder.Autoencoder(3, 4, (8, 16), 1, 4), [normal(1, 3, 16, 16)]


@pytest.mark.slow
def test_onnxruntime_gives_the_same(load: Callable[[str], ModuleType]) -> None:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    written: set[type] = set()
    with it.device("numpy"):
        for name, net, inputs in nets(load):
            written |= {type(m) for _, m in net.eval().named_modules()}
            model = importer.export_onnx(net, inputs).SerializeToString()
            session = ort.InferenceSession(model, options)
            ports = [port.name for port in session.get_inputs()]
            given = {p: x.numpy() for p, x in zip(ports, inputs, strict=True)}
            (got,), want = session.run(None, given), net(*inputs).numpy()
            largest = max(1.0, float(np.abs(want).max()))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * largest, err_msg=name)
    files = {Path(inspect.getfile(kind)) for kind in written} - {Path(__file__)}
    missed = [
        kind
        for module in [m for m in sys.modules.values() if getattr(m, "__file__", None)]
        if Path(str(module.__file__)) in files and EXAMPLES in Path(str(module.__file__)).parents
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, nn.Module)
        if kind.__module__ == module.__name__ and "forward" in vars(kind)
        if kind not in written
    ]
    assert not missed
    sources = [f for f in EXAMPLES.glob("*/*.py") if "(nn.Module)" in f.read_text("utf-8")]
    bases = {EXAMPLES / "models" / name for name in ("pictures.py", "pretrained.py")}
    assert set(sources) - files == bases
