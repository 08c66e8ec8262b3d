"""Recurrent layers and cells against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn
from ingle.autodiff import grad, no_grad, vmap
from ingle.fusion import compile
from ingle.nn import _recurrent_layers
from ingle.nn.utils import rnn
from ingle.tensor.control import known_calls
from ingle.tensor.control.known_calls import SHAPES
from ingle.tensor.errors import ArgumentError, IngleError, OperandError, ShapeError

torch = pytest.importorskip("torch")

TORCHS = torch.nn.utils.rnn
SEQUENCE = (4, 2, 3)

LAYERS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "rnn": ("RNN", {}, [SEQUENCE]),
    "rnn of relu, stacked": ("RNN", {"nonlinearity": "relu", "num_layers": 2}, [SEQUENCE]),
    "rnn without bias": ("RNN", {"bias": False, "bidirectional": True}, [SEQUENCE, (2, 2, 5)]),
    "lstm": ("LSTM", {}, [SEQUENCE]),
    "lstm of one sequence": ("LSTM", {"batch_first": True}, [(4, 3), [(1, 5), (1, 5)]]),
    "lstm both ways": (
        "LSTM", {"bidirectional": True, "num_layers": 2, "batch_first": True},
        [SEQUENCE, [(4, 4, 5), (4, 4, 5)]],
    ),
    "lstm projected": (
        "LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True},
        [SEQUENCE, [(4, 2, 2), (4, 2, 5)]],
    ),
    "gru": ("GRU", {}, [SEQUENCE, (1, 2, 5)]),
    "gru both ways": ("GRU", {"bidirectional": True, "num_layers": 2, "bias": False}, [SEQUENCE]),
    "gru of one sequence": ("GRU", {}, [(4, 3)]),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", LAYERS)
def test_equals_pytorch(parity: Any, case: str) -> None:
    name, options, inputs = LAYERS[case]
    ours, theirs = parity(name, 3, 5, inputs=inputs, **options)
    assert repr(ours) == repr(theirs)
    assert [len(w) for w in ours.all_weights] == [len(w) for w in theirs.all_weights]


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_the_batch_may_be_the_first_axis(name: str) -> None:
    with it.device("numpy"):
        first = getattr(nn, name)(3, 5, bidirectional=True, batch_first=True)
        second = getattr(nn, name)(3, 5, bidirectional=True)
        second.load_state_dict(first.state_dict())
        x = it.asarray(np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32))
        y, state = first(x)
        other, last = second(it.permute_dims(x, (1, 0, 2)))
    np.testing.assert_array_equal(y.numpy(), other.numpy().swapaxes(0, 1))
    for a, b in zip(state, last, strict=True):  # both of an LSTM, or the directions of one
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("name", "options", "inputs"),
    [
        ("RNNCell", {}, [(2, 3)]),
        ("RNNCell", {"nonlinearity": "relu", "bias": False}, [(3,), (5,)]),
        ("LSTMCell", {}, [(2, 3), [(2, 5), (2, 5)]]),
        ("LSTMCell", {"bias": False}, [(3,)]),
        ("GRUCell", {}, [(2, 3), (2, 5)]),
        ("GRUCell", {"bias": False}, [(2, 3)]),
    ],
)
def test_cells(parity: Any, name: str, options: dict[str, Any], inputs: list[Any]) -> None:
    parity(name, 3, 5, inputs=inputs, **options)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_packed_sequences(name: str, enforce_sorted: bool) -> None:
    options: Any = {"num_layers": 2, "bidirectional": True}
    ours, theirs = getattr(nn, name)(3, 4, **options), getattr(torch.nn, name)(3, 4, **options)
    ours.to(dtype="float64").load_state_dict(theirs.double().state_dict())
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 3, 3))
    lengths = [5, 3, 2] if enforce_sorted else [2, 5, 3]
    state = rng.normal(size=(4, 3, 4))
    mine, torchs = it.asarray(x).require_grad(), torch.tensor(x, requires_grad=True)
    packed = rnn.pack_padded_sequence(mine, lengths, enforce_sorted=enforce_sorted)
    given = TORCHS.pack_padded_sequence(torchs, lengths, enforce_sorted=enforce_sorted)
    assert list(packed.batch_sizes) == given.batch_sizes.tolist()
    np.testing.assert_array_equal(packed.data.numpy(), given.data.detach().numpy())
    pair = name == "LSTM"
    out, last = ours(packed, (state, state * 2) if pair else state)
    a, b = torch.tensor(state), torch.tensor(state * 2)
    expected, wanted = theirs(given, (a, b) if pair else a)
    steps, found = rnn.pad_packed_sequence(out, padding_value=7.0, total_length=6)
    want, theirs_found = TORCHS.pad_packed_sequence(expected, padding_value=7.0, total_length=6)
    assert found.tolist() == theirs_found.tolist() == lengths
    np.testing.assert_allclose(steps.numpy(), want.detach().numpy(), rtol=1e-10)
    lasts = list(zip(last, wanted, strict=True)) if pair else [(last, wanted)]
    for got, w in lasts:
        np.testing.assert_allclose(got.numpy(), w.detach().numpy(), rtol=1e-10)
    total = sum(it.sum(got * got) for got, _ in lasts) + it.sum(steps * steps)
    (sum((w * w).sum() for _, w in lasts) + (want * want).sum()).backward()
    grads = total.backward()
    np.testing.assert_allclose(grads[mine].numpy(), torchs.grad.numpy(), rtol=1e-8, atol=1e-12)
    for path, p in theirs.named_parameters():
        got = grads[dict(ours.named_parameters())[path]].numpy()
        np.testing.assert_allclose(got, p.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_sequences_of_one_step_are_packed() -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 3)).astype(np.float32)
    packed = rnn.pack_padded_sequence(it.asarray(x), [1, 1])
    theirs = TORCHS.pack_padded_sequence(torch.from_numpy(x), [1, 1])
    np.testing.assert_array_equal(packed.data.numpy(), theirs.data.numpy())
    assert list(packed.batch_sizes) == theirs.batch_sizes.tolist() == [2]


def test_packing_and_padding() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 2)) for n in (2, 4, 1)]
    theirs = [torch.tensor(p) for p in parts]
    for options in ({}, {"batch_first": True, "padding_value": 3.0, "padding_side": "left"}):
        np.testing.assert_array_equal(
            rnn.pad_sequence(parts, **options).numpy(),
            TORCHS.pad_sequence(theirs, **options).numpy(),
        )
    packed = rnn.pack_sequence(parts, enforce_sorted=False)
    np.testing.assert_array_equal(
        packed.data.numpy(), TORCHS.pack_sequence(theirs, enforce_sorted=False).data.numpy()
    )
    for got, part in zip(rnn.unpack_sequence(packed), parts, strict=True):
        np.testing.assert_array_equal(got.numpy(), part)


@pytest.mark.slow
def test_compiled_equals_plain() -> None:
    layer = nn.LSTM(3, 4, bidirectional=True)
    step = compile(lambda x: it.sum(layer(x)[0] ** 2).backward()[layer.weight_hh_l0])
    for seed in range(3):
        x = it.random.normal((12, 2, 3), generator=it.random.Generator(seed))
        want = it.sum(layer(x)[0] ** 2).backward()[layer.weight_hh_l0]
        np.testing.assert_allclose(step(x).numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    assert step.recordings <= 2


@pytest.mark.slow
def test_both_biases_have_the_gradient_of_one_sum() -> None:
    # As it is the same expression, a compiled step takes it once.
    layer = nn.LSTM(5, 7, num_layers=2)
    x = it.asarray(np.random.default_rng(0).standard_normal((33, 3, 5)).astype(np.float32))
    grads = it.sum(layer(x)[0] ** 2).backward()
    for suffix in ("l0", "l1"):
        given, state = (grads[getattr(layer, f"bias_{k}_{suffix}")].numpy() for k in ("ih", "hh"))
        np.testing.assert_array_equal(given, state)


def test_dropout_between_layers() -> None:
    layer = nn.GRU(3, 4, num_layers=2, dropout=0.5, generator=it.random.Generator(0))
    x = it.ones((3, 2, 3))
    assert not np.array_equal(layer(x)[0].numpy(), layer(x)[0].numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].numpy(), layer(x)[0].numpy())


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.LSTM(3, 0), ArgumentError, "LSTM: hidden_size must be at least 1, got 0"),
        (lambda: nn.GRU(3, 4, dropout=1.5), ArgumentError, "GRU: dropout must be a probability"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), ArgumentError, "nonlinearity must be 'tanh'"),
        (lambda: nn.GRU(3, 4, proj_size=2), ArgumentError, "proj_size is of LSTM alone"),
        (lambda: nn.LSTM(3, 4, proj_size=4), ArgumentError, "must be smaller than hidden_size=4"),
        (lambda: nn.LSTM(3, 4)(it.ones((5, 2, 4))), ShapeError, "must be input_size=3"),
        (lambda: nn.LSTM(3, 4)(it.ones((0, 2, 3))), ShapeError, "has no steps"),
        (lambda: nn.LSTM(3, 4)(it.ones((5, 2, 3)), it.ones((1, 2, 4))), OperandError, "(h_0, c_0)"),
        (lambda: nn.GRU(3, 4)(it.ones((5, 2, 3)), it.ones((1, 3, 4))), ShapeError,
         "h_0 must have shape (1, 2, 4)"),
        (lambda: nn.GRUCell(3, 4)(it.ones((2, 3)), it.ones((2, 3))), ShapeError, "hx must have"),
        (lambda: nn.GRUCell(3, 4)(it.ones((2, 5))), ShapeError, "GRUCell: x must be (batch, 3)"),
        (lambda: rnn.pack_padded_sequence(it.ones((3, 2, 1)), [2, 3]), ArgumentError,
         "enforce_sorted=False"),
        (lambda: rnn.pack_padded_sequence(it.ones((3, 2, 1)), [4, 1]), ArgumentError,
         "from 1 to 3"),
        (lambda: rnn.pad_sequence([it.ones((2, 1)), it.ones((2, 3))]), ShapeError, "(2, 3)"),
    ],
)  # fmt: skip
def test_bad_input(make: Any, kind: type[IngleError], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_step_is_written_down_once_but_where_somebody_watches(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    layer, x = kind(3, 5), it.random.normal((40, 2, 3))
    step = layer._step()

    def counted(*given: Any) -> Any:
        steps.append(1)
        return step(*given)

    monkeypatch.setattr(kind, "_step", lambda _: counted)
    once = layer(x)[0].numpy()
    assert len(steps) == 1
    with it.anomaly():
        each = layer(x)[0].numpy()
    assert len(steps) == 1 + 40
    np.testing.assert_allclose(once, each, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_layers_are_traced_once_for_a_shape(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    layer = kind(3, 5, num_layers=2)
    step = layer._step()

    def counted(*given: Any) -> Any:
        steps.append(1)
        return step(*given)

    monkeypatch.setattr(kind, "_step", lambda _: counted)
    monkeypatch.setattr(_recurrent_layers, "REMEMBERED", frozenset({counted}))
    for length, traced in ((4, 2), (4, 2), (6, 4), (4, 4)):
        layer(it.ones((length, 2, 3)))[0].numpy()
        assert len(steps) == traced
    with it.precision("bfloat16"):
        layer(it.ones((4, 2, 3)))[0].numpy()
    assert len(steps) == 6


def _changed_weight(ours: Any, theirs: Any) -> None:
    ours.weight_hh_l0 = nn.Parameter(ours.weight_hh_l0 * 2.0)
    with torch.no_grad():
        theirs.weight_hh_l0.mul_(2.0)


def _updated_weight(ours: Any, theirs: Any) -> None:
    ours.weight_ih_l1.value = ours.weight_ih_l1 - 0.5
    with torch.no_grad():
        theirs.weight_ih_l1.sub_(0.5)


def _loaded(ours: Any, theirs: Any) -> None:
    with torch.no_grad():
        for p in theirs.parameters():
            p.normal_(std=0.3)
    ours.load_state_dict(theirs.state_dict())


def _without_dropout(ours: Any, theirs: Any) -> None:
    for layer in (ours, theirs):
        layer.train()
        layer.dropout = 0.5
    ours(it.ones((4, 2, 3)))
    ours.eval()
    theirs.eval()


def _other_activation(ours: Any, theirs: Any) -> None:
    ours.nonlinearity = theirs.nonlinearity = "relu"
    theirs.mode = "RNN_RELU"


def _after_an_error(ours: Any, theirs: Any) -> None:
    with pytest.raises(IngleError):
        ours(it.ones((4, 2, 3), dtype="int64"))
    with pytest.raises(ShapeError):
        ours(it.ones((4, 2, 2)))


def _in_double(ours: Any, theirs: Any) -> None:
    ours.to(dtype="float64")
    theirs.double()


@pytest.mark.parametrize(
    "change",
    [
        _changed_weight, _updated_weight, _loaded, _without_dropout, _other_activation,
        _after_an_error, _in_double,
    ],
)  # fmt: skip
def test_what_was_traced_before_is_never_out_of_date(change: Any) -> None:
    ours, theirs = nn.RNN(3, 4, num_layers=2), torch.nn.RNN(3, 4, num_layers=2)
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    for _ in range(3):
        ours(it.asarray(x))[0].numpy()
    change(ours, theirs)
    x = x.astype(ours.weight_hh_l0.dtype.dtype)
    for _ in range(3):
        want = theirs(torch.tensor(x))[0].detach().numpy()
        np.testing.assert_allclose(ours(it.asarray(x))[0].numpy(), want, rtol=1e-5, atol=1e-6)


def test_what_was_traced_without_gradients_has_them_later() -> None:
    layer, x = nn.GRU(2, 7, num_layers=2), it.ones((5, 2, 2))
    with no_grad():
        first = layer(x)[0].numpy()
    out = layer(x)[0]
    np.testing.assert_array_equal(first, out.numpy())
    grads = it.sum(out).backward()
    assert all(np.abs(grads[p].numpy()).max() > 0 for p in layer.parameters())


def test_a_training_step_around_a_recurrent_layer_goes_back_as_before() -> None:
    layer, head = nn.LSTM(3, 4), nn.Linear(4, 2)
    x = it.random.normal((5, 2, 3), generator=it.random.Generator(0))

    def grads() -> list[np.ndarray]:
        loss = it.mean(it.tanh(head(it.relu(layer(x)[0]) * 2.0)) ** 2)
        found = loss.backward()
        return [found[p].numpy() for p in (*layer.parameters(), *head.parameters())]

    first = grads()
    for _ in range(3):  # the second and later passes are one operation
        for a, b in zip(first, grads(), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-7)
    layer.weight_hh_l0.value = layer.weight_hh_l0 * 3.0
    with it.anomaly():  # each operation by itself
        want = grads()
    for a, b in zip(want, grads(), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-7)


def test_a_sequence_on_several_levels() -> None:
    layer = nn.GRU(2, 3, device="numpy")
    x = it.asarray(np.random.default_rng(1).normal(size=(3, 2, 2)).astype("f"), device="numpy")

    def loss(part: it.Tensor) -> it.Tensor:
        return it.sum(layer(part)[0] ** 2)

    each = vmap(grad(loss), in_axes=1, out_axes=1)(x).numpy()
    want = np.stack([grad(loss)(x[:, i]).numpy() for i in range(2)], axis=1)
    np.testing.assert_allclose(each, want, rtol=1e-5, atol=1e-6)
    twice = grad(lambda y: it.sum(grad(loss)(y) ** 2))(x)
    step = 1e-3
    ends = [it.sum(grad(loss)(x.at[0, 0, 0].add(s)) ** 2).item() for s in (step, -step)]
    np.testing.assert_allclose(twice[0, 0, 0].item(), (ends[0] - ends[1]) / (2 * step), rtol=2e-2)


def test_layers_of_many_shapes_are_recorded_as_they_were_written() -> None:
    """Each as an operation of its own would have a plan of its own; logs that differ in sizes share
    theirs."""
    layer, entries = nn.RNN(2, 11, device="numpy"), []
    lengths = [*range(1, SHAPES + 3), 1]
    for length in lengths:
        before = len(known_calls._known)
        layer(it.ones((length, 1, 2), device="numpy"))[0].numpy()
        entries.append(len(known_calls._known) - before)
    assert entries == [1] * SHAPES + [0] * (len(lengths) - SHAPES)
