"""Plans of logs: looked up by what was recorded, made where there is none yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from ingle.tensor.blocks import call_holding, holding
from ingle.tensor.contract import Aval, Backend, Handle, Scalar
from ingle.tensor.device import staged_on
from ingle.tensor.locks import renewed
from ingle.tensor.operation import typed_key

from ..ir.graph import Graph, LogEntry, Node, constant_entry, read_log
from ..record.cut_log import Cut, Part, in_pieces, live_nodes, pick, trimmed
from ..support.refcounts import PASSED_VARIABLE, may_overwrite
from .pending_checks import call_at
from .plan_codegen import DonationState
from .plan_keys import key_of_log


class PlanError(Exception):
    """A plan could not be made, or raised when it ran: the reason."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"{type(reason).__name__}: {reason}")
        self.reason = reason


class Executable(Protocol):
    """A planned graph: what `prepare` of a backend returns."""

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        """Runs it on the graph's inputs and scalars, and returns the graph's outputs."""
        ...


def _last_uses(uses: Sequence[Sequence[int]], kept: Iterable[int]) -> list[list[int]]:
    """For each step, given by the values that it uses, those that none uses after it."""
    seen = set(kept)
    dying: list[list[int]] = []
    for used in reversed(uses):
        mine = [n for n in dict.fromkeys(used) if n not in seen]
        seen.update(mine)
        dying.append(mine)
    return dying[::-1]


in_single_steps: ContextVar[bool] = ContextVar("ingle_single_steps", default=False)
"""Whether the operation at hand is of many parts that run one by one, like those around it."""


slices_left: ContextVar[list[int] | None] = ContextVar("ingle_slices_left", default=None)
"""How many more slices of planning a log that runs in pieces has time for; None for any number.

There is one for each piece, but the first pieces without a plan take several: so that few plans, of
which each has a thread of its own, are under way at a time.
"""


class Replay:
    """Runs a graph by `execute` of a backend, one operation after the other.

    So do the parts of an operation that stands for many. A plan for these alone would
    keep everybody waiting, and serve this run only: where the whole comes again, they are a part of
    its plan.
    """

    def __init__(self, backend: Backend, graph: Graph) -> None:
        self._backend = backend
        self._graph = graph
        live = live_nodes(graph)
        self._nodes = [node for node, lives in zip(graph.nodes, live, strict=True) if lives]
        # What is no result stays: it is given, or part of the graph.
        given = [n for n, value in enumerate(graph.values) if value.kind != "result"]
        uses = [(*node.args, *node.results) for node in self._nodes]
        self._last = _last_uses(uses, (*graph.outputs, *given))

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Any]:
        graph = self._graph
        known: dict[int, Any] = dict(zip(graph.inputs, given, strict=True))
        for number, value in enumerate(graph.values):
            if value.kind == "constant":
                known[number] = Scalar(value.data, value.aval.dtype)
        for number, x in zip(graph.scalars, numbers, strict=True):
            known[number] = Scalar(x, graph.values[number].aval.dtype)
        # What a composite's body creates belongs below, too.
        with staged_on(self._backend):
            for node, dying in zip(self._nodes, self._last, strict=True):
                results = self._execute(node, [known[a] for a in node.args])
                known.update(zip(node.results, results, strict=True))
                for number in dying:
                    del known[number]
        return [known[o] for o in graph.outputs]

    def _execute(self, node: Node, args: Sequence[Any]) -> Sequence[Any]:
        execute, inlined = self._backend.execute, node.op.operation.traits.inlined
        if inlined == in_single_steps.get():
            return execute(node.op, args)
        return call_holding(in_single_steps, inlined, execute, node.op, args)


class Attempt(Replay):
    """A replay that goes on: where an operation raises, what depends on it is that error, which
    names the operation's line if the graph knows it."""

    def __init__(self, backend: Backend, graph: Graph) -> None:
        super().__init__(backend, graph)
        lines = zip(graph.nodes, graph.lines, strict=False)
        self._lines = {node.results: line for node, line in lines}

    def _execute(self, node: Node, args: Sequence[Any]) -> Sequence[Any]:
        failed = next((a for a in args if isinstance(a, BaseException)), None)
        if failed is None:
            try:
                line = self._lines.get(node.results)
                return call_at(line, self._backend, super()._execute, node, args)
            except Exception as error:
                failed = error
        return [failed] * len(node.results)


def prepare(backend: Backend, graph: Graph) -> Executable:
    """The best way there is to run a graph on a backend."""
    planned: Callable[[Graph], Executable] | None = getattr(backend, "prepare", None)
    return Replay(backend, graph) if planned is None else planned(graph)


