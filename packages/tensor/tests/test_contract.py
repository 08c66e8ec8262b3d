"""The contract: typed keys, scalars, capabilities, rules, roads, and the host as a last resort."""

import http
import math
import sys
import types
import warnings

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.contract import Aval, Backend, Handle, Scalar, capability
from ingle.tensor.device import Device, backend_of
from ingle.tensor.eager import EagerBackend, HostFallbackWarning
from ingle.tensor.errors import BackendError, DeviceError, OperandError
from ingle.tensor.hooks import hookimpl
from ingle.tensor.operation import OPERATIONS, Operation, Traits, infer, typed_key
from ingle.tensor.plugins import BackendDescription, register, unregister


class Small(EagerBackend):
    """A backend with the given kernels only, on NumPy arrays."""

    name = "small"

    def to_device_array(self, array):
        return array.copy()

    def to_host_array(self, array):
        return np.array(array)


@pytest.fixture
def small(monkeypatch):
    """Installs a backend with few kernels as the device `small`."""

    class Plugin:
        @hookimpl
        def ingle_backends(self):
            return {"small": "small_backend:description"}

    def make(dtypes=None, **kernels):
        class Kind(Small):
            pass

        Kind.kernels, Kind.dtypes = kernels, dtypes and frozenset(dtypes)

        def create(index):
            return Kind(Device("small", index))

        module = types.ModuleType("small_backend")
        module.description = BackendDescription(create=create, priority=-9)
        monkeypatch.setitem(sys.modules, "small_backend", module)
        register("small", Plugin())
        return backend_of("small")

    yield make
    unregister("small")


def binary(op, x1, x2):
    return getattr(np, op.operation.name)(x1, x2)


def test_keys_tell_types_apart():
    values = [1, 1.0, True, "1", (1,), (1.0,), 0.0, -0.0, None, it.float32, 1j]
    keys = [typed_key(v) for v in values]
    assert len(set(keys)) == len(values)
    assert typed_key(float("nan")) == typed_key(float("nan"))
    assert typed_key(http.HTTPStatus.OK) == typed_key(200)
    with pytest.raises(TypeError, match="a static attribute must be"):
        typed_key([1])


def test_operations_are_interned_by_value():
    op = OPERATIONS["reshape"].op(shape=(2, 3))
    assert op is OPERATIONS["reshape"].op(shape=(2, 3))
    assert op != OPERATIONS["reshape"].op(shape=(3, 2))
    assert repr(op) == "reshape(shape=(2, 3))"
    assert OPERATIONS["add"].op() is OPERATIONS["add"].op()


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="'add' exists already"):
        Operation("add", tensors=("x",), rule=lambda x: x, traits=Traits("elementwise"))


def test_gradient_rules_ask_only_for_what_there_is():
    with pytest.raises(ValueError, match="asks for 'nothing'"):
        Operation(
            "test_only_broken_rule",
            tensors=("x",),
            rule=lambda x: x,
            traits=Traits("elementwise"),
            vjp={"x": lambda g, nothing: g},
        )
    assert "test_only_broken_rule" not in OPERATIONS


def test_rules_are_asked_once_for_each_shape():
    op = OPERATIONS["add"].op()
    a = Aval((2, 1), it.float32)
    assert infer(op, [a, Aval((3,), it.float32)]) == (Aval((2, 3), it.float32),)
    assert infer(op, [a, a]) is infer(op, [a, a])
    assert str(a) == "float32[2, 1]"


def test_scalars_are_numbers_of_a_dtype():
    s = Scalar(2, it.bfloat16)
    assert (s.shape, s.dtype, s.backend) == ((), it.bfloat16, None)
    assert s.array().dtype == it.bfloat16.dtype
    assert repr(s) == "Scalar(2, bfloat16)"


def test_capabilities_are_asked_for_by_name():
    backend = backend_of("numpy")
    assert isinstance(backend, Backend)
    assert capability(backend, "prepare") is callable(getattr(backend, "prepare", None))
    with pytest.raises(KeyError, match="the contract knows prepare, copy"):
        capability(backend, "teleport")


