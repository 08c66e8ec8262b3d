"""Plans of logs: looked up by what was recorded, made where there is none yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from ingle.tensor.blocks import holding
from ingle.tensor.contract import Aval, Backend, Handle
from ingle.tensor.locks import renewed

from ..ir.graph import Graph, LogEntry, Value, read_log
from ..record.cut_log import Cut, avals_of_live, avals_of_piece, pick
from ..support.gc_pauses import uncollected
from ..support.refcounts import PASSED_ITEM, may_overwrite
from ..support.share_of_time import ShareOfTime
from ..support.time_slices import slices_left
from .later_plans import FEWEST, PAUSE, LaterPlans
from .log_families import Example, LogFamilies, LogFamily, SizedPlans
from .log_forms import Known, LogForm, log_form
from .pending_checks import checked_together
from .plan_codegen import DonationState
from .plan_keys import key_of_log
from .replay import Replay

LASTING = 4
"""Runs after which a plan that was filled in is worth a place on disk."""
KEEPING = 0.1
"""The part of the time at most in which such plans are written there: each takes as long as some
runs, and those of a program that comes to many sizes again would all be written in one go."""


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


class PlanCache:
    """Plans of one backend in a bounded table.

    A log that comes for the first time runs operation by operation, since most such logs never
    come again; from its second time on it is planned.

    Attributes:
        ends: for logs that were looked through for loops, after how many entries to run them.
        keeping: the time in which plans are kept on disk that were filled in.
        later: plans that are made for later processes.
    """

    def __init__(self, backend: Backend, most: int = 1024) -> None:
        self._backend = backend
        self._most = most
        self._lock = renewed(self, "_lock")
        self._forms: OrderedDict[Any, LogForm] = OrderedDict()
        self._families = LogFamilies()
        self.keeping = ShareOfTime(KEEPING)
        self.later = LaterPlans(pause=PAUSE)
        self.ends: OrderedDict[Any, int] = OrderedDict()

    def run(
        self,
        log: Sequence[LogEntry],
        outputs: Sequence[int],
        given: Sequence[Handle],
        numbers: Sequence[Any],
        donation: DonationState,
        known: Known | None = None,
    ) -> list[Handle]:
        """Computes the outputs of a log; inputs that only `given` holds may be written over.

        Args:
            log, outputs, given, numbers: what is computed, of what.
            donation: what holds if this raises.
            known: tells what the results of the log's first operations are like.

        Raises:
            PlanError: the log is due to run by a plan, which failed.
            Exception: an operation did, also one whose result nobody wants.
        """
        form = self._form((tuple(log), tuple(outputs)), numbers, known=known)
        held = PASSED_ITEM - 1
        taken, donation.again, form.came = given, form.came, True
        if form.trimmed is not None:
            log, outputs, inputs, scalars = form.trimmed
            taken, numbers = pick(given, inputs), pick(numbers, scalars)
            graph = form.read()
            known = None if graph is None else partial(avals_of_live, graph)
            form = self._form((log, outputs), numbers, known=known)
            held += 1  # the list of all of them: it must live until they are counted
        if form.cut is not None:
            return self._run_pieces(form, form.cut, outputs, taken, numbers, donation.defers)
        return self._run(form, log, outputs, taken, numbers, donation, held)

    def _run_pieces(
        self, form: LogForm, cut: Cut, outputs: Sequence[int], given: Sequence[Handle],
        numbers: Sequence[Any], defers: bool,
    ) -> list[Handle]:  # fmt: skip
        """One after the other; what lies between two may be written over, what was given not, so
        that a run that is broken off can begin again."""
        values: dict[int, Handle] = dict(zip(cut.inputs, given, strict=True))
        with holding(slices_left, [len(cut.pieces)]):
            return self._values(form.read(), cut, values, numbers, outputs, defers)

    def _values(
        self, graph: Graph | None, cut: Cut, values: dict[int, Handle], numbers: Sequence[Any],
        outputs: Sequence[int], defers: bool,
    ) -> list[Handle]:  # fmt: skip
        for piece in cut.pieces:
            taken = pick(values, piece.inputs)
            for value in piece.dying:
                del values[value]
            scalars = pick(numbers, piece.scalars)
            known = None if graph is None else partial(avals_of_piece, graph, piece)
            form = self._form((piece.entries, piece.outputs), scalars, is_piece=True, known=known)
            made = self._run(
                form, piece.entries, piece.outputs, taken, scalars,
                DonationState(defers=defers), PASSED_ITEM - 1,
            )  # fmt: skip
            values.update(zip(piece.results, made, strict=True))
            del taken, made
        return pick(values, outputs)

    def _run(
        self, form: LogForm, log: Sequence[LogEntry], outputs: Sequence[int],
        given: Sequence[Handle], numbers: Sequence[Any], donation: DonationState, held: int,
    ) -> list[Handle]:  # fmt: skip
        """`held`: how often an input that nobody else holds is counted; see `may_overwrite`."""
        with form.lock:
            # Threads may come with other numbers: what varies belongs to the plan made for it.
            form.fit(numbers)
            form.runs += 1
            if form.executable is None and form.runs > 1:
                form.executable = self._planned(log, outputs, numbers, form)
                self._keep(form)
            elif form.executable is None:
                self._take_up(form, log, outputs, numbers)
            if form.filled is not None and form.runs >= LASTING:
                self._keep_filled(form, log, outputs, numbers)
            executable, varying = form.executable, tuple(form.varying)
            graph = form.read()
        if executable is None:
            with nullcontext() if form.family is None else form.family.alone.measured():
                replay = Replay(self._backend, graph or read_log(log, outputs))
                return checked_together(self._backend, donation.defers, replay, given, numbers)
        rest = _those(numbers, varying)
        try:
            run_donating = getattr(executable, "run_donating", None)
            if run_donating is None:
                begin = getattr(executable, "begin", executable) if donation.defers else executable
                return begin(given, rest)
            places = executable.overwritable(len(given))  # type: ignore[attr-defined]
            donatable = _donatable(given, places, held)
            outcome: list[Handle] = run_donating(given, rest, donatable, donation)
        except Exception as error:
            raise PlanError(error) from error
        if self.later.waiting:
            self.later.go_on()
        return outcome

    def _planned(
        self, log: Sequence[LogEntry], outputs: Sequence[int], numbers: Sequence[Any], form: LogForm
    ) -> Executable:  # fmt: skip
        try:
            graph = _with_constants(read_log(log, outputs), numbers, form.varying)
            made = prepare(self._backend, with_donors(graph))
            if isinstance(made, SizedPlans):  # no step of plain code stalls
                made.in_slices = True
                made.fills = form.family is not None and form.family.serves
            return made
        except Exception as error:
            raise PlanError(error) from error

    @uncollected()
    def _take_up(
        self, form: LogForm, log: Sequence[LogEntry], outputs: Sequence[int], numbers: Sequence[Any]
    ) -> None:
        """Finds a plan for what is new here, if there is one: for all sizes, where logs of the form
        have come on others, or from another process."""
        graph = form.graph or read_log(log, outputs)
        example = None
        if hasattr(self._backend, "prepare"):
            form.family = self._families.of(graph)
        family = form.family
        if family is not None and family.is_sized:
            example = self._prepared(form, family, graph, numbers)
            if form.executable is not None:
                return
        if family is None or family.recalls:
            self._recall(form, graph, log, numbers)
        if family is not None:
            family.note_recall(form.executable is not None)
            if form.executable is None:
                example = example or self._prepared(form, family, graph, numbers)
        if form.executable is None and family is not None and example is not None:
            try:
                form.use(family.planned(*example))
            except Exception as error:
                raise PlanError(error) from error
        if form.executable is None and form.key is not None:
            self._note_once(form, graph, numbers)

    def _note_once(self, form: LogForm, graph: Graph, numbers: Sequence[Any]) -> None:
        """Leaves a mark for a log that had no plan; makes one for later processes where an earlier
        one has left it."""
        plan_store = getattr(self._backend, "plan_store", None)
        if plan_store is None or len(graph.nodes) < FEWEST:
            return
        mark = f"once-{form.key}"
        if plan_store.get(mark) is None:
            plan_store.put(mark, b"")
            return
        plans = prepare(
            self._backend, with_donors(_with_constants(graph, numbers, form.varying))
        )  # fmt: skip
        if isinstance(plans, SizedPlans):
            rest = _those(numbers, form.varying)
            self.later.add(partial(self._made_for_later, form, plans, rest))

    def _made_for_later(self, form: LogForm, plans: SizedPlans, numbers: Sequence[Any]) -> bool:
        """Goes on with a plan for later processes; whether it is done, or none is wanted any more:
        the log has come again and has one, or there is one for all sizes that serves it."""
        if form.executable is None and not plans.served():
            if not plans.advanced_a_little(numbers):
                return False
            self._keep(form)
        return True

    def _prepared(
        self, form: LogForm, family: LogFamily, graph: Graph, numbers: Sequence[Any]
    ) -> tuple[Example, SizedPlans] | None:
        """What a log is an example of, and what may run it by a plan for all sizes, if anything;
        it does so from now on if one is there that serves it."""
        family.note_numbers(numbers)
        if family.varying is not None:
            form.varying = list(family.varying)
        fixed = with_donors(_with_constants(graph, numbers, form.varying))
        try:
            plans = family.prepared(lambda: prepare(self._backend, fixed))
            if plans is not None and family.served(plans):
                form.use(plans)
        except Exception as error:
            raise PlanError(error) from error
        return None if plans is None else ((fixed, _those(numbers, form.varying)), plans)

    def _keep_filled(
        self, form: LogForm, log: Sequence[LogEntry], outputs: Sequence[int], numbers: Sequence[Any]
    ) -> None:
        """Keeps a plan for later processes that was filled in, now that it has come often; at one
        of its next runs, if another one was kept just now, or there is none yet."""
        if not self.keeping.is_due:
            return
        plans, rest = form.filled, _those(numbers, form.varying)
        plan_store = getattr(self._backend, "plan_store", None)
        if plan_store is None or plans is None or plans is not form.executable:
            form.filled = None
            return
        with self.keeping.taken():
            if plans.keep(rest):
                form.filled = None
                form.key = key_of_log(log, outputs, numbers, plan_store.description())
                self._keep(form)

    def _recall(
        self, form: LogForm, graph: Graph, log: Sequence[LogEntry], numbers: Sequence[Any]
    ) -> None:
        """Takes up the plan that another process has made of what is new here."""
        plan_store = getattr(self._backend, "plan_store", None)
        if plan_store is None:
            return
        form.key = key_of_log(log, graph.outputs, numbers, plan_store.description())
        content = None if form.key is None else plan_store.get(f"form-{form.key}")
        if content is None or len(content) != len(numbers):
            return
        varying = [flag != 0 for flag in content]
        fixed = _with_constants(graph, numbers, varying)
        executable = prepare(self._backend, with_donors(fixed))
        recalled = getattr(executable, "recalled", None)
        if recalled is not None and recalled(_those(numbers, varying)):
            form.varying = varying
            form.executable = executable
            if getattr(executable, "is_outdated", False):
                rest = _those(numbers, varying)
                renewed = executable.renewed_a_little  # type: ignore[attr-defined]
                self.later.add(partial(renewed, rest), first=True)

    def _keep(self, form: LogForm) -> None:
        """Says to later processes which numbers of the log vary."""
        plan_store = getattr(self._backend, "plan_store", None)
        if plan_store is not None and form.key is not None:
            plan_store.put(f"form-{form.key}", bytes(form.varying))

    def _form(
        self, key: Any, numbers: Sequence[Any], is_piece: bool = False,
        known: Known | None = None,
    ) -> LogForm:  # fmt: skip
        """The form of a log; the one used longest ago goes if there are too many."""
        with self._lock:
            form = self._forms.get(key)
            if form is None:
                form = self._forms[key] = log_form(key, numbers, is_piece, known)
                while len(self._forms) > self._most:
                    self._forms.popitem(last=False)
            else:
                self._forms.move_to_end(key)
            return form


def _donatable(given: Sequence[Handle], places: Collection[int], held: int) -> list[bool]:
    """Which inputs may be written over, of those that a plan could write over."""
    found = [False] * len(given)
    for place in places:
        # The list alone holds each handle here that nobody else holds.
        found[place] = may_overwrite(None, None, given[place], held)
    return found


def _those(numbers: Sequence[Any], varying: Sequence[bool]) -> list[Any]:
    return [n for n, varies in zip(numbers, varying, strict=True) if varies]


def _with_constants(graph: Graph, numbers: Sequence[Any], varying: Sequence[bool]) -> Graph:
    """The graph of a log with those numbers written in that do not vary."""
    values, scalars = list(graph.values), list[int]()
    for value, number, varies in zip(graph.scalars, numbers, varying, strict=True):
        aval = values[value].aval
        if varies:
            values[value] = Value("scalar", aval, len(scalars))
            scalars.append(value)
        else:
            values[value] = Value("constant", aval, number)
    return Graph(values, list(graph.nodes), graph.inputs, scalars, graph.outputs)
