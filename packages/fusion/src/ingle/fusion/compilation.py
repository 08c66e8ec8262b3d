"""`compile`: a function that is recorded once and then run as one plan."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell, current_scope, scope_of
from ingle.tensor.contract import Backend, Handle
from ingle.tensor.device import backend_of, staged_on
from ingle.tensor.errors import OperandError
from ingle.tensor.numbers import is_followed, plain, spelled
from ingle.tensor.programs import written_down
from ingle.tensor.pytree import flatten, tree_map, unflatten
from ingle.tensor.structure import epoch

from .ambient import ambient
from .binding import MISSED, bind, bindable
from .entries import Entry, Missed, Result
from .errors import CompileError, LeakError
from .fusion import Fusion
from .graph import Graph, read_log
from .plans import Replay, prepare
from .recorder import LazyHandle, current
from .staging import Staging, StagingScope

MOST_RECORDED = 512
"""Kinds of arguments that a compiled function keeps recordings for."""
TOO_MANY = 1000

P = ParamSpec("P")
R = TypeVar("R")


def compile(function: Callable[P, R]) -> Compiled[P, R]:
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
        OperandError: it is not a function.
        CompileError: the function reads a value of a tensor, or does something else each time.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import compile
    >>> double = compile(lambda x: x + x)
    >>> [double(it.asarray(i)).item() for i in range(3)]
    [0, 2, 4]
    """
    if not callable(function):
        raise OperandError(
            f"compile: needs a function of tensors, got {type(function).__name__}; write "
            "compile(f)(x), or @compile above a function"
        )
    return Compiled(function)