def test_handles_have_no_owners_unless_the_backend_counts_them():
    assert it.zeros(2)._handle.owners is None
    assert isinstance(it.zeros(2)._handle, Handle)


def test_the_roads_of_an_eager_backend(small):
    backend = small(binary=binary, unary=binary)
    x = Aval((2,), it.float32)
    assert backend.road(OPERATIONS["add"].op(), (x, x)) == "native"
    assert backend.road(OPERATIONS["softmax"].op(axis=0), (x,)) == "composed"
    assert backend.road(OPERATIONS["matmul"].op(), (x, x)) == "host"
    assert backend_of("numpy").road(OPERATIONS["matmul"].op(), (x, x)) == "native"


def test_a_name_goes_before_its_family(small):
    small(binary=binary, add=lambda op, a, b: a - b)
    x = it.asarray([3.0], device="small")
    assert (x + x).tolist() == [0.0]
    assert (x * x).tolist() == [9.0]


def test_dtypes_without_kernels_go_another_road(small):
    backend = small({"float32"}, binary=binary)
    x = it.asarray([3.0], device="small", dtype="float64")
    with pytest.warns(HostFallbackWarning, match=r"no kernel for add\(\) on float64\[1\]") as told:
        assert (x + x).tolist() == [6.0]
    assert told[0].filename == __file__, "a warning is of the caller's line"
    assert backend.host_fallbacks == {"add": 1}


def test_casts_to_dtypes_without_kernels_go_another_road(small):
    small({"float32"}, cast=lambda op, x: pytest.fail("a kernel was asked"))
    x = it.asarray([3.0], device="small")
    with pytest.warns(HostFallbackWarning, match="no kernel for astype"):
        assert it.astype(x, "float64").tolist() == [3.0]


def test_dtypes_that_a_device_tells_when_it_is_there(small):
    backend = small(binary=binary)
    backend.dtypes = frozenset({"float32"})  # as an __init__ of its own does
    x = it.asarray([3.0], device="small")
    assert (x + x).tolist() == [6.0]
    x = it.asarray([3.0], device="small", dtype="float64")
    with pytest.warns(HostFallbackWarning, match="no kernel for add"):
        assert (x + x).tolist() == [6.0]


def test_numbers_that_say_where_need_no_kernel_of_their_dtype(small):
    """Kernels get starts as numbers of the host; starts that are tensors are values of a device."""

    def piece(op, x, *starts):
        size = op.attributes["sizes"][0]
        return x[int(starts[0]) :][:size]

    backend = small({"float32"}, slice=piece)
    x = it.asarray([3.0, 5.0, 4.0], device="small")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x[1:].tolist() == [5.0, 4.0]
    start = it.asarray(1, device="small")
    with pytest.warns(HostFallbackWarning, match="no kernel for slice"):
        assert it.slice(x, (start,), (2,)).tolist() == [5.0, 4.0]
    assert backend.host_fallbacks["slice"] == 1


@pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning")
@pytest.mark.parametrize(
    ("dtypes", "make"),
    [
        ({"int64"}, lambda x: it.arange(3, dtype="uint8", device=x.device)),
        ({"float32"}, lambda x: it.argmax(x)),
        ({"float32"}, lambda x: x == x),
    ],
)
def test_results_of_dtypes_without_kernels_go_another_road(small, dtypes, make):
    def asked(op, *arrays):
        pytest.fail("a kernel was asked")

    small(dtypes, iota=asked, argreduce=asked, binary=asked)
    x = it.asarray([3.0, 5.0, 4.0], device="small")
    assert make(x).tolist() == make(x.to_device("numpy")).tolist()


class Strange:
    """An array of a library that stores float32 alone."""

    def __init__(self, array):
        assert array.dtype == np.float32
        self.numbers, self.shape, self.dtype = array.ravel().tolist(), array.shape, "float32"


