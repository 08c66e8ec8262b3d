"""Operations run where their inputs are; what the policies say; what is reported."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from router_members import Exporting, twin

import ingle.nn as nn
import ingle.optim as optim
import ingle.tensor as it
from ingle.fusion import Fusion
from ingle.router import Router, RouterWarning
from ingle.tensor.device import Device
from ingle.tensor.errors import ArgumentError, BackendError, DeviceError, OperandError
from ingle.tensor.operation import OPERATIONS


def test_an_operation_runs_where_its_inputs_are(pair):
    for where in pair:
        x = it.asarray([[1.0, 2.0], [3.0, 4.0]], device=where)
        y = it.softmax(x @ x, axis=1) + it.ones(2, device=where)
        assert x.device == y.device == where
        assert it.exp(x)[0].device == where
        values = np.array([[7.0, 10.0], [15.0, 22.0]], np.float64)
        values = np.exp(values - values.max(axis=1, keepdims=True))
        np.testing.assert_allclose(
            y.numpy(), values / values.sum(axis=1, keepdims=True) + 1, rtol=1e-6
        )
    assert pair.report().moves == ()


def test_members_are_addressed_by_number_name_and_device(routed):
    router = routed("cpu", "numpy")
    assert router.devices == (Device("router"), Device("router", 1))
    for member in (1, "numpy", "router:1", Device("numpy"), Device("router", 1)):
        assert router[member] == Device("router", 1)
    assert len(router) == 2
    with it.device("router:1"):
        assert it.zeros(3).device == Device("router", 1)
        assert it.random.normal((2,)).device == Device("router", 1)
    assert it.arange(3, device="router").device == Device("router")


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda r: r["abacus"], DeviceError, r"no member 'abacus'; it has router \(cpu\)"),
        (lambda r: r[2], DeviceError, "no member 2"),
        (lambda r: it.zeros(2, device="router:2"), BackendError, r"no device 'router:2'.*0"),
        (lambda r: Router("numpy", "abacus", name="b"), BackendError, "no backend named 'abacus'"),
        (lambda r: Router(name="b"), ArgumentError, "at least one member"),
        (lambda r: Router("cpu", "cpu", name="b"), ArgumentError, "cpu is given twice"),
        (lambda r: Router("router:1", name="b"), ArgumentError, "a router's own device"),
        (lambda r: Router(3, name="b"), ArgumentError, "got int"),
        (lambda r: Router("cpu", mixed="last", name="b"), DeviceError, "no member 'last'"),
        (lambda r: Router("cpu", lacking="no", name="b"), ArgumentError, "'fallback', 'own'"),
        (lambda r: Router("cpu"), ArgumentError, "a router of this name is open"),
        (lambda r: Router("cpu", name="numpy"), ArgumentError, "it is taken"),
        (lambda r: Router("cpu", name="a:b"), ArgumentError, "letters, digits"),
    ],
)
def test_wrong_members_and_names(routed, wrong, error, message):
    router = routed("cpu", "numpy")
    with pytest.raises(error, match=message):
        wrong(router)


def test_a_closed_router_is_not_found_and_its_tensors_are_read():
    with Router("numpy", "cpu") as router:
        x = it.ones(2, device=router[1]) + 1.0
    with pytest.raises(BackendError, match="no backend named 'router'"):
        it.ones(2, device="router")
    assert x.tolist() == [2.0, 2.0]


def test_a_router_is_not_pickled_and_its_tensors_are(pair):
    with pytest.raises(
        ArgumentError, match=r"'router' stands for devices of this process.*Router\("
    ):
        pickle.dumps(pair)
    with pytest.raises(ArgumentError, match="nor copied"):
        copy.deepcopy(pair)
    x = it.asarray([1.0, 2.0], device=pair[1])
    found = pickle.loads(pickle.dumps(x))
    assert found.device == pair[1]
    assert found.tolist() == [1.0, 2.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Adam", "LBFGS", "Muon", "Adafactor", "RMSprop"])
def test_state_of_optimizers_is_where_its_parameters_are(routed, name):
    """The losses of a model over two members are those of one; the norm of all gradients, too."""

    def losses(first, second):
        it.random.seed(0)
        with it.device("numpy"):
            lower, upper = nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False)
        model = nn.Sequential(lower.to(first), upper.to(second))
        values = np.linspace(-1.0, 1.0, 15, dtype=np.float32).reshape(5, 3)
        x = it.asarray(values, device=first)

        def loss():
            return it.mean((upper(it.tanh(lower(x)).to_device(second)) - 1.0) ** 2)

        optimizer, found = getattr(optim, name)(model, lr=0.05), []
        for _ in range(3):
            if name == "LBFGS":
                found.append(optimizer.step(loss).item())
            else:
                value = loss()
                grads, norm = optim.clip_grad_norm(value.backward(), 0.1)
                optimizer.step(grads)
                found += [value.item(), norm.item()]
        return found

    router = routed("cpu", "numpy")
    want = losses("numpy", "numpy")
    np.testing.assert_allclose(losses(router[0], router[1]), want, rtol=1e-4)


def test_mixed_operands_are_an_error_without_a_policy(pair):
    x, y = (it.ones(2, device=d) for d in pair)
    with pytest.raises(DeviceError, match=r"add: .*x1: router, x2: router:1.*mixed='first'"):
        x + y
    with pytest.raises(DeviceError, match="concat"):
        it.concat([x, y])
    with pytest.raises(DeviceError, match="x1: router, x2: numpy"):
        x + it.ones(2, device="numpy")


@pytest.mark.parametrize(
    ("mixed", "where"),
    [("first", 0), ("largest", 1), ("numpy", 1), ("router:1", 1), (0, 0), (Device("cpu"), 0)],
)
def test_mixed_operands_meet_where_the_policy_says(routed, mixed, where):
    router = routed("cpu", "numpy", mixed=mixed)
    x = it.asarray([1.0, 2.0], device=router[0]).require_grad()
    y = it.asarray([[1.0, 1.0], [3.0, 5.0]], device=router[1]).require_grad()
    z = it.sum(x * y)
    assert z.device == router[where]
    grads = z.backward()
    assert grads[x].device == router[0]
    assert grads[y].device == router[1]
    assert grads[x].tolist() == [4.0, 6.0]
    assert grads[y].tolist() == [[1.0, 2.0], [1.0, 2.0]]
    constant = it.ones((3, 2), device=router[1])
    assert (x * constant).device == router[where]


def test_moves_take_the_nearest_road(routed, remote):
    near, far = remote("near"), remote("far", kind=Exporting)
    near.peers = [far]
    router = routed("cpu", near, far, "numpy")
    x = it.asarray([1.5, -2.0], device=router[0])
    route = [router[i] for i in (3, 1, 2, 0)]
    for where in route:
        x = x.to_device(where)
        assert x.tolist() == [1.5, -2.0]
    roads = [m.road for m in router.report().moves]
    assert roads == ["shared memory", "host", "peer copy", "host"]
    assert {(m.times, m.nbytes) for m in router.report().moves} == {(1, 8)}
    other = remote("other", kind=Exporting)
    with Router(far, other, name="speakers") as speakers:
        y = it.asarray([3.0], device="speakers").to_device("speakers:1")
        assert y.tolist() == [3.0]
        assert [m.road for m in speakers.report().moves] == ["DLPack"]


def test_a_tensor_of_a_member_comes_in_without_a_copy(routed):
    router = routed("cpu", "numpy")
    x = it.ones(4, device="cpu")
    y = x.to_device(router["cpu"])
    assert y.device == Device("router")
    assert y.numpy().ctypes.data == x.numpy().ctypes.data
    assert y.to_device("cpu").device == Device("cpu")
    assert router.report().moves == ()


def test_what_a_member_lacks_runs_on_another(routed, remote):
    far = remote(lacks={"argsort", "exp"})
    router = routed("numpy", far)
    x = it.asarray([3.0, 1.0, 2.0], device=router[1])
    y = it.exp(x)
    with pytest.warns(RouterWarning, match=r"router:1 \(remote\) lacks exp: .* router \(numpy\)"):
        values = y.numpy()
    np.testing.assert_allclose(values, np.exp([3.0, 1.0, 2.0]), rtol=1e-6)
    assert y.device == router[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # announced once
        assert it.exp(x + 1.0).shape == (3,)
        it.exp(x * 2.0).numpy()
    key = ("exp", router[1], router[0])
    assert router.report().fallbacks[key] == 2
    assert "exp: 2 times on router, since router:1 lacks it" in str(router.report())
    assert "exp" not in far.ran


def test_what_a_member_lacks_can_be_an_error_or_its_own_affair(routed, remote):
    router = routed("numpy", remote(lacks={"exp"}), lacking="error")
    x = it.ones(2, device=router[1])
    with pytest.raises(BackendError, match=r"exp: device router:1 .* lacks it.* router \(numpy\)"):
        it.exp(x).numpy()
    router.close()
    router = routed("numpy", remote(lacks={"exp"}), lacking="own")
    with pytest.raises(BackendError, match="no kernel for exp"):
        it.exp(it.ones(2, device=router[1])).numpy()
    router.close()
    router = routed(remote("a", lacks={"exp"}), remote("b", lacks={"exp"}), lacking="error")
    with pytest.raises(BackendError, match="no other member has it"):
        it.exp(it.ones(2, device=router[1])).numpy()


def test_composites_are_composed_where_they_are(routed, remote):
    far = remote(lacks={"softmax"})
    router = routed("numpy", far)
    y = it.softmax(it.asarray([1.0, 1.0], device=router[1]))
    assert y.tolist() == [0.5, 0.5]
    assert "exp" in far.ran
    assert router.report().fallbacks == {}


def test_the_router_itself_is_a_backend(routed):
    router = routed("cpu", "numpy", mixed="first")
    add = OPERATIONS["add"].op()
    x = router.upload(np.ones(2, np.float32))
    y = it.ones(2, device=router[1])._handle
    (z,) = router.execute(add, (x, y))
    assert router.download(z).tolist() == [2.0, 2.0]
    assert z.backend.device == router.device
    router.synchronize()
    assert router.supports(add, [x, y])
    with pytest.raises(OperandError, match="is on numpy, which is no device of Router"):
        router.execute(add, (x, it.ones(2, device="numpy")._handle))


def test_it_runs_without_fusion(routed, monkeypatch):
    monkeypatch.setenv("INGLE_FUSION", "0")
    router = routed("numpy", twin("numpy", 1))
    x = it.ones(2, device=router[1]) + 1.0
    assert isinstance(x.backend, Fusion)
    assert x._handle.pending_in is None
    assert x.to_device(router[0]).tolist() == [2.0, 2.0]


def test_the_report_names_members(routed):
    router = routed("cpu", "numpy")
    it.ones(3, device=router[0]).to_device(router[1])
    text = str(router.report())
    assert text.splitlines() == [
        "router is cpu", "router:1 is numpy",
        "router -> router:1: 1 tensors, 12 bytes by shared memory",
    ]  # fmt: skip
