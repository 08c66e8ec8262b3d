"""Steps of a graph side by side, on a GPU played by the processor, which runs what was captured
last as early as it may."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_gpu import HostBackend, HostGpu, opened

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.errors import IngleError
from ingle.testkit.bits import same_bits
from ingle_cuda.graphs import branches, launches
from ingle_cuda.graphs.branches import Branch, Footprints, Touch, dependencies, in_streams

PLAYED = "played"

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def backend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostBackend:
    monkeypatch.setattr(launches, "_WORTH_BRANCHES", 2)
    return opened(HostGpu(folder), PLAYED, monkeypatch)


def overtakes(needs: list[list[int]], found: list[Branch]) -> bool:
    """Whether a step can run before one that it needs, by streams and waits alone."""
    before: list[set[int]] = []
    last: dict[int, int] = {}
    for number, branch in enumerate(found):
        own = {*branch.waits}
        if branch.stream in last:
            own.add(last[branch.stream])
        for n in [*own]:
            own |= before[n]
        before.append(own)
        last[branch.stream] = number
        if not own.issuperset(needs[number]):
            return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_no_step_overtakes_what_it_needs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 60))
    touched = []
    for _ in range(count):
        places = rng.integers(0, 40, size=int(rng.integers(1, 4)))
        sizes = rng.integers(1, 8, size=len(places))
        touched.append([
            (int(p), int(p + s), bool(rng.random() < 0.4))
            for p, s in zip(places, sizes, strict=True)
        ])  # fmt: skip
    needs = dependencies(touched)
    for number, own in enumerate(touched):
        wanted = {
            n
            for n in range(number)
            for a, b, writes in own
            for c, d, wrote in touched[n]
            if a < d and c < b and (writes or wrote)
        }
        assert needs[number] == sorted(wanted)
    for streams in (1, 2, 3, 5):
        found = in_streams(needs, streams)
        assert not overtakes(needs, found)
        assert all(
            found[n].stream != branch.stream for branch in found for n in branch.waits
        )  # fmt: skip


def test_steps_that_need_nothing_of_each_other_are_side_by_side() -> None:
    found = in_streams([[], [], [], [0, 1, 2]], 3)
    assert [branch.stream for branch in found[:3]] == [0, 1, 2]
    assert len(found[3].waits) == 2
    assert [branch.stream for branch in in_streams([[], [0], [1], [2]], 3)] == [0] * 4


def training(device: str) -> tuple[Any, list[Any]]:
    with it.device(device):
        it.random.seed(0)
        model = nn.Sequential(
            nn.Embedding(11, 24), nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 11)
        )
        weights = it.linspace(0.5, 1.5, 11)
    optimizer = optim.AdamW(model, lr=1e-2)

    def step(ids: it.Tensor, labels: it.Tensor) -> it.Tensor:
        # Three checks of indices, which run side by side.
        losses = it.cross_entropy(model(ids), labels, reduction="none")
        loss = it.mean(losses * it.take(weights, (ids + labels) // 2, axis=0))
        optimizer.step(loss.backward())
        return loss.detach()

    return step, list(model.parameters())


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("tiles", [False, True])
def test_a_step_of_training_has_the_same_bits(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch, tiles: bool
) -> None:
    backend.tiles = tiles
    rng = np.random.default_rng(0)
    ids, labels = (it.asarray(rng.integers(0, 11, size=150), device=PLAYED) for _ in range(2))
    results = []
    for side_by_side in (True, False):
        backend.branches = side_by_side
        step, cells = training(PLAYED)
        before = backend.gpu.counts["branched"]
        run = compile(step)
        losses = [run(ids, labels).item() for _ in range(8)]
        assert (backend.gpu.counts["branched"] > before) is side_by_side
        results.append((losses, [cell.value.numpy() for cell in cells]))
    assert results[0][0] == results[1][0]
    assert results[0][0][-1] < results[0][0][0]
    for one, other in zip(results[0][1], results[1][1], strict=True):
        assert same_bits(one, other)


@needs_a_compiler
@pytest.mark.slow
def test_large_steps_fill_a_gpu_by_themselves(
    backend: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "_MOST_BYTES", 1)
    step, _ = training(PLAYED)
    ids = it.asarray(np.arange(150) % 11, device=PLAYED)
    run = compile(step)
    for _ in range(4):
        run(ids, ids).item()
    assert backend.gpu.counts["replayed"] > 0
    assert backend.gpu.counts["branched"] == 0


@pytest.mark.parametrize(("bytes_", "beside"), [(1 << 10, True), (1 << 26, False)])
def test_what_nobody_knows_the_place_of_is_not_taken_for_large(bytes_: int, beside: bool) -> None:
    """As the lookups of an embedding, which may read anywhere in a plan's memory."""
    anywhere = Touch(0, -branches._FAR, branches._FAR, written=False)
    steps = [(Touch(0, n * bytes_, (n + 1) * bytes_, written=True), anywhere) for n in range(2)]
    apart = [[own] for own, _ in steps for _ in range(2)]
    found = Footprints([*apart, *steps], [False] * 6).branches([0], 0)
    assert (found is not None) == beside


@needs_a_compiler
@pytest.mark.slow
def test_a_capture_that_fails_leaves_no_stream_in_it(backend: HostBackend) -> None:
    step, _ = training(PLAYED)
    ids = it.asarray(np.arange(150) % 11, device=PLAYED)
    run = compile(step)
    losses = [run(ids, ids).item()]
    backend.gpu.fails["cuLaunchKernel"] = 700
    with pytest.raises(IngleError, match="played"):
        losses += [run(ids, ids).item() for _ in range(4)]
    del backend.gpu.fails["cuLaunchKernel"]
    losses += [run(ids, ids).item() for _ in range(4)]
    assert losses[-1] < losses[0]
    assert backend.gpu.counts["branched"] > 0


@needs_a_compiler
@pytest.mark.slow
def test_a_chain_stays_in_one_stream(backend: HostBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "_LONGEST", 0.1)
    step, _ = training(PLAYED)
    ids = it.asarray(np.arange(150) % 11, device=PLAYED)
    run = compile(step)
    for _ in range(4):
        run(ids, ids).item()
    assert backend.gpu.counts["replayed"] > 0
    assert backend.gpu.counts["branched"] == 0
