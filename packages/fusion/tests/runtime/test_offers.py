"""A device that computes attention and convolutions whole, before they are taken apart."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import value_and_grad
from ingle.fusion import compile, explain
from ingle.fusion.device import Offer
from ingle.tensor import Tensor, plugins
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device, backend_of, call_staged
from ingle.tensor.operation import Op
from ingle.testkit.bits import same_bits

SOURCE = Path(__file__).parents[4] / "examples" / "third_party_compiler" / "src"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
ATTENTION = "scaled_dot_product_attention"


class OnHost:
    """Computes operations by the numpy device, which stands for a library.

    Args:
        backend: whose memory operands and results have.
        names: of the operations.
        longest: axis that it takes.
    """

    def __init__(self, backend: Any, names: Sequence[str], longest: int = 1000) -> None:
        self.backend = backend
        self.names = names
        self.longest = longest
        self.runs: list[str] = []

    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        if op.operation.name not in self.names:
            return False
        return max(avals[0].shape) <= self.longest

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        self.runs.append(op.operation.name)
        host = backend_of("numpy")
        given = [
            x if isinstance(x, Scalar) else host.upload(self.backend.download(x)) for x in inputs
        ]
        results = call_staged(host, host.execute, op, given)
        return tuple([self.backend.upload(host.download(r)) for r in results])


@pytest.fixture
def backend() -> Iterator[Any]:
    """The device `offering`, which compiles by gcc."""
    sys.path.insert(0, str(SOURCE))
    from ingle_gcc.backend import GccBackend

    device = Device("offering")
    made = GccBackend(device)
    plugins._backends[device] = made.composition()
    yield made
    del plugins._backends[device]
    sys.path.remove(str(SOURCE))


def operands() -> list[Tensor]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 6, 4)).astype(np.float32) for _ in range(3)]
    return [it.asarray(a, device="offering") for a in arrays]


def block(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Kernels before and behind attention, which reads a view."""
    return it.relu(it.scaled_dot_product_attention(q * 2.0, k, it.flip(v, axis=-1))) + 1.0


@pytest.mark.slow
def test_a_composite_stays_whole_where_an_offer_takes_it(backend: Any) -> None:
    tensors = operands()
    wanted = block(*tensors).numpy()
    taken = [step.operations for step in explain(block, *tensors).steps]
    assert all(ATTENTION not in names for names in taken)

    offer: Offer = OnHost(backend, (ATTENTION,))
    backend.offers = (offer,)
    again = compile(lambda *args: block(*args))
    found = again(*tensors)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert offer.runs == [ATTENTION]
    assert same_bits(again(*tensors), found)
    assert len(offer.runs) == 2


def test_the_first_offer_that_takes_it_does(backend: Any) -> None:
    short, other = OnHost(backend, (ATTENTION,), longest=5), OnHost(backend, (ATTENTION,))
    backend.offers = (short, other)
    q, k, v = operands()
    it.scaled_dot_product_attention(q, k, v).numpy()
    assert (len(short.runs), len(other.runs)) == (0, 1)
    it.scaled_dot_product_attention(q[:, :3], k, v).numpy()
    assert (len(short.runs), len(other.runs)) == (1, 1)


@pytest.mark.slow
def test_what_no_offer_takes_becomes_its_body(backend: Any) -> None:
    tensors = operands()
    wanted = block(*tensors).numpy()
    offer = OnHost(backend, (ATTENTION,), longest=3)
    backend.offers = (offer,)
    found = compile(lambda *args: block(*args))(*tensors)
    assert same_bits(found.numpy(), wanted)
    assert not offer.runs


def test_alone_without_fusion(backend: Any) -> None:
    offer = OnHost(backend, (ATTENTION,))
    backend.offers = (offer,)
    q, k, v = [Tensor(backend.upload(t.numpy())) for t in operands()]
    found = it.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
    wanted = it.scaled_dot_product_attention(
        *[it.asarray(t.numpy(), device="numpy") for t in operands()], is_causal=True
    )
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)
    assert offer.runs == [ATTENTION]
    assert not backend.host_fallbacks


@pytest.mark.slow
def test_gradients_take_what_the_offer_kept_for_them(backend: Any) -> None:
    """The backward pass is the composition, from the offer's second result."""

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return it.sum(block(q, k, v) * q)

    gradients = value_and_grad(loss, argnums=(0, 1, 2))
    wanted = [g.numpy() for g in gradients(*operands())[1]]
    offer = OnHost(backend, (ATTENTION, ATTENTION + "_training"))
    backend.offers = (offer,)
    for found, expected in zip(compile(gradients)(*operands())[1], wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert offer.runs == [ATTENTION + "_training"]


def test_a_convolution(backend: Any) -> None:
    """It is asked for before windows and bodies; relu behind it stays a kernel."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 6, 7), (4, 3, 3, 3))]

    def layer(x: Tensor, weight: Tensor) -> Tensor:
        return it.relu(it.conv2d(x, weight, padding=1, stride=2))

    wanted = layer(*[it.asarray(a, device="numpy") for a in arrays]).numpy()
    offer = OnHost(backend, ("conv",))
    backend.offers = (offer,)
    found = layer(*[it.asarray(a, device="offering") for a in arrays])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert offer.runs == ["conv"]
