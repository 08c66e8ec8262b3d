"""Files with bytes changed, cut off, moved: an error of ours each time, and never a crash.

None may hang either, nor take more than two GiB of memory. The number of a mutation repeats it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzzing import models as onnx_seeds
from fuzzing import mutated, read_weights, refused, rewired, run_model
from fuzzing import weights as seeds_of

KINDS = "onnx", "onnx, rewired", "safetensors", "gguf", "npz", "pt"
COUNTS = [
    pytest.param(range(60), id="some"),
    pytest.param(range(1000, 3_000), marks=pytest.mark.slow, id="two thousand"),
    *(
        pytest.param(
            range(n * 100_000, (n + 1) * 100_000), marks=pytest.mark.nightly, id=f"part {n}"
        )
        for n in range(1, 11)
    ),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, if there is such a place: writing files would take most of the time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", COUNTS)
def test_a_damaged_file_is_an_error(folder: Path, kind: str, numbers: range) -> None:
    pytest.importorskip("resource")
    if kind.startswith("onnx"):
        change = rewired if "rewired" in kind else mutated
        found = refused(onnx_seeds(), run_model, numbers, change)
    else:
        if kind == "pt":
            pytest.importorskip("torch")
        path = folder / f"damaged.{kind}"
        found = refused(seeds_of(kind, folder), read_weights(path), numbers)
    assert len(numbers) // 3 < found < len(numbers)
