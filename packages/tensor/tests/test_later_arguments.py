"""PyTorch's later arguments: they go by position, or the error says what to write."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor.errors import ArgumentError
from ingle.tensor.habits import _LAST
from ingle.tensor.later_arguments import _OPTIONS, _ORDERS

x = it.reshape(it.arange(24, dtype="float32"), (2, 3, 4))
matrix = it.eye(3)
image = it.ones((1, 2, 6, 6))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: it.avg_pool2d(image, 3, 2, 0, True, True, 4, 5), "got 8; the others are stride=,"),
        (lambda: it.layer_norm(x, (4,), None, None, 1e-5, 1), "got 6; the other is eps="),
        (lambda: it.layer_norm(x, (4,), None, None, 1e-5, eps=1), "got 5; the other is eps="),
        (lambda: it.mse_loss(x, x, "sum"), "mse_loss: .* the other is reduction="),
        (lambda: x.topk(2, 1, True, True), "topk: .* the others are axis=, largest="),
        (lambda: it.tril(matrix, 1), "tril: takes 1 positional argument, got 2; the other is k="),
        (lambda: matrix.triu(1), "the other is k="),
        (lambda: it.diag(matrix, 1), "the other is offset="),
        (lambda: it.diagonal(x, 0, 1, 2), "the other is offset="),
        (lambda: it.gelu(x, "tanh"), "the other is approximate="),
        (lambda: it.linalg.cond(matrix, 1), "the other is ord="),
        (lambda: it.linalg.matrix_norm(matrix, "fro", (0, 1)), "the others are keepdims=, ord="),
    ],
)
def test_arguments_by_position(call, said):
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: it.arange(start=0, stop=3), r"start goes by position, as in arange\(start\)"),
        (lambda: it.linspace(0.0, stop=1.0, num=3), r"stop goes .* as in linspace\(start, stop\)"),
        (lambda: it.scatter_reduce(matrix, it.asarray([0]), matrix[:1], reduce="sum"),
         r"reduce goes by position, as in scatter_reduce\(x, indices, updates, reduce\)"),
        (lambda: it.where(condition=x > 0, x1=x, x2=x), r"in where\(condition, x1, x2\)"),
        (lambda: it.sum(x=x), r"sum: x goes by position, as in sum\(x\)"),
    ],
)  # fmt: skip
def test_arguments_that_go_by_position_alone(call, said):
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: it.softmax(x, dim=1, dtype=it.float64), r'softmax\(x.astype\("float64"\), axis'),
        (lambda: x.log_softmax(1, dtype="float64"), r'log_softmax\(x.astype\("float64"\), axis'),
        (lambda: it.add(x, x, alpha=2), r"write x \+ 2 \* y"),
        (lambda: it.subtract(x, x, alpha=2), r"write x - 2 \* y"),
        (lambda: it.divide(x, x, rounding_mode="floor"), r"write floor_divide\(x, y\)"),
        (lambda: it.diagonal(x, dim1=0, dim2=1), r"diagonal\(moveaxis\(x, \(dim1, dim2\)"),
        (lambda: x.flatten(start_dim=1), "write start_axis=1"),
        (lambda: it.pad(x, pad=(1, 2)), r"a pair for each axis, .* pad\(x, \(\(0, 0\), \(1"),
        (lambda: it.linalg.lstsq(matrix, matrix, driver="gels"), "lstsq: .* leave it out"),
        (lambda: it.linalg.matrix_norm(x, dim=(0, 1)), r"moveaxis\(x, \(0, 1\), \(-2, -1\)\)"),
        (lambda: it.linalg.cond(matrix, p=1), "write ord=1"),
        (lambda: it.tril(matrix, diagonal=1), "write k=1"),
        (lambda: it.topk(x, 2, sorted=True), "always come in order"),
        (lambda: it.empty(2, 3, requires_grad=True), r"write empty\(...\).require_grad\(\)"),
        (lambda: it.random.normal((3,), requires_grad=True), r"normal\(...\).require_grad"),
        (lambda: it.random.randint(5, size=(3,)), r"write shape=\(3,\)"),
        (lambda: x.nonzero(as_tuple=True), r"stack\(nonzero\(x\), axis=-1\)"),
        (lambda: it.mse_loss(x, x, size_average=False), 'write reduction="mean", "sum" or "none"'),
        (lambda: it.linalg.eigh(matrix, UPLO="U"), r"not one triangle: eigh\(tril\(x\) \+ tril"),
        (lambda: it.quantile(x, 0.5, method="lower"), "write interpolation='lower'"),
        (lambda: it.searchsorted(x[0, 0], x, right=True), 'side="right" for True'),
        (lambda: it.stft(x, 3, return_complex=True), "the result is complex"),
        (lambda: x.backward(retain_graph=True), "backward: .* leave it out; what was recorded"),
        (lambda: it.relu(x, inplace=True), "tensors never change, relu returns"),
        (lambda: it.dropout(x, inplace=True), "tensors never change, dropout returns"),
    ],
)
def test_arguments_by_name(call, said):
    with pytest.raises(ArgumentError, match=said):
        call()


signal, volume = it.ones((1, 2, 6)), it.ones((1, 2, 6, 6, 6))
SPACES = {"1d": signal, "2d": image, "3d": volume}
BEHIND: dict[str, tuple[tuple[object, ...], tuple[object, ...]]] = {
    **{f"conv{d}": ((s, it.ones((4, 1, *[3] * (s.ndim - 2)))), (None, 2, 1, 2, 2))
       for d, s in SPACES.items()},
    **{f"conv_transpose{d}": ((s, it.ones((2, 3, *[3] * (s.ndim - 2)))), (None, 3, 1, 2, 2, 2))
       for d, s in SPACES.items()},
    **{f"max_pool{d}": ((s, 2), (3, 1, 2, True, True)) for d, s in SPACES.items()},
    "avg_pool1d": ((signal, 3), (2, 1, True, False)),
    "avg_pool2d": ((image, 3), (2, 1, True, False, 5)),
    "avg_pool3d": ((volume, 3), (2, 1, True, False, 5)),
    **{f"adaptive_max_pool{d}": ((s, 4), (True,)) for d, s in SPACES.items()},
    **{f"lp_pool{d}": ((s, 2.0, 2), (3, True)) for d, s in SPACES.items()},
    **{f"max_unpool{d}": ((*getattr(it, f"max_pool{d}")(s, 2, return_indices=True), 2),
       (2, 0, list(s.shape[2:]))) for d, s in SPACES.items()},
    "fold": ((it.ones((1, 8, 9)), (6, 6), 2), (3, 1, 2)),
    "unfold": ((image, 2), (2, 1, 3)),
    "layer_norm": ((x, (4,)), (None, None, 0.5)),
    "rms_norm": ((x, (4,)), (None, 0.5)),
    "group_norm": ((x, 3), (None, None, 0.5)),
    "local_response_norm": ((x, 2), (0.1, 0.5, 2.0)),
    "dropout": ((x, 0.5), (False,)),
    "embedding": ((it.asarray([1, 2]), matrix), (2,)),
    "scaled_dot_product_attention": ((x, x, x), (None, 0.0, True)),
    "interpolate": ((image,), ((4, 4), None, "bilinear", True, False)),
    "grid_sample": ((image, it.full((1, 2, 2, 2), 0.9)), ("nearest", "border", True)),
    "affine_grid": ((it.ones((1, 2, 3)), (1, 2, 2, 2)), (True,)),
    "pairwise_distance": ((matrix, x[0, :, :3]), (1.0, 0.5, True)),
    "ctc_loss": ((it.log_softmax(it.ones((6, 1, 4)), axis=-1), it.asarray([[1, 2]]),
                  it.asarray([6]), it.asarray([2])), (3, "sum", True)),
    "gaussian_nll_loss": ((x, x + 1.0, x + 0.5), (True, 0.1, "sum")),
    "normalize": ((x,), (1.0, 2, 0.5)),
    "cosine_similarity": ((x, x + 1.0), (2, 0.5)),
}  # fmt: skip
"""A call of each function whose options go by position: its first arguments, and what is behind."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*_ORDERS, *_LAST])
def test_layers_functions_take_pytorchs_order(name):
    torch = pytest.importorskip("torch")
    first, behind = BEHIND[name]

    def flat(found):
        found = found if isinstance(found, tuple) else (found,)
        return [np.asarray(one) for one in found]

    given = [torch.tensor(a.numpy()) if isinstance(a, it.Tensor) else a for a in first]
    theirs = flat(getattr(torch.nn.functional, name)(*given, *behind))
    ours = flat(getattr(it, name)(*first, *behind))
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert found.shape == wanted.shape


