"""Plans for all sizes that a process finds on disk: what it runs by them has the same bits."""

from __future__ import annotations

import json
import random
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from forgotten_plans import forget_plans

import ingle.tensor as it
from ingle.fusion import graph_of
from ingle.fusion.device import DiskStore
from ingle.fusion.runtime import sized_graph, sized_records
from ingle.fusion.runtime.any_size_plan import AnySizePlan
from ingle.fusion.runtime.plan_keys import key_of_form
from ingle.fusion.runtime.sized_records import StoredSizedPlans
from ingle.fusion.symbolic.size_program import SizeProgram
from ingle.testkit.bits import same_bits
from ingle_cpu.launch.plan_store import CpuPlanStore

LENGTHS = range(40, 50)


class Processes:
    """One process after the other on an empty folder of plans.

    Attributes:
        made: how many plans for all sizes the last one has made.
        recalled: the ones that it has found.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self.made, self.recalled = 0, list[AnySizePlan]()
        self.device = it.zeros(1, device="cpu").backend.inner
        monkeypatch.setattr(self.device, "plan_store", CpuPlanStore(DiskStore(folder)))
        monkeypatch.setenv("INGLE_PLAN_SLICES", "0")
        # Other tests keep no plans, so that each makes its own.
        stored = sized_records.stored_sized_plans
        monkeypatch.setattr(sized_graph, "stored_sized_plans", stored)
        make, read = sized_graph.any_size_plan, sized_records.read

        def made(*args: Any) -> AnySizePlan | None:
            self.made += 1
            return make(*args)

        def found(*args: Any) -> AnySizePlan | None:
            plan = read(*args)
            if plan is not None:
                self.recalled.append(plan)
            return plan

        monkeypatch.setattr(sized_graph, "any_size_plan", made)
        monkeypatch.setattr(sized_records, "read", found)
        self.next()

    def next(self) -> None:
        """Forgets all that a process knows of plans."""
        self.made, self.recalled = 0, []
        forget_plans(self._monkeypatch)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Processes:
    return Processes(monkeypatch, tmp_path)


def drawn(*shape: int) -> it.Tensor:
    values = np.random.default_rng(shape).normal(size=shape).astype(np.float32)
    return it.asarray(values, device="cpu")


def layer(length: int) -> list[np.ndarray]:
    x, weight = drawn(length, 24), drawn(24, 24)
    y = it.softmax(it.tanh(x) @ weight * 0.7 + 1.0, axis=0)
    return [np.asarray(y - it.mean(x, axis=0)), np.asarray(it.sum(it.exp(-y), axis=1)[-1:])]


def attention(length: int) -> list[np.ndarray]:
    x = drawn(1, 2, length, 16)
    y = it.scaled_dot_product_attention(x, x * 0.5, x + 1.0, is_causal=True)
    return [np.asarray(it.sum(it.tanh(y) * 2.0 + x, axis=-1))]


def windows(length: int) -> list[np.ndarray]:
    x = it.reshape(drawn(length, 24), (1, 4, -1))
    y = it.conv1d(x, it.reshape(drawn(3, 24), (6, 4, 3)), padding=1)
    return [np.asarray(it.mean(it.relu(it.tanh(y)), axis=-1))]


@pytest.mark.parametrize("function", [layer, attention, windows])
def test_a_size_that_is_new_to_a_process_runs_by_a_plan_of_another(
    processes: Processes, function: Any
) -> None:
    found = {length: function(length) for length in LENGTHS}
    assert processes.made > 0
    processes.next()
    for length in reversed(LENGTHS):
        assert all(map(same_bits, found[length], function(length))), length
    assert processes.recalled
    assert processes.made == 0


def test_an_index_out_of_range_has_the_sizes_at_hand(processes: Processes) -> None:
    def picked(length: int, index: int) -> np.ndarray:
        places = it.asarray(np.full(length, index), device="cpu")
        y = it.take(it.tanh(drawn(length, 24)) * 2.0 + 1.0, places, axis=0)
        return np.asarray(it.sum(it.exp(y - it.max(y)) / 3.0, axis=0) + 1.0)

    for length in LENGTHS:
        picked(length, length - 1)
    processes.next()
    picked(45, 44)
    assert processes.recalled
    with pytest.raises(IndexError, match="45"):
        picked(45, 45)


def test_what_no_plan_serves_is_kept_beside_what_was_found(processes: Processes) -> None:
    for length in LENGTHS:
        layer(length)
    processes.next()
    layer(45)
    kept = len(processes.recalled)
    for length in range(3000, 3040, 4):
        layer(length)
    assert processes.made > 0
    processes.next()
    layer(3001), layer(45)
    assert processes.made == 0
    assert len(processes.recalled) > kept


def a_plan(processes: Processes) -> AnySizePlan:
    """One that was found, for `layer`."""
    for length in LENGTHS:
        layer(length)
    processes.next()
    layer(45)
    return processes.recalled[-1]


def test_of_one_form_so_many_are_kept_and_found(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, graph = a_plan(processes), graph_of(it.tanh, it.ones(3, device="cpu"))

    def stored() -> StoredSizedPlans:
        return StoredSizedPlans(processes.device, graph)

    def found() -> int:
        """How many a process finds, which asks again after the last one."""
        plans = stored()
        count = sum(plans.next() is not None for _ in range(5))
        assert plans.all_read
        return count

    assert found() == 0
    monkeypatch.setattr(sized_records, "MOST_KEPT", 3)
    first = stored()
    for _ in range(5):
        first.put(plan)
    assert found() == 3
    monkeypatch.setattr(sized_records, "MOST_KEPT", 5)
    assert found() == 3
    monkeypatch.setattr(sized_records, "MOST_KEPT", 2)
    assert found() == 2


def test_a_device_that_keeps_no_plans_has_none() -> None:
    graph = graph_of(it.tanh, it.ones(3, device="cpu"))
    for device in (SimpleNamespace(), SimpleNamespace(plan_store=None)):
        assert sized_records.stored_sized_plans(device, graph) is None


def test_a_record_that_is_damaged_counts_as_absent(processes: Processes) -> None:
    content = sized_records.written(processes.device, a_plan(processes))
    assert content is not None
    whole, draw = bytearray(zlib.decompress(content)), random.Random(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        sized_records.read(processes.device, zlib.compress(damaged))  # raises nothing
        cut = whole[: draw.randrange(len(whole))]
        assert sized_records.read(processes.device, zlib.compress(cut)) is None
        assert sized_records.read(processes.device, bytes(damaged)) is None
    assert sized_records.read(processes.device, b"") is None


def test_a_table_without_a_function_for_each_kernel_is_refused(processes: Processes) -> None:
    plan, store = a_plan(processes), processes.device.plan_store
    content = store.written_sized(plan.kernels)
    (length,) = struct.unpack_from("<Q", content)
    said = json.loads(content[8 : 8 + length])
    said["functions"] = said["functions"][:1]
    text = json.dumps(said).encode()
    damaged = struct.pack("<Q", len(text)) + text + content[8 + length :]
    given = processes.device, 1 + len(plan.data.roots), plan.data.taken
    assert store.sized_plan(content, *given) is not None
    assert store.sized_plan(damaged, *given) is None


def test_a_record_comes_to_what_its_plan_comes_to(processes: Processes) -> None:
    plan = a_plan(processes)
    content = sized_records.written(processes.device, plan)
    assert content is not None
    again = sized_records.read(processes.device, content)
    assert again is not None
    assert again.data._replace(decomposition=None, answers=None) == plan.data._replace(  # type: ignore[arg-type]
        decomposition=None,
        answers=None,  # type: ignore[arg-type]
    )
    assert sized_records.written(processes.device, again) == content


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "a0.real", "lambda: a0", "open(a0)", "[x for x in a0]", "'text'", "a0**a0",
     "exec(a0)", "a01", "n0; a0", "a0\na1", "a0 if a0 else b0"],
)  # fmt: skip
def test_text_that_does_more_than_count_is_refused(text: str) -> None:
    assert not SizeProgram(1, (), text, {}).is_arithmetic()
    assert not SizeProgram(1, (text,), "a0", {}).is_arithmetic()


def test_what_inquiries_write_is_arithmetic() -> None:
    lines = "if not (a0 >= 1 and a0 not in {3, 4}): return None", "a1 = max(a0*2, 7)", "n0 = -a1"
    program = SizeProgram(1, lines, "(n0, k0, View(0, (a0,), (1, ), 0), None)", {"k0": "x"})
    assert program.is_arithmetic()


def test_graphs_of_one_form_have_one_key_and_others_others() -> None:
    def key(function: Any, *shape: int) -> str | None:
        return key_of_form(graph_of(function, it.ones(shape, device="cpu")), "here")

    def reshaped(x: it.Tensor) -> it.Tensor:
        return it.reshape(it.exp(x), (1, -1))

    keys = [
        key(reshaped, 3, 4), key(reshaped, 3, 4, 1), key(lambda x: it.sum(x, axis=0), 3, 4),
        key(lambda x: it.sum(x, axis=1), 3, 4), key(lambda x: x * 2, 3, 4),
        key(lambda x: x * 2.0, 3, 4),
    ]  # fmt: skip
    assert None not in keys
    assert len({*keys}) == len(keys)
    assert key(reshaped, 5, 7) == keys[0]
    assert key(lambda x: x * 3, 9, 4) == keys[4]