@pytest.mark.filterwarnings("ignore::ingle.tensor.eager.HostFallbackWarning")
def test_what_a_library_does_not_store_may_stay_numpys(small, monkeypatch):
    def read(x):
        return x if isinstance(x, np.ndarray) else np.array(x.numbers, np.float32).reshape(x.shape)

    def add(op, x1, x2):
        assert isinstance(x1, Strange)
        return Strange(read(x1) + (read(x2) if isinstance(x2, Strange) else x2))

    make = lambda _, x: Strange(x) if x.dtype == np.float32 else x.copy()  # noqa: E731
    monkeypatch.setattr(Small, "to_device_array", make)
    monkeypatch.setattr(Small, "to_host_array", lambda _, x: read(x).copy())
    small({"float32"}, add=add)
    x = it.random.uniform((2, 3), device="small")  # of uint32, on the host
    assert (x + 1.0).astype("int32").tolist() == [[1] * 3] * 2
    assert it.sort(x.astype("uint8") + it.asarray(2, dtype="uint8", device="small")).shape == (2, 3)


def test_the_host_is_announced_once_and_counted(small):
    backend = small(binary=binary)
    x = it.asarray([[3.0]], device="small")
    with pytest.warns(HostFallbackWarning, match="matmul.*INGLE_HOST_FALLBACK=error"):
        y = x @ x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = y @ x
    assert y.device == Device("small")
    assert y.tolist() == [[27.0]]
    assert backend.host_fallbacks["matmul"] == 2


def test_the_host_can_be_forbidden(small, monkeypatch):
    small(binary=binary)
    monkeypatch.setenv("INGLE_HOST_FALLBACK", "error")
    x = it.asarray([[3.0]], device="small")
    with pytest.raises(BackendError, match="INGLE_HOST_FALLBACK=error forbids"):
        x @ x


def test_bodies_run_on_the_device_of_their_inputs(small):
    backend = small(
        binary=binary,
        unary=lambda op, x: getattr(np, op.operation.name)(x),
        reduce=lambda op, x: getattr(np, op.operation.name)(x, **op.attributes),
    )
    out = it.softmax(it.asarray([[1.0, 2.0]], device="small"))
    assert out.device == Device("small")
    assert math.isclose(it.sum(out).item(), 1.0, rel_tol=1e-6)
    assert not backend.host_fallbacks


def test_operands_on_two_devices_are_refused(small):
    small(binary=binary)
    with pytest.raises(DeviceError, match=r"add: .*x1: small, x2: numpy.*to_device"):
        it.ones(2, device="numpy").to_device("small") + it.ones(2, device="numpy")
    with pytest.raises(OperandError, match="add: x2 must be a tensor, got ndarray"):
        it.ones(2) + np.ones(2)


def test_tensors_move_between_devices(small):
    small(binary=binary)
    x = it.asarray([1.0, 2.0], device="numpy")
    y = x.to_device("small")
    assert y.device == Device("small")
    assert x.to_device("numpy") is x
    assert y.to_device("numpy").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda op, x: np.exp(x.astype(np.float64)), r"returned float64\[3\].*says float32\[3\]"),
        (lambda op, x: np.exp(x)[:2], r"returned float32\[2\].*says float32\[3\]"),
        (lambda op, x: (x, x), r"returned a tuple of 2, and .*says float32\[3\]"),
        (lambda op, x: None, r"returned None, and .*says float32\[3\]"),
        (lambda op, x: [1.0, 2.0, 3.0], r"returned the list \[1.0, 2.0, 3.0\]"),
        (lambda op, x: 1.0, r"returned the float 1.0"),
    ],
)
def test_a_kernel_that_returns_something_else_is_caught_where_it_arises(kernel, message):
    backend = Small(Device("wrong"))
    backend.name, backend.kernels = "wrong", {"exp": kernel}
    x = backend.upload(np.ones(3, np.float32))
    with pytest.raises(BackendError, match=rf"'wrong': the kernel of exp\(\).*{message}"):
        backend.execute(OPERATIONS["exp"].op(), (x,))


