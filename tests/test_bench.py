"""The benchmarks run: every workload at a small size on Ingle, checked against NumPy's results."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from workspace import ROOT

SYSTEMS = {"numpy", "ingle-cpu"}
ONE_OF_EACH = (
    "import", "add/", "chain", "gelu", "softmax", "layernorm", "sum/4096x4096/axis0", "matmul/1024",
    "gemv", "conv/8,64", "attention", "mlp/128", "first-call/warm/3", "stall/mlp", "lenet", "actor",
    "gpt/8x128", "decode", "generate", "scan/ode", "unrolled",
    "published/llama/f", "resnet18/8", "ddpm", "lstm/2", "gru/2",
)  # fmt: skip
"""Parts of the names of workloads: at least one of each family, the cheapest."""
NOT_IN_NUMPY = {
    "attention", "conv", "first-call", "lenet", "actor-critic", "gpt", "generate", "published",
    "resnet18", "ddpm", "lstm", "gru",
}  # fmt: skip


def bench(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def missing(workload: str) -> set[str]:
    """The systems that do not do a workload."""
    family = workload.partition("/")[0]
    if workload == "add/4/recorded":
        return {"numpy", "ingle-cpu"}
    if family == "import":
        return {"ingle-cpu"}  # the same library as ingle-numpy
    return {"numpy"} if family in NOT_IN_NUMPY or workload.endswith("/backward") else set()


def families() -> set[str]:
    """Of all workloads that there are."""
    code = "from workloads import ALL; print(*{w.name.partition('/')[0] for w in ALL})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "bench", capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The rows of a run, in a file, and what it printed."""
    file = tmp_path_factory.mktemp("bench") / "rows.json"
    done = bench(
        "run.py", "--small", "--rounds", 1, "--block", 0.001, "--threads", 1, "--systems",
        "numpy,ingle-cpu", "--workloads", ",".join(ONE_OF_EACH), "--json", file,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return file, done.stdout


@pytest.mark.slow
def test_every_system_does_every_workload(small_run: tuple[Path, str]) -> None:
    rows: list[dict[str, Any]] = json.loads(small_run[0].read_text("utf-8"))
    found: dict[str, set[str]] = {}
    for row in rows:
        assert 0 < row["min_s"] <= row["median_s"]
        found.setdefault(row["workload"], set()).add(row["system"])
    assert {workload.partition("/")[0] for workload in found} == families()
    for workload, present in found.items():
        assert SYSTEMS - present == missing(workload), (workload, present, small_run[1])


@pytest.mark.slow
def test_systems_agree(small_run: tuple[Path, str]) -> None:
    assert "differs from" not in small_run[1]
    assert "gives shape" not in small_run[1]


@pytest.mark.slow
def test_ratios_are_against_the_fastest_peer(small_run: tuple[Path, str]) -> None:
    rows = json.loads(small_run[0].read_text("utf-8"))
    peer = {r["workload"]: r["median_s"] for r in rows if r["system"] == "numpy"}
    least = {r["workload"]: r["min_s"] for r in rows if r["system"] == "numpy"}
    for row in rows:
        if row["workload"] in peer:
            assert row["ratio"] == pytest.approx(peer[row["workload"]] / row["median_s"])
            assert row["ratio_min"] == pytest.approx(least[row["workload"]] / row["min_s"])


@pytest.mark.slow
def test_runs_are_compared(small_run: tuple[Path, str], tmp_path: Path) -> None:
    rows = json.loads(small_run[0].read_text("utf-8"))
    same = bench("compare.py", small_run[0], small_run[0])
    assert same.returncode == 0
    assert same.stdout.count("1.00x") == 2 * len(rows)

    def changed(*columns: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "slower.json"
        slower = [{**r, **{c: 2 * r[c] for c in columns}} for r in rows]
        file.write_text(json.dumps(slower), "utf-8")
        return bench("compare.py", small_run[0], file)

    busy = changed("median_s")
    assert busy.returncode == 0
    assert busy.stdout.count("0.50x") == len(rows)
    worse = changed("median_s", "min_s")
    assert worse.returncode == 1
    assert worse.stdout.count("0.50x") == 2 * len(rows)


@pytest.mark.slow
def test_rows_for_gpus_run_anywhere_when_they_are_asked_for() -> None:
    """At their small sizes, on the processor; results of systems agree."""
    pytest.importorskip("torch")
    done = bench(
        "run.py", "--small", "--rounds", 1, "--block", 0.001, "--threads", 1, "--systems",
        "ingle-cpu,torch", "--workloads",
        "gpu/gelu,gpu/layernorm/16384x4096/bfloat16/backward,gpu/matmul/4096,gpu/linear,gpu/gpt2,"
        "gpu/llama",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith("gpu/")]
    assert len(rows) == 2 * 7, done.stdout
    assert "differs from" not in done.stdout
    assert "gives shape" not in done.stdout
    assert "skipped" not in done.stdout


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`bench/gpu_checks.py` as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("gpu_checks")


def test_stages_on_a_gpu_end_each_by_itself(checks: Any, tmp_path: Path) -> None:
    """One that fails, hangs or computes something else costs the others nothing."""
    wrong = "print('gelu: ingle-cuda differs from torch-cuda by 3')"
    stages = [
        checks.Stage("good", ("-c", "print('here: {out}')"), 20),
        checks.Stage("bad", ("-c", "raise SystemExit('it broke')"), 20),
        checks.Stage("hangs", ("-c", "import time; time.sleep(60)"), 0.2),
        checks.Stage("wrong", ("-c", wrong), 20),
        checks.Stage("pair", ("-c", ""), 20, 2),
    ]
    found = checks.run_all(stages, tmp_path, gpus=1, total=60.0)
    states = {name: outcome.state for name, outcome in found.items()}
    assert states == {
        "good": "passed", "bad": "failed", "hangs": "too long", "wrong": "failed",
        "pair": "left out",
    }  # fmt: skip
    assert found["good"].last == f"here: {tmp_path}"
    assert found["bad"].last == "it broke"
    report = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert report["pair"]["last"] == "it needs 2 GPUs, there are 1"
    late = checks.run_all(stages[:1], tmp_path, gpus=1, total=0.0)
    assert late["good"] == ("left out", 0.0, "no time is left")


def test_stages_on_a_gpu_are_there(checks: Any) -> None:
    """Their scripts and tests are files, and their rows workloads that there are."""
    done = bench("gpu_checks.py", "--list")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(checks.STAGES)
    names = {w.name for w in [*checks_workloads(), *importlib.import_module("gpu_workloads").ALL]}
    for stage in checks.STAGES:
        for part in stage.command:
            assert not part.endswith(".py") or (ROOT / part).is_file(), part
        if "--workloads" in stage.command:
            rows = stage.command[stage.command.index("--workloads") + 1]
            assert all(any(row in name for name in names) for row in rows.split(",")), rows


def checks_workloads() -> Any:
    return importlib.import_module("workloads").ALL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("gpu_agreement.py", ("--device", "cpu")),
        (
            "data_parallel.py",
            ("--devices=cpu,numpy", "--width=32", "--batch=64", "--rounds=1"),
        ),
    ],
)
def test_checks_of_gpus_run_on_processors(script: str, arguments: Any) -> None:
    done = bench(script, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agrees" in done.stdout or "Ingle on 2" in done.stdout


def test_systems_for_gpus_say_what_is_missing() -> None:
    done = bench("run.py", "--systems=ingle-cuda", "--workloads=gpu/gelu")
    if "skipped ingle-cuda: BackendError: no device 'cuda:0'" in done.stdout:
        assert "none of these systems can run here" in done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--systems=abacus", "--workloads=weaving", "--plot=bars.png"])
def test_unknown_names_are_refused(option: str) -> None:
    done = bench("run.py", option)
    assert done.returncode == 2
    assert option.partition("=")[2] in done.stderr
