"""Wrong calls drawn at random from the samples, and whether their errors say what one needs.

A mistake changes one thing in a sample: an argument's type, rank, size, dtype or device, an index,
an axis, a size, a word. What comes of it is right by chance (the reference then says so), or an
error of Ingle whose message names the operation and the argument, says what that got and what
was expected; never a NumPy error, and never a result that nobody asked for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ingle.tensor import Tensor, asarray, device
from ingle.tensor.dtypes import DType, as_dtype, from_numpy_dtype
from ingle.tensor.eager import REFERENCE
from ingle.tensor.errors import IngleError

from .cases import Case, Subject, cases, names_of, subjects
from .oracle import Oracle
from .repro_source import argument_text, function_text, tensor_text
from .running import NothingToCheckError, run_case
from .trees import arrays_of, fill_arrays, map_leaves, tensors_of

FAR = 99
"""An axis or index that no sample has."""

HUGE = 1 << 63
"""A size that no memory has."""

ANYWHERE = ("depend",)
"""Operations with operands on any devices: `depend` only wants the second one to be there."""

EXPECTED = re.compile(
    r"\b(must|needs?|expected|only|cannot|do not|does not|has axes|have axes|differ|different|"
    r"is none of|takes|out of range|larger than|up to|at least|for indices|leave|use|give|"
    r"has no|undefined|valid)\b"
)
"""Words by which a message says what was expected."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A call that is wrong in one place, or may be.

    Attributes:
        case: the sample that it was made of, with the mistake in it where that is an array.
        what: the mistake in words.
        argument: the parameter with the mistake; "" for one of the signature.
        got: texts of which the message has to contain one.
        args, kwargs: of the call; arrays stand for tensors.
        certain: whether the call is wrong whatever the reference says.
        elsewhere: which of the arrays, by number, lie on another device.
        related: whether the mistake shows only next to other arguments, which may be named too.
        recast: whether there are values that its room did not mean: only shapes are compared.
    """

    case: Case
    what: str
    argument: str
    got: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    certain: bool = False
    elsewhere: int | None = None
    related: bool = False
    recast: bool = False

    def text(self, where: str, other: str) -> str:
        """The call as source text."""
        arrays = arrays_of((self.args, self.kwargs))
        texts = [
            _Source(tensor_text(a, other if i == self.elsewhere else where))
            for i, a in enumerate(arrays)
        ]  # fmt: skip
        args, kwargs = fill_arrays((self.args, self.kwargs), list(texts))
        parts = [argument_text(a) for a in args]
        parts += [f"{k}={argument_text(v)}" for k, v in kwargs.items()]
        assert self.case.operation.public is not None
        return f"{function_text(self.case.operation.public)}({', '.join(parts)})"


class _Source(str):
    def __repr__(self) -> str:
        return str(self)


def is_public(subject: Subject) -> bool:
    """Whether users can call it by its own name; other functions are called by functions."""
    has = subject.public and subject.samples and subject.reference
    return bool(has) and function_text(subject.public).startswith("it.")  # type: ignore[arg-type]


def mistakes(rng: np.random.Generator, among: Sequence[Subject] | None = None) -> Iterator[Mistake]:
    """Mistakes without end, each of a random subject, sample and kind."""
    chosen = list(among or filter(is_public, subjects()))
    while True:
        subject = chosen[rng.integers(len(chosen))]
        dtype = ("float32", "float32", "int32", "complex64", "bool")[rng.integers(5)]
        found = list(cases(subject, dtype, int(rng.integers(100))))
        if not found:
            continue
        case = found[rng.integers(len(found))]
        if case.has_functions or not _makes_sense(case):
            continue
        made = list(_mistakes_of(case, rng))
        if made:
            yield made[rng.integers(len(made))]


def _makes_sense(case: Case) -> bool:
    """Whether the call is right without a mistake, and nobody else's function is part of it."""
    leaves: list[Any] = []
    map_leaves(leaves.append, case.tree())
    if any(inspect.isfunction(leaf) for leaf in leaves):
        return False
    try:
        run_case(case, REFERENCE)
    except NothingToCheckError:
        return False
    return True


def _mistakes_of(case: Case, rng: np.random.Generator) -> Iterator[Mistake]:
    arguments = _named(case)
    arrays = case.arrays
    for number in range(len(arrays)):
        name = _owner(arguments, number)
        yield from _as_stranger(case, number, name)
        yield from _as_other_array(case, number, name, rng)
        if len(arrays) > 1 and case.operation.name not in ANYWHERE:
            yield replace(
                _same(case), what=f"{name} on another device", argument=name, certain=True,
                elsewhere=number, related=True, got=("",),
            )  # fmt: skip
    for name, value in arguments.items():
        if not arrays_of(value):
            yield from _as_other_static(case, name, value)
    yield from _as_other_signature(case)


