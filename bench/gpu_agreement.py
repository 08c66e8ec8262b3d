"""Whether the ways that a plugin has for GPUs agree: `python bench/gpu_agreement.py`.

Small trainings run in a process for each way, with one of the plugin's switches off in each, and
once on the processor. Ways that promise the same bits have to have them; libraries and the
processor have to come close. With `--device cpu` it shows on any machine whether it works.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Way(NamedTuple):
    """A process of the trainings.

    Attributes:
        name: for the table.
        settings: variables of the environment.
        exact: whether its bits are those of the first way.
        device: another device than the one that is asked about.
    """

    name: str
    settings: Mapping[str, str]
    exact: bool
    device: str | None = None


WAYS = (
    Way("as it is", {}, exact=True),
    Way("again", {}, exact=True),
    Way("without graphs", {"INGLE_CUDA_GRAPHS": "0"}, exact=True),
    Way("without joined launches", {"INGLE_CUDA_JOINED": "0"}, exact=True),
    Way("without cuDNN", {"INGLE_CUDA_CUDNN": "0"}, exact=False),
    Way("processor", {}, exact=False, device="cpu"),
)
TOLERANCES = {"float32": 2e-3, "bfloat16": 6e-2}
"""Of losses after some steps, relative to the largest one."""


def losses(device: str) -> dict[str, Array]:
    """What each training says, by its name and dtype."""
    import ingle.tensor as it

    found = {}
    for name, dtype in (
        ("perceptron", "float32"), ("convolutions", "float32"), ("attention", "float32"),
        ("attention", "bfloat16"), ("words", "bfloat16"),
    ):  # fmt: skip
        it.random.seed(0)
        with it.device(device):
            found[f"{name}, {dtype}"] = np.array(TRAININGS[name](device, dtype))
    return found


def _trained(model: Any, loss_of: Any, steps: int) -> list[float]:
    """Losses of compiled steps, whose learning rate goes down."""
    import ingle.optim as optim
    from ingle.fusion import compile

    optimizer = optim.AdamW(model, lr=1e-3)

    @compile
    def step() -> Any:
        loss = loss_of()
        optimizer.step(loss.backward())
        return loss.detach()

    found = []
    for n in range(steps):
        optimizer.lr = 1e-3 / (1 + n)
        found.append(step().item())
    return found


def _drawn(device: str, *shape: int) -> Any:
    import ingle.tensor as it

    rng = np.random.default_rng(0)
    return it.asarray(rng.standard_normal(shape).astype(np.float32), device=device)


def perceptron(device: str, dtype: str) -> list[float]:
    """Random numbers, sums of rows and columns, updates of many small parameters."""
    import ingle.nn as nn
    import ingle.tensor as it

    layers = [[nn.Linear(48, 48), nn.LayerNorm(48), nn.GELU(), nn.Dropout(0.1)] for _ in range(4)]
    model = nn.Sequential(*[layer for block in layers for layer in block], nn.Linear(48, 10))
    x, y = _drawn(device, 100, 48), it.asarray(np.arange(100) % 10, device=device)
    return _trained(model, lambda: it.cross_entropy(model(x), y), 12)


def convolutions(device: str, dtype: str) -> list[float]:
    import ingle.nn as nn
    import ingle.tensor as it

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 16, 10),
    )  # fmt: skip
    x, y = _drawn(device, 16, 3, 16, 16), it.asarray(np.arange(16) % 10, device=device)
    return _trained(model, lambda: it.cross_entropy(model(x), y), 8)


def attention(device: str, dtype: str) -> list[float]:
    """Causal attention of 4 heads and a projection, in a dtype; weights are float32."""
    import ingle.nn as nn
    import ingle.tensor as it

    model = nn.Sequential(nn.Linear(64, 192), nn.Linear(64, 64))
    x = _drawn(device, 2, 64, 64)

    def loss_of() -> Any:
        qkv = it.astype(model[0](x), dtype)
        q, k, v = it.permute_dims(it.reshape(qkv, (2, 64, 3, 4, 16)), (2, 0, 3, 1, 4))
        mixed = it.scaled_dot_product_attention(q, k, v, is_causal=True)
        joined = it.reshape(it.permute_dims(mixed, (0, 2, 1, 3)), (2, 64, 64))
        return it.mean((model[1](it.astype(joined, "float32")) - x) ** 2)

    return _trained(model, loss_of, 8)


def words(device: str, dtype: str) -> list[float]:
    """Scores of a vocabulary of odd size, in a dtype."""
    import ingle.nn as nn
    import ingle.tensor as it

    model = nn.Sequential(nn.Embedding(1999, 64), nn.Linear(64, 1999, bias=False))
    ids = it.asarray(np.arange(256) * 7 % 1999, device=device)

    def loss_of() -> Any:
        rows = it.astype(model[0](ids), dtype)
        scores = it.linear(rows, it.astype(model[1].weight, dtype))
        return it.cross_entropy(it.astype(scores, "float32"), ids)

    return _trained(model, loss_of, 6)


TRAININGS = {
    "perceptron": perceptron, "convolutions": convolutions, "attention": attention, "words": words,
}  # fmt: skip


def of_way(way: Way, device: str, folder: Path) -> dict[str, Array]:
    """The losses of a process of its own."""
    file = folder / "losses.npz"
    command = [sys.executable, __file__, "--device", way.device or device, "--write", str(file)]
    done = subprocess.run(
        command, env={**os.environ, **way.settings}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{way.name}: {done.stderr.strip()[-2000:]}")
    with np.load(file) as found:
        return dict(found)


def disagreements(way: Way, found: Mapping[str, Array], first: Mapping[str, Array]) -> list[str]:
    """What a way has otherwise than the first one, beyond what it may."""
    told = []
    for name, wanted in first.items():
        got = found[name]
        if way.exact and got.tobytes() != wanted.tobytes():
            told.append(f"{name}: other bits, {np.abs(got - wanted).max():.3g} apart")
            continue
        apart = float(np.abs(got - wanted).max() / np.abs(wanted).max())
        if not apart <= TOLERANCES[name.rpartition(" ")[2]]:
            told.append(f"{name}: {apart:.3g} apart")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether the ways of a device agree.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--write", help="train once, and write the losses to this file")
    asked = parser.parse_args()
    if asked.write:
        np.savez(asked.write, allow_pickle=False, **losses(asked.device))
        return
    wrong = 0
    first: dict[str, Array] = {}
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            found = of_way(way, asked.device, Path(folder))
        first = first or found
        told = disagreements(way, found, first)
        wrong += len(told)
        print(f"{way.name:28s} {'; '.join(told) or 'agrees'}", flush=True)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
