"""Calls of public functions whose operations are known: they are found by their arguments.

What a function does before its operations run, such as to check arguments, promote dtypes and
normalise axes, follows from the shapes and dtypes of its tensors and from its other arguments. A
call that comes again finds the operations that it came to, and runs them.

Only calls that went well are known, of functions that are named here, on backends that have a table
for them. What is around a call (mixed precision, other default dtypes, a watcher) has it worked out
as if it were new.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from . import dispatch
from .call_steps import CallSteps, Result
from .contract import Backend, Handle, Scalar
from .device import made_backend
from .dtypes import DType, changed, others
from .errors import OperandError
from .interruptions import is_from_outside
from .operation import typed_key
from .precision import low, used
from .probing import steps_of
from .static_values import SymbolicInt

FUNCTIONS = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "astype", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "broadcast_to", "chunk", "clip", "concat",
    "cross_entropy", "cumulative_sum", "diagonal", "embedding", "expand_dims", "flatten",
    "flip", "full_like", "gelu", "group_norm", "hstack", "huber_loss", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "linear", "log_softmax", "logsumexp", "masked_fill", "max",
    "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis", "mse_loss", "nansum",
    "nll_loss", "one_hot", "ones_like", "outer", "pad", "permute_dims", "prod", "relu",
    "repeat", "reshape", "rms_norm", "roll", "silu", "smooth_l1_loss", "softmax", "softmin",
    "sort", "split", "squeeze", "stack", "std", "sum", "swapaxes", "take", "take_along_axis",
    "tile", "topk", "trace", "tril", "triu", "unstack", "var", "vecdot", "vector_norm",
    "vstack", "where", "zeros_like",
})  # fmt: skip
"""Functions that look at nothing but their arguments, at no element of a tensor, and at no number
that is annotated as an operand."""
CREATIONS = frozenset({"arange", "empty", "eye", "full", "linspace", "ones", "zeros"})
"""Likewise functions that take no tensor, and make one on the default device."""

MOST = 1024
"""Calls that a backend knows, and as many that it has seen once."""

_PLAIN = frozenset({int, bool, str, type(None), type(Ellipsis), DType})
_NOWHERE = object()
"""No recording: no handle waits there."""
P = ParamSpec("P")
R = TypeVar("R")
Function: TypeAlias = Callable[..., Any]
Args: TypeAlias = tuple[Any, ...]
Options: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]


class Prepares(Protocol):
    """What a backend with a table of known calls has besides its other methods."""

    prepared: PreparedCalls

    def take_steps(self, steps: CallSteps, values: list[Handle | Scalar]) -> Sequence[Handle]:
        """The results of a known call.

        Args:
            steps: the operations.
            values: handles and numbers of the call, and its constants; may be appended to.
        """


class Recording(Protocol):
    """Where values wait that are recorded, each of which has a number there.

    Attributes:
        at: None where no call is known.
        backend: whose operations are recorded.
    """

    at: object
    backend: Prepares

    def answered(self, key: Key, given: list[Any]) -> Handle | Sequence[Handle] | None:
        """What a public call returns that has come here before; None for others.

        Args:
            key: the call, with the numbers of what waits here.
            given: the other handles that it takes, and numbers, in order.
        """

    def note_call(self, given: list[Any], steps: CallSteps, count: int, handle: Handle) -> None:
        """Is told what a call came to that was not answered.

        Args:
            given: as it was asked for.
            steps: what has run.
            count: how many handles and numbers it took, with those that wait here.
            handle: the first one that it returned.
        """


class PreparedCalls:
    """What calls of public functions come to on one backend, which runs them by `take_steps`.

    Attributes:
        known: by what tells calls apart; None for calls that are always worked out.
    """

    def __init__(self) -> None:
        self.known: dict[Key, CallSteps | None] = {}
        self._former: dict[Key, CallSteps | None] = {}
        self._seen: set[Key] = set()

    def keep(self, key: Key, found: CallSteps | None) -> None:
        """Knows a call from now on, unless its sizes are those of one plan that is being made."""
        if _is_of_a_plan(key):
            return
        if len(self.known) >= MOST // 2:
            # What is not asked for until there are as many others is forgotten, and no more: code
            # that slices to ever other sizes makes all of its other calls between.
            self._former, self.known = self.known, {}
        self.known[key] = found

    def former(self, key: Key) -> CallSteps | None:
        """A call that was known until others came, and is again from now on."""
        found = self._former.pop(key, None)
        if found is not None:
            self.keep(key, found)
        return found

    def note(
        self,
        key: Key,
        backend: Backend,
        function: Function,
        args: Args,
        options: Options,
        weak: bool,
        is_body: bool = False,
    ) -> None:
        """Takes notice of a call that is not known; what comes twice is, from then on."""
        if _is_of_a_plan(key):
            return
        if key not in self._seen:
            if len(self._seen) >= MOST:
                self._seen.clear()
            self._seen.add(key)
            return
        self._seen.discard(key)
        try:
            found = steps_of(backend, function, args, options, weak, is_body)
        except Exception as error:  # what is wrong with the call, it will say itself
            if is_from_outside(error):
                raise
            found = None
        self.keep(key, found)


def _is_of_a_plan(key: Key) -> bool:
    """Whether a call is on sizes that stand for many, as bodies of operations are called while they
    are planned: these never come again, and hold on to what was asked of them."""
    sizes = [n for part in key if type(part) is tuple for n in part]
    return any(isinstance(n, SymbolicInt) for n in sizes)


def prepared_calls(backend: Any) -> PreparedCalls | None:
    """The calls that a backend knows; None if it has no table, or something around has an effect
    on what calls come to."""
    if dispatch.watched() or (used.ever and low.get() is not None):
        return None
    if changed.ever and others.get():
        return None
    return getattr(backend, "prepared", None)


def known_calls(function: Function) -> Callable[[Function, Args, Options], Result | None] | None:
    """What answers the calls of a public function that are known, and others with None; None for
    functions that are not among `FUNCTIONS`."""
    creates = function.__name__ in CREATIONS
    if not creates and function.__name__ not in FUNCTIONS:
        return None
    weak = any(a.startswith("Operand") for a in map(str, function.__annotations__.values()))
    return _answering(creates, weak)


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a public function that looks at nothing but its arguments, and is a call by itself:
    what it comes to is known when it comes again."""
    answer = _answering(creates=False, weak=False)

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        found: Any = answer(call, args, options)
        return function(*args, **options) if found is None else found

    return call


