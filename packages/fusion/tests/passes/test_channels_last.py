"""Images with the channels last, on a device that computes convolutions so by a library."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain
from ingle.fusion.passes.channels_last import ChannelsLast
from ingle.fusion.runtime import graph_plans
from ingle.tensor import Tensor, plugins
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device, backend_of, call_staged
from ingle.tensor.operation import OPERATIONS, Op
from ingle.tensor.ops.convolution.channels_last import CHANNELS_LAST

SOURCE = Path(__file__).parents[4] / "examples" / "third_party_compiler" / "src"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
LAST = [op.name for op in CHANNELS_LAST.values()]


class Library:
    """Computes convolutions by the numpy device, and notes how their operands lie.

    Args:
        backend: whose memory operands and results have.
    """

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.turned = True
        self.runs: list[tuple[str, list[Any]]] = []

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        name = op.operation.name
        if name in LAST:
            return self.turned and avals[0].shape[1] > 1
        return name in ("conv", "conv_input_gradient", "conv_weight_gradient")

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        lying = [self.backend.axes_in_memory(x) for x in inputs]
        self.runs.append((op.operation.name, lying))
        host = backend_of("numpy")
        given = [host.upload(self.backend.download(x)) for x in inputs]  # type: ignore[arg-type]
        results = call_staged(host, host.execute, op, given)
        return tuple([self.backend.upload(host.download(r)) for r in results])


@pytest.fixture
def library() -> Iterator[Library]:
    """That of the device `library`, whose kernels gcc compiles."""
    sys.path.insert(0, str(SOURCE))
    from ingle_gcc.backend import GccBackend

    from ingle.fusion.device import axes_by_strides
    from ingle.fusion.device.kernel_backend import StridedHandle

    class Backend(GccBackend):
        def axes_in_memory(self, handle: Handle) -> tuple[int, ...] | None:
            if not isinstance(handle, StridedHandle):
                return None
            return axes_by_strides(handle.shape, handle.strides)

    device = Device("library")
    backend = Backend(device)
    made = Library(backend)
    backend.offers = (made,)
    plugins._backends[device] = backend.composition()
    yield made
    del plugins._backends[device]
    sys.path.remove(str(SOURCE))


def on(device: str, *arrays: Any) -> list[Tensor]:
    return [it.asarray(a, device=device) for a in arrays]


def drawn(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [(0.5 * rng.standard_normal(s)).astype(np.float32) for s in shapes]


def normed(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Batch norm."""
    mean = it.mean(x, axis=(0, 2, 3), keepdims=True)
    spread = it.rsqrt(it.var(x, axis=(0, 2, 3), keepdims=True) + 1e-5)
    return (x - mean) * spread * it.reshape(scale, (1, -1, 1, 1)) + it.reshape(bias, (-1, 1, 1))


