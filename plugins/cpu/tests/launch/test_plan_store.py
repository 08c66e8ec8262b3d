"""Plans that a process finds on disk: the same bits, nothing planned, and damage is absence."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile, graph_of
from ingle.fusion.ir.scalar_program import ScalarProgram
from ingle.fusion.runtime.graph_plans import GraphPlans
from ingle.fusion.runtime.plan_keys import key_of
from ingle.fusion.runtime.plan_records import read, written
from ingle_cpu.launch import plan_store
from ingle_cpu.threads import pool

PROGRAMS = """
import hashlib, sys
import numpy as np
import ingle.nn as nn, ingle.optim as optim, ingle.tensor as it
from ingle.fusion import compile

rng = np.random.default_rng(0)


def array(*shape):
    return it.asarray(rng.standard_normal(shape).astype(np.float32))


def told(name, *values):
    digest = hashlib.sha256(b"".join([np.ascontiguousarray(v.numpy()).tobytes() for v in values]))
    print(name, digest.hexdigest())


class Net(nn.Module):
    def __init__(self):
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 3))

    def forward(self, x):
        return self.inner(x)


class Convolutional(nn.Module):
    def __init__(self):
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Linear(4 * 3 * 3, 3)

    def forward(self, x):
        y = it.max_pool2d(it.relu(self.first(x)), 2)
        return self.second(it.reshape(y, (x.shape[0], -1)))


