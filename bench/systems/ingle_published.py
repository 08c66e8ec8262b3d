"""Published models in Ingle: those of `examples/models`, with the workload's weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from published import Text

import ingle.nn as nn

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from models.bert import Bert
from models.llama import Llama, Sizes
from models.resnet import ResNet
from models.squeezenet import SqueezeNet


def picture_model(name: str) -> nn.Module:
    """SqueezeNet 1.1 or ResNet-18."""
    return SqueezeNet("1_1") if name == "squeezenet" else ResNet.named(name)


def text_model(name: str, sizes: Text) -> nn.Module:
    """MiniLM, or a Llama with tied matrices."""
    if name == "minilm":
        return Bert(sizes.vocabulary, 512, 2, sizes.width, sizes.layers, sizes.heads, sizes.inner)
    size = sizes.width // sizes.heads
    return Llama(
        Sizes(
            sizes.vocabulary, sizes.length, sizes.width, sizes.layers, sizes.heads, sizes.kv_heads,
            size, sizes.inner, tied=True,
        )
    )  # fmt: skip


def loaded(name: str, parameters: dict[str, Any], sizes: Text | None = None) -> nn.Module:
    """A model in evaluation, its norms folded into convolutions."""
    model = picture_model(name) if sizes is None else text_model(name, sizes)
    if name == "llama":
        parameters = parameters | {"lm_head.weight": parameters["model.embed_tokens.weight"]}
    counters = {k for k in model.state_dict() if k.endswith("num_batches_tracked")}
    missing, unexpected = model.load_state_dict(parameters, strict=False)
    if unexpected or set(missing) - counters:
        raise ValueError(f"{name}: missing {missing}, unexpected {unexpected}")
    return nn.utils.fuse_batch_norms(model.eval()) if name == "resnet18" else model.eval()
