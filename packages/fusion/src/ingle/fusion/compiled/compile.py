"""`compile`: a function that is recorded once and then run as one plan."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import ref

from ingle.tensor import Cell, Tensor, nan_watch
from ingle.tensor.callers import warn
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.locks import renewed
from ingle.tensor.pytree import flatten
from ingle.tensor.structure import epoch

from ..errors import CompileError, PlanWarning
from ..record.log import current
from ..runtime.plan_cache import prepare
from ..runtime.replay import Replay
from ..support.gc_pauses import uncollected
from .arguments import Gone, key_of, kind_of
from .fast_call import MISSED, bind, bindable
from .specialization import Missed, Specialization
from .specialize import recorded_run

MOST_RECORDED = 512
"""Kinds of arguments that a compiled function keeps recordings for."""
TOO_MANY = 1000
MOST_OF_ONE_KIND = 64
MOST_IN_VAIN, MOST_IN_VAIN_ALIKE = 24, 64
"""Recordings in a row of which none came again, after which a function is run plainly: of calls
with the same objects among the arguments, and with any objects."""

_NO_FUNCTION: Any = None
_NOTHING = "compile takes a function and nothing else; leave it out"
_INSTEAD = {
    "fullgraph": "a function is always compiled whole, or it is an error; leave it out",
    "dynamic": "sizes and numbers that change are found by themselves, and plans are made for all "
    "sizes at once from the third on; leave it out",
    "backend": "the device chooses what runs: `with it.device('cpu'): ...`, or tensors on another "
    "device",
    "mode": "there is one mode; what may be chosen are run_ahead(2), which runs plans in the "
    "background, and INGLE_FUSION_EXACT=1, which rounds after each operation",
    "options": "settings are environment variables such as INGLE_FUSION_EXACT; see docs/fusion.md",
    "disable": "call the function itself, which Compiled keeps as .function, or set INGLE_FUSION=0",
    "static_argnums": "whatever is no tensor and no number is a constant already; pass a number "
    "that shall be one as a string or in a frozenset, or bind it with functools.partial",
    "donate_argnums": "what cells held is written over where nobody else holds it; hold in a Cell "
    "what is replaced",
}  # fmt: skip
_INSTEAD["static_argnames"] = _INSTEAD["static_argnums"]
_INSTEAD["donate_argnames"] = _INSTEAD["donate_argnums"]

P = ParamSpec("P")
R = TypeVar("R")


def compile(
    function: Callable[P, R] = _NO_FUNCTION, *arguments: Any, **keywords: Any
) -> Compiled[P, R]:
    """The function, recorded at its first call and run as one plan from then on.

    Tensors, numbers and cells (so modules, optimizers and generators) are found by themselves:
    tensors and numbers among the arguments, however nested, may change from call to call, and
    cells that the function reads are read again. Everything else is a constant of the recording.
    Other shapes, dtypes and structures of arguments, and changes of modules, are recorded anew.

    The function's Python code runs at the first two calls only; the second is compared with the
    first, and a constant that has changed is an error that names the line.

    Args:
        function: of tensors, numbers, modules and anything hashable, in any nesting of tuples,
            lists and dicts. It must not read values of tensors.

    Raises:
        OperandError: it is not a function, or something stands behind it.
        ArgumentError: there is a keyword, such as one of `torch.compile`; it says what to do.
        CompileError: the function reads a value of a tensor, or does something else each time.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import compile
    >>> double = compile(lambda x: x + x)
    >>> [double(it.asarray(i)).item() for i in range(3)]
    [0, 2, 4]
    """
    if keywords:
        name = next(iter(keywords))
        raise ArgumentError(f"compile: there is no {name}=: {_INSTEAD.get(name, _NOTHING)}")
    if not callable(function):
        raise OperandError(
            f"compile: needs a function of tensors, got {type(function).__name__}; write "
            "compile(f)(x), or @compile above a function"
        )
    if arguments:
        raise OperandError(
            f"compile: got {type(arguments[0]).__name__} behind the function; compile(f) is a "
            "function, which takes the arguments of f: compile(f)(x)"
        )
    return Compiled(function)


class _Kept:
    """The recordings for one kind of arguments.

    Attributes:
        entries: the latest first.
        gone: tells when objects among the arguments are no more.
    """

    __slots__ = ("entries", "gone")

    def __init__(self) -> None:
        self.entries: list[Specialization] = []
        self.gone: Gone | None = None


class Compiled(Generic[P, R]):
    """What `compile` returns: call it like the function.

    Attributes:
        function: what was compiled.
        recordings: how often it was recorded.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import Compiled, compile
    >>> double = compile(lambda x: x * 2.0)
    >>> isinstance(double, Compiled), double(it.ones(3)).tolist(), double.recordings
    (True, [2.0, 2.0, 2.0], 1)
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.recordings = 0
        self._lock = renewed(self, "_lock")
        self._kept: dict[Hashable, _Kept] = {}
        self._in_vain: Counter[Hashable] = Counter()
        self._said = False
        self._fast: Callable[[Any], Any] | None = None
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if nan_watch.active and nan_watch.current() is not None:
            return self.function(*args, **kwargs)
        fast = self._fast
        if fast is not None and not kwargs:
            result = fast(args)
            if result is not MISSED:
                return result  # type: ignore[no-any-return]
        leaves = flatten((args, kwargs))
        if sys.is_finalizing() or current.get() is not None or any(_is_tracked(x) for x in leaves):
            return self.function(*args, **kwargs)
        key = key_of(args, kwargs, leaves)
        while True:
            kept, now = self._kept.get(key), epoch()
            for entry in () if kept is None else tuple(kept.entries):
                if entry.verified and now in entry.epochs:
                    try:
                        return self._run(entry, key, leaves, args, kwargs)
                    except Missed:
                        continue
            if self._in_vain and self._given_up(key):
                return self.function(*args, **kwargs)
            try:
                return self._record(key, args, kwargs, leaves)
            except Missed:
                continue  # another thread wrote cells between the recording and the run

    def _run(
        self, entry: Specialization, key: Hashable, leaves: list[Any], args: Any, kwargs: Any
    ) -> R:
        fits = bindable(args, kwargs)
        result: Any = entry.fast(args) if fits and entry.fast is not None else MISSED
        if result is MISSED:
            result = entry.run(leaves)
        self._not_in_vain(key)
        if fits:
            if entry.fast is None:
                entry.fast = bind(entry, args)
            self._fast = entry.fast
        return result  # type: ignore[no-any-return]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """As the function, compiled anew where it arrives: recordings belong to a process."""
        own = vars(self)
        module, name = own.get("__module__"), own.get("__qualname__", "")
        # A program's own module has the same name in every process, and other contents.
        if module != "__main__" and getattr(sys.modules.get(module or ""), name, None) is self:
            return str(name)
        return type(self), (self.function,)

    def _record(self, key: Hashable, args: Any, kwargs: Any, leaves: list[Any]) -> R:
        with self._lock, uncollected():
            kept = self._kept.get(key)
            if kept is None:
                kept = self._keep(key, leaves)
            self.recordings += 1
            self._fast = None  # so that `_run` hears of what is used
            now = epoch()
            before = kept.entries[0].why_not(leaves) if kept.entries else None
            recording = recorded_run(self.function, args, kwargs, leaves)
            entry, repeats = recording.entry(kept.entries)
            below = recording.fusion.inner
            if not repeats:
                several = bool(entry.graph.places)
                entry.executable = (prepare if several else Replay)(below, entry.graph)
                self._count(key, "which cells the function makes, or what it writes to them,")
                return entry.run(leaves, fresh=True)  # type: ignore[no-any-return]
            entries = kept.entries
            known = next((e for e in entries if e.signature == entry.signature), None)
            if known is None:
                _explain_change([e for e in entries if e.why_not(leaves) is None], entry)
                entry.executable = prepare(below, entry.graph)
                entries.insert(0, entry)
                del entries[MOST_OF_ONE_KIND:]
                known = entry
                self._count(key, before)
            else:
                if known.verified:
                    self._count(key, before)  # what was done is known, and was done all the same
                else:
                    self._not_in_vain(key)
                known.verified = True
                known.sample = entry.sample
                if not known.unchanged(leaves):
                    known.hold_for(entry.readings[0])
            if epoch() == now:
                known.hold(now)
            del recording, entry  # which hold what the run may write over
            return self._first_run(known, args, kwargs, leaves)

    def _first_run(self, entry: Specialization, args: Any, kwargs: Any, leaves: list[Any]) -> R:
        """Runs what was recorded just now.

        What writes cells runs as in later calls, over what these held: else a step of training
        would hold its state twice at its first calls, and never again.
        """
        if entry.writes and bindable(args, kwargs) and entry.planned(leaves):
            if entry.fast is None:
                entry.fast = bind(entry, args)
            result = entry.fast(args)
            if result is not MISSED:
                return result  # type: ignore[no-any-return]
        return entry.run(leaves, fresh=True)  # type: ignore[no-any-return]

    def _keep(self, key: Hashable, leaves: list[Any]) -> _Kept:
        """A place for recordings, until there are too many or an object of the key is no more."""
        kept = self._kept[key] = _Kept()
        while len(self._kept) > MOST_RECORDED:
            del self._kept[next(iter(self._kept))]
        mine = ref(self)

        def forget() -> None:
            compiled = mine()
            if compiled is not None and compiled._kept.pop(key, None) is not None:
                compiled._fast = None

        kept.gone = Gone(leaves, key, forget)
        return kept

    def _not_in_vain(self, key: Hashable) -> None:
        if self._in_vain:
            self._in_vain.pop(key, None)
            self._in_vain.pop(kind_of(key), None)

    def _given_up(self, key: Hashable) -> bool:
        """Whether too many recordings never came again, so that the function runs plainly now."""
        same, alike = self._in_vain[key], self._in_vain[kind_of(key)]
        return same >= MOST_IN_VAIN or alike >= MOST_IN_VAIN_ALIKE

    def _count(self, key: Hashable, cause: str | None) -> None:
        """Says once that a function is recorded again and again."""
        if len(self._in_vain) > MOST_RECORDED:
            self._in_vain.clear()
        self._in_vain.update({key, kind_of(key)})
        if self._given_up(key):
            self._say(cause or "an object among the arguments", "It runs without compile from here")
        elif self.recordings >= TOO_MANY:
            self._say("the shapes, or flags and texts among the arguments,", "")

    def _say(self, cause: str, what: str) -> None:
        if self._said:
            return
        self._said = True
        warn(
            f"{getattr(self.function, '__name__', 'a function')} was recorded {self.recordings} "
            f"times by compile: {cause} differs in nearly every call. Pass what changes as tensors "
            "or numbers in tuples, lists and dicts, or hold it in a Cell; use it.numbers in place "
            "of math, or it.on_host for other functions of numbers; pad to few shapes. "
            f"{what}".rstrip(),
            PlanWarning,
        )


