"""`Explanation.draw`: the kernels of a plan and the memory that they read and write."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ingle.autodiff as autodiff
import ingle.tensor as it
from ingle.fusion import Explanation, compile, explain, graph_of
from ingle.tensor.errors import OperandError
from ingle.tensor.file_errors import FileWriteError

DEVICE = "cpu"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def step() -> Explanation:
    """A loss of one layer, and its weight moved against the gradient."""
    weight = it.Cell(it.ones((4, 3), device=DEVICE))

    @compile
    def descend(x: it.Tensor, rate: float) -> it.Tensor:
        def loss(w: it.Tensor) -> it.Tensor:
            return it.sum(it.tanh(x @ w))

        value, slope = autodiff.value_and_grad(loss)(weight.value)
        weight.value = weight.value - rate * slope
        return value

    return explain(descend, it.ones((5, 4), device=DEVICE), 0.5, runs=0)


def test_steps_tell_what_they_read_and_write(step: Explanation) -> None:
    roles = [str(buffer) for buffer in step.buffers]
    assert "argument x  float32 5\u00d74" in roles
    assert "cell  float32 4\u00d73" in roles
    assert "new cell  float32 4\u00d73" in roles
    assert "result  float32 scalar" in roles
    assert "rate" not in " ".join(roles)  # a number of the host is in no memory
    written = [number for each in step.steps for number in each.writes]
    assert len(written) == len(set(written))
    for number, buffer in enumerate(step.buffers):
        given = buffer.role.startswith(("argument", "cell")) and not buffer.written
        assert given is (number not in written)
    for place, each in enumerate(step.steps):
        later = {n for other in step.steps[place:] for n in other.writes}
        assert not later.intersection(each.reads), "what it reads was written before"


def test_the_picture_has_every_kernel_operation_and_buffer(
    step: Explanation, tmp_path: Path
) -> None:
    step.draw(tmp_path / "step.svg")
    root = ElementTree.parse(tmp_path / "step.svg").getroot()
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts[0] == f"{step.recorded} operations become {len(step.steps)} kernels"
    for buffer in step.buffers:
        assert str(buffer) in texts
    for each in step.steps:
        assert any(f"{each.kind} " in text for text in texts)
        for name in each.operations:
            assert any(re.match(rf"{name}( \u00d7\d+)?$", text) for text in texts), name
    wires = [p for p in root.iter(f"{SVG}path") if p.get("class") == "wire"]
    assert len(wires) == sum(len(s.reads) + len(s.writes) for s in step.steps)
    rects = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "pill"]
    assert len({(r.get("x"), r.get("y")) for r in rects}) == len(step.buffers)


def test_operations_of_the_host_stand_among_kernels(tmp_path: Path) -> None:
    x = it.ones((3, 40), device=DEVICE)
    told = explain(lambda x: it.sort(it.exp(x)) + 1.0, x, runs=0)
    assert [s.kind for s in told.steps] == ["nest", "host", "nest"]
    assert told.steps[1].reads == told.steps[0].writes
    assert told.steps[2].reads == told.steps[1].writes


def test_without_kernels_each_operation_is_a_step(tmp_path: Path) -> None:
    told = explain(lambda x: it.exp(x) + 1.0, it.ones(3, device="numpy"), runs=0)
    told.draw(tmp_path / "plan.svg")
    assert [s.kind for s in told.steps] == ["host", "host"]
    assert told.steps[1].reads == told.steps[0].writes


def test_a_function_that_computes_nothing_has_an_empty_picture(tmp_path: Path) -> None:
    told = explain(lambda x: x, it.ones(3, device=DEVICE), runs=0)
    told.draw(tmp_path / "empty.svg")
    assert ElementTree.parse(tmp_path / "empty.svg").getroot().tag == f"{SVG}svg"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
@pytest.mark.parametrize("way", ["save", "draw"])
def test_a_picture_that_has_no_room_is_named(step: Explanation, tmp_path: Path, way: str) -> None:
    path = tmp_path / "plan.svg"
    path.symlink_to("/dev/full")
    with pytest.raises(FileWriteError, match=r"plan.svg: cannot be written: No space left"):
        getattr(step, way)(path)


def test_a_picture_below_a_file_is_named(step: Explanation, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("")
    with pytest.raises(FileWriteError, match="a part of its path is a file"):
        step.draw(tmp_path / "notes" / "plan.svg")


def test_what_is_no_function():
    for call in (explain, graph_of):
        with pytest.raises(OperandError, match=rf"{call.__name__}: .*, got Tensor; write"):
            call(it.ones(3))
