"""The README's main job, whole, beside the same script for PyTorch: `python bench/main_job.py`.

Both train the convolutional net of `examples/mnist` for one epoch on 60,000 images in MNIST's files
(generated, unless --data names a folder), validate, write a checkpoint, the weights and a history,
test, and draw the same pictures. Processes alternate; time is by the clock and by the processors,
from the start of Python to its end.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

HERE = Path(__file__).parent
SCRIPTS = {
    "ingle": HERE.parent / "examples" / "mnist" / "train.py",
    "torch": HERE / "peers" / "mnist_torch.py",
}
FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", 60_000),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", 10_000),
}


def write_digits(folder: Path) -> None:
    """Ten smooth shapes, shifted, in noise, as files of MNIST's format."""
    rng = np.random.default_rng(0)
    rough = rng.random((10, 7, 7))
    shapes = np.kron(rough, np.ones((4, 4))) > 0.6
    for images, labels, count in FILES.values():
        of = rng.integers(0, 10, count).astype(np.uint8)
        rows, columns = rng.integers(-3, 4, (2, count))
        steps = np.arange(28)
        moved = shapes[
            of[:, None, None],
            (steps[None, :, None] + rows[:, None, None]) % 28,
            (steps[None, None, :] + columns[:, None, None]) % 28,
        ]
        noisy = moved * 160 + rng.integers(0, 96, (count, 28, 28))
        for name, array in ((images, noisy.astype(np.uint8)), (labels, of)):
            header = (0x0800 + array.ndim).to_bytes(4, "big")
            sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
            with gzip.open(folder / name, "wb", compresslevel=1) as file:
                file.write(header + sizes + array.tobytes())


def run(script: Path, data: Path, out: Path, threads: int) -> tuple[float, float, str]:
    """Seconds by the clock and by the processors of a whole process, and its last line."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "INGLE_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [sys.executable, str(script), "--data", str(data), "--out", str(out), "--epochs", "1"]
    begun = time.perf_counter()
    process = psutil.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    before = psutil.Process().cpu_times()
    text, _ = process.communicate()
    after = psutil.Process().cpu_times()
    busy = after.children_user + after.children_system
    busy -= before.children_user + before.children_system
    if process.returncode:
        raise SystemExit(f"{script} failed:\n{text}")
    return time.perf_counter() - begun, busy, text.strip().splitlines()[-1]


def main() -> None:
    """Alternates the two and prints medians, minima and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with MNIST's four files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        data = options.data or Path(made)
        if options.data is None:
            write_digits(data)
        found: dict[str, list[tuple[float, float, str]]] = {name: [] for name in SCRIPTS}
        for number in range(options.rounds):
            for name, script in SCRIPTS.items():
                found[name].append(run(script, data, Path(made) / name, options.threads))
                wall, busy, last = found[name][-1]
                print(f"round {number + 1} {name}: {wall:.1f} s, processors {busy:.1f} s; {last}")
    for place, what in enumerate(("by the clock", "by the processors")):
        times = {name: [float(r[place]) for r in runs] for name, runs in found.items()}
        ratio = statistics.median(times["torch"]) / statistics.median(times["ingle"])
        least = min(times["torch"]) / min(times["ingle"])
        print(f"{what}: {ratio:.2f} times as fast as PyTorch (by minima {least:.2f})")


if __name__ == "__main__":
    main()
