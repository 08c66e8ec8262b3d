"""Which tile a product gets: what is measured, kept, refused and left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.device import DiskStore
from ingle.fusion.device.tuning import TuningWarning
from ingle_opencl import autotune
from ingle_opencl.autotune import Tiles, candidates, plain_product, rounded
from ingle_opencl.matmul import Tile, tile_for

LARGE = plain_product("float32", (1, 300, 500, 260))
TILES = candidates("float32", 512)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    store = DiskStore(tmp_path / "k")
    monkeypatch.setattr(autotune, "disk", lambda: store)
    return store


@pytest.fixture
def times(backend: Any, store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> dict[Tile, float]:
    """How long each tile takes beside the guess; what has been measured is taken out."""
    taken = dict(zip(TILES[1:], [1.2, 0.7, 0.8, 0.96], strict=True))

    class Trial:
        def __init__(self, *given: Any) -> None:
            assert given[1:] == ("float32", (1, 256, 512, 256), TILES[0])

        def measure(self, tile: Tile) -> float:
            return taken.pop(tile)

    monkeypatch.setattr(autotune, "_trial", Trial)
    monkeypatch.setattr(backend, "limits", backend.limits._replace(register=512))
    return taken


def test_the_quickest_tile_is_kept_for_later_processes(
    backend: Any, times: dict[Tile, float]
) -> None:
    tiles = Tiles(backend)
    assert tiles.tile_of(LARGE) == TILES[2]
    assert not times
    assert tiles.tile_of(LARGE._replace(sizes=(290, 520, 250))) == TILES[2]
    assert Tiles(backend).tile_of(LARGE) == TILES[2]


def test_the_guess_is_taken_where_there_is_no_memory_to_measure(
    backend: Any, times: dict[Tile, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def trial(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(autotune, "_trial", trial)
    assert Tiles(backend).tile_of(LARGE) == TILES[0]


def test_the_next_process_goes_on_where_one_ended(backend: Any, times: dict[Tile, float]) -> None:
    assert Tiles(backend, seconds=1e-9).tile_of(LARGE) == TILES[0]  # the first is slower
    assert len(times) == 3
    assert Tiles(backend, seconds=0.0).tile_of(LARGE) == TILES[0]
    assert len(times) == 3
    assert Tiles(backend).tile_of(LARGE) == TILES[2]
    assert not times


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((1, 4096, 4096, 4096), Tile(8, 4, 4)),
        ((1, 1024, 1024, 1024), Tile(4, 2, 4)),
        ((1, 1024, 384, 128), Tile(4, 1, 4)),
        ((1, 64, 1024, 1024), Tile(2, 1, 4)),
        ((64, 512, 512, 64), Tile(8, 4, 4)),
    ],
)
def test_small_products_have_small_tiles_on_a_gpu(
    sizes: tuple[int, int, int, int], tile: Tile
) -> None:
    """All of its 132 compute units have work items."""
    assert tile_for("float32", 32, sizes, processors=132) == tile
    guess, *others = candidates("float32", 32, sizes, 132)
    assert guess == tile
    assert guess not in others
    assert tile_for("float64", 64, sizes, processors=132) != Tile(8, 4, 4)  # would not fit


def test_small_products_take_the_guess(
    backend: Any, times: dict[Tile, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Tiles(backend).tile_of(plain_product("float32", (1, 60, 60, 60))) == TILES[0]
    monkeypatch.setenv("INGLE_AUTOTUNE", "0")
    assert Tiles(backend).tile_of(LARGE) == TILES[0]
    assert len(times) == 4


@pytest.mark.parametrize("entry", [{}, {"tried": 3}, {"tried": [[[9, 9], 0.1]]}])
def test_entries_of_another_form_are_measured_anew(
    backend: Any, store: DiskStore, times: dict[Tile, float], entry: Any
) -> None:
    tuner = Tiles(backend).tuner
    tuner.measured("float32 1x256x512x256", None, lambda: entry)
    assert Tiles(backend).tile_of(LARGE) == TILES[2]


def test_large_batches_are_measured_by_a_part() -> None:
    many = rounded(plain_product("float32", (500, 64, 4000, 288)))
    assert many[1:] == (64, 4096, 256)
    assert 1 < many[0] < 100


@pytest.mark.parametrize(
    ("sizes", "part"),
    [
        ((1, 4096, 4096, 4096), (1, 2048, 2048, 2048)),
        ((1, 1 << 20, 256, 256), (1, 1 << 14, 256, 256)),
        ((1, 2048, 2048, 2048), (1, 2048, 2048, 2048)),
        ((8, 1 << 14, 1 << 14, 64), (1, 1 << 11, 1 << 12, 64)),
    ],
)
def test_large_matrices_are_measured_by_a_part(
    backend: Any, store: DiskStore, monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int, int], part: tuple[int, int, int, int],
) -> None:  # fmt: skip
    """They took the guess, however much they had to gain."""
    measured = []
    monkeypatch.setattr(
        autotune, "_trial", lambda *given: measured.append(given[2]) or Quickest(given[3])
    )
    call = plain_product("float32", sizes)
    assert rounded(call) == part
    chosen = Tiles(backend).tile_of(call)
    assert measured == [part]
    assert chosen == candidates("float32", backend.limits.register)[1]


class Quickest:
    """A trial in which each tile takes half of the guess's time."""

    def __init__(self, guess: Tile) -> None:
        self._guess = guess

    def measure(self, tile: Tile) -> float:
        assert tile != self._guess
        return 0.5


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_candidates_are_other_tiles_of_registers(bits: int) -> None:
    guess, *others = candidates("float32", bits)
    assert guess == tile_for("float32", bits)
    assert len({guess, *others}) == len(others) + 1 >= 3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_all_tiles_give_the_same_bits(
    backend: Any, store: DiskStore, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Also of products whose sizes are no multiples of the tiles'; none warns."""
    monkeypatch.setattr(autotune, "RUN", 0.0)
    trial = autotune._trial(backend, dtype, (2, 37, 51, 70), tile_for(dtype, 512))
    for bits in (128, 512):
        for tile in candidates(dtype, bits):
            assert 0 < trial.measure(tile) < float("inf")


@pytest.mark.slow
def test_a_tile_with_another_result_is_never_chosen(
    backend: Any, store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess = tile_for("float32", backend.limits.register)
    trial = autotune._trial(backend, "float32", (1, 20, 20, 20), guess)
    trial._expected = bytes(len(trial._expected))
    with pytest.warns(TuningWarning, match=r"opencl: Tile.* another result"):
        assert trial.measure(guess) == float("inf")


@pytest.mark.slow
def test_a_product_is_right_with_what_was_measured(
    backend: Any, store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "SMALLEST", 1000)
    monkeypatch.setattr(autotune, "RUN", 0.0)
    monkeypatch.setattr(backend, "tiles", Tiles(backend))
    x = np.random.default_rng(0).normal(size=(70, 45)).astype(np.float32)
    a = it.asarray(x, device="opencl")
    np.testing.assert_allclose((a @ a.mT + 1.0).numpy(), x @ x.T + 1, rtol=1e-4, atol=1e-4)
    assert backend.tiles.tuner.known("float32 1x64x64x48") is not None
