"""Margin losses, likelihoods and connectionist temporal classification against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingle.autodiff as autodiff
import ingle.fusion as fusion
import ingle.tensor as it
from ingle.tensor.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

RNG = np.random.default_rng(0)
REDUCTIONS = ["mean", "sum", "none"]


def signs(*shape: int) -> np.ndarray:
    return RNG.choice([-1.0, 1.0], shape)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "shapes", "target", "options"),
    [
        ("hinge_embedding_loss", [(4, 5)], signs(4, 5), {"margin": 0.5}),
        ("margin_ranking_loss", [(4, 5), (4, 5)], signs(4, 5), {"margin": 0.3}),
        ("margin_ranking_loss", [(4, 5), (1, 5)], signs(4, 1), {}),
        ("cosine_embedding_loss", [(6, 5), (6, 5)], signs(6), {"margin": 0.1}),
        ("cosine_embedding_loss", [(5,), (5,)], signs(), {}),
        ("triplet_margin_loss", [(4, 5)] * 3, None, {"margin": 2.0}),
        ("triplet_margin_loss", [(4, 5)] * 3, None, {"p": 1, "swap": True}),
        ("triplet_margin_loss", [(5,)] * 3, None, {}),
        ("soft_margin_loss", [(4, 5)], signs(4, 5), {}),
        ("multi_margin_loss", [(4, 5)], RNG.integers(0, 5, 4), {"margin": 0.7}),
        ("multi_margin_loss", [(5,)], np.asarray(3), {"p": 2}),
        ("multilabel_margin_loss", [(2, 4)], np.asarray([[3, 0, -1, 1], [-1, 0, 0, 0]]), {}),
        ("multilabel_margin_loss", [(3,)], np.asarray([2, 1, 0]), {}),
        ("multilabel_soft_margin_loss", [(4, 5)], RNG.uniform(0, 1, (4, 5)), {}),
        ("poisson_nll_loss", [(4, 5)], RNG.integers(0, 6, (4, 5)) * 1.0, {"full": True}),
        ("poisson_nll_loss", [(4, 5)], RNG.integers(0, 6, (4, 5)) * 1.0, {}),
    ],
)
def test_losses(
    like_torch: Any, name: str, shapes: Any, target: Any, options: Any, reduction: str
) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(it, name), getattr(torch.nn.functional, name)
    options = {**options, "reduction": reduction}
    ends = ([], []) if target is None else ([it.asarray(target)], [torch.tensor(target)])
    like_torch(
        lambda *x: ours(*x, *ends[0], **options),
        lambda *x: theirs(*x, *ends[1], **options),
        [RNG.standard_normal(s) for s in shapes],
        second=not name.startswith("multi"),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rates(like_torch: Any, reduction: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    options = {"log_input": False, "reduction": reduction}
    like_torch(
        lambda x, t: it.poisson_nll_loss(x, t, **options),
        lambda x, t: functional.poisson_nll_loss(x, t, **options),
        [RNG.uniform(0.5, 5, (4, 5)), RNG.uniform(0, 5, (4, 5))],
    )


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(4, 5), (4, 1), (4,)])
def test_variances(like_torch: Any, shape: Any, full: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    like_torch(
        lambda x, t, v: it.gaussian_nll_loss(x, t, v, full=full),
        lambda x, t, v: functional.gaussian_nll_loss(x, t, v, full=full),
        [RNG.standard_normal((4, 5)), RNG.standard_normal((4, 5)), RNG.uniform(0.5, 2, shape)],
    )


def test_weights(like_torch: Any) -> None:
    torch = pytest.importorskip("torch")
    target, weight = RNG.integers(0, 5, 4), RNG.uniform(0.5, 2, 5)
    like_torch(
        lambda x: it.multi_margin_loss(x, it.asarray(target), it.asarray(weight), p=2),
        lambda x: torch.nn.functional.multi_margin_loss(
            x, torch.tensor(target), 2, weight=torch.tensor(weight)
        ),
        [RNG.standard_normal((4, 5))],
        second=False,
    )
    wanted = RNG.uniform(0, 1, (4, 5))
    like_torch(
        lambda x: it.multilabel_soft_margin_loss(x, it.asarray(wanted), it.asarray(weight)),
        lambda x: torch.nn.functional.multilabel_soft_margin_loss(
            x, torch.tensor(wanted), torch.tensor(weight)
        ),
        [RNG.standard_normal((4, 5))],
    )


def aligned(targets: np.ndarray, times: Any, counts: Any, **options: Any) -> tuple[Any, Any]:
    """Our and PyTorch's loss of unnormalised scores; PyTorch's gradient is right only for these."""
    torch = pytest.importorskip("torch")

    def ours(x: Any) -> Any:
        return it.ctc_loss(
            it.log_softmax(x, axis=-1), it.asarray(targets), times, counts, **options
        )

    def theirs(x: Any) -> Any:
        logs = torch.log_softmax(x, -1)
        return torch.nn.functional.ctc_loss(logs, torch.tensor(targets), times, counts, **options)

    return ours, theirs


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("row", [False, True])
def test_ctc(like_torch: Any, reduction: str, blank: int, row: bool) -> None:
    counts, times = (4, 0, 7, 1), (20, 15, 18, 1)
    labels = [c for c in range(6) if c != blank]
    targets = np.asarray(RNG.choice(labels, (4, 7)))
    targets[0, 1] = targets[0, 0]
    if row:
        targets = np.concatenate([t[:n] for t, n in zip(targets, counts, strict=True)])
    ours, theirs = aligned(targets, times, counts, blank=blank, reduction=reduction)
    like_torch(ours, theirs, [RNG.standard_normal((20, 4, 6)) * 2], second=False, rtol=1e-8)


@pytest.mark.slow
def test_ctc_of_one_sequence(like_torch: Any) -> None:
    targets = np.asarray([1, 2, 2])
    for reduction in REDUCTIONS:
        ours, theirs = aligned(targets, (9,), (3,), reduction=reduction)
        like_torch(ours, theirs, [RNG.standard_normal((9, 4))], second=False, rtol=1e-8)


@pytest.mark.slow
def test_ctc_of_what_does_not_fit(like_torch: Any) -> None:
    targets, times, counts = np.asarray([[1, 1, 2], [1, 2, 1]]), (3, 3), (3, 3)
    x = it.asarray(RNG.standard_normal((3, 2, 4))).require_grad()
    loss = it.ctc_loss(x, it.asarray(targets), times, counts, reduction="none")
    assert np.isinf(loss.numpy()).tolist() == [True, False]
    assert np.isfinite(loss.sum().backward()[x].numpy()).all()
    ours, theirs = aligned(targets, times, counts, zero_infinity=True)
    like_torch(ours, theirs, [RNG.standard_normal((3, 2, 4))], second=False, rtol=1e-8)


def test_ctc_takes_tensors_and_ignores_what_is_behind() -> None:
    x = it.log_softmax(it.asarray(RNG.standard_normal((5, 2, 3))))
    lengths = it.asarray([5, 4]), it.asarray([1, 2])
    got = it.ctc_loss(x, it.asarray([[1, -1], [2, 1]]), *lengths).item()
    assert got == it.ctc_loss(x, it.asarray([[1, 2], [2, 1]]), *lengths).item()


TIMES, COUNTS = np.asarray([5, 4, 1]), np.asarray([2, 3, 0])


def of_lengths(reduction: str) -> Any:
    """The loss as a function of scores, labels and both lengths."""

    def loss(x: it.Tensor, targets: it.Tensor, times: it.Tensor, counts: it.Tensor) -> it.Tensor:
        logs = it.log_softmax(x, axis=-1)
        return it.ctc_loss(logs, targets, times, counts, reduction=reduction)

    return loss


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc_of_lengths_that_a_compiled_function_is_given(like_torch: Any, reduction: str) -> None:
    """The lengths of the next batch are other ones, of the same function."""
    compiled = fusion.compile(of_lengths(reduction))
    targets = RNG.integers(1, 4, (3, 3))
    for times, counts in ((TIMES, COUNTS), (TIMES[::-1], COUNTS[::-1])):
        theirs = aligned(targets, tuple(times), tuple(counts), reduction=reduction)[1]
        given = [it.asarray(np.ascontiguousarray(a)) for a in (targets, times, counts)]
        scores = [RNG.standard_normal((5, 3, 4))]
        like_torch(lambda x, given=given: compiled(x, *given), theirs, scores, second=False)


def test_ctc_of_one_sequence_whose_lengths_have_no_value(like_torch: Any) -> None:
    compiled = fusion.compile(of_lengths("mean"))
    theirs = aligned(np.asarray([1, 2, 2]), (9,), (3,))[1]
    given = it.asarray([1, 2, 2]), it.asarray(9), it.asarray(3)
    like_torch(lambda x: compiled(x, *given), theirs, [RNG.standard_normal((9, 4))], second=False)


def test_ctc_of_lengths_of_each_element() -> None:
    loss = of_lengths("none")
    given = [it.asarray(a) for a in (RNG.integers(1, 4, (3, 3)), TIMES, COUNTS)]
    x = it.asarray(RNG.standard_normal((5, 3, 4)))
    batched = autodiff.vmap(loss, in_axes=(1, 0, 0, 0))(x, *given)
    np.testing.assert_allclose(batched.numpy(), loss(x, *given).numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("times", "counts"),
    [
        ([6, 4, 1], COUNTS),
        ([0, 4, 1], COUNTS),
        ([-1, 4, 1], COUNTS),
        (TIMES, [4, 3, 0]),
        (TIMES, [-1, 3, 0]),
    ],
)
def test_lengths_out_of_range_are_errors_of_the_run(times: Any, counts: Any) -> None:
    given = it.ones((3, 3), dtype="int64"), it.asarray(times), it.asarray(counts)
    with pytest.raises(OutOfRangeError):
        fusion.compile(of_lengths("sum"))(it.zeros((5, 3, 4)), *given).item()


def test_errors_of_lengths_that_have_no_value() -> None:
    compiled, x = fusion.compile(of_lengths("sum")), it.zeros((5, 3, 4))
    targets, times, counts = it.ones((3, 3), dtype="int64"), it.asarray(TIMES), it.asarray(COUNTS)
    with pytest.raises(ShapeError, match="pad them, or give the lengths as numbers"):
        compiled(x, it.ones(5, dtype="int64"), times, counts)
    with pytest.raises(ShapeError, match="one length for each of the 3"):
        compiled(x, targets, times[:2], counts)
    with pytest.raises(DTypeError, match="target_lengths must be integers"):
        compiled(x, targets, times, it.zeros(3))


def test_errors() -> None:
    x = it.zeros((3, 4))
    with pytest.raises(ShapeError, match="hinge_embedding_loss: x and target"):
        it.hinge_embedding_loss(x, it.zeros(4))
    with pytest.raises(ShapeError, match="cosine_embedding_loss: needs"):
        it.cosine_embedding_loss(x, x, x)
    with pytest.raises(ArgumentError, match="soft_margin_loss: reduction"):
        it.soft_margin_loss(x, x, reduction="max")
    with pytest.raises(ArgumentError, match="multi_margin_loss: p must be"):
        it.multi_margin_loss(x, it.asarray([0, 0, 0]), p=3)
    with pytest.raises(OutOfRangeError):
        it.multi_margin_loss(x, it.asarray([0, 0, -1])).item()
    with pytest.raises(DTypeError, match="multi_margin_loss: target"):
        it.multi_margin_loss(x, it.zeros(3))
    with pytest.raises(ShapeError, match="gaussian_nll_loss: var"):
        it.gaussian_nll_loss(x, x, it.zeros(4))
    with pytest.raises(DTypeError, match="poisson_nll_loss: x must be real"):
        it.poisson_nll_loss(it.zeros(2, dtype="complex64"), it.zeros(2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[1]], [4], [1]), ArgumentError, r"input_lengths\[0\] must be between 1 and 3, got 4"),
        (([[1]], [3], [-1]), ArgumentError, r"target_lengths\[0\] must be at least 0"),
        (([[1]], [3, 3], [1]), ShapeError, "one length for each of the 1"),
        (([[1]], [3], [2]), ShapeError, "at least 2"),
        (([[1.0]], [3], [1]), DTypeError, "targets must be integers"),
        (([[5]], [3], [1]), OutOfRangeError, "targets holds 5"),
        (([[-1]], [3], [1]), OutOfRangeError, "targets holds -1"),
    ],
)
def test_errors_of_ctc(arguments: Any, error: type[Exception], message: str) -> None:
    targets, *lengths = arguments
    with pytest.raises(error, match=message):
        it.ctc_loss(it.zeros((3, 1, 4)), it.asarray(targets), *lengths).item()