def _is_tracked(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf._handle.backend.level > 0


def _explain_change(entries: list[Specialization], new: Specialization) -> None:
    """An error if an entry that nobody has confirmed was recorded differently this time."""
    for old in entries:
        if old.verified or epoch() not in old.epochs:
            continue
        raise CompileError(_difference(old, new))


def _difference(old: Specialization, new: Specialization) -> str:
    """The first difference between two recordings, with the line of the user's code."""
    head = "a compiled function must do the same at its first two calls: "
    for place, (a, b) in enumerate(zip(old.signature[0], new.signature[0], strict=False)):
        if a == b:
            continue
        line = new.lines[place]
        if a[0] == b[0] == "constant":
            return (
                f"{head}{line}: the number {a[3]} was {b[3]} the second time. Pass it as an "
                "argument or hold it in a Cell"
            )
        return f"{head}{line}: it was {_told(a)} first and {_told(b)} the second time"
    if len(old.signature[0]) != len(new.signature[0]):
        longer = max(old, new, key=lambda e: len(e.lines))
        place = min(len(old.lines), len(new.lines))
        return f"{head}{longer.lines[place]}: only one of the two calls came here"
    if old.signature[2:4] != new.signature[2:4]:
        return f"{head}numbers were computed differently:\n{old.signature[2]}\n\n{new.signature[2]}"
    known = {cell for cell, *_ in old.signature[7]}
    others = [type(cell.thing) for cell, *_ in new.signature[7] if cell not in known]
    if others:
        # What consists of cells, as a generator does, tells more than they do.
        kind = next((c for c in others if c is not Cell), others[0])
        return (
            f"{head}it wrote to another {kind.__name__} the second time. Make it once, outside of "
            "the function, or pass it as an argument"
        )
    return (
        f"{head}it took tensors from elsewhere. Pass tensors that change "
        "as arguments or hold them in a Cell"
    )


def _told(entry: Any) -> str:
    return f"a tensor of shape {entry[1]}" if entry[0] == "input" else repr(entry[0])