class Compiled(Generic[P, R]):
    """What `compile` returns: call it like the function.

    Attributes:
        function: what was compiled.
        recordings: how often it was recorded.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.recordings = 0
        self._lock = threading.RLock()
        self._entries: dict[Hashable, list[Entry]] = {}
        self._fast: Callable[[Any], Any] | None = None
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        fast = self._fast
        if fast is not None and not kwargs:
            result = fast(args)
            if result is not MISSED:
                return result  # type: ignore[no-any-return]
        leaves = flatten((args, kwargs))
        if current.get() is not None or any(_is_tracked(x) for x in leaves):
            return self.function(*args, **kwargs)
        key = _key(args, kwargs, leaves)
        now = epoch()
        for entry in self._entries.get(key, ()):
            if entry.verified and now in entry.epochs:
                try:
                    return self._run(entry, leaves, args, kwargs)
                except Missed:
                    continue
        return self._record(key, args, kwargs, leaves)

    def _run(self, entry: Entry, leaves: list[Any], args: Any, kwargs: Any) -> R:
        result: R = entry.run(leaves)
        if bindable(args, kwargs):
            if entry.fast is None:
                entry.fast = bind(entry, args)
            self._fast = entry.fast
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _record(self, key: Hashable, args: Any, kwargs: Any, leaves: list[Any]) -> R:
        with self._lock:
            self.recordings += 1
            now = epoch()
            recording = Recording(self.function, args, kwargs, leaves)
            entry, repeats = recording.entry()
            below = recording.fusion.inner
            if not repeats:
                entry.executable = Replay(below, entry.graph)
                return entry.run(leaves)  # type: ignore[no-any-return]
            entries = self._entries.setdefault(key, [])
            self._stay_small()
            known = next((e for e in entries if e.signature == entry.signature), None)
            if known is None:
                _explain_change([e for e in entries if e.holds(leaves)], entry)
                entry.executable = prepare(below, entry.graph)
                entries.insert(0, entry)
                known = entry
            else:
                known.verified = True
            if epoch() == now:
                known.hold(now)
            return known.run(leaves)  # type: ignore[no-any-return]

    def _stay_small(self) -> None:
        """Forgets what was recorded first, and says so once if recordings never end."""
        if len(self._entries) > MOST_RECORDED:
            del self._entries[next(iter(self._entries))]
        if self.recordings == TOO_MANY:
            warnings.warn(
                f"{getattr(self.function, '__name__', 'a function')} was recorded {TOO_MANY} "
                "times by compile: its shapes, its Python arguments or attributes of its modules "
                "differ in nearly every call. Pad to few shapes, pass numbers as arguments or hold "
                "them in a Cell, or call it without compile",
                stacklevel=4,
            )


def _is_tracked(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf._handle.backend.level > 0


def _key(args: Any, kwargs: Any, leaves: list[Any]) -> Hashable:
    return _structure((args, kwargs)), tuple([_leaf_key(x) for x in leaves]), ambient()


def _structure(tree: Any) -> Hashable:
    if isinstance(tree, dict):
        return (dict, tuple([(k, _structure(v)) for k, v in tree.items()]))
    if isinstance(tree, (tuple, list)):
        return (type(tree), *[_structure(v) for v in tree])
    return None


def _leaf_key(x: Any) -> Hashable:
    if isinstance(x, Tensor):
        handle = x._handle
        return (handle.shape, handle.dtype, handle.backend.device)
    if type(x) in (int, float):
        return (type(x),)
    if isinstance(x, np.ndarray):
        raise CompileError(
            f"a NumPy array (shape {x.shape}, {x.dtype}) among the arguments would be a constant; "
            "pass it.asarray(x)"
        )
    if type(x) is bool or x is None or isinstance(x, str):
        return (type(x), x)
    return _Same(x)


class _Same:
    """A key that equals itself for the same object only, and keeps it alive."""

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and other.thing is self.thing


class Recording:
    """One run of a function on promises."""

    def __init__(self, function: Any, args: Any, kwargs: Any, leaves: list[Any]) -> None:
        self.fusion = _fusion_of(leaves)
        self.staging = Staging(self.fusion)
        self.scope = StagingScope(self.staging, current_scope())
        self._numbers: list[Any] = []
        shown = [self._show(i, x) for i, x in enumerate(leaves)]
        args, kwargs = unflatten((args, kwargs), shown)
        recording = self.staging.active(), staged_on(self.fusion), scope_of(self.scope)
        with recording[0], recording[1], recording[2], written_down():
            self.returned = function(*args, **kwargs)

    def _show(self, position: int, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return self.staging.promise(leaf, position)
        if type(leaf) in (int, float):
            self._numbers.append(position)
            return self.staging.tape.input(leaf)
        return leaf

    def entry(self) -> tuple[Entry, bool]:
        """What was recorded, and whether it can be run again."""
        staging, scope = self.staging, self.scope
        outputs: list[int] = []
        results: list[Any] = []
        leaves = [self._result(x, outputs, results) for x in flatten(self.returned)]
        tree = tree_map(lambda _: None, self.returned)
        written = dict(scope.writes)
        for cell in scope.born:
            written.setdefault(cell, cell._value)
        writes = [(c, self._result(v, outputs, results)) for c, v in written.items()]
        repeats = not scope.born and all(
            r.kind != "fixed" or isinstance(r.data, (int, float, Tensor)) for _, r in writes
        )
        scalars = list(staging.numbers)
        tape = staging.tape
        texts = tuple([spelled(tape, n) for n in (*scalars, *results)])
        sources = [
            g if s is None else s for g, s in zip(staging.given, staging.sources, strict=True)
        ]
        numbers = [*self._numbers, *scope.counts]
        if len(numbers) != tape.count:
            raise CompileError("a number was taken from another recording")
        signature = (
            tuple(staging.written), tuple(outputs), tape.text, texts,
            tuple([staging.contents.get(id(s), _place(s)) for s in sources]),
            tuple([_place(n) for n in numbers]),
            tuple([(_Same(c), r.kind, _plain_key(r.data)) for c, r in writes]),
            tuple([(_Same(c), _Same(v)) for c, v in scope.fixed.items()]),
        )  # fmt: skip
        self._expire()
        host = tape.program([*scalars, *results])
        avals = {
            s: (g.shape, g.dtype)
            for s, g in zip(sources, staging.given, strict=True)
            if isinstance(s, Cell)
        }
        graph = read_log(staging.written, outputs)
        graph.donors = _donors(graph, sources, writes)
        entry = Entry(
            signature=signature, lines=list(staging.lines), graph=graph, host=host,
            lines_of_host=list(tape.lines), spelled=list(texts), scalars=len(scalars),
            sources=sources, numbers=numbers, fixed=list(scope.fixed.items()),
            results=_moved(leaves, len(scalars)), tree=tree,
            writes=[(c, _moved([r], len(scalars))[0]) for c, r in writes], avals=avals,
            wrap=_wrapper(self.fusion),
        )  # fmt: skip
        return entry, repeats

    def _result(self, leaf: Any, outputs: list[int], results: list[Any]) -> Result:
        if isinstance(leaf, Tensor):
            handle = leaf._handle.detached()
            if isinstance(handle, LazyHandle) and handle.recorder is self.staging:
                outputs.append(handle.number)
                return Result("tensor", len(outputs) - 1)
            return Result("fixed", Tensor(handle))
        if is_followed(leaf):
            results.append(leaf)
            return Result("number", len(results) - 1)
        return Result("fixed", plain(leaf))

    def _expire(self) -> None:
        for handle in self.staging.living():
            handle.recorder = None
            handle.value = LeakError(
                f"this tensor (shape {handle.shape}, {handle.dtype}) is a promise of a compiled "
                "function that has returned; return it from the function, or keep it in a Cell"
            )


def _donors(
    graph: Graph, sources: Sequence[Any], writes: Sequence[tuple[Cell[Any], Result]]
) -> tuple[tuple[int, int], ...]:
    """Inputs that are what a cell held, with the outputs that are what it will hold."""
    places = {s: i for i, s in enumerate(sources) if isinstance(s, Cell)}
    pairs = [(places[c], r.data) for c, r in writes if r.kind == "tensor" and c in places]
    avals = [graph.values[n].aval for n in graph.inputs]
    return tuple([(i, o) for i, o in pairs if avals[i] == graph.values[graph.outputs[o]].aval])


def _moved(results: Sequence[Result], by: int) -> list[Result]:
    """Numbers that are returned lie behind the plan's scalars among what the host computes."""
    return [Result("number", r.data + by) if r.kind == "number" else r for r in results]


