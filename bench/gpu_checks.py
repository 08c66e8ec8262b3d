"""All that wants a GPU, in one run: `python bench/gpu_checks.py --out results`.

Checks and figures are stages of their own processes, each with a limit of time, so that one that
fails or hangs costs the others nothing; the whole takes twenty minutes at most. Each writes what it
prints to a file of its own in the folder; `summary.json` and the last lines say how each ended.
What comes first matters most. Peers that are not installed are left out.

`--only NAMES` runs some of them; `--list` says what there is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOTAL = 1200.0
"""Seconds of all stages together."""
SYSTEMS = "ingle-cuda,torch-cuda,compile-cuda,captured-cuda,jax-cuda"
STEPS = "mlp/128,gpt/8x128,lenet,resnet18/8,ddpm"
SIZES = "gpu/gelu,gpu/softmax,gpu/layernorm,gpu/matmul,gpu/linear"
WRONG = ("differs from", "gives shape")
"""What `bench/run.py` says of results that do not agree; it ends well all the same."""


class Stage(NamedTuple):
    """A part of the run.

    Attributes:
        name: of its file, too.
        command: behind Python's name; `{out}` is the folder of results.
        seconds: that it may take.
        gpus: how many it needs.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    gpus: int = 1


def _pytest(*arguments: str) -> tuple[str, ...]:
    """Tests; the plugin of benchmarks refuses to work beside that of several processes."""
    return ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", *arguments)


def _bench(workloads: str, file: str, *more: str) -> tuple[str, ...]:
    return (
        str(HERE / "run.py"), "--systems", SYSTEMS, "--workloads", workloads, "--rounds", "3",
        "--json", f"{{out}}/{file}", *more,
    )  # fmt: skip


STAGES = (
    Stage("devices", ("-m", "ingle.tensor", "info", "--check"), 40),
    Stage("agreement", (str(HERE / "gpu_agreement.py"),), 80),
    Stage("faults", _pytest("plugins/cuda/tests/test_faults.py", "-m", "slow"), 60),
    Stage("smoke", _pytest("plugins/cuda/tests/test_testkit.py", "-m", "slow", "-n", "4"), 90),
    Stage("values", _pytest("plugins/cuda/tests/test_bits.py", "-m", "slow", "-n", "4"), 90),
    Stage("several", (str(HERE / "data_parallel.py"),), 120, gpus=2),
    Stage("steps", _bench(STEPS, "steps.json"), 240),
    Stage("gpt2", _bench("gpu/gpt2,gpu/llama", "gpt2.json"), 240),
    Stage("sizes", _bench(SIZES, "sizes.json"), 150),
    Stage("layers", _bench("gpu/conv,gpu/attention,gpu/mlp", "layers.json"), 90),
)  # fmt: skip


class Outcome(NamedTuple):
    """How a stage ended.

    Attributes:
        state: "passed", "failed", "too long" or "left out".
        seconds: that it took.
        last: the last line that it printed, or why it was left out.
    """

    state: str
    seconds: float
    last: str


def run(stage: Stage, out: Path, limit: float) -> Outcome:
    """Runs a stage in the root of the project; its file has what it printed."""
    file = out / f"{stage.name}.txt"
    command = [sys.executable, *[part.format(out=out) for part in stage.command]]
    begun = time.perf_counter()
    with file.open("w", encoding="utf-8") as told:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            state = "passed" if process.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            _end(process)
            state = "too long"
    text = file.read_text("utf-8", errors="replace")
    if state == "passed" and any(words in text for words in WRONG):
        state = "failed"
    lines = [line for line in text.splitlines() if line.strip()]
    return Outcome(state, time.perf_counter() - begun, lines[-1].strip() if lines else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a stage and the processes that it started, which hold memory of the GPU."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def run_all(stages: Sequence[Stage], out: Path, gpus: int, total: float) -> dict[str, Outcome]:
    """Runs stages one after the other, as long as there is time."""
    found: dict[str, Outcome] = {}
    begun = time.perf_counter()
    for stage in stages:
        left = total - (time.perf_counter() - begun)
        if gpus < stage.gpus:
            outcome = Outcome("left out", 0.0, f"it needs {stage.gpus} GPUs, there are {gpus}")
        elif left < 5.0:
            outcome = Outcome("left out", 0.0, "no time is left")
        else:
            outcome = run(stage, out, min(stage.seconds, left))
        found[stage.name] = outcome
        print(f"{stage.name:10s} {outcome.state:9s} {outcome.seconds:6.1f} s  {outcome.last}")
        sys.stdout.flush()
        report = {name: o._asdict() for name, o in found.items()}
        (out / "summary.json").write_text(json.dumps(report, indent=1), "utf-8")
    return found


def count() -> int:
    """How many GPUs there are; ends with the reason where there is none."""
    from ingle.tensor import plugins

    description: Any = plugins.describe("cuda")
    found = int(description.count())
    if not found:
        raise SystemExit(f"no device: {description.missing}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="All checks and figures that want a GPU.")
    parser.add_argument("--out", default="gpu-results", help="the folder of results")
    parser.add_argument("--only", help="comma-separated names of stages")
    parser.add_argument("--list", action="store_true", help="print the stages and their limits")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else [stage.name for stage in STAGES]
    if unknown := set(names) - {stage.name for stage in STAGES}:
        parser.error(f"no stage {', '.join(sorted(unknown))}; --list prints them")
    stages = [stage for stage in STAGES if stage.name in names]
    if asked.list:
        for stage in stages:
            print(f"{stage.name:10s} {stage.seconds:4.0f} s  python {' '.join(stage.command)}")
        return
    gpus = count()
    out = Path(asked.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    found = run_all(stages, out, gpus, TOTAL)
    raise SystemExit(int(any(o.state in ("failed", "too long") for o in found.values())))


if __name__ == "__main__":
    main()