def with_donors(graph: Graph) -> Graph:
    """The graph, all of whose inputs may be written over that are as large as an output."""
    alike: dict[Aval, tuple[list[int], list[int]]] = {}
    for side, numbers in enumerate((graph.inputs, graph.outputs)):
        for place, number in enumerate(numbers):
            alike.setdefault(graph.values[number].aval, ([], []))[side].append(place)
    graph.donors = tuple([(tuple(i), tuple(o)) for i, o in alike.values() if i and o])
    return graph


def _form_of(
    key: tuple[Sequence[LogEntry], Sequence[int]], numbers: Sequence[Any], is_piece: bool
) -> _Form:
    """The form of a log.

    Args:
        key: the log and its outputs.
        numbers: those of its first run.
        is_piece: whether it is a part of a longer one, and nothing can be left out of it.
    """
    graph = read_log(*key)
    shorter = None if is_piece else trimmed(key[0], graph)
    if shorter is not None:
        return _Form(None, numbers, trimmed=shorter)
    cut = None if is_piece else in_pieces(graph)
    return _Form(graph if cut is None else None, numbers, cut=cut)


class _Form:
    """A log without the values of its numbers, and the plan that was made for it.

    A number is a constant of the plan until it comes with another value: then its position is an
    input for good.

    Attributes:
        trimmed: what runs in its place, if its outputs don't need all of it.
        cut: what runs in its place, if it is long and repeats.
        graph: the log read, until it has run once.

    Args:
        numbers: those of its first run.
    """

    def __init__(
        self, graph: Graph | None, numbers: Sequence[Any], *, trimmed: Part | None = None,
        cut: Cut | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.trimmed = trimmed
        self.cut = cut
        self.first = list(numbers)
        self.keys: list[Any] = [typed_key(n) for n in numbers]
        self.varying: list[bool] = [False] * len(numbers)
        self.executable: Executable | None = None
        self.key: str | None = None
        self.runs = 0
        self.lock = renewed(self, "lock")

    def fit(self, numbers: Sequence[Any]) -> None:
        """Notes which numbers have changed since the plan was made."""
        for i, (number, first) in enumerate(zip(numbers, self.first, strict=True)):
            # A literal of the user's code is the same object each time.
            if number is first or self.varying[i]:
                continue
            if typed_key(number) != self.keys[i]:
                self.varying[i] = True
                self.executable = None


class PlanCache:
    """Plans of one backend in a bounded table.

    A log that comes for the first time runs operation by operation, since most such logs never
    come again; from its second time on it is planned.

    Attributes:
        ends: for logs that were looked through for loops, after how many entries to run them.
    """

    def __init__(self, backend: Backend, most: int = 1024) -> None:
        self._backend = backend
        self._most = most
        self._lock = renewed(self, "_lock")
        self._forms: OrderedDict[Any, _Form] = OrderedDict()
        self.ends: OrderedDict[Any, int] = OrderedDict()

    def run(
        self,
        log: Sequence[LogEntry],
        outputs: Sequence[int],
        given: Sequence[Handle],
        numbers: Sequence[Any],
        donation: DonationState,
    ) -> list[Handle]:
        """Computes the outputs of a log; inputs that only `given` holds may be written over.

        Raises:
            PlanError: the log is due to run by a plan, which failed.
            Exception: an operation did, also one whose result nobody wants.
        """
        form, held = self._form((tuple(log), tuple(outputs)), numbers), PASSED_VARIABLE
        taken = given
        if form.trimmed is not None:
            log, outputs, inputs, scalars = form.trimmed
            taken, numbers = pick(given, inputs), pick(numbers, scalars)
            form = self._form((log, outputs), numbers)
            held += 1  # the list of all of them: it must live until they are counted
        if form.cut is not None:
            return self._run_pieces(form.cut, outputs, taken, numbers, donation.defers)
        return self._run(form, log, outputs, taken, numbers, donation, held)

    def _run_pieces(
        self, cut: Cut, outputs: Sequence[int], given: Sequence[Handle], numbers: Sequence[Any],
        defers: bool,
    ) -> list[Handle]:  # fmt: skip
        """One after the other; what lies between two may be written over, what was given not, so
        that a run that is broken off can begin again."""
        values: dict[int, Handle] = dict(zip(cut.inputs, given, strict=True))
        with holding(slices_left, [len(cut.pieces)]):
            return self._values(cut, values, numbers, outputs, defers)

    def _values(
        self, cut: Cut, values: dict[int, Handle], numbers: Sequence[Any],
        outputs: Sequence[int], defers: bool,
    ) -> list[Handle]:  # fmt: skip
        for piece in cut.pieces:
            taken = pick(values, piece.inputs)
            for value in piece.dying:
                del values[value]
            scalars = pick(numbers, piece.scalars)
            form = self._form((piece.entries, piece.outputs), scalars, is_piece=True)
            made = self._run(
                form, piece.entries, piece.outputs, taken, scalars,
                DonationState(defers=defers), PASSED_VARIABLE,
            )  # fmt: skip
            values.update(zip(piece.results, made, strict=True))
            del taken, made
        return pick(values, outputs)

    def _run(
        self, form: _Form, log: Sequence[LogEntry], outputs: Sequence[int], given: Sequence[Handle],
        numbers: Sequence[Any], donation: DonationState, held: int,
    ) -> list[Handle]:  # fmt: skip
        """`held`: how often an input that nobody else holds is counted; see `may_overwrite`."""
        with form.lock:
            # Threads may come with other numbers: what varies belongs to the plan made for it.
            form.fit(numbers)
            form.runs += 1
            if form.executable is None and form.runs > 1:
                form.executable = self._planned(log, outputs, numbers, form.varying)
                self._keep(form)
            elif form.executable is None:
                self._recall(form, log, outputs, numbers)
            executable, varying = form.executable, tuple(form.varying)
            graph, form.graph = form.graph, None
        if executable is None:
            return Replay(self._backend, graph or read_log(log, outputs))(given, numbers)
        rest = _those(numbers, varying)
        # The list and the loop hold each handle here that nobody else holds.
        donatable = [may_overwrite(None, None, h, held) for h in given]
        try:
            run_donating = getattr(executable, "run_donating", None)
            if run_donating is None:
                begin = getattr(executable, "begin", executable) if donation.defers else executable
                return begin(given, rest)
            outcome: list[Handle] = run_donating(given, rest, donatable, donation)
        except Exception as error:
            raise PlanError(error) from error
        return outcome

    def _planned(
        self, log: Sequence[LogEntry], outputs: Sequence[int], numbers: Sequence[Any],
        varying: Sequence[bool],
    ) -> Executable:  # fmt: skip
        fixed = _with_constants(log, numbers, varying)
        try:
            made = prepare(self._backend, with_donors(read_log(fixed, outputs)))
            if hasattr(made, "in_slices"):  # no step of plain code stalls
                made.in_slices = True
            return made
        except Exception as error:
            raise PlanError(error) from error

    def _recall(
        self, form: _Form, log: Sequence[LogEntry], outputs: Sequence[int], numbers: Sequence[Any]
    ) -> None:
        """Takes up the plan that another process has made of what is new here."""
        plan_store = getattr(self._backend, "plan_store", None)
        if plan_store is None:
            return
        form.key = key_of_log(log, outputs, numbers, plan_store.description())
        content = None if form.key is None else plan_store.get(f"form-{form.key}")
        if content is None or len(content) != len(numbers):
            return
        varying = [flag != 0 for flag in content]
        fixed = _with_constants(log, numbers, varying)
        executable = prepare(self._backend, with_donors(read_log(fixed, outputs)))
        recalled = getattr(executable, "recalled", None)
        if recalled is not None and recalled(_those(numbers, varying)):
            form.varying = varying
            form.executable = executable

    def _keep(self, form: _Form) -> None:
        """Says to later processes which numbers of the log vary."""
        plan_store = getattr(self._backend, "plan_store", None)
        if plan_store is not None and form.key is not None:
            plan_store.put(f"form-{form.key}", bytes(form.varying))

    def _form(self, key: Any, numbers: Sequence[Any], is_piece: bool = False) -> _Form:
        """The form of a log; the one used longest ago goes if there are too many."""
        with self._lock:
            form = self._forms.get(key)
            if form is None:
                form = self._forms[key] = _form_of(key, numbers, is_piece)
                while len(self._forms) > self._most:
                    self._forms.popitem(last=False)
            else:
                self._forms.move_to_end(key)
            return form


def _those(numbers: Sequence[Any], varying: Sequence[bool]) -> list[Any]:
    return [n for n, varies in zip(numbers, varying, strict=True) if varies]


def _with_constants(
    log: Sequence[LogEntry], numbers: Sequence[Any], varying: Sequence[bool]
) -> list[LogEntry]:
    """The log with those numbers written in that do not vary."""
    rest = iter(zip(numbers, varying, strict=True))
    fixed: list[LogEntry] = []
    for entry in log:
        if entry[0] == "scalar":
            number, varies = next(rest)
            fixed.append(entry if varies else constant_entry(number, entry[1]))
        else:
            fixed.append(entry)
    return fixed
