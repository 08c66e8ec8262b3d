"""Products whose work items share what they read in local memory: the bits of all other tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion.device import BufferOffset, Launch
from ingle.fusion.device.kernels import Argument, ContractionCall
from ingle.tensor import plugins
from ingle.tensor.device import Device
from ingle.tensor.dtypes import as_dtype
from ingle_opencl import step_builder
from ingle_opencl.autotune import Tiles, candidates, plain_product
from ingle_opencl.backend import OpenCLBackend
from ingle_opencl.devices import device_of, limits_of
from ingle_opencl.launches import enqueued
from ingle_opencl.matmul import GPU_TILES, Tile
from ingle_opencl.shared_tiles import SHARED_TILES, fits

DTYPES = ["float32", "float64", "float16", "bfloat16"]
LAYOUTS = ["rows", "columns", "both apart"]


def laid_out(call: ContractionCall, layout: str) -> ContractionCall:
    """A and B transposed in memory, or with gaps between all elements."""
    m, n, k = call.sizes
    (count,) = call.batch
    a, b = {
        "rows": ((m * k, k, 1), (k * n, n, 1)),
        "columns": ((m * k, 1, m), (k * n, 1, k)),
        "both apart": ((2 * m * k, 2 * k, 2), (0, 2, 2 * k)),
    }[layout]
    assert count == 2
    return call._replace(a=Argument(0, a, 0), b=Argument(1, b, 0))


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", SHARED_TILES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(2, 70, 133, 37), (2, 3, 5, 16), (2, 130, 1, 1)])
def test_bits_are_those_of_packed_products(
    backend: Any, dtype: str, tile: Tile, layout: str, sizes: tuple[int, int, int, int]
) -> None:
    """Where a block ends in the middle of a tile, and a slice before its end."""
    call = laid_out(plain_product(dtype, sizes), layout)
    count, m, n, k = sizes
    numbers = np.random.default_rng(0)
    kind = as_dtype(dtype).dtype
    given = [numbers.normal(size=2 * count * s).astype(kind) for s in (m * k, k * n)]
    for array in given:
        array[:2] = -0.0
    memory = [backend.allocate(x.nbytes) for x in (*given, np.empty(count * m * n, kind))]
    for place, array in zip(memory, given, strict=False):
        backend.write(place.address, array)
    found = []
    for one in (Tile(4, 1, 4), tile):
        result = np.full(count * m * n, 7, kind)
        backend.write(memory[2].address, result)
        launch = Launch(call, tuple([BufferOffset(b, 0) for b in range(3)]), (), "a product")
        enqueued(backend, [launch], (), one)([p.address for p in memory], ())
        backend.read(memory[2].address, result)
        found.append(result.tobytes())
    assert found[0] == found[1]


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device all of whose products are of such tiles."""
    made = OpenCLBackend(Device("opencl_shares"), device_of(0), wide=True)
    monkeypatch.setitem(plugins._backends, made.device, made.composition())
    monkeypatch.setattr(made.tiles, "tile_of", lambda call: SHARED_TILES[3])
    asked: list[Any] = []
    source = step_builder.shared_source
    monkeypatch.setattr(
        step_builder, "shared_source", lambda *given: asked.append(given) or source(*given)
    )
    yield "opencl_shares"
    assert asked


@pytest.mark.slow
def test_what_follows_a_product_is_part_of_its_kernel(shares: str) -> None:
    numbers = np.random.default_rng(1)
    a, b, row = (numbers.normal(size=s).astype(np.float32) for s in ((3, 45, 20), (20, 33), (33,)))
    x, y, z = (it.asarray(v, device=shares) for v in (a, b, row))
    found = (it.relu(x @ y + z) * 2.0).numpy()
    np.testing.assert_allclose(found, np.maximum(a @ b + row, 0) * 2, rtol=1e-4, atol=1e-5)


def test_they_are_measured_on_gpus_with_room_for_them(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = plain_product("float32", (1, 1024, 1024, 1024))
    tiles = Tiles(backend)
    assert tiles._shared(call) == []
    gpu = limits_of(device_of(0))._replace(gpu=True, register=32, local=48 << 10, group=1024)
    monkeypatch.setattr(backend, "limits", gpu)
    assert tiles._shared(call) == [*SHARED_TILES]
    monkeypatch.setattr(backend, "limits", gpu._replace(group=64))
    assert tiles._shared(call) == [SHARED_TILES[3]]
    assert not any(fits("float32", tile, 1 << 10, 1024) for tile in SHARED_TILES)
    guess, *others = candidates("float32", 32, shared=SHARED_TILES)
    assert [guess, *others][: len(SHARED_TILES) + 1] == [*SHARED_TILES, GPU_TILES[0]]
    assert len({guess, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("sizes", "place"),
    [
        ((1, 4096, 4096, 4096), 0),
        ((1, 1024, 1024, 1024), 2),
        ((1, 512, 512, 512), 3),
        ((8, 512, 512, 64), 1),
        ((1, 128, 128, 1024), 3),
        ((1, 16, 4096, 512), None),
        ((1, 4096, 8, 512), None),
    ],
)
def test_they_are_the_first_guess_where_a_block_is_full(
    sizes: tuple[int, int, int, int], place: int | None
) -> None:
    """A small product is not measured; packed, it would be three launches instead of one."""
    guess = candidates("float32", 32, sizes, 132, SHARED_TILES)[0]
    packed = candidates("float32", 32, sizes, 132)[0]
    assert guess == (packed if place is None else SHARED_TILES[place])
