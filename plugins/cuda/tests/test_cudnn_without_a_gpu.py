"""What cuDNN is asked for, by a stub of its package that computes it in the host's memory."""

from __future__ import annotations

import threading
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from host_cudnn import PACKAGE, Graph, wide

import ingle.tensor as it
from ingle.fusion.device.kernel_backend import MemoryHandle, StridedHandle
from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dtypes import bool_, float32
from ingle.tensor.errors import BackendError
from ingle.tensor.operation import infer
from ingle.tensor.ops.convolution.forward import CONV
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT
from ingle.tensor.ops.neural.attention import ATTENTION, ATTENTION_TRAINING
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT, attention_gradient
from ingle_cuda import cudnn
from ingle_cuda.attention import cudnn_attention as attention
from ingle_cuda.attention.cudnn_attention import Attention
from ingle_cuda.convolution import Convolutions
from ingle_cuda.cudnn import Plans


class HostBackend:
    """What offers ask of the device, in memory of the host."""

    checks = None

    def __init__(self) -> None:
        self.device = Device("cuda")
        self.lock = threading.RLock()
        self.stream = SimpleNamespace(ptr=0)

    def enter(self) -> None:
        pass

    def allocate(self, nbytes: int) -> Any:
        return SimpleNamespace(address=4096)

    def empty(self, aval: Aval) -> MemoryHandle:
        return self.of(np.zeros(aval.shape, aval.dtype.dtype))

    def of(self, array: Any) -> Any:
        """An array as a handle; it holds the array."""
        address = array.__array_interface__["data"][0]
        aval = Aval(array.shape, it.asarray(np.zeros(1, array.dtype)).dtype)
        if array.flags.c_contiguous:
            return MemoryHandle(self, aval, array, address)  # type: ignore[arg-type]
        strides = [s // array.itemsize for s in array.strides]
        return StridedHandle(self, aval, array, address, strides)  # type: ignore[arg-type]

    def in_order(self, handle: Any) -> Any:
        if isinstance(handle, MemoryHandle):
            return handle
        return self.of(np.array(handle.memory, order="C"))


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Plans:
    monkeypatch.setattr(cudnn, "package", lambda: PACKAGE)
    monkeypatch.setattr(attention, "FEWEST", 1)
    return Plans(HostBackend(), tensor_float=False)  # type: ignore[arg-type]


def aligned(array: Any) -> Any:
    """The same numbers at an address as the library takes it."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    found = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


CONVS = [
    ((2, 4, 9, 8), (6, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 4, 9, 8), (6, 2, 3, 2), (2, 1), ((0, 1), (2, 0)), (1, 2), 2),
    ((3, 4, 17), (5, 4, 3), (2,), ((1, 2),), (1,), 1),
    ((1, 2, 5, 6, 7), (3, 2, 2, 2, 2), (1, 1, 1), ((1, 0),) * 3, (1, 1, 1), 1),
]


@pytest.mark.parametrize("layout", ["rows", "channels last", "strided", "misaligned"])
@pytest.mark.parametrize(("x", "w", "stride", "padding", "dilation", "groups"), CONVS)
def test_convolutions(
    plans: Plans, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int, layout: str
) -> None:
    rng = np.random.default_rng(0)
    image, weight = (rng.standard_normal(s).astype(np.float32) for s in (x, w))
    lying = aligned(image)
    if layout == "channels last":
        lying = np.moveaxis(aligned(np.moveaxis(image, 1, -1)), -1, 1)
    elif layout == "strided":
        lying = aligned(np.repeat(image, 2, -1))[..., ::2]
    elif layout == "misaligned":
        lying = aligned(np.concatenate([[0.0], image.ravel()]).astype("f4"))[1:].reshape(x)
    backend: Any = plans._backend
    offer = Convolutions(backend, plans)
    op = CONV.op(stride=stride, padding=padding, dilation=dilation, groups=groups)
    handles = [backend.of(lying), backend.of(aligned(weight))]
    assert offer.takes(op, [Aval(h.shape, h.dtype) for h in handles])
    (found,) = offer.run(op, handles)
    expected = it.conv(wide(image), wide(weight), stride=stride, padding=padding,
                       dilation=dilation, groups=groups)  # fmt: skip
    np.testing.assert_allclose(found.memory, expected.numpy(), rtol=1e-5, atol=1e-5)
    read = [k.operands[0][1] for k in plans._known]
    assert (len(read) == 2) == (layout == "channels last")  # which the library reads as it lies


def test_gradients_are_asked_by_the_librarys_names(plans: Plans) -> None:
    offer = Convolutions(plans._backend, plans)
    statics: dict[str, Any] = {
        "stride": (2, 1), "padding": ((1, 0), (0, 2)), "dilation": (1, 1), "groups": 1
    }  # fmt: skip
    x, w = Aval((2, 3, 8, 9), float32), Aval((4, 3, 3, 3), float32)
    (g,) = infer(CONV.op(**statics), [x, w])
    assert offer.takes(CONV_INPUT_GRADIENT.op(size=(8, 9), **statics), [g, w])
    assert offer.takes(CONV_WEIGHT_GRADIENT.op(kernel=(3, 3), **statics), [x, g])
    names = [(p.graph.name, sorted(p.graph.given)) for p in plans._known.values() if p]
    rest = ["dilation", "post_padding", "pre_padding", "stride"]
    assert names == [
        ("conv_dgrad", sorted(["loss", "filter", *rest])),
        ("conv_wgrad", sorted(["image", "loss", *rest])),
    ]


def test_what_the_library_does_not_take(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = Convolutions(plans._backend, plans)
    statics: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    op, cropped = (CONV.op(padding=p, **statics) for p in (((0, 0),) * 2, ((-1, 0),) * 2))
    x, w = Aval((2, 3, 8, 9), float32), Aval((4, 3, 3, 3), float32)
    assert not offer.takes(cropped, [x, w])
    assert not offer.takes(op, [Aval((0, 3, 8, 9), float32), w])
    double = [Aval(a.shape, it.float64) for a in (x, w)]
    assert not offer.takes(op, double)
    monkeypatch.setattr(Graph, "refuses", True)
    assert not offer.takes(op, [x, w])
    monkeypatch.setattr(Graph, "refuses", False)
    assert not offer.takes(op, [x, w])  # the answer is kept, as plans were made by it
    monkeypatch.setattr(cudnn, "package", lambda: None)
    assert not Convolutions(plans._backend, Plans(plans._backend, False)).takes(op, [x, w])


def small_convolution() -> tuple[Any, list[Any]]:
    statics: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    rng = np.random.default_rng(0)
    arrays = [aligned(rng.standard_normal(s).astype("f4")) for s in ((2, 3, 8, 9), (4, 3, 3, 3))]
    return CONV.op(padding=((0, 0),) * 2, **statics), arrays


def test_a_library_that_does_not_start_is_told_once(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> int:
        raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED")

    monkeypatch.setattr(PACKAGE, "create_handle", fails)
    backend: Any = plans._backend
    op, arrays = small_convolution()
    avals = [Aval(h.shape, h.dtype) for h in map(backend.of, arrays)]
    with pytest.warns(RuntimeWarning, match=r"cuda: cuDNN .*NOT_INITIALIZED.*INGLE_CUDA_CUDNN=0"):
        assert not Convolutions(backend, plans).takes(op, avals)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not Convolutions(backend, plans).takes(op, [avals[0], avals[1]])
        assert not Convolutions(backend, plans).takes(op, [Aval((1, 3, 8, 9), float32), avals[1]])


def test_what_the_library_raises_names_the_device(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")

    backend: Any = plans._backend
    op, arrays = small_convolution()
    handles = [backend.of(a) for a in arrays]
    offer = Convolutions(backend, plans)
    assert offer.takes(op, [Aval(h.shape, h.dtype) for h in handles])
    monkeypatch.setattr(Graph, "execute", fails)
    with pytest.raises(BackendError, match=r"cuda: .*INGLE_CUDA_CUDNN=0.*EXECUTION_FAILED"):
        offer.run(op, handles)


ATTENTIONS = [
    ((2, 3, 8, 4), (2, 3, 8, 4)), ((3, 8, 4), (3, 8, 4)), ((5, 4), (5, 4)),
    ((2, 2, 3, 8, 4), (2, 2, 1, 8, 4)),
]  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize(("q", "k"), ATTENTIONS)
def test_attention_and_its_gradient(
    plans: Plans, q: Any, k: Any, side_by_side: bool, causal: bool
) -> None:
    rng = np.random.default_rng(0)
    backend: Any = plans._backend
    offer = Attention(backend, plans)
    arrays = [rng.standard_normal(s).astype(np.float16) for s in (q, k, k, q)]
    handles = [backend.of(aligned(x)) for x in arrays]
    if side_by_side and len(q) == 4:  # places first, then heads
        handles = [backend.of(np.moveaxis(aligned(np.moveaxis(x, 1, 2)), 2, 1)) for x in arrays]
    numbers = [Scalar(True, bool_), Scalar(0.5, handles[0].dtype)]
    query, key, value, g = handles
    op = ATTENTION_TRAINING.op(causal=causal)
    given = [query, key, value, *numbers]
    assert offer.takes(op, [Aval(h.shape, h.dtype) for h in given])
    out, lse = offer.run(op, given)
    options: dict[str, Any] = {"is_causal": causal, "scale": 0.5}
    doubles = [wide(x) for x in arrays]
    expected = it.ops.neural.attention.attention_training(*doubles[:3], **options)
    for found, wanted in zip((out, lse), expected, strict=True):
        np.testing.assert_allclose(found.memory, wanted.numpy(), rtol=4e-3, atol=2e-3)
    (plain,) = offer.run(ATTENTION.op(causal=causal), given)
    np.testing.assert_array_equal(plain.memory, out.memory)
    if len(q) < 5:  # the stub's gradient has no groups of heads
        back = [g, query, key, value, *numbers, out, lse]
        gradients = offer.run(ATTENTION_GRADIENT.op(causal=causal), back)
        wanted = attention_gradient(doubles[3], *doubles[:3], **options)
        for found, other in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(found.memory, other.numpy(), rtol=2e-2, atol=1e-2)


def test_attention_that_the_library_does_not_take(plans: Plans) -> None:
    offer = Attention(plans._backend, plans)
    half = it.float16
    numbers = [Aval((), bool_), Aval((), half)]
    whole = Aval((2, 4, 8, 4), half)
    op = ATTENTION.op(causal=False)
    assert offer.takes(op, [whole, whole, whole, *numbers])
    masked = [whole, whole, whole, Aval((8, 8), bool_), Aval((), half)]
    assert not offer.takes(op, masked)
    single = [Aval(whole.shape, float32)] * 3
    assert not offer.takes(op, [*single, Aval((), bool_), Aval((), float32)])
    shared = Aval((1, 4, 8, 4), half)  # one batch of keys for all of queries
    assert not offer.takes(op, [whole, shared, shared, *numbers])
    fewer = Aval((2, 2, 8, 4), half)  # heads that do not broadcast
    assert attention.problem_of(op, [whole, fewer, fewer, *numbers]) is None
