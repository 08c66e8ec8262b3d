"""One run of a compiled function on promises, and the entry that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Backend, Handle, Scalar
from ingle.tensor.device import backend_of, staged_on
from ingle.tensor.followed import is_followed, is_number, plain, spelled
from ingle.tensor.operation import Op
from ingle.tensor.programs import written_down
from ingle.tensor.pytree import flatten, tree_map, unflatten
from ingle.tensor.transactions import current_scope, scope_of

from ..errors import CompileError, LeakError
from ..fusion import Fusion
from ..ir.graph import Donors, Graph, read_log
from ..record.log import LazyHandle, current
from ..record.tracing import Tracer, TracingScope
from .arguments import contents_of, structure_of, unchanged
from .attribute_reads import AttributeWatch, Place
from .snapshots import Same, Snapshot, content, is_users, seen, stays
from .specialization import Result, Specialization, found_at, is_twice


def recorded_run(function: Any, args: Any, kwargs: Any, leaves: list[Any]) -> RecordedRun:
    """Runs a function on promises in place of its arguments.

    Args:
        function: with what is passed to it.
        args, kwargs: the arguments.
        leaves: the values in them.
    """
    run = RecordedRun(function, leaves, _fusion_of(leaves))
    run.record(function, args, kwargs)
    return run


class RecordedRun:
    """One run of a function on promises; made by `recorded_run`.

    Attributes:
        fusion: where it runs.
        tracer, scope, watch: what it computes, and which cells and attributes it reads and writes.
        returned: its result.
    """

    returned: Any

    def __init__(self, function: Any, leaves: list[Any], fusion: Fusion) -> None:
        self.fusion = fusion
        self.tracer = Tracer(fusion)
        self.scope = TracingScope(self.tracer, current_scope())
        self.watch = AttributeWatch(function, leaves, self._promise)
        self._leaves = leaves
        self._numbers: list[int] = []
        self._promises: dict[int | Place, tuple[Tensor, Handle]] = {}
        self._given: dict[int, int] = {}

    def record(self, function: Any, args: Any, kwargs: Any) -> None:
        """Runs the function.

        Raises:
            CompileError: it changes a list, a dict or a set among its arguments.
        """
        given = [self._show(i, x) for i, x in enumerate(self._leaves)]
        self._given = {id(x): i for i, x in enumerate(given)}
        shown = unflatten((args, kwargs), given)
        before = structure_of(shown), contents_of(given)
        with self.tracer.active():
            self.scope.outside = self.tracer.outside
            recording = staged_on(self.fusion), scope_of(self.scope), written_down()
            with recording[0], recording[1], recording[2], self.watch.active():
                self.returned = function(*shown[0], **shown[1])
        self.scope.outside = None
        if not unchanged(shown, given, before):
            self._expire()
            raise CompileError(
                f"{getattr(function, '__name__', 'a function')} changes a list, a dict or a set "
                "among its arguments, which later calls of a compiled function would not do. "
                "Return what is new, or hold it in a Cell"
            )

    def _show(self, position: int, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            promise = self.tracer.promise(leaf, position)
            self._promises[position] = promise, promise._handle
            return promise
        if is_number(leaf):
            self._numbers.append(position)
            return self.tracer.tape.input(leaf)
        return leaf

    def _promise(self, tensor: Tensor, place: Place) -> Tensor | None:
        """For a tensor in an attribute of an argument: an input, too."""
        backend = tensor._handle.backend
        known = isinstance(backend, Fusion) and self.tracer.takes(backend)
        if not known and backend is not _outside(self.fusion):
            return None
        promise = self.tracer.promise(tensor, place)
        self._promises[place] = promise, promise._handle
        return promise

    def entry(self, known: Sequence[Specialization] = ()) -> tuple[Specialization, bool]:
        """What was recorded, and whether it can be run again.

        Args:
            known: former recordings, of which the same one lends its graph.
        """
        tracer, scope, tape = self.tracer, self.scope, self.tracer.tape
        outputs: list[int] = []
        results: list[Any] = []
        leaves = [self._result(x, outputs, results) for x in flatten(self.returned)]
        tree = tree_map(lambda _: None, self.returned)
        written = dict(scope.writes)
        for cell in scope.born:
            written.setdefault(cell, cell._value)
        writes = [(c, self._result(v, outputs, results)) for c, v in written.items()]
        rebound = self._rebound(outputs, results)
        repeats = not scope.born and all(
            r.kind != "fixed" or isinstance(r.data, Tensor) or stays(r.data) for _, r in writes
        )
        scalars = list(tracer.numbers)
        texts = tuple([spelled(tape, n) for n in (*scalars, *results)])
        sources = [g if s is None else s for g, s in zip(tracer.given, tracer.sources, strict=True)]
        numbers = [*self._numbers, *scope.counts]
        kinds = [type(x) for x in (*[self._leaves[i] for i in self._numbers], *scope.shown())]
        if len(numbers) != tape.count:
            raise CompileError("a number was taken from another recording")
        former = dict(known[0].fixed) if known else {}
        fixed = [(c, _snapshot(v, former.get(c))) for c, v in scope.fixed.items()]
        signature = (
            tuple(map(_entry_key, tracer.written)), tuple(outputs), tape.text, texts,
            tuple([tracer.contents.get(id(s), _place(s)) for s in sources]),
            tuple([_place(n) for n in numbers]), tuple(kinds),
            tuple([(Same(c), r.kind, self._key(r)) for c, r in writes]),
            tuple([(Same(c), s.key) for c, s in fixed]),
            tuple([_function_key(f) for f in tape.functions.values()]),
            tuple([(p, r.data) for p, r in rebound]),
            structure_of(self.returned, result=True),
            tuple([(r.kind, self._key(r)) for r in leaves]),
            tuple([(n, Same(b)) for n, b in tracer.places.items()]),
        )  # fmt: skip
        self._expire()
        same = next((e for e in known if e.signature == signature), None)
        graph = self._graph(outputs, sources, writes) if same is None else same.graph
        entry = Specialization(
            signature=signature, lines=list(tracer.lines), graph=graph,
            host=tape.program([*scalars, *results]), tape=tape.ended(), spelled=list(texts),
            scalars=len(scalars), sources=sources, numbers=numbers, kinds=kinds, fixed=fixed,
            results=_moved(leaves, len(scalars)), tree=tree, rebound=rebound,
            writes=[(c, _moved([r], len(scalars))[0]) for c, r in writes],
            shown={
                s: (g.shape, g.dtype)
                for s, g in zip(sources, tracer.given, strict=True) if isinstance(s, (Cell, Place))
            },
            backends={
                s: self._owner(g) for s, g in zip(sources, tracer.given, strict=True)
                if isinstance(s, (Cell, Place))
            },
            wrap=_wrapper(self.fusion),
            readings=[self.watch.readings],
            sample=(
                [repr(x) for x in (*[self._leaves[i] for i in self._numbers], *scope.shown())],
                tuple(map(plain, (*scalars, *results))),
            ),
        )  # fmt: skip
        return entry, repeats

    def _graph(
        self, outputs: Sequence[int], sources: Sequence[Any],
        writes: Sequence[tuple[Cell[Any], Result]],
    ) -> Graph:  # fmt: skip
        tracer = self.tracer
        graph = read_log(tracer.written, outputs, tracer.avals or ())
        graph.donors = _donors(graph, sources, writes)
        graph.places = dict(tracer.places)
        entries = zip(tracer.written, tracer.lines, strict=True)
        graph.lines = [line for entry, line in entries if isinstance(entry[0], Op)]
        return graph

    def _result(self, leaf: Any, outputs: list[int], results: list[Any]) -> Result:
        if isinstance(leaf, Tensor):
            handle = leaf._handle.detached()
            if isinstance(handle, LazyHandle) and handle.pending_in is self.tracer:
                outputs.append(handle.number)
                return Result("tensor", len(outputs) - 1)
            return Result("fixed", Tensor(handle))
        if is_followed(leaf):
            results.append(leaf)
            return Result("number", len(results) - 1)
        if id(leaf) in self._given and (is_users(type(leaf)) or not _is_plain(leaf)):
            return Result("argument", self._given[id(leaf)])
        return Result("fixed", plain(leaf))

    def _owner(self, handle: Handle) -> Backend:
        """The backend that the tensors' own handles are of, of which this is the one below."""
        group = self.fusion.group
        return _outside(self.fusion) if group is None else group.fusions[handle.backend]

    def _key(self, result: Result) -> Hashable:
        """Equal for what is the same in each run."""
        data = result.data
        if result.kind != "fixed":
            return (data,)
        if isinstance(data, Tensor):
            handle: Any = data._handle
            below = handle.value if isinstance(handle, LazyHandle) else handle
            return self.tracer.contents.get(id(below), Same(handle))
        kind: Any = type(data)
        return kind if is_users(type(data)) else content(data)

    def _rebound(
        self, outputs: list[int], results: list[Any]
    ) -> list[tuple[int | Place, Result]]:  # fmt: skip
        """Tensors among the arguments that were changed in place, such as by `x += 1`."""
        changed = [i for i, (x, handle) in self._promises.items() if x._handle is not handle]
        twice = next((i for i in changed if is_twice(i, self._promises, self._leaves)), None)
        if twice is not None:
            self._expire()
            raise CompileError(
                f"a tensor (shape {found_at(twice, self._leaves).shape}) is changed in place and "
                "comes twice among the arguments, so that only plain code knows which one is "
                "meant; pass it once, or a copy of it"
            )
        return [(i, self._result(self._promises[i][0], outputs, results)) for i in changed]

    def _expire(self) -> None:
        for handle in self.tracer.living():
            handle.pending_in = None
            handle.value = LeakError(
                f"this tensor (shape {handle.shape}, {handle.dtype}) is a promise of a compiled "
                "function that has returned; return it from the function, or keep it in a Cell"
            )