class Foreign:
    """An array of a library whose dtypes are not NumPy's."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, f"foreign.{array.dtype}"


class Foreigner(Small):
    def to_device_array(self, array):
        if array.dtype == np.uint16:
            raise TypeError("no uint16")
        return Foreign(array.copy())

    def to_host_array(self, array):
        return array.array.copy()


@pytest.mark.parametrize("wrong", ["float64", "int32", "float16"])
def test_a_wrong_dtype_of_a_library_with_its_own_is_caught_where_it_arises(wrong):
    backend = Foreigner(Device("foreign"))
    backend.kernels = {"exp": lambda op, x: Foreign(np.exp(x.array).astype(wrong))}
    x = backend.upload(np.ones(3, np.float32))
    told = rf"the kernel of exp\(\).*returned foreign.{wrong}\[3\].*says float32\[3\]"
    for _ in range(2):
        with pytest.raises(BackendError, match=told):
            backend.execute(OPERATIONS["exp"].op(), (x,))
    backend.kernels = {"log": lambda op, x: Foreign(np.log(x.array))}
    (y,) = backend.execute(OPERATIONS["log"].op(), (x,))
    assert backend.download(y).dtype == np.float32


def test_a_library_may_compute_what_it_cannot_upload():
    backend = Foreigner(Device("foreign"))
    backend.kernels = {"astype": lambda op, x: Foreign(x.array.astype(np.uint16))}
    x = backend.upload(np.ones(3, np.float32))
    (y,) = backend.execute(OPERATIONS["astype"].op(dtype=it.uint16), (x,))
    assert backend.download(y).tolist() == [1, 1, 1]


def test_an_upload_in_another_dtype_of_the_library_is_caught(monkeypatch):
    backend = Foreigner(Device("foreign"))
    backend.name = "foreign"
    narrow = lambda array: Foreign(array.astype(np.float32))  # noqa: E731
    monkeypatch.setattr(backend, "to_device_array", narrow)
    with pytest.raises(BackendError, match=r"to_device_array made foreign.float32\[3\] of float64"):
        backend.upload(np.ones(3))
    assert backend.download(backend.upload(np.ones(3, np.float32))).tolist() == [1, 1, 1]


def test_what_a_kernel_raises_says_which_it_was():
    def broken(op, x):
        raise MemoryError("no room")

    backend = Small(Device("small"))
    backend.kernels = {"exp": broken}
    x = backend.upload(np.ones(3, np.float32))
    with pytest.raises(MemoryError, match="no room") as error:
        backend.execute(OPERATIONS["exp"].op(), (x,))
    assert error.value.__notes__ == ["backend 'small': this was the kernel of exp() on float32[3]"]


@pytest.mark.parametrize("method", ["to_device_array", "to_host_array"])
def test_what_a_library_raises_on_the_way_says_which_way_it_was(method):
    def broken(array):
        raise TypeError("no such type")

    backend = Small(Device("small"))
    x = backend.upload(np.ones(3, np.int8))
    setattr(backend, method, broken)
    with pytest.raises(TypeError, match="no such type") as error:
        backend.upload(np.ones(3, np.int8)) if "device" in method else backend.download(x)
    assert error.value.__notes__ == [f"backend 'small': this was {method} of int8[3]"]


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        (lambda array: None, r"made None of float32\[3\]"),
        (lambda array: array.tolist(), r"made the list \[1.0, 1.0, 1.0\] of float32\[3\]"),
        (lambda array: array.astype("float64"), r"made float64\[3\] of float32\[3\]"),
        (lambda array: array[:1], r"made float32\[1\] of float32\[3\]"),
    ],
)
def test_what_is_moved_keeps_shape_and_dtype(moved, told, monkeypatch):
    backend = Small(Device("small"))
    x = backend.upload(np.ones(3, np.float32))
    monkeypatch.setattr(backend, "to_host_array", moved)
    with pytest.raises(BackendError, match=f"'small': to_host_array {told}"):
        backend.download(x)
    monkeypatch.setattr(backend, "to_device_array", moved)
    with pytest.raises(BackendError, match=f"'small': to_device_array {told}"):
        backend.upload(np.ones(3, np.float32))


def test_a_backend_that_does_not_say_how_arrays_come_is_told_what_it_lacks():
    with pytest.raises(NotImplementedError, match=r"'eager': EagerBackend has to define to_device"):
        EagerBackend(Device("small")).upload(np.ones(3, np.float32))
