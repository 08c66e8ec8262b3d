"""Connectionist temporal classification: the likelihood of a text over all of its alignments.

Graves, Fernández, Gomez, Schmidhuber: Connectionist temporal classification (ICML 2006). The
targets are extended by a blank before, between and behind their labels; `alpha` and `beta` are the
logarithms of the probabilities of all ways to an extended label at a time, and on from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract import Aval
from ...dispatch import TensorLike, as_floating, handle_of, run, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from ...operation import Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_int, widened
from ..creation.conversion import asarray
from ..creation.filled import full, zeros
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.exponential import exp, logaddexp
from ..elementwise.extrema import maximum
from ..elementwise.where import where
from ..indexing.gathering import take_along_axis
from ..indexing.scatter_reductions import put_along_axis
from ..movement.joining import concat, stack
from ..movement.shapes import broadcast_to, reshape
from ..movement.slicing import slice_axis
from ..reductions.basic import logsumexp
from ._labels import Lengths, lengths_of, padded_labels
from ._pairs import reduced, require_reduction

if TYPE_CHECKING:
    from ...tensor import Tensor

_NEVER = float("-inf")


@guarded
def ctc_loss(
    log_probs: TensorLike,
    targets: TensorLike,
    input_lengths: Lengths,
    target_lengths: Lengths,
    *,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of sequences of labels, summed over all of their alignments.

    Args:
        log_probs: (time, batch, classes), or (time, classes) for one sequence: log-probabilities,
            as from `log_softmax`.
        targets: (batch, longest) integers in [0, classes), of which those behind each length do
            not matter; or all sequences in a row. None of them the blank.
        input_lengths, target_lengths: (batch,) integers, tensors or sequences; 0-d or (1,) for
            one sequence. Where tensors have no values, in `compile` and `vmap`, they stay tensors:
            targets are (batch, longest) then, and a length beyond its axis is an error of the run.
        blank: the class that stands for no label.
        reduction: `"mean"` divides each loss by its target's length before averaging, `"sum"`, or
            `"none"` for a loss for each sequence.
        zero_infinity: 0 instead of inf for sequences that do not fit into their time. The
            gradient of an infinite loss is 0 in any case.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: a length is longer than its axis.

    >>> import ingle.tensor as it
    >>> even = it.log_softmax(it.zeros((2, 1, 2)))
    >>> round(it.ctc_loss(even, it.asarray([[1]]), [2], [1]).item(), 4)  # 3 of 4 paths read 1
    0.2877
    """
    name = "ctc_loss"
    scores = wrap(as_floating(log_probs, name, "log_probs"))
    require_reduction(name, reduction)
    single = scores.ndim == 2
    if single:
        scores = reshape(scores, (scores.shape[0], 1, scores.shape[1]))
    if scores.ndim != 3 or not scores.shape[0] or not scores.dtype.is_floating:
        raise ShapeError(
            f"{name}: log_probs must be real, (time, batch, classes) or (time, classes), of at "
            f"least one step, got {scores.dtype} of shape {scores.shape}"
        )
    time, batch, classes = scores.shape
    silent = as_int(blank, name, "blank")
    if not 0 <= silent < classes:
        raise ArgumentError(f"{name}: blank must be in [0, {classes}), got {silent}")
    times = lengths_of(name, "input_lengths", input_lengths, batch, 1, time)
    labels, counts = padded_labels(name, targets, target_lengths, batch, single)
    ends = [asarray(n, dtype=int64, device=scores.device) for n in (times, counts)]
    op = CTC_LOSS.op(blank=silent, zero_infinity=bool(zero_infinity))
    loss = run(op, [x._handle for x in (scores, labels, *ends)])[0]
    if reduction == "mean":
        loss = loss / astype(maximum(ends[1], 1), loss.dtype)
    if single and reduction == "none":
        return reshape(loss, ())
    return reduced(loss, reduction)


def _body(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, *,
    blank: int, zero_infinity: bool,
) -> Tensor:  # fmt: skip
    steps, skips, _ = _steps(widened(log_probs), targets, target_lengths, blank)
    alpha = _alphas(steps, skips, input_lengths)[-1]
    loss = -_likelihood(alpha, _ends(alpha, target_lengths))
    if zero_infinity:
        loss = where(loss == float("inf"), 0, loss)
    return astype(loss, log_probs.dtype)


def _vjp(
    g: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int,
) -> Tensor:  # fmt: skip
    return ctc_loss_gradient(
        g, log_probs, targets, input_lengths, target_lengths, blank=blank
    )  # fmt: skip


def _rule(log_probs: Aval, targets: Aval, *lengths: Aval, **statics: Any) -> Aval:
    return Aval((log_probs.shape[1],), log_probs.dtype)