def _donors(
    graph: Graph, sources: Sequence[Any], writes: Sequence[tuple[Cell[Any], Result]]
) -> Donors:
    """Inputs that are what a cell held, with the outputs that are what it will hold."""
    places = {s: i for i, s in enumerate(sources) if isinstance(s, Cell)}
    pairs = [(places[c], r.data) for c, r in writes if r.kind == "tensor" and c in places]
    avals = [graph.values[n].aval for n in graph.inputs]
    return tuple(
        [((i,), (o,)) for i, o in pairs if avals[i] == graph.values[graph.outputs[o]].aval]
    )


def _moved(results: Sequence[Result], by: int) -> list[Result]:
    """Numbers that are returned lie behind the plan's scalars among what the host computes."""
    return [Result("number", r.data + by) if r.kind == "number" else r for r in results]


def _snapshot(x: Any, former: Snapshot | None) -> Snapshot:
    """A snapshot of a thing, or the former one if the thing is immutable and still the same."""
    return former if former is not None and former.thing is x is not None else Snapshot(x)


def _entry_key(entry: Any) -> Hashable:
    # The number itself is told apart by its key; NaN would not even equal itself.
    return (*entry[:3], repr(entry[3])) if entry[0] == "constant" else entry


def _place(source: Any) -> Hashable:
    return source if type(source) in (int, Place) else Same(source)


