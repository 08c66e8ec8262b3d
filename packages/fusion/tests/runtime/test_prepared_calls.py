"""Calls of public functions that come again run the operations that they came to before."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest

import ingle.tensor as it
from ingle.autodiff import no_grad, value_and_grad
from ingle.fusion import compile
from ingle.fusion.symbolic.inquiry import Inquiry
from ingle.tensor import prepared
from ingle.tensor.device import backend_of
from ingle.tensor.errors import DeviceError, OperandError

pytestmark = pytest.mark.usefixtures("at_once")

TIMES = 4
"""Calls until one is known, and one more."""


def made(seed=0):
    r = np.random.default_rng(seed)
    x = it.asarray(r.normal(size=(3, 4)).astype("f"))
    v = it.asarray(r.normal(size=4).astype("f"))
    return x, v, v > 0


AXES = (((), {}), ((), {"axis": 0}), ((), {"axis": (0, -1), "keepdims": True}), ((1,), {}))
CALLS = {
    **dict.fromkeys(("all", "any", "mean", "nansum", "prod", "sum"), AXES),
    **dict.fromkeys(("max", "min", "std", "var"), AXES[:3]),
    **dict.fromkeys(("argmax", "argmin"), (((), {}), ((), {"axis": 1}), ((), {"dim": 0}))),
    **dict.fromkeys(
        ("log_softmax", "logsumexp", "softmax", "softmin"), (((), {"axis": 0}), ((1,), {}))
    ),
    **dict.fromkeys(("tril", "triu"), (((), {}), ((), {"k": 1}))),
    **dict.fromkeys(("argsort", "sort"), (((), {}), ((), {"axis": 0, "descending": True}))),
    **dict.fromkeys(("relu", "silu"), (((), {}),)),
    "gelu": [((), {}), ((), {"approximate": "tanh"})],
    "leaky_relu": [((), {}), ((0.5,), {})],
    "chunk": [((2,), {}), ((3,), {"axis": 1})],
    "split": [((2,), {}), (([1, 3],), {"axis": 1})],
    "topk": [((2,), {}), ((1,), {"axis": 0, "largest": False})],
    "repeat": [((2,), {}), (([1, 0, 2],), {"axis": 0})],
    **dict.fromkeys(("ones_like", "zeros_like"), (((), {}), ((), {"dtype": "int32"}))),
    "full_like": [((2.5,), {}), ((-0.0,), {}), ((True,), {})],
    "astype": [(("float64",), {}), ((it.int32,), {}), (("float32",), {})],
    "broadcast_to": [(((2, 3, 4),), {})],
    "clip": [((-0.5, 0.5), {}), ((), {"max": 0.25}), ((0, 1), {}), ((), {})],
    "cumulative_sum": [((), {"axis": 1})],
    "diagonal": [((), {}), ((), {"offset": 1})],
    "expand_dims": [((), {"axis": 1}), ((0,), {})],
    "flatten": [((), {})],
    "flip": [((), {}), ((), {"axis": 1})],
    "layer_norm": [(((4,),), {}), ((4,), {"eps": 1e-3})],
    "matrix_norm": [((), {})],
    "moveaxis": [((0, 1), {})],
    "pad": [(((1, 2),), {}), ((((0, 1), (2, 0)),), {"value": 2.0})],
    "permute_dims": [(((1, 0),), {})],
    "reshape": [(((2, 6),), {}), ((-1,), {}), (([4, 3],), {})],
    "rms_norm": [(((4,),), {})],
    "roll": [((1,), {"axis": 0}), ((2,), {})],
    "swapaxes": [((0, 1), {})],
    "tile": [(((2, 1),), {})],
    "trace": [((), {}), ((), {"offset": 1})],
    "unstack": [((), {}), ((), {"axis": 1})],
    "vector_norm": [((), {}), ((), {"axis": 0, "ord": 1})],
}  # fmt: skip
"""Arguments behind a matrix, by function."""
OTHERS = {
    **dict.fromkeys(
        ("huber_loss", "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss"),
        lambda f, x, v, m: (f(x, x + 0.5), f(x, it.exp(x), reduction="none")),
    ),
    **dict.fromkeys(
        ("binary_cross_entropy", "binary_cross_entropy_with_logits"),
        lambda f, x, v, m: (f(it.sigmoid(x), it.sigmoid(-x)), f(it.sigmoid(x), it.exp(-x * x), v)),
    ),
    **dict.fromkeys(
        ("cross_entropy", "nll_loss"),
        lambda f, x, v, m: (f(x, it.argmax(x, axis=1)), f(x, it.argmax(x, axis=1), v * v)),
    ),
    **dict.fromkeys(
        ("take", "take_along_axis"),
        lambda f, x, v, m: (
            f(x, it.argsort(x, axis=0), axis=0)
            if "_" in f.__name__
            else f(x, it.argmax(x, axis=0), axis=0),
        ),
    ),
    **dict.fromkeys(("hstack", "vstack"), lambda f, x, v, m: (f([x, x]), f((v, v)))),
    "embedding": lambda f, x, v, m: (f(it.argmax(x, axis=0), x),),
    "group_norm": lambda f, x, v, m: (f(x, 2), f(x, 2, v, v)),
    "meshgrid": lambda f, x, v, m: (f(v, v), f(v, x[0], indexing="ij")),
    "one_hot": lambda f, x, v, m: (f(it.argmax(x, axis=1), 4),),
    "vecdot": lambda f, x, v, m: (f(x, v), f(x, x, axis=0)),
    "concat": lambda f, x, v, m: (f([x, x]), f((x, x), axis=1), f([v, v, v])),
    "linear": lambda f, x, v, m: (f(x, x), f(x, x, x[:, 0])),
    "masked_fill": lambda f, x, v, m: (f(x, m, 0.5), f(v, m, -0.0), f(x, m, 1)),
    "maximum": lambda f, x, v, m: (f(x, v), f(x, 0.0), f(0.25, v)),
    "minimum": lambda f, x, v, m: (f(x, v), f(x, math.nan)),
    "outer": lambda f, x, v, m: (f(v, v),),
    "squeeze": lambda f, x, v, m: (f(x[:1]), f(x[1:2], axis=0)),
    "stack": lambda f, x, v, m: (f([x, x]), f((v, v), axis=-1)),
    "where": lambda f, x, v, m: (f(m, x, 0.0), f(m, x, v), f(m, 1, x), f(m, 1.0, 2.0)),
    "arange": lambda f, x, v, m: (f(4), f(1, 7, 2), f(0.0, 1.0, 0.25), f(3, dtype="float32")),
    "empty": lambda f, x, v, m: (f((0, 3)),),
    "eye": lambda f, x, v, m: (f(3), f(2, 3, k=1)),
    "full": lambda f, x, v, m: (f((2,), 1), f((2,), 1.0), f((2,), True), f(2, -0.0)),
    "linspace": lambda f, x, v, m: (f(0.0, 1.0, 5), f(0, 1, num=3)),
    "ones": lambda f, x, v, m: (f((2, 3)), f(4, dtype="int32")),
    "zeros": lambda f, x, v, m: (f((2, 3)), f(4), f(2, 3), f((), dtype="bool")),
}


def function(name):
    return getattr(it, name, None) or getattr(it.linalg, name)


def shown(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [(p.dtype, p.shape, p.numpy().tobytes()) for p in parts]


def results(name, x, v, m):
    f = function(name)
    if name in OTHERS:
        return [shown(r) for r in OTHERS[name](f, x, v, m)]
    return [shown(f(x, *args, **options)) for args, options in CALLS[name]]


@pytest.mark.parametrize("name", sorted(prepared.FUNCTIONS | prepared.CREATIONS))
def test_known_calls_give_the_bits_of_new_ones(name, monkeypatch):
    with monkeypatch.context() as new:
        new.setattr(prepared, "prepared_calls", lambda backend: None)
        wanted = [results(name, *made(seed)) for seed in range(TIMES)]
    found = [results(name, *made(seed)) for seed in range(TIMES)]
    assert found == wanted


def known(name, backend=None):
    backend = backend_of(None) if backend is None else backend
    found = backend.prepared.known
    return [s for key, s in found.items() if getattr(key[0], "__name__", "") == name]


@pytest.mark.parametrize("name", sorted(prepared.FUNCTIONS | prepared.CREATIONS))
def test_each_of_the_functions_is_known_by_its_second_call(name):
    for seed in range(TIMES):
        results(name, *made(seed))
    assert any(known(name))


def test_numbers_that_are_operands_may_change_and_others_are_told_apart_by_type_and_sign():
    x, _, mask = made()
    bounds = (-1.0, 1.0), (0.5, 0.5), (-0.0, 2.0), (math.nan, 1.0), (1.0, -1.0)
    for low, high in bounds * 2:
        wanted = np.minimum(np.maximum(x.numpy(), low), high)
        np.testing.assert_array_equal(it.clip(x, low, high).numpy(), wanted)
    assert len(known("clip")) == 1
    for value, bits in [(0.0, False), (-0.0, True)] * 3:
        assert np.signbit(it.pad(x, 1, value=value).numpy()[0, 0]) == bits
        assert np.signbit(it.full((2,), value).numpy()[0]) == bits
        assert np.signbit(it.where(mask, value, value).numpy()).all() == bits
    for value in (1, 1.0, True, 1j) * 3:
        assert type(it.full((2,), value).tolist()[0]) is type(value)
    for _ in range(3):
        assert np.isnan(it.pad(x, 1, value=math.nan).numpy()[0, 0])


def test_a_bad_call_says_the_same_each_time():
    x, v, _ = made()
    bad = [
        lambda: it.sum(x, axis=5), lambda: it.sum(x, axis=True), lambda: it.concat([x, v]),
        lambda: it.clip(x > 0, False, True), lambda: it.reshape(x, (5,)), lambda: it.zeros((-1,)),
        lambda: it.max(x, dim=1), lambda: it.where(x, 1, 2), lambda: it.softmax(x, axis="0"),
        lambda: it.pad(x, 1, mode=3), lambda: it.stack(x, x), lambda: it.full((2,), "a"),
    ]  # fmt: skip
    for call in bad:
        said = set()
        for _ in range(TIMES):
            it.sum(x), it.sum(x, axis=1)  # what is known is no call like it
            with pytest.raises(Exception) as caught:  # noqa: PT011
                call()
            said.add((type(caught.value), str(caught.value)))
        assert len(said) == 1


@pytest.mark.parametrize("watched", [False, True])
def test_what_is_around_a_call_counts(watched):
    x = made()[0]
    whole = it.asarray([1, 2])
    around = it.anomaly() if watched else nullcontext()
    for _ in range(TIMES):
        assert it.mean(whole).dtype is it.zeros((2,)).dtype is it.float32
        assert it.arange(3).dtype is it.int64
        assert it.softmax(x, axis=0).dtype is it.float32
        assert it.linear(x, x).dtype is it.float32
    with around:
        for _ in range(TIMES):
            with it.default_dtypes(floating="float64", integer="int32"):
                assert it.mean(whole).dtype is it.zeros((2,)).dtype is it.float64
                assert it.arange(3).dtype is it.int32
            with it.precision("bfloat16"):
                assert it.linear(x, x).dtype is it.bfloat16
                assert it.softmax(it.linear(x, x), axis=0).dtype is it.float32
            with it.device("numpy"):
                assert it.zeros((2,)).backend is backend_of("numpy")
            assert it.mean(whole).dtype is it.zeros((2,)).dtype is it.float32


def test_gradients_are_recorded_and_compiled_functions_are_as_before():
    x, v, mask = made()

    def loss(x):
        y = it.where(mask, it.softmax(x, axis=1), it.clip(v, -0.5, 0.5))
        return it.sum(it.reshape(y, (-1,)) * it.concat([v, v, v]))

    plain = [value_and_grad(loss)(x) for _ in range(TIMES)]
    compiled = compile(value_and_grad(loss))
    for value, gradient in [*plain, *[compiled(x) for _ in range(TIMES)]]:
        assert value.item() == pytest.approx(plain[0][0].item())
        np.testing.assert_allclose(gradient.numpy(), plain[0][1].numpy(), rtol=1e-5)
    with no_grad():
        for _ in range(TIMES):
            assert loss(x).item() == pytest.approx(plain[0][0].item())


@pytest.mark.parametrize("name", sorted(prepared.FUNCTIONS))
def test_known_calls_record_the_gradients_of_new_ones(name, monkeypatch):
    """Of tensors that gradients are recorded for, with others beside them that are constants."""

    def gradients(seed):
        x, v, m = made(seed)
        found = []
        for of in (x, v):
            y = of.require_grad()
            f = function(name)
            given = (y if of is x else x, y if of is v else v, m)
            if name in OTHERS:
                results = OTHERS[name](f, *given)
            elif of is x:
                results = [f(y, *args, **options) for args, options in CALLS[name]]
            else:
                continue
            for result in results:
                for part in result if isinstance(result, tuple) else (result,):
                    if not part.backend.level:
                        found.append(None)
                        continue
                    got = part.backward(it.ones(part.shape, dtype=part.dtype)).get(y)
                    found.append(None if got is None else got.numpy().tobytes())
        return found

    with monkeypatch.context() as new:
        new.setattr(prepared, "prepared_calls", lambda backend: None)
        wanted = [gradients(seed) for seed in range(TIMES)]
    assert [gradients(seed) for seed in range(TIMES)] == wanted


def test_a_cell_is_a_tensor_in_a_known_call():
    x = made()[0]
    cell, weight, number = it.Cell(x), it.Cell(x, differentiable=True), it.Cell(2.0)
    for n in range(TIMES):
        cell.value = x * float(n)
        assert it.sum(cell).item() == it.sum(x * float(n)).item()
        with pytest.raises(OperandError):
            it.sum(number)
        y = it.linear(cell, weight)
        grads = it.sum(y).backward()
        np.testing.assert_allclose(
            grads[weight].numpy(), np.tile((x * float(n)).numpy().sum(0), (3, 1)), rtol=1e-5
        )
    assert len(known("sum")) == 1
    assert len(known("linear", it.linear(cell, weight).backend)) == 1


def test_tensors_of_several_devices_come_the_long_way():
    other = it.asarray([1.0], device="numpy")
    for _ in range(TIMES):
        with pytest.raises(DeviceError):
            it.concat([it.asarray([1.0]), other])


@pytest.mark.parametrize("key", [1, -1, (0, 1), slice(0, 2), (slice(None), 2), (1, slice(1, 3))])
def test_pieces_begin_anywhere_and_stay_inside(key):
    x = made()[0]
    for _ in range(TIMES):
        np.testing.assert_array_equal(x[key].numpy(), x.numpy()[key])
    for row in range(3):
        np.testing.assert_array_equal(x[row].numpy(), x.numpy()[row])
    with pytest.raises(IndexError):
        x[3]


def test_calls_on_sizes_of_a_plan_are_forgotten_with_it():
    calls, backend = backend_of(None).prepared, backend_of(None)
    (size,) = Inquiry([3], apart=True).symbols
    for key in [(it.sum, (size, 4), it.float32), (it.sum, (4, size), it.float32)]:
        calls.keep(key, None)
        calls.note(key, backend, it.sum, (made()[0],), {}, False)
        assert key not in calls.known
        assert key not in calls._seen


def test_few_calls_are_kept(monkeypatch):
    monkeypatch.setattr(prepared, "MOST", 4)
    calls = backend_of(None).prepared
    calls.known.clear()
    for n in range(12):
        x = it.asarray(np.ones(n + 1, "f"))
        for _ in range(TIMES):
            assert it.sum(x).item() == n + 1
        assert len(calls.known) + len(calls._former) <= 4
        it.sum(x, axis=-1)
    assert len(calls._seen) <= 4


def test_what_is_asked_for_again_is_kept_while_others_come(monkeypatch):
    monkeypatch.setattr(prepared, "MOST", 8)
    calls = backend_of(None).prepared
    calls.known.clear()
    x, y = made()[0], it.asarray(np.arange(64.0))
    for _ in range(TIMES):
        it.softmax(x, axis=1)
    (first,) = known("softmax")
    for n in range(40):
        assert y[n : 2 * n + 1].tolist() == np.arange(64.0)[n : 2 * n + 1].tolist()
        it.softmax(x, axis=1)
        assert known("softmax") in ([first], [])
        assert len(calls.known) + len(calls._former) <= 8
    it.softmax(x, axis=1)
    assert known("softmax") == [first]