def test_advice_names_functions_and_options_that_are_there():
    for key in _OPTIONS:
        if isinstance(key, tuple):
            spaces = (it, it.linalg, it.random, it.Tensor)
            function = next(getattr(s, key[0]) for s in spaces if hasattr(s, key[0]))
            assert key[1] not in inspect.signature(function).parameters, key


def test_other_errors_of_types_stay_and_functions_are_found_by_name():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        it.tril(matrix, nonsense=1)
    with pytest.raises(TypeError, match="'windows'; it takes x, n_fft, hop_length=, "):
        it.stft(x, 3, windows=1, window=1)
    assert pickle.loads(pickle.dumps(it.tril)) is it.tril
    assert pickle.loads(pickle.dumps(it.add)) is it.add
    assert pickle.loads(pickle.dumps(it.random.normal)) is it.random.normal


def test_numpys_reductions_take_tensors():
    assert isinstance(np.sum(x), it.Tensor)
    assert np.sum(x, axis=1).shape == (2, 4)
    assert np.mean(x, axis=(0, 1)).tolist() == it.mean(x, axis=(0, 1)).tolist()
    assert np.max(x).item() == 23.0
    with pytest.raises(ArgumentError, match="no out= with tensors"):
        np.sum(x, out=np.empty(()))


def test_what_the_advice_says_is_right():
    a = it.random.normal((3, 3))
    lower = it.linalg.eigvalsh(it.tril(a) + it.tril(a, k=-1).conj().mT)
    np.testing.assert_allclose(lower.numpy(), np.linalg.eigvalsh(a.numpy()), rtol=1e-5, atol=1e-5)
    mean = it.linalg.eigvalsh(it.asarray((a.numpy() + a.numpy().T) / 2))
    np.testing.assert_allclose(it.linalg.eigvalsh(a).numpy(), mean.numpy(), rtol=1e-5, atol=1e-5)
    packed, pivots = it.linalg.lu_factor(a + 4 * matrix)
    b = it.random.normal((2, 3))
    solved = it.linalg.lu_solve(packed, pivots, b.mT, adjoint=True).mT
    assert it.max(it.abs(solved @ (a + 4 * matrix) - b)) < 1e-4
