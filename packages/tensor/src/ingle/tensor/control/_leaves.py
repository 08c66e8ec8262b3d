"""Nested values of structural functions: taken apart, compared, and what a predicate says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..contract import Aval, Handle, Scalar
from ..device import Device
from ..dispatch import handle_of, wrap
from ..errors import DTypeError, OperandError, ShapeError
from ..ops import asarray, astype, full
from ..ops.elementwise.where import weak_scalar
from ..precision import chosen_precision
from ..pytree import flatten, unflatten
from ..tensor import Tensor

NUMBERS = (bool, int, float, complex)


def paths(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves with where they are, as one would write it: `["h"][0]`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from paths(value, f"{path}[{key!r}]")
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for field, value in zip(tree._fields, tree, strict=True):
            yield from paths(value, f"{path}.{field}")
    elif isinstance(tree, (tuple, list)):
        for place, value in enumerate(tree):
            yield from paths(value, f"{path}[{place}]")
    else:
        yield path, tree


def device_of(*trees: Any) -> Device | None:
    """The device of the first tensor; None for the default one."""
    return next((x.device for x in flatten(trees) if isinstance(x, Tensor)), None)


def as_tensors(name: str, what: str, tree: Any, where: Device | None) -> Any:
    """The tree with tensors for its numbers and cells; None stays None."""

    def tensor(path: str, leaf: Any) -> Any:
        if leaf is None or isinstance(leaf, Tensor):
            return leaf
        if isinstance(leaf, NUMBERS):
            return full((), leaf, device=where)
        if hasattr(type(leaf), "__ingle_tensor__"):
            return wrap(handle_of(leaf, name, what))
        raise OperandError(
            f"{name}: {what}{path} must be a tensor or a number, got {type(leaf).__name__}"
        )

    return unflatten(tree, [tensor(path, leaf) for path, leaf in paths(tree)])


def tensors_of(tree: Any) -> list[Tensor]:
    """The tensors among the leaves."""
    return [x for x in flatten(tree) if isinstance(x, Tensor)]


def filled(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """The tree with other tensors in the places of its own."""
    rest = iter(tensors)
    return unflatten(tree, [next(rest) if isinstance(x, Tensor) else x for x in flatten(tree)])


def operands(closed: Sequence[Handle | Scalar]) -> list[Any]:
    """What a program closes over, as a program takes it."""
    return [x.value if isinstance(x, Scalar) else Tensor(x) for x in closed]


def avals_of(tensors: Sequence[Tensor | Handle | Scalar]) -> list[Aval]:
    """Shapes and dtypes."""
    return [Aval(x.shape, x.dtype) for x in tensors]


class Sides(NamedTuple):
    """How an error names two things that must agree, and what to do about it.

    Attributes:
        name: of the function.
        what: both things are.
        given, like: how they differ: `"after a step"`.
        advice: what to do.
        carried: whether `given` takes the place of `like`, and in mixed precision its dtype.
    """

    name: str
    what: str
    given: str
    like: str
    advice: str
    carried: bool = False


def agreeing(sides: Sides, given: Any, like: Any, path: str = "") -> list[Tensor]:
    """The tensors of `given` in the order of those of `like`, which must be like them.

    Numbers where `like` has tensors take their dtype.

    Raises:
        OperandError: the structures differ.
        ShapeError, DTypeError: a leaf differs.
    """
    if isinstance(like, dict):
        if not isinstance(given, dict) or set(given) != set(like):
            raise _unlike(sides, path, given, like)
        return [x for k in like for x in agreeing(sides, given[k], like[k], f"{path}[{k!r}]")]
    if isinstance(like, (tuple, list)):
        kind = tuple if isinstance(like, tuple) else list
        if not isinstance(given, kind) or len(given) != len(like):
            raise _unlike(sides, path, given, like)
        names = [f".{f}" for f in like._fields] if hasattr(like, "_fields") else None
        pairs = enumerate(zip(given, like, strict=True))
        return [
            x
            for i, (g, k) in pairs
            for x in agreeing(sides, g, k, path + (names[i] if names else f"[{i}]"))
        ]
    return _agreeing_leaf(sides, given, like, path)


def _agreeing_leaf(sides: Sides, given: Any, like: Any, path: str) -> list[Tensor]:
    if not isinstance(like, Tensor):
        if given is not like and (isinstance(given, Tensor) or given != like):
            raise _unlike(sides, path, given, like)
        return []
    if isinstance(given, NUMBERS):
        fill = weak_scalar(sides.name, f"{sides.what}{path} {sides.given}", given, like.dtype)
        return [full(like.shape, fill.value, dtype=like.dtype, device=like.device)]
    if hasattr(type(given), "__ingle_tensor__"):
        given = wrap(handle_of(given, sides.name))
    if not isinstance(given, Tensor):
        raise _unlike(sides, path, given, like)
    if sides.carried and chosen_precision() is not None:
        both_floating = given.dtype.is_floating and like.dtype.is_floating
        given = astype(given, like.dtype) if both_floating else given
    if given.shape != like.shape or given.dtype is not like.dtype:
        error = ShapeError if given.shape != like.shape else DTypeError
        raise error(
            f"{sides.name}: {sides.what}{path} is {_aval(like)} {sides.like} and {_aval(given)} "
            f"{sides.given}; {sides.advice}"
        )
    return [given]


def _aval(x: Tensor) -> Aval:
    return Aval(x.shape, x.dtype)


def _unlike(sides: Sides, path: str, given: Any, like: Any) -> OperandError:
    return OperandError(
        f"{sides.name}: {sides.what}{path} is {_shown(like)} {sides.like} and {_shown(given)} "
        f"{sides.given}; both must have one structure"
    )


def _shown(tree: Any) -> str:
    if isinstance(tree, Tensor):
        return f"a tensor {_aval(tree)}"
    if isinstance(tree, dict):
        return f"a dict with the keys {list(tree)}"
    if isinstance(tree, (tuple, list)):
        return f"a {type(tree).__name__} of {len(tree)}"
    return repr(tree)


class Predicate(NamedTuple):
    """What a predicate says: of one element, or of each element of the batches around.

    Attributes:
        tensor: the predicate, a bool for each element.
        known: whether there are values.
        batched: whether elements may differ.
        some, all: whether it holds for some element, for all of them; only where known.
    """

    tensor: Tensor
    known: bool
    batched: bool
    some: bool = False
    all: bool = False


def read_predicate(name: str, what: str, given: Any, where: Device | None) -> Predicate:
    """A predicate as a 0-d bool tensor, with what its values say where there are any.

    Raises:
        OperandError, ShapeError, DTypeError: it is no such tensor.
    """
    if isinstance(given, bool):
        given = asarray(given, device=where)
    handle = handle_of(given, name, what)
    if handle.shape:
        raise ShapeError(
            f"{name}: {what} must be one bool, got shape {handle.shape}; reduce it with any or "
            "all, or choose for each element with where"
        )
    if handle.dtype.kind != "bool":
        raise DTypeError(f"{name}: {what} must be bool, got {handle.dtype}; compare it, as x != 0")
    base = handle.base()
    batched = base.shape != ()
    if base.abstract:
        return Predicate(wrap(handle), False, batched)
    values = base.backend.download(base)
    return Predicate(wrap(handle), True, batched, bool(values.any()), bool(values.all()))


def checked_function(name: str, argument: str, function: object) -> Callable[..., Any]:
    """A function, or an error that says that it is none."""
    if not callable(function):
        raise OperandError(f"{name}: {argument} must be a function, got {function!r:.60}")
    return function
