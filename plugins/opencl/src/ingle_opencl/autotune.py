"""Measuring which tile a device multiplies best with, once for all products of about a size.

All tiles add in the same order, so that results have the same bits whichever wins; one that
computes something else is reported and never chosen. A device's compiler takes a second and more
for a tile, so that a process spends `SECONDS` on it at most, on its first large products, and the
next one goes on where it ended. Each tile is timed beside the first guess, and what is kept is how
long it takes beside that. `INGLE_AUTOTUNE=0` takes the first guess always.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.fusion.device import BufferOffset, Launch, disk, is_measured
from ingle.fusion.device.kernels import (
    SIZES,
    Argument,
    CodeBuilder,
    ContractionCall,
    accumulator_dtype,
    epilogue_of,
)
from ingle.fusion.device.tuning import Entry, Tuner, TuningWarning, quickest, rounded_size
from ingle.tensor.callers import warn
from ingle.tensor.dtypes import as_dtype

from .launches import enqueued
from .matmul import GPU_TILES, Tile, pack_source, product_source, tile_for
from .shared_tiles import SHARED_TILES, fits, shared_source, shared_tile_for

if TYPE_CHECKING:
    from .backend import OpenCLBackend

SECONDS = 1.0
"""What a process may spend on measurements; a compiler that has begun is waited for."""
RUN, TURNS = 0.01, 3
"""Seconds in which a tile is run, then the guess, and how often they take turns: what else the
machine does meets both."""
SMALLEST = 20_000_000
"""Multiplications from which on a measurement is worth its time."""
LARGEST_BYTES = 1 << 26
"""Bytes of operands and result up to which there is memory for one; larger products are measured by
a part."""
LARGE = (1, 4096, 4096, 4096)
"""A product that leaves work for every compute unit."""
WORTHWHILE = 0.95
"""A tile must take less than this part of the guess's time: smaller gains are noise."""


def candidates(
    dtype: str, bits: int, sizes: tuple[int, int, int, int] | None = None, processors: int = 0,
    shared: Sequence[Tile] = (),
) -> Sequence[Tile]:  # fmt: skip
    """The first guess and what else may be faster, as far as registers go.

    Args:
        dtype: of the operands.
        bits: of a vector register, where the device has long ones.
        sizes: of batch, m, n and k, if they matter.
        processors: compute units of the device.
        shared: tiles that its local memory has room for.

    >>> [tile[:3] for tile in candidates("float32", 512)[:2]]
    [(12, 2, 16), (8, 2, 16)]
    """
    guess = tile_for(dtype, bits, sizes, processors)
    if guess.lanes > 4:  # a processor: registers as long as its own
        shapes = [(8, 2), (8, 3), (14, 2), (6, 2)] if bits >= 512 else [(6, 2), (4, 3), (4, 2)]
        others = [Tile(rows, vectors, guess.lanes) for rows, vectors in shapes]
    else:
        others = [*shared, guess, *GPU_TILES, Tile(8, 1, 4), Tile(16, 1, 4)]
        guess = shared_tile_for(shared, sizes or LARGE, processors) or guess
    return (guess, *[tile for tile in dict.fromkeys(others) if tile != guess])


class Tiles:
    """The tiles of a device.

    Args:
        backend: of the device.
        seconds: what may be spent on measurements.
    """

    def __init__(self, backend: OpenCLBackend, seconds: float = SECONDS) -> None:
        self._backend = backend
        self._seconds = seconds
        self._tiles: dict[tuple[str, tuple[int, ...]], Tile] = {}

    @functools.cached_property
    def tuner(self) -> Tuner:
        """What was measured on such a device by this version's kernels."""
        backend, hardware = self._backend, self._backend.hardware
        guess = tile_for("float32", backend.limits.register)
        sums = epilogue_of(plain_product("float32", (1, 1, 1, 1)))
        code = pack_source("float32", guess.rows) + product_source("float32", guess, sums, 2)
        if backend.limits.gpu:
            code += shared_source("float32", SHARED_TILES[0], sums, 2)
        machine = f"{hardware.name.strip()}, driver {hardware.driver_version.strip()}"
        key = hashlib.sha256(f"{machine} {backend.wide} {code}".encode()).hexdigest()
        return Tuner(disk(), f"tiles-{key[:16]}.json", machine, _winner, self._seconds)

    def tile_of(self, call: ContractionCall) -> Tile:
        """The tile for a product: by measurement if there is one or time for one."""
        limits, sizes = self._backend.limits, rounded(call)
        shared = self._shared(call)
        tiles = candidates(call.dtype, limits.register, sizes, limits.processors, shared)
        if not is_measured() or not _worth_it(sizes):
            return tiles[0]
        found = self._tiles.get((call.dtype, sizes))
        if found is None:
            found = self._tiles[call.dtype, sizes] = self._found(call.dtype, sizes, tiles)
        return found

    def _shared(self, call: ContractionCall) -> list[Tile]:
        """Tiles that share what they read, where a device has memory for that; windows of images
        are packed."""
        limits = self._backend.limits
        if call.windows is not None:
            return []
        tiles = [t for t in SHARED_TILES if fits(call.dtype, t, limits.local, limits.group)]
        return tiles if limits.gpu else []

    def _found(self, dtype: str, sizes: tuple[int, ...], tiles: Sequence[Tile]) -> Tile:
        """What has won, or has so far where there is no time for more in this process."""
        key = f"{dtype} {'x'.join(map(str, sizes))}"
        known = self.tuner.known(key)
        if self.tuner.left > 0 and _untried(known, tiles):
            measure = functools.partial(self._measured, dtype, sizes, tiles, known)
            with contextlib.suppress(MemoryError):  # the guess will do, and has the same bits
                known = self.tuner.measured(key, known, measure)
        winner = None if known is None else _winner(known)
        return winner if winner is not None and winner in tiles else tiles[0]

    def _measured(
        self, dtype: str, sizes: tuple[int, ...], tiles: Sequence[Tile], known: Entry | None
    ) -> Entry:
        """What is known, and one more tile or as many as there is time for."""
        end = time.perf_counter() + self.tuner.left
        trial = _trial(self._backend, dtype, sizes, tiles[0])
        tried = [] if known is None else [*known["tried"]]
        for tile in _untried(known, tiles):
            tried.append([list(tile), trial.measure(tile)])
            if time.perf_counter() >= end:
                break
        return {"tried": tried}