def _samples(draw: Draw) -> Iterator[Sample]:
    if not draw.dtype.is_floating:
        return
    for reduction, blank in (("none", 0), ("mean", 2), ("sum", 1)):
        labels = np.asarray([[(blank + 1) % 3, (blank + 1) % 3], [(blank + 2) % 3, blank]])
        shape = draw.size(4, least=4), 2, draw.size(3, least=3)
        scores, lengths = draw.array(shape, low=-3, high=-0.1), ((4, 3), (2, 1))
        options = {"blank": blank, "reduction": reduction}
        yield Sample((scores, labels, *lengths), options, condition=16)
    scores = draw.array((2, 2, 3), low=-3, high=-0.1)
    never = np.asarray([[1, 1], [2, 1]])
    options = {"reduction": "none"}
    yield Sample((scores, never, (2, 2), (2, 0)), options, gradient=False, condition=16)


def _reference(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """By adding up all paths that read as the target."""
    losses = []
    for i, (time, count) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        likelihood = 0.0
        for path in itertools.product(range(log_probs.shape[2]), repeat=time):
            read = [c for c, _ in itertools.groupby(path) if c != blank]
            if read == list(targets[i, :count]):
                likelihood += np.exp(sum(log_probs[t, i, c] for t, c in enumerate(path)))
        with np.errstate(divide="ignore"):
            losses.append(-np.log(likelihood))
    loss = np.asarray(losses)
    if zero_infinity:
        loss = np.where(loss == np.inf, 0, loss)
    if reduction == "mean":
        return np.mean(loss / np.maximum(target_lengths, 1))
    return np.sum(loss) if reduction == "sum" else loss


CTC_LOSS = Operation(
    "ctc_loss",
    tensors=("log_probs", "targets", "input_lengths", "target_lengths"),
    statics=("blank", "zero_infinity"),
    rule=_rule,
    traits=Traits("opaque", precision="high", bound="compute"),
    vjp={"log_probs": _vjp},
    body=_body,
    public=ctc_loss,
    samples=_samples,
    reference=_reference,
)


def ctc_loss_gradient(
    g: TensorLike, log_probs: TensorLike, targets: TensorLike, input_lengths: TensorLike,
    target_lengths: TensorLike, *, blank: int = 0,
) -> Tensor:  # fmt: skip
    """The cotangent of `log_probs` from that of each sequence's loss, which is g: (batch,).

    Minus the probability of being at each class at each time, given the target.

    Args:
        g: (batch,).
        log_probs: (time, batch, classes).
        targets: (batch, longest), int64.
        input_lengths, target_lengths: (batch,), int64.
        blank: the class that stands for no label.
    """
    named = {"g": g, "log_probs": log_probs, "targets": targets, "input_lengths": input_lengths}
    handles = [handle_of(x, "ctc_loss_gradient", n) for n, x in named.items()]
    handles.append(handle_of(target_lengths, "ctc_loss_gradient", "target_lengths"))
    return run(CTC_LOSS_GRADIENT.op(blank=blank), handles)[0]


def _betas(steps: Tensor, skips: Tensor, input_lengths: Tensor, ends: Tensor) -> list[Tensor]:
    """For each time the ways on from each label, without its own step; none behind the end."""
    allowed = astype(skips, int64)
    follows = concat([allowed[:, 2:], allowed[:, :2] * 0], axis=1) > 0
    beta = ends + _NEVER
    found = []
    for t in range(steps.shape[0] - 1, -1, -1):
        if t + 1 < steps.shape[0]:
            on = beta + steps[t + 1]
            ways = logaddexp(on, _moved(on, -1))
            beta = logaddexp(ways, where(follows, _moved(on, -2), _NEVER))
        beta = where(reshape(input_lengths == t + 1, (-1, 1)), ends, beta)
        found.append(beta)
    return found[::-1]


def _gradient_body(
    g: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    *, blank: int,
) -> Tensor:  # fmt: skip
    wide = widened(log_probs)
    steps, skips, places = _steps(wide, targets, target_lengths, blank)
    alphas = _alphas(steps, skips, input_lengths)
    ends = _ends(alphas[-1], target_lengths)
    betas = _betas(steps, skips, input_lengths, ends)
    total = _likelihood(alphas[-1], ends)
    possible = reshape(total != _NEVER, (-1, 1))
    total = where(possible, reshape(total, (-1, 1)), 0)
    ways = stack(alphas, axis=0) + stack(betas, axis=0)
    share = where(possible, exp(ways - total), 0) * reshape(astype(g, wide.dtype), (-1, 1))
    nothing = zeros(wide.shape, dtype=wide.dtype, device=wide.device)
    out = put_along_axis(nothing, places, -share, axis=2, reduce="sum")
    return astype(out, log_probs.dtype)


def _gradient_rule(
    g: Aval, log_probs: Aval, targets: Aval, *lengths: Aval, blank: int
) -> Aval:  # fmt: skip
    shape = log_probs.shape
    fits = len(shape) == 3 and all(a.shape == shape[1:2] for a in (g, *lengths))
    some = len(shape) == 3 and shape[0] > 0 and shape[2] > 0
    if not fits or not some or len(targets.shape) != 2 or targets.shape[0] != shape[1]:
        got = ", ".join(map(str, (g, log_probs, targets, *lengths)))
        raise ShapeError(
            "ctc_loss_gradient: g must be (batch,), log_probs (time, batch, classes) of at least "
            "one time and class, targets "
            f"(batch, longest), input_lengths and target_lengths (batch,), got {got}"
        )
    of_floats = log_probs.dtype.is_floating and g.dtype is log_probs.dtype
    if not of_floats or any(not a.dtype.is_integer for a in (targets, *lengths)):
        raise DTypeError(
            f"ctc_loss_gradient: needs float log_probs and integer targets and lengths, got "
            f"{log_probs}, {targets}, {lengths[0]} and {lengths[1]}"
        )
    return log_probs


def _gradient_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_floating:
        shape = draw.size(4, least=4), 2, draw.size(3, least=3)
        scores, lengths = draw.array(shape, low=-3, high=-0.1), (np.array([4, 3]), [2, 1])
        inputs = scores, np.array([[1, 1], [2, 0]]), lengths[0], np.array(lengths[1])
        # By log_probs it is the second derivative of the loss, and is checked there.
        yield Sample((draw.array((2,)), *inputs), gradient=(0,), condition=16)


def _gradient_reference(
    g: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *,
    blank: int = 0,
) -> Any:  # fmt: skip
    """By counting where the paths that read as the target are at each time."""
    out = np.zeros(log_probs.shape)
    for i, (time, count) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        visits = np.zeros(out[:, i].shape)
        for path in itertools.product(range(log_probs.shape[2]), repeat=int(time)):
            if [c for c, _ in itertools.groupby(path) if c != blank] == list(targets[i, :count]):
                steps = np.arange(time), list(path)
                visits[steps] += np.exp(log_probs[:, i][steps].sum())
        out[:, i] = -g[i] * visits / max(visits[0].sum(), np.finfo(float).tiny)
    return out


CTC_LOSS_GRADIENT = Operation(
    "ctc_loss_gradient",
    tensors=("g", "log_probs", "targets", "input_lengths", "target_lengths"),
    statics=("blank",),
    rule=_gradient_rule,
    traits=Traits("opaque", precision="high", bound="compute"),
    body=_gradient_body,
    public=ctc_loss_gradient,
    samples=_gradient_samples,
    reference=_gradient_reference,
)


def _extended(
    targets: Tensor, target_lengths: Tensor, blank: int, classes: int
) -> tuple[Tensor, Tensor]:
    """The labels with blanks around them, and which of them may follow the one before the last."""
    batch, longest = targets.shape
    inside = arange(longest, device=targets.device) < reshape(target_lengths, (batch, 1))
    # Indexing would count a negative label from the end: a number beyond the classes is refused.
    labels = where(inside, where(targets < 0, classes, targets), blank)
    gaps = full((batch, longest), blank, dtype=int64, device=targets.device)
    pairs = reshape(stack([gaps, labels], axis=-1), (batch, 2 * longest))
    first = full((batch, 1), blank, dtype=int64, device=targets.device)
    extended = concat([pairs, first], axis=1)
    skips = full((batch, 2), 0, dtype=int64, device=targets.device) > 0
    if longest:
        size = 2 * longest - 1
        late, early = slice_axis(extended, 1, 2, size), slice_axis(extended, 1, 0, size)
        skips = concat([skips, (late != blank) & (late != early)], axis=1)
    return extended, skips[:, : 2 * longest + 1]


def _moved(x: Tensor, by: int) -> Tensor:
    """Shifted along the labels, with impossible ones in the gap."""
    batch, size = x.shape
    gap = full((batch, min(abs(by), size)), _NEVER, dtype=x.dtype, device=x.device)
    rest = max(size - abs(by), 0)
    kept = slice_axis(x, 1, 0 if by > 0 else size - rest, rest)
    return concat([gap, kept] if by > 0 else [kept, gap], axis=1)


def _ends(x: Tensor, target_lengths: Tensor) -> Tensor:
    """The logarithms of 1 for the last label and the blank behind it, of 0 for all others."""
    last = reshape(target_lengths * 2, (-1, 1))
    place = arange(x.shape[1], device=x.device)
    nothing = zeros((), dtype=x.dtype, device=x.device)
    return where((place == last) | (place == last - 1), nothing, _NEVER)


def _alphas(steps: Tensor, skips: Tensor, input_lengths: Tensor) -> list[Tensor]:
    """For each time the ways to each label; behind a sequence's end those at its end."""
    time, _, size = steps.shape
    begin = arange(size, device=steps.device) < 2
    alpha = where(begin, steps[0], _NEVER)
    found = [alpha]
    for t in range(1, time):
        ways = logaddexp(alpha, _moved(alpha, 1))
        ways = logaddexp(ways, where(skips, _moved(alpha, 2), _NEVER))
        goes_on = reshape(input_lengths > t, (-1, 1))
        alpha = where(goes_on, ways + steps[t], alpha)
        found.append(alpha)
    return found


def _steps(
    log_probs: Tensor, targets: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor, Tensor]:
    time, batch, classes = log_probs.shape
    extended, skips = _extended(targets, target_lengths, blank, classes)
    places = broadcast_to(extended, (time, batch, extended.shape[1]))
    return take_along_axis(log_probs, places, axis=2), skips, places


def _likelihood(alpha: Tensor, ends: Tensor) -> Tensor:
    return logsumexp(alpha + ends, axis=1)
