"""Models of pictures beside transformers', PyTorch's and, where it is installed, torchvision's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import resnet
from models.mobilenet_v2 import MobileNetV2
from models.pictures import PictureModel, main, prepared
from models.resnet import ResNet
from models.squeezenet import SqueezeNet
from PIL import Image

import ingle.tensor as it
from ingle.importer import WeightsError

RNG = np.random.default_rng(0)


def lively(model: Any) -> Any:
    """A model of PyTorch whose norms have statistics and factors of their own."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.2)
    return model.eval()


def compared(
    kind: type[PictureModel], theirs: Any, name: Callable[[str], str], folder: Path, agree: Any,
    dtype: str = "float32", side: int = 64,
) -> None:  # fmt: skip
    """Saves a model of PyTorch under the published names, loads it, and compares."""
    import torch

    state = {name(k): v for k, v in theirs.state_dict().items()}
    torch.save(state, folder / "weights.pth")
    x = RNG.normal(size=(2, 3, side, side)).astype(dtype)
    ours = kind.from_pretrained(folder / "weights.pth", dtype=dtype)
    other = theirs.to(getattr(torch, dtype))(torch.tensor(x))
    other = getattr(other, "logits", other)
    agree(ours, theirs, ours(it.asarray(x)), other, names=name)


def resnet_name(name: str) -> str:
    """What transformers calls a weight of ResNet, as it is published."""
    name = name.replace("resnet.embedder.embedder.convolution", "conv1")
    name = name.replace("resnet.embedder.embedder.normalization", "bn1")
    name = name.replace("classifier.1", "fc")
    name = re.sub(
        r"resnet\.encoder\.stages\.(\d+)\.layers\.", lambda m: f"layer{int(m[1]) + 1}.", name
    )
    name = name.replace("shortcut.convolution", "downsample.0")
    name = name.replace("shortcut.normalization", "downsample.1")
    for part, ours in (("convolution", "conv"), ("normalization", "bn")):
        name = re.sub(rf"layer\.(\d)\.{part}", lambda m, o=ours: f"{o}{int(m[1]) + 1}", name)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_resnet(hf: Any, agree: Any, kind: str, tmp_path: Path) -> None:
    counts = [2, 2, 2, 2] if kind == "basic" else [3, 4, 6, 3]
    sizes = [w * (1 if kind == "basic" else 4) for w in (16, 32, 64, 128)]
    config = hf.ResNetConfig(
        embedding_size=16, hidden_sizes=sizes, depths=counts, layer_type=kind, num_labels=10
    )
    theirs = lively(hf.ResNetForImageClassification(config))
    compared(ResNet, theirs, resnet_name, tmp_path, agree)


@pytest.mark.slow
def test_mobilenet(hf: Any, agree: Any, tmp_path: Path) -> None:
    config = hf.MobileNetV2Config(
        depth_multiplier=0.5, tf_padding=False, layer_norm_eps=1e-5, num_labels=10,
        hidden_act="relu6", finegrained_output=True,
    )  # fmt: skip
    theirs = lively(hf.MobileNetV2ForImageClassification(config))
    # Both have the same layers in the same order.
    names = dict(
        zip(theirs.state_dict(), MobileNetV2(10, 0.5).state_dict(), strict=True)
    )  # fmt: skip
    compared(MobileNetV2, theirs, names.__getitem__, tmp_path, agree)


