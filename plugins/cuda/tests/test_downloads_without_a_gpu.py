"""Values whose copy to the host was begun, on a GPU that the processor plays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from host_gpu import HostGpu, opened

import ingle.tensor as it
from ingle.fusion import CompileError, compile
from ingle.tensor.errors import OutOfRangeError

DTYPES = "bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"


@pytest.fixture
def gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> HostGpu:
    made = HostGpu(folder, 1 << 26)
    opened(made, "played", monkeypatch)
    return made


def is_idle(gpu: HostGpu) -> bool:
    return all(stream.done for stream in gpu.streams.values())


def test_a_copy_that_was_begun_does_not_wait_for_what_came_after(gpu: HostGpu) -> None:
    step = compile(lambda x: x * 2 + 1)
    with it.device("played"):
        x = it.asarray(3)
        for _ in range(3):
            before, x = x, step(x)
            assert x.begin_download()
        assert not is_idle(gpu)
        assert before.item() == 15
        assert not is_idle(gpu)
        assert x.item() == 31
        later = step(x)
        assert later.item() == 63  # which was not begun
        assert is_idle(gpu)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5), (7, 300)])
def test_it_gives_the_values(gpu: HostGpu, dtype: str, shape: tuple[int, ...]) -> None:
    wanted = np.random.default_rng(0).integers(0, 2, shape)
    with it.device("played"):
        x = it.asarray(wanted.astype(getattr(it, dtype.replace("bool", "bool_")).dtype))
        views = [x, *([x[1:, ::2], x.mT] if len(shape) == 2 and shape[0] else [])]
        for view in views:
            view.begin_download()
            view.begin_download()
        later = it.ones(3) + 1.0
        found = [v.numpy() for v in views]
        assert [f.dtype for f in found] == [x.dtype.dtype] * len(views)
        wholes = [wanted, wanted[1:, ::2], wanted.T] if len(views) > 1 else [wanted]
        for f, w in zip(found, wholes, strict=True):
            np.testing.assert_array_equal(f.astype(np.complex64), w)
            f.fill(0)  # the caller's own
        np.testing.assert_array_equal(x.numpy().astype(np.complex64), wanted)
        assert later.tolist() == [2.0] * 3


def test_what_is_written_over_is_copied_anew(gpu: HostGpu) -> None:
    with it.device("played"):
        cell = it.Cell(it.zeros((4,)))

        def step() -> None:
            cell.value = cell.value + 1.0

        run = compile(step)
        for n in range(1, 7):
            run()
            cell.value.begin_download()
            if n % 2:
                assert cell.value.tolist() == [float(n)] * 4
        run()
        assert cell.value.tolist() == [7.0] * 4


@pytest.mark.slow
def test_a_check_that_failed_is_told(gpu: HostGpu) -> None:
    take = compile(lambda x, i: it.take(x, i, axis=0))
    with it.device("played"):
        x, good, bad = it.arange(4), it.asarray([1]), it.asarray([9])
        for _ in range(3):
            right, wrong = take(x, good), take(x, bad)
            right.begin_download()
            wrong.begin_download()
            assert right.tolist() == [1]
            with pytest.raises(OutOfRangeError):
                wrong.tolist()


def test_what_is_only_recorded_has_no_values(gpu: HostGpu) -> None:
    def step(x: it.Tensor) -> it.Tensor:
        (x + 1).begin_download()
        return x

    with it.device("played"), pytest.raises(CompileError, match="is asked for inside"):
        compile(step)(it.zeros(3))


def test_devices_that_compute_at_once_have_nothing_to_begin() -> None:
    for device in ("numpy", "cpu"):
        x = it.asarray([1.0, 2.0], device=device) + 1.0
        x.begin_download()
        assert x.tolist() == [2.0, 3.0]
