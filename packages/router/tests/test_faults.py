"""Members that fail, answer late or are lost; Ctrl-C; forks."""

import os
import signal
import threading

import numpy as np
import pytest

import ingle.tensor as it
from ingle.fusion import compile
from ingle.tensor.device import Device
from ingle.tensor.errors import BackendError, LostDeviceError, OutOfMemoryError, OutOfRangeError
from ingle_numpy.backend import NumpyBackend


def test_what_a_member_raises_names_it(routed, remote):
    far = remote()
    router = routed("numpy", far)
    x = it.ones(2, device=router[1])
    far.fails["exp"] = OSError("the bus is off")
    y = it.exp(x)
    with pytest.raises(BackendError, match=r"device router:1 \(remote\) failed: OSError: the bus"):
        y.numpy()
    assert it.exp(x).tolist() == pytest.approx([np.e, np.e])


class Fragile(NumpyBackend):
    """Runs operations at once, until it raises."""

    fault = None

    def execute(self, op, inputs):
        if self.fault is not None and op.operation.name == "exp":
            raise self.fault
        return super().execute(op, inputs)


def test_what_a_member_raises_in_a_compiled_function_names_it(routed):
    fragile = Fragile(Device("fragile"))
    router = routed("numpy", fragile)
    x = it.ones(2, device=router[1])
    function = compile(lambda x: it.exp(x) * 2.0)
    for _ in range(3):
        assert function(x).tolist() == pytest.approx([2.0 * np.e] * 2)
    fragile.fault = OSError("the bus is off")
    with pytest.raises(
        BackendError, match=r"exp: device router:1 \(fragile\) failed: OSError: the"
    ):
        function(x).numpy()
    fragile.fault = LostDeviceError("the cable was pulled")
    with pytest.raises(LostDeviceError, match=r"router:1 \(fragile\) is lost.*the cable"):
        function(x).numpy()
    assert router.members[1].lost == "the cable was pulled"


def test_a_member_offers_what_its_device_offers(routed):
    fragile = Fragile(Device("fragile"))
    member = routed("numpy", fragile).members[1]
    fragile.gauges = lambda: {"load": 0.5}
    assert member.gauges() == {"load": 0.5}
    assert not hasattr(member, "stage")
    # Nothing is asked of a member that is being copied and has no device yet.
    with pytest.raises(AttributeError, match="hardware"):
        type(member).__new__(type(member)).gauges  # noqa: B018


def test_what_a_handler_of_signals_raises_is_no_failure_of_the_member(routed, remote, monkeypatch):
    far = remote()
    router = routed("numpy", far)
    y = it.exp(it.ones(2, device=router[1]))

    def interrupted(handle):
        signal.raise_signal(signal.SIGUSR1)
        return wait(handle)

    def handler(number, frame):
        raise KeyError("of the program")

    wait = far.download
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setattr(far, "download", interrupted)
        with pytest.raises(KeyError, match="of the program"):
            y.numpy()
    finally:
        signal.signal(signal.SIGUSR1, before)
    monkeypatch.undo()
    assert y.tolist() == pytest.approx([np.e, np.e])


def test_a_warning_that_is_an_error_is_no_failure_of_the_member(routed, remote):
    far = remote()
    router = routed("numpy", far)
    y = it.exp(it.ones(2, device=router[1]))
    far.fails["exp"] = UserWarning("a kernel is slow")
    with pytest.raises(UserWarning, match=r"^a kernel is slow$"):
        y.numpy()


def test_a_late_error_comes_with_the_move(routed, remote):
    far = remote(delay=0.01)
    router = routed("numpy", far)
    y = it.exp(it.ones(2, device=router[1]))
    far.fails["exp"] = ZeroDivisionError("late")
    with pytest.raises(BackendError, match=r"from router:1 to router, .* remote and numpy, .*late"):
        y.to_device(router[0]).numpy()
    assert it.ones(2, device=router[0]).tolist() == [1.0, 1.0]


