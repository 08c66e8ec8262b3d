"""Products with a Jacobian: `vjp` from the left, `jvp` and `linearize` from the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor import Tensor, transaction, zeros_like
from ingle.tensor.errors import OperandError
from ingle.tensor.levels import at_level, next_level

from .engine import pull
from .lifting import Lifted, lifted, lowered, shown_by, tracked_at
from .nodes import TrackedHandle
from .residuals import recording_at
from .tracked import leaf, showing
from .transform_arguments import of_functions
from .trees import leaves, matched, rebuild

Leaves = Sequence[Tensor | None]


@of_functions
def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The value of a function and a second function, which pulls cotangents back through it.

    Args:
        function: takes the primals and returns a tensor, or nested tuples, lists and dicts.
        *primals: what to differentiate by: tensors, nested tensors, cells or modules.

    Returns:
        `(value, pull)`. `pull(cotangent)` takes the structure of the value, with None for zeros,
        and returns a tuple with one entry for each primal: the transposed Jacobian at the primals
        times the cotangent (for complex numbers conjugated), zeros where nothing depends. It may
        be called any number of times, and be differentiated by its cotangent.

    Raises:
        OperandError, ShapeError, DTypeError: a primal is no float tensor, the function returns
            something else, or a cotangent does not fit its value.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import vjp
    >>> value, pull = vjp(lambda x, y: x * y, it.asarray(3.0), it.asarray(5.0))
    >>> value.item(), [g.item() for g in pull(it.asarray(1.0))]
    (15.0, [5.0, 3.0])
    """
    linear = linearized(function, primals, "vjp")

    def pull_back(cotangent: Any) -> tuple[Any, ...]:
        return linear.collect(linear.pull(matched(cotangent, linear.value, "vjp: a cotangent")))

    return linear.value, pull_back


@of_functions
def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function and its derivative there, a linear function of tangents.

    Cheaper than `jvp` for many tangents at the same place: the function runs once.

    Args:
        function: takes the primals and returns a tensor, or nested tuples, lists and dicts.
        *primals: what to differentiate by: tensors, nested tensors, cells or modules.

    Returns:
        `(value, push)`. `push(*tangents)` takes a tangent for each primal, as `jvp` does, and
        returns the Jacobian times them in the structure of the value.

    Raises:
        OperandError, ShapeError, DTypeError: as for `jvp`.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import linearize
    >>> value, push = linearize(lambda x: x * x * x, it.asarray(2.0))
    >>> value.item(), push(it.asarray(1.0)).item(), push(it.asarray(0.5)).item()
    (8.0, 12.0, 6.0)
    """
    linear = linearized(function, primals, "linearize")
    linear.transpose()

    def push(*tangents: Any) -> Any:
        return rebuild(linear.value, linear.push(linear.tangents(tangents)))

    return linear.value, push


@of_functions
def jvp(
    function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The value of a function and its derivative along a direction.

    The derivative is the transpose of the transpose: what pulls cotangents back is linear in
    them, so that pulling through it in turn pushes tangents forward. That holds for every
    operation with a gradient rule; it costs about two backward passes.

    Args:
        function: takes the primals and returns a tensor, or nested tuples, lists and dicts.
        primals: the arguments, each a tensor, nested tensors, a cell or a module.
        tangents: a direction for each: the same structure, shapes and dtypes, None for zeros.
            For cells and modules a `Gradients` container.

    Returns:
        `(value, tangent)`, both in the structure that the function returns.

    Raises:
        OperandError: primals and tangents are no tuples of one length or differ in structure, a
            primal is no float tensor, or the function returns something else.
        ShapeError, DTypeError: a tangent differs from its primal.

    >>> import ingle.tensor as it
    >>> from ingle.autodiff import jvp
    >>> value, tangent = jvp(it.exp, (it.asarray([0.0, 1.0]),), (it.asarray([2.0, 0.0]),))
    >>> tangent.tolist()
    [2.0, 0.0]
    """
    check_tuples("jvp", primals=primals, tangents=tangents)
    linear = linearized(function, primals, "jvp")
    pushed = linear.push(linear.tangents(tangents))
    return linear.value, rebuild(linear.value, pushed)


