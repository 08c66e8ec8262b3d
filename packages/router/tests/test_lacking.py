"""What a member lacks of a composite's body, or of a loop's or branch's program."""

import warnings

import numpy as np
import pytest
from scipy import special

import ingle.tensor as it
from ingle.autodiff import grad, vmap
from ingle.fusion import compile
from ingle.router import Router, RouterWarning, member
from ingle.router.composition import TURNS, Asked, operands_of, parts
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError
from ingle_cpu.backend import Cpu
from ingle_numpy.backend import NumpyBackend

VALUES = np.random.default_rng(0).normal(size=(3, 4))


class Narrow(NumpyBackend):
    """Has kernels for some dtypes, composes what it can, and takes the rest to the host."""

    dtypes = frozenset({"float32", "bool"})

    def supports(self, op, avals):
        return op.operation.name != "any" and super().supports(op, avals)


def summed(x):
    return it.sum(it.logsumexp(x, axis=1) * 2.0)


def test_what_only_a_body_needs_has_another_member_run_it(routed, remote):
    far = remote(lacks={"logsumexp", "where"})
    router = routed("numpy", far)
    x = it.asarray(VALUES, device=router[1])
    y = it.logsumexp(x, axis=1)
    said = r"router:1 \(remote\) lacks where, which logsumexp is made of: logsumexp runs on router "
    with pytest.warns(RouterWarning, match=said) as told:
        values = y.numpy()
    assert told[0].filename == __file__
    np.testing.assert_allclose(values, special.logsumexp(VALUES, axis=1), rtol=1e-12)
    assert y.device == router[1]
    assert far.ran == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # announced once
        it.logsumexp(x, axis=1).numpy()
    assert router.report().fallbacks == {("logsumexp", router[1], router[0]): 2}


def test_bodies_in_bodies_are_asked_for_what_they_need(routed, remote):
    lacks = {"cross_entropy", "logsumexp", "isfinite"}
    near, far = remote("near", lacks=lacks | {"exp"}), remote("far", lacks=lacks)
    router = routed("numpy", near, far)
    labels = np.array([0, 2, 1])
    for where in (router[1], router[2]):
        x, y = it.asarray(VALUES, device=where), it.asarray(labels, device=where)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RouterWarning)
            found = it.cross_entropy(x, y).item()
        want = np.mean(special.logsumexp(VALUES, axis=1) - VALUES[[0, 1, 2], labels])
        assert found == pytest.approx(want, rel=1e-12)
        assert sum(router.report().fallbacks.values()) == 1  # the second is composed where it is
    assert ("cross_entropy", router[1], router[0]) in router.report().fallbacks


def test_dtypes_inside_of_a_body_count(routed):
    narrow = Narrow(Device("narrow"))
    router = routed("numpy", narrow)
    x = it.asarray(VALUES.astype(np.float32), device=router[1])
    with pytest.warns(RouterWarning, match="which any is made of"):  # it counts in int64
        assert it.any(x, axis=1).tolist() == [True] * 3
    assert narrow.host_fallbacks == {}
    assert router.report().fallbacks == {("any", router[1], router[0]): 1}


@pytest.mark.filterwarnings("ignore::ingle.router.RouterWarning")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("through", ["plain", "grad", "grad of grad", "vmap"])
def test_it_holds_under_transforms(routed, remote, compiled, through):
    router = routed("numpy", remote(lacks={"logsumexp", "where", "softmax", "exp"}))

    def squared(x):
        return it.sum(grad(summed)(x) ** 2.0)

    function = {
        "plain": summed, "grad": grad(summed), "grad of grad": grad(squared), "vmap": vmap(summed),
    }[through]  # fmt: skip
    values = np.stack([VALUES, -VALUES]) if through == "vmap" else VALUES
    want = function(it.asarray(values, device="numpy")).numpy()
    run = compile(function) if compiled else function
    x = it.asarray(values, device=router[1])
    for _ in range(3):
        found = run(x)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-10)
        assert found.device == router[1]
    assert router.report().fallbacks


def branching(x):
    return it.cond(it.sum(x) > 0.0, lambda v: v * 2.0, it.sin, x)


def looping(x):
    return it.scan(lambda c, row: (c * 0.5 + it.sin(row), c), x[0], x)[1]