def squeezenet_of_torch(version: str, classes: int) -> Any:
    """Tables 1 of the paper and of the authors' note on version 1.1, in torch.nn."""
    from torch import cat, nn
    from torch.nn.functional import relu

    class Fire(nn.Module):
        def __init__(self, inputs: int, s1x1: int, e1x1: int) -> None:
            super().__init__()
            self.squeeze = nn.Conv2d(inputs, s1x1, 1)
            self.expand1x1 = nn.Conv2d(s1x1, e1x1, 1)
            self.expand3x3 = nn.Conv2d(s1x1, e1x1, 3, padding=1)

        def forward(self, x: Any) -> Any:
            x = relu(self.squeeze(x))
            return cat([relu(self.expand1x1(x)), relu(self.expand3x3(x))], 1)

    def pool() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    if version == "1_0":
        features = [
            nn.Conv2d(3, 96, 7, stride=2), nn.ReLU(), pool(), Fire(96, 16, 64), Fire(128, 16, 64),
            Fire(128, 32, 128), pool(), Fire(256, 32, 128), Fire(256, 48, 192), Fire(384, 48, 192),
            Fire(384, 64, 256), pool(), Fire(512, 64, 256),
        ]  # fmt: skip
    else:
        features = [
            nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64),
            pool(), Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192),
            Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        ]  # fmt: skip
    classifier = nn.Sequential(
        nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    whole = nn.Sequential(nn.Sequential(*features), classifier)
    return whole.eval()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1_0", "1_1"])
def test_squeezenet(hf: Any, agree: Any, version: str, tmp_path: Path) -> None:
    theirs = squeezenet_of_torch(version, 10)

    def name(own: str) -> str:
        return re.sub(r"^[01]", lambda m: ("features", "classifier")[int(m[0])], own)

    # In float64: what is 0 but for rounding passes a ReLU or does not.
    compared(SqueezeNet, theirs, name, tmp_path, agree, "float64")


@pytest.fixture
def torchvision() -> Any:
    # Without kernels for this build of PyTorch it cannot be imported.
    return pytest.importorskip("torchvision", exc_type=(ImportError, RuntimeError))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [(SqueezeNet, "squeezenet1_0"), (SqueezeNet, "squeezenet1_1"), (ResNet, "resnet18"),
     (ResNet, "resnet34"), (ResNet, "resnet50"), (MobileNetV2, "mobilenet_v2")],
)  # fmt: skip
def test_as_torchvision(torchvision: Any, hf: Any, agree: Any, kind: Any, name: str,
                        tmp_path: Path) -> None:  # fmt: skip
    theirs = lively(getattr(torchvision.models, name)(num_classes=10))
    compared(kind, theirs, str, tmp_path, agree)


def test_pictures_are_cut_and_standardized() -> None:
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[:, 50:150] = (255, 0, 0)
    x = prepared(Image.fromarray(pixels), 56)
    assert x.shape == (3, 56, 56)
    np.testing.assert_allclose(x[:, 28, 28], [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225])
    assert prepared(Image.new("L", (37, 91)), 224).shape == (3, 224, 224)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from ingle import importer

    it.random.seed(0)
    importer.save_safetensors(tmp_path / "model.safetensors", ResNet("basic", (1,) * 4, 3, 8))
    for i, color in enumerate(("red", "blue")):
        Image.new("RGB", (40 + i, 50), color).save(tmp_path / f"{color}.png")
    return tmp_path


@pytest.mark.slow
def test_the_command(folder: Path, capsys: Any) -> None:
    given = ["--weights", str(folder), "--size=32", "--top=2"]
    pictures = [str(folder / "red.png"), str(folder / "blue.png")]
    found = main(ResNet, resnet.__doc__, [*given, *pictures])
    model = ResNet.from_pretrained(folder)
    with Image.open(pictures[0]) as image:
        scores = model(it.asarray(prepared(image, 32)[None])).numpy()[0]
    chances = np.exp(scores) / np.exp(scores).sum()
    best = int(chances.argmax())
    assert found[0][0][0] == f"class {best}"
    assert abs(found[0][0][1] - chances[best]) < 1e-4
    assert [len(row) for row in found] == [2, 2]
    assert capsys.readouterr().out.startswith(f"{pictures[0]}\n")
    names = ["cat", "dog", "fox"]
    (folder / "config.json").write_text(json.dumps({"id2label": dict(enumerate(names))}))
    assert main(ResNet, None, [*given, pictures[0]])[0][0][0] == names[best]
    (folder / "labels.txt").write_text("a\nb\nc\n")
    assert main(ResNet, None, [*given, pictures[0]])[0][0][0] == "abc"[best]
    (folder / "labels.txt").write_text("a\nb\n")
    with pytest.raises(SystemExit, match="2 labels, and the model tells 3 classes"):
        main(ResNet, None, [*given, pictures[0]])


def test_weights_of_another_model(folder: Path) -> None:
    with pytest.raises(WeightsError, match=r"features\.0\.weight.*not weights of SqueezeNet"):
        SqueezeNet.from_pretrained(folder)


def test_named_sizes_are_the_published_ones() -> None:
    """Parameters of torchvision's models."""
    counts = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032}
    for name, count in counts.items():
        assert ResNet.named(name).count_parameters() == count
    assert SqueezeNet("1_0").count_parameters() == 1_248_424
    assert SqueezeNet("1_1").count_parameters() == 1_235_496
    assert MobileNetV2().count_parameters() == 3_504_872