def check_tuples(name: str, **arguments: object) -> None:
    """Raises unless all are tuples, one entry for each argument of the function."""
    for key, value in arguments.items():
        if not isinstance(value, tuple):
            raise OperandError(
                f"{name}: {key} must be a tuple with an entry for each argument of the function, "
                f"got {type(value).__name__}; for a single one write {key}=(x,)"
            )


def linearized(function: Callable[..., Any], primals: Sequence[Any], name: str) -> Linear:
    """Runs a function at some primals and records it.

    Args:
        function: of tensors in, and out, of nested containers.
        primals: where.
        name: the transform's, for errors.
    """
    with next_level() as lower, next_level() as upper, recording_at(upper), transaction():
        given = [lifted(p, upper, name) for p in primals]
        with showing(shown_by(given)):
            result = function(*[p.value for p in given])
    for value in leaves(result):
        if not isinstance(value, Tensor):
            raise OperandError(
                f"{name}: the function must return tensors, alone or in nested tuples, lists and "
                f"dicts, got {type(value).__name__}"
            )
    return Linear(name, given, result, lower, upper)


class Linear:
    """A function recorded at some primals: its derivative there, forward and backward; made by
    `linearized`.

    Args:
        name: the transform's, for errors.
        primals: the arguments.
        result: what the function returned for them.
        lower, upper: levels. The function is recorded at the upper one, and what pulls cotangents
            back through it at the lower one, where its transpose is wanted.

    Attributes:
        outputs: the tensors in the result.
        value: the result.
    """

    def __init__(
        self, name: str, primals: Sequence[Lifted], result: Any, lower: int, upper: int
    ) -> None:
        self.name = name
        self.primals = primals
        self._lower = lower
        self._upper = upper
        self._roots = [tracked_at(y, upper) for y in leaves(result)]
        self.outputs: list[Tensor] = [lowered(y, upper) for y in leaves(result)]
        self.value = rebuild(result, list(self.outputs))
        self._keys = [key for p in primals for key in p.keys]
        self._transposed: tuple[dict[object, Tensor], list[TrackedHandle | None]] | None = None

    def inputs(self) -> list[Tensor]:
        """The values of the primals' leaves."""
        return [x for p in self.primals for x in leaves(p.tree)]

    def tangents(self, given: tuple[Any, ...]) -> Leaves:
        """Tangents for all primals, checked, as leaves."""
        trees = tuple(p.tree for p in self.primals)
        if len(given) != len(trees):
            raise OperandError(
                f"{self.name}: needs a tangent for each of the {len(trees)} primals, "
                f"got {len(given)}"
            )
        return matched(given, trees, f"{self.name}: a tangent")

    def collect(self, found: dict[object, Tensor]) -> tuple[Any, ...]:
        """What `pull` found, in the structure of the primals."""
        return tuple(p.collect(found) for p in self.primals)

    def pull(self, cotangents: Leaves) -> dict[object, Tensor]:
        """Cotangents of the primals, by key, from those of the outputs."""
        pairs = zip(self._roots, cotangents, strict=True)
        roots = [(h, g) for h, g in pairs if h is not None and g is not None]
        with at_level(self._upper):
            return pull(roots, False) if roots else {}

    def transpose(self) -> tuple[dict[object, Tensor], list[TrackedHandle | None]]:
        """The pulled cotangents as functions of cotangents that stand in for any."""
        if self._transposed is None:
            stand_ins = [
                None if root is None else leaf(zeros_like(y)._handle, self._lower)
                for root, y in zip(self._roots, self.outputs, strict=True)
            ]
            with recording_at(self._lower):
                pulled = self.pull([None if h is None else Tensor(h) for h in stand_ins])
            self._transposed = (pulled, stand_ins)
        return self._transposed

    def push(self, tangents: Leaves) -> list[Tensor]:
        """Tangents of the outputs from those of the primals."""
        pulled, stand_ins = self.transpose()
        roots = []
        for key, tangent in zip(self._keys, tangents, strict=True):
            handle = tracked_at(pulled.get(key), self._lower)
            if handle is not None and tangent is not None:
                roots.append((handle, tangent))
        with at_level(self._upper):
            found = pull(roots, False) if roots else {}
        return [
            found[h.node] if h is not None and h.node in found else zeros_like(y)
            for h, y in zip(stand_ins, self.outputs, strict=True)
        ]