def _same(case: Case) -> Mistake:
    return Mistake(case, "", "", (), case.sample.args, dict(case.sample.kwargs))


def _named(case: Case) -> dict[str, Any]:
    """The arguments by the names of their parameters."""
    assert case.operation.public is not None
    signature = inspect.signature(case.operation.public)
    return dict(signature.bind(*case.sample.args, **case.sample.kwargs).arguments)


def _owner(arguments: dict[str, Any], number: int) -> str:
    """Whose array that of a number is: arrays are counted in the order of the parameters."""
    for name, value in arguments.items():
        number -= len(arrays_of(value))
        if number < 0:
            return name
    raise LookupError(number)


def _annotation(case: Case, name: str) -> str:
    assert case.operation.public is not None
    return str(inspect.signature(case.operation.public).parameters[name].annotation)


def _with(case: Case, number: int, value: Any, **more: Any) -> Mistake:
    """The call with another value in place of one of its arrays."""
    values: list[Any] = list(case.arrays)
    values[number] = value
    args, kwargs = fill_arrays(case.tree(), values)
    return replace(_same(case), args=args, kwargs=kwargs, **more)


def _as_stranger(case: Case, number: int, name: str) -> Iterator[Mistake]:
    says = _annotation(case, name)
    strangers: list[Any] = ["text", {}, object]
    if "None" not in says and "Any" not in says:
        strangers.append(None)
    for value in strangers:
        got = (type(value).__name__, repr(value))
        yield _with(
            case, number, value, what=f"{name} is {value!r}", argument=name, got=got, certain=True
        )


def _as_other_array(
    case: Case, number: int, name: str, rng: np.random.Generator
) -> Iterator[Mistake]:
    array = case.arrays[number]

    def made(what: str, value: np.ndarray, **more: Any) -> Mistake:
        shape = ", ".join(map(str, value.shape))
        got = (f"({shape}", f"[{shape}]", *map(str, value.shape), f"{value.ndim}", "0-d")
        options = {"argument": name, "got": got, "related": True, **more}
        return _with(case, number, value, what=f"{name} {what}", **options)

    yield made("with one axis more", array[None])
    if array.ndim:
        less = array[0] if len(array) else np.zeros(array.shape[1:], array.dtype)
        yield made("with one axis less", less)
        axis = int(rng.integers(array.ndim))
        yield made("with one element more", np.repeat(array, 2, axis=axis))
        none = tuple(0 if i == axis else n for i, n in enumerate(array.shape))
        yield made("without elements", np.zeros(none, array.dtype))
    shape = ", ".join(map(str, array.shape))
    for dtype in ("bool", "complex64", "int64", "float32"):
        kind = as_dtype(dtype)
        if kind.kind != from_numpy_dtype(array.dtype).kind:
            value = np.ones(array.shape, kind.dtype)
            got = (dtype, kind.kind, str(from_numpy_dtype(array.dtype)), f"({shape}")
            yield made(f"of dtype {dtype}", value, got=got, recast=True)
    if array.dtype.kind in "iu" and array.dtype.itemsize > 2 and array.size:
        for far in (1 << 20, -(1 << 20)):
            value = array.copy()
            value.flat[0] = far
            yield made(f"with {far}", value, got=(str(far), f"({shape}", " hold"), related=False)


def _as_other_static(case: Case, name: str, value: Any) -> Iterator[Mistake]:
    says = _annotation(case, name)
    words = set(says.split(" | "))
    given = _named(case)
    assert case.operation.public is not None
    parameter = inspect.signature(case.operation.public).parameters[name]
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return
    others: list[tuple[Any, bool]] = [(object, True)]
    if "object" not in says and "Any" not in says and "str" not in says:
        others.append(("text", True))
    if isinstance(value, str):
        others += [("nonsense", True), (7, words <= {"str", "None"})]
    elif isinstance(value, bool):
        others += [("yes", True), (None, "None" not in says)]
    elif isinstance(value, int):
        others += [(FAR, False), (-FAR, False), (HUGE, False), (1.5, words <= {"int", "None"})]
    elif isinstance(value, float):
        others += [(-value, False), (1j, words <= {"int", "float", "None"})]
    elif isinstance(value, DType):
        others += [("float99", True)]
    elif isinstance(value, tuple) and value and all(type(v) is int for v in value):
        others += [((*value, 1), False), (value[1:], False), ((-FAR, *value[1:]), False)]
        others += [((HUGE, *value[1:]), False), ((1.5, *value[1:]), "Sequence[int]" in words)]
    for other, certain in others:
        got: tuple[str, ...] = (repr(other), str(other), repr(other)[:40], type(other).__name__)
        if isinstance(other, tuple):
            got += tuple(repr(v) for v in other)
        args, kwargs = _rebound(case, {**given, name: other})
        yield Mistake(
            case, f"{name}={other!r}", name, got, args, kwargs, certain=bool(certain),
            recast=str(FAR) in repr(other),
        )  # fmt: skip


