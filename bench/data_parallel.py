"""Training on several devices beside one, and PyTorch's DDP: `python bench/data_parallel.py`.

The net of `bench/run.py`'s MLP, wider, on batches that are cut into as many parts as there are
devices: a step of Ingle by `ingle.router.data_parallel`, one of PyTorch by
`DistributedDataParallel` with a process for each device (NCCL on GPUs, Gloo on processors). The
losses of both are compared before anything is timed. `--devices cpu,numpy` runs without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

RATE, STEPS = 1e-3, 3
"""Of the optimizer, and how many losses are compared."""
WARM = 27
"""Steps before any is timed: plain code has plans after some twenty."""
TOLERANCE = 1e-3
PORT = "29571"

Array = np.ndarray[Any, Any]


def data(width: int, batch: int) -> tuple[list[Array], Array, Array]:
    """Weights and biases of four layers, a batch and its labels."""
    rng = np.random.default_rng(0)
    sizes = (width, width, width, width, 10)
    weights = [
        made
        for a, b in pairwise(sizes)
        for made in (rng.standard_normal((b, a), np.float32) * (2 / a) ** 0.5, np.zeros(b))
    ]
    x = rng.standard_normal((batch, width), np.float32)
    return [w.astype(np.float32) for w in weights], x, np.arange(batch) % 10


def timed(step: Callable[[], float], wait: Callable[[], object], rounds: int) -> dict[str, Any]:
    """The first losses of steps, and seconds of one: the median of some rounds."""
    losses = [step() for _ in range(STEPS + WARM)][:STEPS]
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(5):
            step()
        wait()
        times.append((time.perf_counter() - begun) / 5)
    return {"losses": losses, "seconds": statistics.median(times)}


def of_ingle(devices: Sequence[str], width: int, batch: int, rounds: int) -> dict[str, Any]:
    import ingle.nn as nn
    import ingle.optim as optim
    import ingle.tensor as it
    from ingle.router import data_parallel

    weights, x, y = data(width, batch)
    cells = [nn.Parameter(it.asarray(w, device=devices[0])) for w in weights]
    given = it.asarray(x, device=devices[0]), it.asarray(y, device=devices[0])
    optimizer = optim.AdamW(cells, lr=RATE, weight_decay=0.0)

    def loss_of(x: it.Tensor, y: it.Tensor) -> it.Tensor:
        for n in range(0, len(cells), 2):
            x = it.linear(x, cells[n], cells[n + 1])
            x = it.relu(x) if n < len(cells) - 2 else x
        return it.cross_entropy(x, y)

    def step() -> float:
        loss, gradients = data_parallel(loss_of, *given, devices=devices)
        optimizer.step(gradients)
        return float(loss.item())

    return timed(step, lambda: cells[0].value.numpy(), rounds)


def of_torch(rank: int, devices: Sequence[str], width: int, batch: int, rounds: int) -> None:
    """One process of PyTorch's; the first prints."""
    import torch
    import torch.distributed as dist

    on_gpu = devices[0].startswith("cuda")
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT}
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=len(devices))
    where = torch.device(f"cuda:{rank}" if on_gpu else "cpu")
    weights, x, y = data(width, batch)
    layers: list[Any] = []
    for n in range(0, len(weights), 2):
        out, come = weights[n].shape
        layers += [torch.nn.Linear(come, out), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for p, w in zip(model.parameters(), weights, strict=True):
            p.copy_(torch.from_numpy(w))
    parallel = torch.nn.parallel.DistributedDataParallel(
        model.to(where), device_ids=[rank] if on_gpu else None
    )
    cut = [batch * n // len(devices) for n in (rank, rank + 1)]
    rows, labels = (torch.from_numpy(a[slice(*cut)]).to(where) for a in (x, y))
    optimizer = torch.optim.AdamW(parallel.parameters(), RATE, weight_decay=0.0, fused=on_gpu)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(parallel(rows), labels)
        loss.backward()
        optimizer.step()
        whole = loss.detach() * (len(rows) / batch)
        dist.all_reduce(whole)
        return float(whole)

    found = timed(step, torch.cuda.synchronize if on_gpu else lambda: None, rounds)
    if rank == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def run_torch(devices: Sequence[str], asked: argparse.Namespace) -> dict[str, Any]:
    """PyTorch's processes, one for each device."""
    command = [
        sys.executable, __file__, "--devices", ",".join(devices), "--width", str(asked.width),
        "--batch", str(asked.batch), "--rounds", str(asked.rounds), "--rank",
    ]  # fmt: skip
    started = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(len(devices))
    ]
    told = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"PyTorch's processes ended with {[p.returncode for p in started]}")
    found: dict[str, Any] = json.loads(told[0].splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Several devices beside one, and PyTorch's DDP.")
    parser.add_argument("--devices", help="comma-separated; all GPUs if not given")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    devices = asked.devices.split(",") if asked.devices else gpus()
    if asked.rank is not None:
        of_torch(asked.rank, devices, asked.width, asked.batch, asked.rounds)
        return
    if len(devices) < 2:
        raise SystemExit(f"several devices are needed, and there is {', '.join(devices) or 'none'}")
    sizes = asked.width, asked.batch, asked.rounds
    measured: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        ("Ingle on one", lambda: of_ingle(devices[:1], *sizes)),
        (f"Ingle on {len(devices)}", lambda: of_ingle(devices, *sizes)),
    ]
    if find_spec("torch") is not None:
        measured.append(("PyTorch on one", lambda: run_torch(devices[:1], asked)))
        measured.append((f"DDP on {len(devices)}", lambda: run_torch(devices, asked)))
    rows: dict[str, dict[str, Any]] = {}
    for name, measure in measured:
        row = rows[name] = measure()
        base = rows["Ingle on one" if name.startswith("Ingle") else "PyTorch on one"]["seconds"]
        took = row["seconds"]
        print(f"{name:16s} {took * 1e3:10.2f} ms a step {base / took:6.2f}x", flush=True)
    wanted = rows["Ingle on one"]["losses"]
    wrong = [n for n, r in rows.items() if not np.allclose(r["losses"], wanted, rtol=TOLERANCE)]
    if wrong:
        raise SystemExit(f"other losses than on one device: {', '.join(wrong)}")


def gpus() -> list[str]:
    """The names of all GPUs."""
    from ingle.tensor import plugins

    return [f"cuda:{n}" for n in range(plugins.describe("cuda").count())]


if __name__ == "__main__":
    main()
