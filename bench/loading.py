"""A large safetensors file, by its own library's NumPy loader and by Ingle's: time and memory.

    python bench/loading.py [--mebibytes 1024] [--rounds 3] [--device cpu]

Each loader runs in a process of its own, in turns. Columns: milliseconds of a process's first load
and of the fastest load, the least of all rounds; the most memory that a first load needed beyond
what the process began with, and what of it stays, both in sizes of the file. Memory that a machine
gives out for the first time since it started can cost more than everything else: the rounds are
for that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LOADERS = "safetensors.numpy.load_file", "importer.load_state_dict", "importer.load_weights"
TENSORS = 64


def megabytes(what: str) -> float:
    """A figure of this process by its name in Linux's `/proc/self/status`, in MiB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"{what} is not told by this system; the benchmark needs Linux")


def loader(name: str, path: str, device: str) -> Callable[[], Any]:
    """What one measured load is; all that it needs is imported and warm."""
    if name.startswith("safetensors"):
        from safetensors.numpy import load_file

        return lambda: load_file(path)
    import ingle.tensor as it
    from ingle import importer, nn

    with it.device(device):
        it.ones(2).numpy()
        if name.endswith("load_state_dict"):
            return lambda: importer.load_state_dict(path, device=device)
        shapes = importer.open_weights(path)
        model = nn.Module()
        for key in shapes:
            setattr(model, key, nn.Parameter(it.zeros(shapes.shape(key))))
        return lambda: importer.load_weights(model, path)


def measure(name: str, path: str, device: str, repeats: int) -> dict[str, float]:
    """One process's figures."""
    load = loader(name, path, device)
    before, times = megabytes("VmRSS"), []
    found: dict[str, float] = {}
    for _ in range(repeats):
        start = time.perf_counter()
        result = load()
        times.append(1e3 * (time.perf_counter() - start))
        if not found:
            found = {"peak": megabytes("VmHWM") - before, "stays": megabytes("VmRSS") - before}
        del result
    return {"first": times[0], "best": min(times), **found}


def written(folder: Path, mebibytes: int) -> Path:
    """A file of that size with matrices of float32."""
    from ingle import importer

    rng = np.random.default_rng(0)
    rows = mebibytes * 256 // TENSORS
    path = folder / "model.safetensors"
    arrays = {f"w{i}": rng.standard_normal((rows, 1024), np.float32) for i in range(TENSORS)}
    importer.save_safetensors(path, arrays)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs=2, metavar=("LOADER", "PATH"), help="for its processes")
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only[0], args.only[1], args.device, args.repeats)))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in LOADERS}
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), args.mebibytes)
        for _ in range(args.rounds):
            for name in LOADERS:
                command = [sys.executable, __file__, "--only", name, str(path)]
                command += ["--device", args.device, "--repeats", str(args.repeats)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[name].append(json.loads(out))
    print(f"{'':28}{'first ms':>10}{'best ms':>10}{'peak':>8}{'stays':>8}")
    for name, rows in found.items():
        least = {key: min(row[key] for row in rows) for key in rows[0]}
        memory = [least[key] / args.mebibytes for key in ("peak", "stays")]
        print(f"{name:28}{least['first']:10.0f}{least['best']:10.0f}"
              f"{memory[0]:7.2f}x{memory[1]:7.2f}x")  # fmt: skip


if __name__ == "__main__":
    main()