def _answering(
    creates: bool, weak: bool, is_body: bool = False
) -> Callable[[Function, Args, Options], Result | None]:
    def answer(call: Function, args: Args, options: Options) -> Result | None:
        values = (*args, *options.values()) if options else args
        log: Any = None
        asked: list[Any] = []
        if args:
            x = args[0]
            if type(x) is list and x:
                x = x[0]
            if type(x) is dispatch.tensor_type:
                log = x._handle.pending_in  # type: ignore[attr-defined]
        if log is not None:
            key: list[Any] = [call, *options]
            known = getattr(log, "at", None) is not None and prepared_calls(log.backend) is not None
            if known and _read(values, weak, key, asked, log):
                made = log.answered(tuple(key), asked)
                if made is None:
                    pass
                elif type(made) is tuple:
                    return tuple(map(dispatch.wrap, made))
                else:
                    return dispatch.wrap(made)
            else:
                log = None
        key = [call, *options]
        given: list[Any] = []
        if not _read(values, weak, key, given):
            return None
        backend: Any = None
        for x in given:
            if type(x) is float or x.backend is backend:
                continue
            if backend is None or getattr(x.backend, "inner", None) is backend:
                backend = x.backend
            elif getattr(backend, "inner", None) is not x.backend:
                return None
        if creates is not (backend is None):
            return None
        if creates:
            backend = made_backend()
        calls = prepared_calls(backend)
        if calls is None:
            return None
        found = calls.known.get(tuple(key), calls)
        if type(found) is CallSteps:
            count = len(given)
            result = found.run(backend, given)
            if log is not None:
                first: Any = result[0] if type(result) is tuple else result
                log.note_call(asked, found, count, first._handle)
            return result
        if found is calls:
            former = calls.former(tuple(key))
            if former is not None:
                return former.run(backend, given)
            calls.note(tuple(key), backend, call, args, options, weak, is_body)
        return None

    return answer


known_body = _answering(creates=False, weak=False, is_body=True)
"""What answers a call of an operation's body, with its operands and attributes, that is known on
the backend of the operands."""


def _read(
    values: Sequence[Any], weak: bool, key: list[Any], given: list[Any], log: object = _NOWHERE
) -> bool:
    """Appends to a key what tells some arguments from others, and to what is given the handles and
    numbers that may be others; whether these are arguments that can be told apart.

    A handle that waits in `log` is told from others by its number there, and is not given.
    """
    tensor = dispatch.tensor_type
    for x in values:
        kind = type(x)
        if kind is tensor:
            handle = x._handle
            if handle.pending_in is log:
                key.append(handle.number)
            else:
                given.append(handle)
                key += (handle.shape, handle.dtype)
        elif kind in _PLAIN:
            key += (kind, x)
        elif kind is float and weak:
            given.append(x)
            key.append(kind)
        elif kind is float:
            key.append(typed_key(x))
        elif kind is tuple or kind is list:
            key += (kind, len(x))
            if not _read(x, weak, key, given, log):
                return False
        elif kind is slice:
            # A tensor there is a number that is read, and no operand that a call could be known by.
            bounds = x.start, x.stop, x.step
            if any([type(n) not in _PLAIN for n in bounds]):  # noqa: C419 (faster)
                return False
            key.append(kind)
            for n in bounds:
                key += (type(n), n)
        else:
            show = getattr(kind, "__ingle_tensor__", None)
            if show is None:
                return False
            try:
                handle = show(x)._handle
            except OperandError:  # a cell that holds a number
                return False
            given.append(handle)
            key += (handle.shape, handle.dtype)
    return True