def test_a_lost_member_is_named_and_the_others_go_on(routed, remote):
    far = remote()
    router = routed("cpu", far)
    x, y = it.ones(2, device=router[1]), it.ones(2, device=router[0])
    assert x.tolist() == [1.0, 1.0]
    far.lost = "the cable was pulled"
    with pytest.raises(LostDeviceError, match=r"router:1 \(remote\) is lost.*the cable"):
        x.numpy()
    for use in (
        lambda: (x + 1.0).numpy(),
        lambda: it.zeros(2, device=router[1]).numpy(),
        lambda: y.to_device(router[1]).numpy(),
        lambda: x.to_device(router[0]).numpy(),
    ):
        with pytest.raises(LostDeviceError, match=r"was lost \(.*The other devices of 'router'"):
            use()
    assert (y + 1.0).tolist() == [2.0, 2.0]
    router.synchronize()


def test_nothing_falls_back_on_a_lost_member(routed, remote):
    far, near = remote("far"), remote("near", lacks={"exp"})
    router = routed(far, near, "numpy")
    far.lost = "gone"
    with pytest.raises(LostDeviceError):
        it.ones(2, device=router[0]).numpy()
    with pytest.warns(UserWarning, match="runs on router:2"):
        assert it.exp(it.zeros(2, device=router[1])).tolist() == [1.0, 1.0]


def test_an_index_out_of_range_is_an_error_on_each_member(pair):
    for where in pair:
        with pytest.raises(OutOfRangeError, match="take"):
            it.take(it.ones(3, device=where), it.asarray([5], device=where)).numpy()


def test_one_that_is_lost_in_a_compiled_step_leaves_cells_alone(routed, remote):
    far = remote()
    router = routed("cpu", far)
    w = it.Cell(it.ones(2, device=router[0]))

    @compile
    def step():
        w.value = it.exp((w.raw * 2.0).to_device(router[1])).to_device(router[0])

    with it.device(router[0]):
        step()
        step()
        before = w.value.tolist()
        far.lost = "gone"
        with pytest.raises(LostDeviceError, match="router:1"):
            step()
    assert w.value.tolist() == before


def test_a_member_without_memory_says_so_and_leaves_cells_alone(routed, remote):
    far = remote()
    router = routed("cpu", far)
    w = it.Cell(it.ones(2, device=router[0]))

    @compile
    def step():
        w.value = it.exp((w.raw * 2.0).to_device(router[1])).to_device(router[0])

    with it.device(router[0]):
        step()
        before = w.value.tolist()
        far.fails["exp"] = OutOfMemoryError("cannot allocate 3.0 GiB")
        with pytest.raises(OutOfMemoryError, match=r"3\.0 GiB"):
            step()
        assert w.value.tolist() == before
        step()
    np.testing.assert_allclose(w.value.numpy(), np.exp(np.multiply(2, before)), rtol=1e-6)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_ctrl_c_in_a_step_loses_nothing(routed, remote):
    far = remote(delay=0.2)
    router = routed("cpu", far)
    w = it.Cell(it.ones(2, device=router[0]))

    @compile
    def step(x):
        w.value = (it.tanh(w.raw.to_device(router[1])) * x).to_device(router[0])

    x = it.ones(2, device=router[1])
    step(x)
    step(x)
    before = w.value.tolist()
    main = threading.main_thread().ident
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT))
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            step(x)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, old)
    assert w.value.tolist() == before
    step(x)
    np.testing.assert_allclose(w.value.numpy(), np.tanh(before), rtol=1e-6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_uses_the_router(routed):
    router = routed("cpu", "numpy", mixed="first")
    x, y = it.ones(3, device=router[0]), it.ones(3, device=router[1])
    assert (x + y).tolist() == [2.0] * 3
    before = router.report().moves[0].times
    child = os.fork()
    if child == 0:
        good = (x + y * 2.0).tolist() == [3.0] * 3 and router.report().moves[0].times > before
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert router.report().moves[0].times == before


def test_threads_share_a_router(pair):
    wrong = []

    def work(seed):
        x = it.asarray(np.full(5, seed, np.float32), device=pair[seed % 2])
        for _ in range(20):
            x = (x + 1.0).to_device(pair[(seed + 1) % 2]).to_device(pair[seed % 2])
        if x.tolist() != [seed + 20.0] * 5:
            wrong.append(x.tolist())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert sum(m.times for m in pair.report().moves) == 160