def residual(x: Tensor, a: Tensor, b: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """A block of a residual net, and a mean over places."""
    h = it.relu(normed(it.conv2d(x, a, padding=1), scale, bias))
    h = it.conv2d(it.depend(it.silu(h), bias), b, padding=1)
    return it.mean(it.relu(h + x), axis=(2, 3))


def joined(x: Tensor, a: Tensor, b: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Channels side by side, a pool, sums that keep some axes, and rows and places of extremes."""
    h = it.concat([it.conv2d(x, a, padding=1), x, it.conv2d(x, b, padding=1)], axis=1)
    pooled = it.max_pool2d(h, 2)
    kept = it.sum(h, axis=1) + it.max(h, axis=(0, 1)) + it.sum(h, axis=-1, keepdims=True)[:, 0]
    places = it.argmax(h, axis=1) + it.argmax(h)
    back = it.reshape(h * scale[0], (h.shape[0], -1)) + bias[0]
    return it.sum(pooled) + it.sum(kept, axis=0) + it.sum(back) + places.astype("float32")[0]


def by_groups(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """A norm of two groups of channels, as one writes it."""
    rows = it.reshape(x, (x.shape[0], 2, -1))
    mean = it.mean(rows, axis=2, keepdims=True)
    rows = (rows - mean) * it.rsqrt(it.var(rows, axis=2, keepdims=True) + 1e-5)
    return it.reshape(rows, x.shape) * it.reshape(scale, (-1, 1, 1)) + it.reshape(bias, (-1, 1, 1))


def grouped(x: Tensor, a: Tensor, b: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Norms of groups of channels, shuffled channels, and axes that are split and joined."""
    h = it.silu(by_groups(it.conv2d(x, a, padding=1), scale, bias))
    n, c, *size = h.shape
    shuffled = it.permute_dims(it.reshape(h, (n, 2, c // 2, *size)), (0, 2, 1, 3, 4))
    h = it.conv2d(it.reshape(shuffled, h.shape) + h, b, padding=1)
    rows = it.reshape(h, (n, c, -1))
    spread = it.max(rows, axis=-1) - it.min(rows * 0.5, axis=(0, 2))
    return spread + it.sum(it.reshape(h, (n * c, *size)), axis=(0, 2))[0]


NETS: list[Callable[..., Tensor]] = [residual, joined, grouped]
SHAPES = (2, 4, 6, 5), (4, 4, 3, 3), (4, 4, 3, 3), (4,), (4,)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_numbers_and_gradients_stay(library: Library, net: Callable[..., Tensor]) -> None:
    arrays = drawn(*SHAPES)
    step = value_and_grad(lambda *args: it.sum(net(*args) ** 2), argnums=(0, 1, 2, 3, 4))
    value, wanted = step(*on("numpy", *[a.astype(np.float64) for a in arrays]))
    found, gradients = compile(step)(*on("library", *arrays))
    assert {name for name, _ in library.runs} == {*LAST, "conv_weight_gradient"}
    np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-4)
    for g, w in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_the_layout_goes_from_one_convolution_to_the_next(library: Library) -> None:
    """One copy, of the image that comes in; what is in between is computed as it lies."""
    arrays = drawn(*SHAPES)
    compile(residual)(*on("library", *arrays)).numpy()
    last = (0, 2, 3, 1)
    assert library.runs == [("conv_channels_last", [last, None])] * 2
    names = [s.operations for s in explain(residual, *on("library", *arrays)).steps]
    assert names.count(("reshape",)) == 1
    assert len(names) == 5, names


@pytest.mark.slow
def test_axes_that_are_split_and_joined_keep_the_layout(library: Library) -> None:
    """Nothing but the image that comes in is copied."""

    def net(x: Tensor, a: Tensor, b: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        h = it.silu(by_groups(it.conv2d(x, a, padding=1), scale, bias))
        return it.conv2d(h, b, padding=1)

    arrays = drawn(*SHAPES)
    found = compile(net)(*on("library", *arrays)).numpy()
    np.testing.assert_allclose(found, net(*on("numpy", *arrays)).numpy(), rtol=1e-3, atol=1e-4)
    assert library.runs == [("conv_channels_last", [(0, 2, 3, 1), None])] * 2
    steps = explain(net, *on("library", *arrays)).steps
    assert sum("reshape" in s.operations for s in steps) == 1, [s.operations for s in steps]


@pytest.mark.slow
def test_nets_with_norms_of_groups_stay_as_they_are(library: Library) -> None:
    """Their sums are rows."""
    x, a, _, scale, bias = on("library", *drawn(*SHAPES))
    net = compile(lambda x: it.group_norm(it.conv2d(x, a, padding=1), 2, scale, bias))
    assert net(x).numpy().shape == x.shape
    assert library.runs == [("conv", [None, None])]


def test_an_image_that_lies_so_is_not_copied(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def as_in_memory(device: Any, given: Any, layout: Any) -> Any:
        asked.append(layout)
        return read(device, given, layout)

    read = graph_plans.as_in_memory
    monkeypatch.setattr(graph_plans, "as_in_memory", as_in_memory)
    x, weight = drawn((2, 6, 5, 4), (3, 4, 3, 3))
    image = it.permute_dims(it.asarray(x, device="library"), (0, 3, 1, 2))
    layer = compile(lambda image, weight: it.relu(it.conv2d(image, weight)))
    for _ in range(3):
        found = layer(image, it.asarray(weight, device="library"))
    wanted = it.relu(it.conv2d(*on("numpy", np.moveaxis(x, -1, 1), weight))).numpy()
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert library.runs == [("conv_channels_last", [(0, 2, 3, 1), None])] * 3
    assert asked == [((0, (0, 2, 3, 1)),)] * 3


@pytest.mark.slow
def test_states_stay_in_their_order(library: Library) -> None:
    """An optimizer's update is computed as its state lies."""
    arrays = drawn((2, 4, 6, 5), (4, 4, 3, 3), (4, 4, 3, 3))

    def step(x: Tensor, w: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        _, g = value_and_grad(lambda w: it.sum(it.conv2d(it.relu(it.conv2d(x, w)), w) ** 2))(w)
        m = 0.9 * m + g
        return w - 0.01 * m, m

    wanted = step(*on("numpy", *arrays))
    found = compile(step)(*on("library", *arrays))
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f.numpy(), w.numpy(), rtol=1e-3, atol=1e-4)
        assert library.backend.axes_in_memory(f._handle.computed()) is None  # type: ignore[attr-defined]


def test_where_the_library_does_not_take_it(library: Library) -> None:
    x, weight = drawn((2, 1, 6, 5), (3, 1, 3, 3))
    it.conv2d(*on("library", x, weight)).numpy()
    it.conv1d(*on("library", x[:, :, 0], weight[:, :, 0])).numpy()
    assert [name for name, _ in library.runs] == ["conv", "conv"]


@pytest.mark.slow
def test_a_composite_that_is_long_is_forgotten(library: Library) -> None:
    """A body that does not stay leaves nothing behind that later operations could read."""
    arrays = drawn(*SHAPES)

    def twice(*args: Tensor) -> Tensor:
        h = by_groups(it.conv2d(args[0], args[1], padding=1), *args[3:])
        return residual(*args) + it.mean(h, axis=(2, 3))

    wanted = twice(*on("numpy", *arrays)).numpy()
    found = compile(twice)(*on("library", *arrays)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_graph_without_such_convolutions_is_not_searched(library: Library) -> None:
    """Only a device that lays images out looks for norms of groups."""

    class Unread:
        @property
        def nodes(self) -> Any:
            raise AssertionError("the graph was searched for norms of groups")

    def write(op: Op, inputs: Any) -> Any:
        raise AssertionError(f"{op} was written")

    unread: Any = Unread()
    op = OPERATIONS["conv"].op(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    x, a = (t._handle for t in on("library", *drawn(*SHAPES[:2])))
    library.turned = False
    images = ChannelsLast(unread, write, lambda op, avals: library.takes(op, avals))
    assert images.written(op, (x, a), whole=True) is None
    assert not images.found