def _winner(entry: Entry) -> Tile | None:
    """The tile that takes least, if it is better than the guess."""
    best, least = None, WORTHWHILE
    for tile, share in entry["tried"]:
        if share < least:
            best, least = Tile(*tile), share
    return best


def _untried(entry: Entry | None, tiles: Sequence[Tile]) -> list[Tile]:
    tried = [] if entry is None else [Tile(*tile) for tile, _ in entry["tried"]]
    return [tile for tile in tiles[1:] if tile not in tried]


def _trial(backend: OpenCLBackend, dtype: str, sizes: tuple[int, ...], guess: Tile) -> _Trial:
    """Random operands of a product on the device, and the result of the tile that is guessed."""
    count, m, n, k = sizes
    numbers = np.random.default_rng(0)
    given = [
        numbers.random(c, np.float32).astype(as_dtype(dtype).dtype)
        for c in (count * m * k, count * k * n)
    ]
    result = np.empty(count * m * n, given[0].dtype)
    memory = [backend.allocate(x.nbytes) for x in (*given, result)]
    for place, array in zip(memory, given, strict=False):
        backend.write(place.address, array)
    trial = _Trial(backend, plain_product(dtype, sizes), memory, result)
    trial.expect(guess)
    return trial


class _Trial:
    """Operands of a product, and runs on them; made by `_trial`.

    Args:
        backend: of the device.
        call: the product.
        memory: its operands, and its result.
        result: where results are read to.
    """

    def __init__(
        self, backend: OpenCLBackend, call: ContractionCall, memory: Sequence[Any],
        result: np.ndarray,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._call = call
        self._memory = memory
        self._result = result
        self._guess: Callable[[], None] = _nothing
        self._expected = b""

    def expect(self, guess: Tile) -> None:
        """Takes a tile's time and result for what others are compared with."""
        self._guess = self._run_of(guess)
        self._expected = self._computed(self._guess)

    def measure(self, tile: Tile) -> float:
        """Its time beside that of the guess; infinity if the result is another one."""
        run = self._run_of(tile)
        if self._computed(run) != self._expected:
            warn(
                f"{self._backend.device}: {tile} gives another result than the guess for "
                f"{self._call.dtype} {self._call.sizes}; it is not used",
                TuningWarning,
            )
            return math.inf
        turns = [(quickest(run, RUN), quickest(self._guess, RUN)) for _ in range(TURNS)]
        return min(taken for taken, _ in turns) / min(guess for _, guess in turns)

    def _run_of(self, tile: Tile) -> Callable[[], None]:
        places = tuple([BufferOffset(buffer, 0) for buffer in range(3)])
        launch = Launch(self._call, places, (), "a measurement of matmul")
        made = enqueued(self._backend, [launch], (), tile)
        addresses = [memory.address for memory in self._memory]

        def run() -> None:
            made(addresses, ())
            self._backend.synchronize()

        return run

    def _computed(self, run: Callable[[], None]) -> bytes:
        run()
        self._backend.read(self._memory[2].address, self._result)
        return self._result.tobytes()


def _nothing() -> None:
    """The run of no tile."""


def plain_product(dtype: str, sizes: tuple[int, ...]) -> ContractionCall:
    """A product of dense matrices that stores its sums, rounded; sizes of batch, m, n and k."""
    count, m, n, k = sizes
    b = CodeBuilder()
    wide = accumulator_dtype(dtype)
    total = b.append("result", wide, (), (0, 0))
    code, (root,) = b.finish(total if wide == dtype else b.append("cast", dtype, (total,)))
    return ContractionCall(
        dtype, dtype, (count,), (m, n, k), Argument(0, (m * k, k, 1), 0),
        Argument(1, (k * n, n, 1), 0), code, (Argument(2, (m * n, n, 1), 0, True),), (dtype,),
        ((0, root),), (), (), (),
    )  # fmt: skip


def rounded(call: ContractionCall) -> tuple[int, int, int, int]:
    """The sizes of batch, m, n and k that stand for a product: of a large batch a part, of large
    matrices as much as there is memory for."""
    m, n, k = call.sizes
    k *= 1 if call.windows is None else call.windows.turns
    sizes = [rounded_size(max(size, 1)) for size in (m, n, k)]
    while _nbytes(call.dtype, (1, *sizes)) > LARGEST_BYTES:
        longest = sizes.index(max(sizes))
        sizes[longest] = rounded_size(sizes[longest] // 2)
    m, n, k = sizes
    fits = LARGEST_BYTES // _nbytes(call.dtype, (1, m, n, k))
    return rounded_size(max(1, min(math.prod(call.batch), fits))), m, n, k


def _worth_it(sizes: tuple[int, ...]) -> bool:
    return math.prod(sizes) >= SMALLEST


def _nbytes(dtype: str, sizes: tuple[int, ...]) -> int:
    """Of the operands and the result."""
    count, m, n, k = sizes
    return SIZES[dtype] * count * (m * k + k * n + m * n)