def repeating(x):
    return it.while_loop(lambda c: it.sum(c) < 50.0, lambda c: it.exp(it.sin(c)) + c, x)


@pytest.mark.parametrize("function", [branching, looping, repeating])
def test_programs_of_loops_and_branches_run_where_all_of_them_can(routed, remote, function):
    far = remote(lacks={"sin"})
    router = routed("numpy", far)
    x = it.asarray(-abs(VALUES), device=router[1])
    want = function(it.asarray(-abs(VALUES), device="numpy")).numpy()
    run = compile(function)
    with pytest.warns(RouterWarning, match="router:1 .* lacks sin"):
        found = run(x)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(run(x).numpy(), want, rtol=1e-12)
    assert found.device == router[1]


def test_a_body_that_a_member_lacks_can_be_an_error_or_its_own_affair(routed, remote):
    lacks = {"logsumexp", "where"}
    router = routed("numpy", remote(lacks=lacks), lacking="error")
    said = r"logsumexp: device router:1 .* lacks where, which it is made of, for .*router \(numpy\)"
    with pytest.raises(BackendError, match=said):
        it.logsumexp(it.ones(3, device=router[1])).numpy()
    router.close()
    router = routed("numpy", remote(lacks=lacks), lacking="own")
    with pytest.raises(BackendError, match="no kernel for where"):
        it.logsumexp(it.ones(3, device=router[1])).numpy()


def test_a_long_loop_is_asked_for_few_of_its_turns():
    seen = []

    @compile
    def run(x):
        return it.scan(lambda c, row: (c + it.tanh(row), None), x[0], x)[0]

    class Watching(NumpyBackend):
        def supports(self, op, avals):
            if op.operation.loop is not None:
                seen.append(Asked(op, operands_of(avals)))
            return super().supports(op, avals)

    with Router(Watching(Device("numpy", 1)), name="watched") as router:
        run(it.zeros((5000, 2), device=router[0])).numpy()
    (whole,) = set(seen)
    assert whole.op.operation.loop(whole.op).length == 5000
    names = [part.op.operation.name for part in parts(whole)]
    assert "tanh" in names
    assert len(names) < 20 * TURNS


def test_a_members_answer_does_not_hang_on_numbers(routed, remote, monkeypatch):
    router = routed("numpy", remote(lacks={"clip", "maximum"}))
    written = []
    monkeypatch.setattr(member, "parts", lambda whole: written.append(whole) or parts(whole))
    x = it.asarray(VALUES, device=router[1])
    for low in (-1.0, 0.0, 0.25, 1.0):
        np.testing.assert_array_equal(it.clip(x, low, 2.0).numpy(), np.clip(VALUES, low, 2.0))
    assert len([whole for whole in written if whole.op.operation.name == "clip"]) == 1


@pytest.mark.filterwarnings("ignore::ingle.router.RouterWarning")
def test_each_run_of_a_plan_is_counted(routed, remote):
    router = routed("numpy", remote(lacks={"exp"}))
    x = it.asarray(VALUES, device=router[1])
    run = compile(lambda x: it.exp(x) + 1.0)
    for _ in range(7):
        run(x).numpy()
    assert router.report().fallbacks == {("exp", router[1], router[0]): 7}


class WithoutErf(Cpu):
    """Makes plans, and lacks an operation, which it takes to the host if nobody asks it first."""

    def supports(self, op, avals):
        return op.operation.name != "erf" and super().supports(op, avals)


def test_what_a_member_that_makes_plans_lacks_is_no_part_of_its_plan(routed):
    def function(x):
        return it.erf(x * 2.0) + 1.0

    router = routed(WithoutErf(Device("narrow")), "numpy")
    x = it.asarray(VALUES, device=router[0])
    run = compile(function)
    with pytest.warns(RouterWarning, match="lacks erf|lacks it"):
        found = [run(x).numpy() for _ in range(3)]
    for got in found:
        np.testing.assert_allclose(got, special.erf(VALUES * 2.0) + 1.0, rtol=1e-12)
    assert router.report().fallbacks == {("erf", router[0], router[1]): 3}

    strict = routed(WithoutErf(Device("narrow")), "numpy", lacking="error", name="strict")
    with pytest.raises(BackendError, match=r"lacks it for.*numpy.* has it"):
        compile(function)(it.asarray(VALUES, device=strict[0])).numpy()
