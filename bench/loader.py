"""Batches a second of `Loader` beside PyTorch's `DataLoader`: arrays, and folders of photos.

Both read the same files by Pillow, resize with the same filter and make float32 batches, here
with `fast=True` by vectors of the processor (`pip install "ingle-dataset[fast-images]"`); epochs of
each alternate, and the best of each counts. Time is given by the clock and by the processors, those
of worker processes included, as only the latter means much beside other work.
`python bench/loader.py [--size 128] [--workers 2]`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from PIL import Image

from ingle.dataset import ArrayDataset, ImageFolder, Loader


def photos(folder: Path, count: int, side: tuple[int, int]) -> None:
    """Writes JPEG files of two classes: smooth pictures with the noise of a camera."""
    rng = np.random.default_rng(0)
    for label in ("left", "right"):
        (folder / label).mkdir(parents=True)
        for i in range(count // 2):
            rough = Image.fromarray(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8))
            smooth = np.asarray(rough.resize(side[::-1], Image.Resampling.BICUBIC)).astype(int)
            noisy = smooth + rng.integers(-10, 11, smooth.shape)
            Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(
                folder / label / f"{i}.jpg", quality=87
            )


class Photos(torch.utils.data.Dataset):  # type: ignore[misc]
    """The same for PyTorch, as its tutorials write it."""

    def __init__(self, folder: Path, size: int) -> None:
        self.paths = sorted(folder.glob("*/*.jpg"))
        self.labels = [int(path.parent.name == "right") for path in self.paths]
        self.size = size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with Image.open(self.paths[index]) as image:
            small = image.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)
        return pixels.contiguous().float().div(255), self.labels[index]


def processors() -> float:
    """Seconds of this process and its children so far."""
    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *here.children())]
    return float(sum(found.user + found.system for found in times))


def seconds(loader: Iterable[Any]) -> tuple[float, float]:
    """Of one epoch, by the clock and by the processors."""
    begin, busy = time.perf_counter(), processors()
    for batch in loader:
        for part in batch if isinstance(batch, (tuple, list)) else (batch,):
            part.sum()
    return time.perf_counter() - begin, processors() - busy


def compare(name: str, samples: int, rounds: int, loaders: dict[str, Callable[[], Any]]) -> None:
    """Prints what each needs for a sample, and how many times that PyTorch needs."""
    made = {key: make() for key, make in loaders.items()}
    times: dict[str, list[tuple[float, float]]] = {key: [] for key in made}
    for _ in range(rounds + 1):
        for key, loader in made.items():
            times[key].append(seconds(loader))
    # The first epoch starts processes and fills caches.
    best = {
        key: [min(part) for part in zip(*found[1:], strict=True)] for key, found in times.items()
    }
    for key, needs in best.items():
        parts = [
            f"{need / samples * 1e6:8.1f} us of {what} ({theirs / need:4.2f}x)"
            for need, theirs, what in zip(
                needs, best["PyTorch"], ("time", "processors"), strict=True
            )
        ]
        print(f"{name:8} {key:24} {'  '.join(parts)}  a sample", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--photo", type=int, nargs=2, default=(375, 500), help="height, width")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)

    x = np.random.default_rng(0).normal(size=(20_000, 3, 32, 32)).astype(np.float32)
    y = np.arange(20_000)
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    compare("arrays", len(x), given.rounds, {
        "PyTorch": lambda: torch.utils.data.DataLoader(pairs, 128, shuffle=True),
        "Ingle": lambda: Loader(ArrayDataset(x, y), 128, shuffle=True),
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder, size = Path(place), (given.size, given.size)
        photos(folder, given.count, tuple(given.photo))
        options: dict[str, Any] = {"shuffle": True, "num_workers": given.workers}
        compare("photos", given.count, given.rounds, {
            "PyTorch": lambda: torch.utils.data.DataLoader(
                Photos(folder, given.size), 32, persistent_workers=True, **options
            ),
            "Ingle": lambda: Loader(
                ImageFolder(folder, size=size), 32, shuffle=True, workers=given.workers
            ),
            "Ingle, fast=True": lambda: Loader(
                ImageFolder(folder, size=size, fast=True), 32, shuffle=True, workers=given.workers
            ),
            "Ingle, draft=True": lambda: Loader(
                ImageFolder(folder, size=size, draft=True), 32, shuffle=True, workers=given.workers
            ),
            "Ingle, both": lambda: Loader(
                ImageFolder(folder, size=size, fast=True, draft=True), 32, shuffle=True,
                workers=given.workers,
            ),
        })  # fmt: skip


if __name__ == "__main__":
    main()