class Attention(nn.Module):
    def __init__(self):
        self.embedding, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, tokens):
        x = self.norm(self.embedding(tokens))
        b, t, c = x.shape
        qkv = it.reshape(self.qkv(x), (b, t, 3, 2, c // 2))
        q, k, v = (it.permute_dims(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3))
        y = it.scaled_dot_product_attention(q, k, v, is_causal=True)
        return it.mean(self.out(it.reshape(it.permute_dims(y, (0, 2, 1, 3)), (b, t, c))), axis=1)


def trained(name, net, x, wrap):
    optimizer = optim.Adam(net, lr=optim.schedule.Cosine(1e-2, steps=20))
    y = it.asarray(np.arange(x.shape[0]) % 3)

    def step(x, y):
        loss = it.cross_entropy(net(x), y)
        optimizer.step(loss.backward())
        return loss

    step = wrap(step)
    losses = [step(x, y) for _ in range(6)]
    told(name, *losses, *[p.value for p in net.parameters()])


def sorted_and_transformed(x, n):
    spectrum = it.abs(it.fft.fft(it.sort(x * n, axis=1)))
    return it.sum(spectrum * 2.0, axis=1) + n, it.exp(x) @ it.permute_dims(x, (1, 0))


def picked(x, places):
    return it.take(x * 2.0, places, axis=0) + 1.0


def main(everything):
    it.random.seed(3)
    for wrap in [compile, lambda f: f]:
        kind = "compiled" if wrap is compile else "plain"
        trained(f"mlp {kind}", Net(), array(5, 8), wrap)
        if everything:
            trained(f"conv {kind}", Convolutional(), array(4, 1, 8, 8), wrap)
            trained(f"gpt {kind}", Attention(), it.asarray(np.arange(12).reshape(2, 6) % 11), wrap)
            f, x = wrap(sorted_and_transformed), array(4, 600)
            told(f"host {kind}", *[part for n in (1.0, 2.0, 3.5) for part in f(x, n)])
        g = wrap(picked)
        told(f"checks {kind}", *[g(array(7, 400), it.asarray([1, 6, n])) for n in (0, 2, 5)])
        try:
            g(array(7, 400), it.asarray([1, 2, 7])).numpy()
        except IndexError as error:
            print(kind, "refused", error)
"""
FEW, ALL = PROGRAMS + "\n\nmain(False)\n", PROGRAMS + "\n\nmain(True)\n"


def _ran(folder: Path, program: str, **settings: str) -> tuple[str, list[str], int]:
    """What a program prints, what it planned, and how many plans it found."""
    # A shell's own settings would be those of all programs, also where a test changes one.
    given = {name: value for name, value in os.environ.items() if not name.startswith("INGLE_")}
    environment = {**given, "INGLE_CACHE_DIR": str(folder), "INGLE_LOG": "fusion", **settings}
    environment["INGLE_DEVICE"] = "cpu"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    planned = [line for line in lines if line.startswith("ingle.fusion: planned")]
    found = sum(line.startswith("ingle.fusion: found") for line in lines)
    return done.stdout, planned, found


Filled = tuple[Path, str, str]
"""A folder with the plans of some programs, these, and what they print."""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return _filled(tmp_path_factory.mktemp("plans"), FEW)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return _filled(tmp_path_factory.mktemp("plans"), ALL)


def _filled(folder: Path, program: str) -> Filled:
    said, planned, _ = _ran(folder, program)
    assert planned
    assert said.count("refused") == 2
    return folder, program, said


programs = pytest.mark.parametrize(
    "programs", ["few", pytest.param("everything", marks=pytest.mark.slow)]
)


@pytest.mark.slow
@programs
def test_the_second_process_plans_nothing_and_has_the_same_bits(
    request: pytest.FixtureRequest, programs: str
) -> None:
    folder, program, said = request.getfixturevalue(programs)
    again, planned, found = _ran(folder, program)
    assert again == said
    assert planned == []
    assert found > 0


COMPILED = """
import sys
import numpy as np
import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile


def loss(x, first, second):
    return it.mean(it.log_softmax(it.gelu(x @ first) @ second) ** 2.0)


@compile
def step(x, *weights):
    found, gradients = value_and_grad(loss, argnums=(1, 2))(x, *weights)
    return found, [w - 0.1 * g for w, g in zip(weights, gradients)]


shapes = (5, 8), (8, 16), (16, 3)
found, _ = step(*[it.asarray(np.linspace(-1.0, 1.0, a * b).reshape(a, b)) for a, b in shapes])
print(found.item())
writers = "ingle.fusion.render.", "ingle_cpu.matmul.", "ingle_cpu.attention.", "llvmlite.binding"
print(*sorted(m for m in sys.modules if m.startswith(writers)))
"""
DATA = (
    "entries_table", "machine", "packing", "plan", "prepacked", "problem", "taps_packing", "tile",
    "winners", "winograd_form",
)  # fmt: skip


@pytest.mark.slow
def test_what_comes_from_the_disk_needs_no_writer_of_kernels(tmp_path: Path) -> None:
    made, modules = _ran(tmp_path, COMPILED)[0].splitlines()
    assert {"ingle_cpu.matmul.driver", "ingle.fusion.render.llvm.source"} < {*modules.split()}
    said, planned, found = _ran(tmp_path, COMPILED)
    assert planned == []
    assert found > 0
    again, modules = said.splitlines()
    assert again == made
    # What packed operands and measurements are, and of which processor.
    targets = {"ingle.fusion.render.llvm", "ingle.fusion.render.llvm.targets"}
    assert {*modules.split()} <= targets | {f"ingle_cpu.matmul.{name}" for name in DATA}


@pytest.mark.slow
def test_other_settings_are_other_plans(few: Filled) -> None:
    program = "import ingle.tensor as it; print(it.sum(it.exp(it.ones((9, 900)))).item())"
    folder, _, _ = few
    first = _ran(folder, program)
    assert first[1]
    assert _ran(folder, program)[1] == []
    for changed in ({"INGLE_FUSION_EXACT": "1"}, {"INGLE_NUM_THREADS": "1"}, {"INGLE_CACHE": "0"}):
        said, planned, found = _ran(folder, program, **changed)
        assert (said, found) == (first[0], 0)
        assert planned


@pytest.mark.slow
@programs
def test_entries_that_are_damaged_or_exchanged_are_planned_again(
    request: pytest.FixtureRequest, programs: str, tmp_path: Path
) -> None:
    source, program, said = request.getfixturevalue(programs)
    entries = sorted((source / "kernels").glob("plan-*"))
    assert len(entries) >= 3  # one for each kind of damage
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    for place in (source / "kernels").iterdir():
        content = place.read_bytes()
        if place in entries:
            number = entries.index(place)
            if number % 3 == 0:
                content = entries[number - 1].read_bytes()
            elif number % 3 == 1:
                content = content[: len(content) // 2]
            else:
                middle = len(content) // 2
                content = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
        (folder / place.name).write_bytes(content)
        (folder / place.name).chmod(0o600)
    again, planned, found = _ran(tmp_path, program)
    assert again == said
    assert planned
    assert found == 0
    assert _ran(tmp_path, program)[1] == []


@pytest.mark.slow
def test_kernels_that_are_gone_are_made_again(everything: Filled, tmp_path: Path) -> None:
    source, program, said = everything
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    for place in (source / "kernels").glob("plan-*"):
        (folder / place.name).write_bytes(place.read_bytes())
        (folder / place.name).chmod(0o600)
    again, planned, _ = _ran(tmp_path, program)
    assert again == said
    assert planned == []


def _executable(function: object, *args: it.Tensor) -> tuple[GraphPlans, it.Tensor]:
    device = args[0].backend.inner  # type: ignore[attr-defined]
    device = getattr(device, "inner", device)
    return GraphPlans(device, device.fusion, graph_of(function, *args)), args[0]  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_record_is_read_without_trust() -> None:
    x = it.asarray(np.ones((6, 50), np.float32), device="cpu")

    def function(x: it.Tensor) -> tuple[it.Tensor, ...]:
        return it.softmax(x, axis=1), it.fft.fft(x), it.sum(x @ it.permute_dims(x, (1, 0)))

    executable, _ = _executable(function, x)
    plan = executable.plan([])
    device, graph = executable._device, executable._graph
    plan_store = device.plan_store
    if plan_store is None:
        pytest.skip("there is no cache")
    content = written(device, plan_store, plan.data)
    assert content is not None
    assert read(device, plan_store, graph, content) is not None
    other = graph_of(lambda x: it.exp(x), it.ones((6, 50), device="cpu"))
    assert read(device, plan_store, other, content) is None
    whole = bytearray(zlib.decompress(content))
    draw = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        read(
            device, plan_store, graph, zlib.compress(damaged)
        )  # says yes or no, and raises nothing
        cut = whole[: draw.randrange(len(whole))]
        assert read(device, plan_store, graph, zlib.compress(cut)) is None
        assert read(device, plan_store, graph, bytes(damaged)) is None
    assert read(device, plan_store, graph, b"") is None
    assert read(device, plan_store, graph, content[:-9]) is None


@pytest.mark.parametrize(
    "line",
    ["y0 = __import__('os')", "y0 = x0.real", "import os", "y0 = [x for x in y]", "y0 = x1 + x0",
     "abs = x0", "y0 = (y1 := x0)", "return x0", "y0 = open(x0)", "if x0: y0 = 1", "y0 = 'x'"],
)  # fmt: skip
def test_only_arithmetic_is_a_program(line: str) -> None:
    assert not ScalarProgram(1, (line,), ("x0",)).is_arithmetic()


def test_arithmetic_is_a_program() -> None:
    lines = "y0 = x0 * 2.0", "if not (y0 < inf): return None", "y1 = sqrt(abs(y0)) ** -1"
    program = ScalarProgram(1, lines, ("y1", (2.5,), "x0"))
    assert program.is_arithmetic()
    run = program.function()
    assert run(8.0) == (0.25, 2.5, 8.0)
    assert run(float("inf")) is None


def test_keys_differ_where_graphs_do() -> None:
    x = it.ones((3, 4), device="cpu")
    graphs = [
        graph_of(lambda x: x * 2, x),
        graph_of(lambda x: x * 2.0, x),
        graph_of(lambda x: x * 2.5, x),
        graph_of(lambda x: x + 2.5, x),
        graph_of(lambda x: it.sum(x, axis=0), x),
        graph_of(lambda x: it.sum(x, axis=1), x),
        graph_of(lambda x: x * 2.5, it.ones((4, 3), device="cpu")),
    ]
    keys = {key_of(graph, (), "") for graph in graphs}
    assert None not in keys
    assert len(keys) >= len(graphs) - 1  # the number of x * 2 may be that of x * 2.0
    assert key_of(graphs[0], (), "") != key_of(graphs[0], (), "another machine")
    assert key_of(graphs[0], (1,), "") != key_of(graphs[0], (1.0,), "")


@pytest.mark.slow
def test_keys_ask_for_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first key of a process stands before all work: what threads run is compiled beside it."""

    def no_pool() -> None:
        raise AssertionError

    for module in (pool, plan_store):
        monkeypatch.setattr(module, "thread_pool", no_pool, raising=False)
    with it.device("cpu"):
        graph = graph_of(lambda x: it.exp(x) * 2.0, it.ones(3))
        store = it.ones(3).backend.inner.plan_store
    assert key_of(graph, [], store.description()) is not None
    assert f" {pool.pool_size()} " in store.description()


def test_operations_of_others_are_planned_in_each_process(tmp_path: Path) -> None:
    program = """
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.operation import Operation, Traits
from ingle.tensor.dispatch import run1
own = Operation("doubled_on_disk", tensors=("x",), rule=lambda x: x, body=lambda x: x * FACTOR,
                traits=Traits("elementwise"))
f = compile(lambda x: it.sum(run1(own.op(), x._handle) + 1.0))
print([f(it.ones((8, 900))).item() for _ in range(3)])
"""
    first = _ran(tmp_path, program.replace("FACTOR", "2.0"))
    second = _ran(tmp_path, program.replace("FACTOR", "3.0"))
    assert first[0] == f"{[3.0 * 7200] * 3}\n"
    assert second[0] == f"{[4.0 * 7200] * 3}\n"


def test_a_compiled_function_that_was_found_goes_on_like_one_that_was_made() -> None:
    scale = it.Cell(it.asarray(np.full((8, 300), 2.0, np.float32), device="cpu"))

    @compile
    def step(x: it.Tensor, rate: float) -> it.Tensor:
        scale.value = scale.value * rate + x
        return it.sum(scale.value)

    x = it.ones((8, 300), device="cpu")
    expected = np.full((8, 300), 2.0, np.float32)
    for turn in range(6):
        expected = expected * np.float32(1.0 + turn) + 1
        assert step(x, 1.0 + turn).item() == pytest.approx(float(expected.sum()), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_never_change_are_kept_in_tables(dtype: type[np.floating]) -> None:
    x = it.asarray(np.linspace(-1.0, 1.0, 300).reshape(6, 50).astype(dtype), device="cpu")
    numbers = [0.37 * k - 3.1 for k in range(20)]

    def function(x: it.Tensor) -> list[it.Tensor]:
        return [x * a + it.sum(x, axis=1, keepdims=True) for a in numbers]

    executable, _ = _executable(function, x)
    data = executable.plan([]).data
    assert len(data.scalars) == len(numbers)
    device, graph = executable._device, executable._graph
    for made in data.steps:
        assert made.executable.usual.patches == []  # type: ignore[union-attr]
    if device.plan_store is None:
        pytest.skip("there is no cache")
    content = written(device, device.plan_store, data)
    assert content is not None
    again = read(device, device.plan_store, graph, content)
    assert again is not None
    args = [step.executable.usual.table.args.tolist() for step in again.steps]  # type: ignore[union-attr]
    before = [step.executable.usual.table.args.tolist() for step in data.steps]  # type: ignore[union-attr]
    assert args == before
    wanted = [x.numpy() * dtype(a) + x.numpy().sum(axis=1, keepdims=True) for a in numbers]
    for y, right in zip(compile(function)(x), wanted, strict=True):
        np.testing.assert_allclose(y.numpy(), right, rtol=1e-5, atol=1e-5)