def _place(source: Any) -> Hashable:
    return source if type(source) is int else _Same(source)


def _plain_key(data: Any) -> Hashable:
    return (type(data), data) if isinstance(data, (int, float)) else _Same(data)


_fusions: dict[Backend, Fusion] = {}


def _fusion_of(leaves: Sequence[Any]) -> Fusion:
    """The decorator to record for: that of the first tensor's device, or of the default device."""
    first = next((x._handle.backend for x in leaves if isinstance(x, Tensor)), None)
    backend: Backend = first or backend_of(None)
    if isinstance(backend, Fusion):
        return backend
    return _fusions.setdefault(backend, Fusion(backend))


def _wrapper(fusion: Fusion) -> Callable[[Handle], Handle]:
    """Results get handles of the device's own backend, which may be one that records or not."""
    return (lambda handle: handle) if fusion in _fusions.values() else fusion.known


def _explain_change(entries: list[Entry], new: Entry) -> None:
    """An error if an entry that nobody has confirmed was recorded differently this time."""
    for old in entries:
        if old.verified or epoch() not in old.epochs:
            continue
        raise CompileError(_difference(old, new))


def _difference(old: Entry, new: Entry) -> str:
    """What the second recording did otherwise than the first, with the line that asked for it."""
    head = "a compiled function must do the same at its first two calls: "
    for place, (a, b) in enumerate(zip(old.signature[0], new.signature[0], strict=False)):
        if a == b:
            continue
        line = new.lines[place]
        if a[0] == b[0] == "constant":
            return (
                f"{head}{line}: the number {a[3]!r} was {b[3]!r} the second time. Pass it as an "
                "argument or hold it in a Cell"
            )
        return f"{head}{line}: it was {_told(a)} first and {_told(b)} the second time"
    if len(old.signature[0]) != len(new.signature[0]):
        longer = max(old, new, key=lambda e: len(e.lines))
        place = min(len(old.lines), len(new.lines))
        return f"{head}{longer.lines[place]}: only one of the two calls came here"
    if old.signature[2:4] != new.signature[2:4]:
        return f"{head}numbers were computed differently:\n{old.signature[2]}\n\n{new.signature[2]}"
    return (
        f"{head}it took tensors from elsewhere, or wrote to other cells. Pass tensors that change "
        "as arguments or hold them in a Cell"
    )


def _told(entry: Any) -> str:
    return f"a tensor of shape {entry[1]}" if entry[0] == "input" else repr(entry[0])