def _is_plain(leaf: Any) -> bool:
    return leaf is None or isinstance(leaf, (bool, str, bytes))


def _function_key(function: Callable[..., Any]) -> Hashable:
    """Equal for functions of the same code over the same things, made anew or not."""
    code = getattr(function, "__code__", None)
    if code is None:
        return seen(function)
    closed = [c.cell_contents for c in function.__closure__ or ()]
    return (code, *[seen(plain(x)) for x in (*(function.__defaults__ or ()), *closed)])


_fusions: dict[Backend, Fusion] = {}


def _fusion_of(leaves: Sequence[Any]) -> Fusion:
    """The decorator to record for: that of the first tensor's device, or of the default device."""
    first = next((x._handle.backend for x in leaves if isinstance(x, Tensor)), None)
    backend: Backend = first or backend_of(None)
    if isinstance(backend, Fusion):
        return backend
    fusion = _fusions.get(backend)
    if fusion is None:
        fusion = _fusions.setdefault(backend, Fusion(backend))
        _record_on(backend, fusion)
    return fusion


def _record_on(backend: Backend, fusion: Fusion) -> None:
    """Lets a device that runs operations at once record those of a function that is compiled.

    Its tensors are of the device's own backend: what the function computes of those around it
    alone would run while it is recorded, and be another constant in each recording.
    """

    def execute(op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        log = current.get()
        if log is not None and log.takes(fusion) and not log.interrupted():
            return fusion.execute(op, inputs)
        return type(backend).execute(backend, op, inputs)  # which somebody may watch

    backend.execute = execute  # type: ignore[method-assign]


def _outside(fusion: Fusion) -> Backend:
    """The device's own backend, which the handles of tensors are of."""
    return fusion.inner if fusion in _fusions.values() else fusion


def _wrapper(fusion: Fusion) -> Callable[[Handle], Handle]:
    """Results get handles of the device's own backend, which may be one that records or not."""
    if fusion.group is not None:
        return fusion.group.known
    return fusion.known if _outside(fusion) is fusion else (lambda handle: handle)
