"""`explain` of what runs on several members names the kernels of each."""

import pytest
from router_members import members_of

import ingle.tensor as it
from ingle.fusion import compile, explain


@pytest.fixture(params=["two cpus", "cpu+numpy"])
def split(request, routed, remote):
    """A step over both members of a router, and what to call it with."""
    router = routed(*members_of(request.param, remote))
    first, second = router.devices
    weight = it.Cell(it.ones((16, 4), device=second))

    @compile
    def step(x, factor):
        hidden = it.exp(x * factor) + 1.0
        there = hidden.to_device(second)
        found = it.softmax(there @ weight.value, axis=-1)
        weight.value = weight.value * 0.5
        return found.to_device(first) + it.sum(hidden)

    return step, it.ones((8, 16), device=first), str(first), str(second)


@pytest.mark.parametrize("runs", [0, 2])
def test_each_member_has_its_kernels(split, runs):
    step, x, first, second = split
    found = explain(step, x, 2.0, runs=runs)
    there = [s for s in found.steps if s.device == second]
    here = [s for s in found.steps if s.device == first]
    assert here[0].name.startswith("multiply exp add")
    assert {s.kind for s in here} <= {"nest"}
    compiled = any(s.kind == "product" for s in there)
    assert compiled or {s.kind for s in there} == {"host"}  # numpy plans nothing
    assert len(found.steps) == len(here) + len(there)
    measured = [s.seconds for s in (here if not compiled else found.steps)]
    assert all(seconds is not None for seconds in measured) == bool(runs)
    lines = str(found).splitlines()
    assert lines[1].split()[:2] == ["device", "kind"]
    assert all(step.device in line for step, line in zip(found.steps, lines[2:], strict=False))


def test_memory_between_members_is_the_same(split):
    step, x, first, second = split
    found = explain(step, x, 2.0, runs=0)
    roles = [b.role for b in found.buffers]
    assert "argument x" in roles
    assert roles.count("result") == 1
    (moved,) = {n for s in found.steps if s.device == second for n in s.reads} & {
        n for s in found.steps if s.device == first for n in s.writes
    }
    assert found.buffers[moved].shape == (8, 16)
    assert any(b.written for b in found.buffers)


def test_sources_and_pictures(split, tmp_path):
    step, x, first, second = split
    found = explain(step, x, 2.0, source=True, runs=0)
    assert found.sources
    found.draw(tmp_path / "plan.svg")
    found.save(tmp_path / "bars.svg")
    for name in ("plan.svg", "bars.svg"):
        text = (tmp_path / name).read_text()
        assert first in text
        assert second in text