def _rebound(case: Case, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    assert case.operation.public is not None
    bound = inspect.BoundArguments(
        inspect.signature(case.operation.public),
        arguments,
    )
    return bound.args, dict(bound.kwargs)


def _as_other_signature(case: Case) -> Iterator[Mistake]:
    call = _same(case)
    assert case.operation.public is not None
    parameters = inspect.signature(case.operation.public).parameters
    kinds = [p.kind for p in parameters.values()]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        kwargs = {**call.kwargs, "nonsense": 1}
        yield replace(call, what="an unknown keyword", kwargs=kwargs, got=("",), certain=True)
    # A shape may come as sizes one by one, as many as there are.
    if inspect.Parameter.VAR_POSITIONAL not in kinds and next(iter(parameters), "") != "shape":
        args = (*call.args, *[1] * 12)
        yield replace(call, what="too many arguments", args=args, got=("",), certain=True)


def complaint(mistake: Mistake, where: str, elsewhere: str) -> str | None:
    """What is wrong with how a mistake is answered; None if all is well.

    Raises:
        LookupError: the call turned out to be right.
    """
    case = mistake.case
    public: Callable[..., Any] | None = case.operation.public
    assert public is not None
    arrays = arrays_of((mistake.args, mistake.kwargs))
    inputs = [
        asarray(a, device=elsewhere if i == mistake.elsewhere else where)
        for i, a in enumerate(arrays)
    ]  # fmt: skip
    args, kwargs = fill_arrays((mistake.args, mistake.kwargs), list(inputs))
    try:
        with device(where):
            result = public(*args, **kwargs)
            results = [r.numpy() for r in tensors_of(result)]
    except IngleError as error:
        return _judged(mistake, str(error))
    except TypeError as error:
        if not mistake.argument and "argument" in str(error):
            return None
        return f"a raw error: {error!r}"
    except Exception as error:
        return f"a raw error: {error!r}"
    return _answered(mistake, arrays, tensors_of(result), results)


def _answered(
    mistake: Mistake, arrays: list[np.ndarray], tensors: list[Tensor], results: list[np.ndarray]
) -> str | None:
    shapes = [r.shape for r in results]
    if mistake.elsewhere is not None and len({x.device for x in tensors}) > 1:
        raise LookupError("each tensor has a result of its own")
    if mistake.certain:
        return f"no error, but results of shapes {shapes}"
    if str(HUGE) in mistake.what:
        raise LookupError("no reference takes such numbers")
    sample = replace(mistake.case.sample, args=mistake.args, kwargs=mistake.kwargs)
    case = replace(mistake.case, sample=sample)
    try:
        oracle = Oracle(case, inexact=any(x.dtype.is_inexact for x in tensors))
        expected = oracle(oracle.arrays)
    except Exception as error:
        raise LookupError("the reference does not take such a call") from error
    viewed = tensors if sample.view is None else tensors_of(sample.view(*tensors))
    found = [x.numpy() for x in viewed]
    if [r.shape for r in found] != [e.shape for e in expected]:
        return (
            f"no error, but shapes {shapes}, where the reference has {[e.shape for e in expected]}"
        )
    if not mistake.recast and case.operation.traits.kind != "opaque":
        pairs = zip(found, expected, strict=True)
        wide = [(a.astype(np.complex128), e.astype(np.complex128)) for a, e in pairs]
        if not all(np.allclose(a, e, 1e-2, 1e-2, equal_nan=True) for a, e in wide):
            return "no error, and other values than the reference has"
    raise LookupError("the call is right")


def _judged(mistake: Mistake, message: str) -> str | None:
    names = names_of(mistake.case.operation)
    lacks = []
    if not any(re.search(rf"\b{re.escape(n)}(?![a-z])", message) for n in names):
        lacks.append("the operation")
    assert mistake.case.operation.public is not None
    parameters = list(inspect.signature(mistake.case.operation.public).parameters)
    wanted = parameters if mistake.related else [mistake.argument]
    if mistake.argument and not any(re.search(rf"\b{re.escape(w)}\b", message) for w in wanted):
        lacks.append(f"the argument {mistake.argument}")
    shapes = [f"({', '.join(map(str, a.shape))}" for a in arrays_of((mistake.args, mistake.kwargs))]
    if not any(g in message for g in (*mistake.got, *(shapes if mistake.related else ()))):
        lacks.append("what it got")
    if not EXPECTED.search(message):
        lacks.append("what was expected")
    return f"{message!r} does not say {' and '.join(lacks)}" if lacks else None
