"""Runs for tests: written as a training writes them, in no time."""

import json
import os
import platform
import time

MODULES = [
    ["", "Net", {}],
    ["body", "Sequential", {}],
    ["body.0", "Linear", {"weight": 12, "bias": 3}],
    ["head", "Linear", {"weight": 6}],
]


def lines(steps=200, epochs=4, done=2, ended=False, began=None, pid=None, seed=0):
    """The lines of a run of `done` epochs and a half."""
    began = time.time() - 100 if began is None else began
    per_epoch = steps // epochs
    yield {
        "kind": "begin", "time": began, "format": 1, "step": 0, "epoch": 0, "epochs": epochs,
        "devices": ["numpy"], "modules": MODULES, "saves": True,
        "pid": os.getpid() if pid is None else pid, "host": platform.node(), "python": "3.11",
    }  # fmt: skip
    last = steps if ended else done * per_epoch + per_epoch // 2
    for step in range(1, last + 1):
        epoch, batch = divmod(step - 1, per_epoch)
        loss = 2.0 * 0.98**step + 0.05 * ((step * 7 + seed) % 11) / 11
        at = began + 100 * step / last
        yield {
            "kind": "steps", "time": at, "n": 1, "step": step, "epoch": epoch, "batch": batch + 1,
            "batches": per_epoch, "lr": 0.1 / step, "loss": loss, "samples": 8, "seconds": 0.5,
            "data": 0.05,
        }  # fmt: skip
        if step == 10:
            spans = {"data": 0.05, "forward": 0.1, "backward": 0.2, "optimizer": 0.1}
            yield {"kind": "spans", "time": at, "step": step, "seconds": 0.5, "spans": spans}
            norms = {"body.0.weight": [3.0, 0.3], "body.0.bias": [4.0, 0.4], "head.weight": [1, 0]}
            yield {"kind": "norms", "time": at, "step": step, "norms": norms}
            gauges = {
                "process/memory": 2.0**29, "process/cpu": 1.5, "machine/memory": 2.0**32,
                "machine/memory total": 2.0**33, "machine/cpu": 0.8, "machine/cores": 2.0,
                "machine/temperature": 63.4, "numpy/memory": 2.0**20, "numpy/use": 0.87,
                "numpy/used": 2.0**31, "numpy/total": 2.0**33, "numpy/temperature": 71.0,
                "numpy/power": 301.7,
            }  # fmt: skip
            yield {"kind": "gauges", "time": at, "gauges": gauges}
        if batch + 1 == per_epoch:
            record = {
                "epoch": epoch + 1, "step": step, "lr": 0.1, "train/loss": loss,
                "train/accuracy": 0.5 + 0.1 * epoch, "valid/loss": loss + 0.1,
                "valid/accuracy": 0.4 + 0.1 * epoch, "seconds": 25.0,
            }  # fmt: skip
            yield {"kind": "epoch", "time": at, "record": record, "epochs": epochs}
    if ended:
        yield {"kind": "end", "time": began + 100, "reason": None}


def write(folder, **options):
    folder.mkdir(parents=True, exist_ok=True)
    append(folder, *lines(**options))
    return folder


def append(folder, *found):
    with (folder / "run.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in found)
