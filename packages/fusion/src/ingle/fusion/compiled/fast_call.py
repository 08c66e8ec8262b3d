"""The fast path of a recording: one generated function from arguments to results.

A compiled function is called often and for small work, where taking arguments apart in general
terms costs more than the kernels. So what an entry does is written out as Python once: checks of
exactly these arguments, reads of exactly these cells, the numbers' arithmetic, one run of the plan,
writes. Where anything differs from what was recorded it answers `MISSED`, and the general path
finds out what is to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Handle
from ingle.tensor.followed import is_number
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.pytree import Node, flatten, unflatten
from ingle.tensor.structure import epoch
from ingle.tensor.tape import NAMES
from ingle.tensor.transactions import commit_lock, commits, current_scope

from ..record.ambient_state import asked
from ..record.log import LazyHandle, current
from ..runtime.plan_codegen import DonationState
from ..support.refcounts import PASSED_ITEM, may_overwrite
from ..support.run_ahead import setting
from .arguments import leaf_key
from .attribute_reads import Place
from .fast_call_many import MANY, ManyCells, holding, is_many
from .snapshots import Same, Snapshot
from .specialization import Result, Specialization

MISSED = object()


def bind(entry: Specialization, arguments: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """A function of the positional arguments, or `MISSED`.

    Args:
        entry: a verified recording whose arguments are leaves, no containers.
        arguments: of the call at hand, as examples of what fits.
    """
    return _CallWriter(entry, arguments).function(entry.tree)


class _Pair(NamedTuple):
    """A cell whose value may be overwritten, with the input that the value is."""

    number: int
    name: str
    cell: Cell[Any]


class _Overwritten:
    """Stands where a handle has its log while its memory is written."""

    is_tracer = False

    def finish(self, wanted: LazyHandle) -> None:
        """Waits until that is done."""
        with commit_lock:
            pass


_OVERWRITTEN: Any = _Overwritten()


class _CallWriter:
    """Writes the source of one function, and keeps what its names stand for."""

    def __init__(self, entry: Specialization, arguments: Sequence[Any]) -> None:
        self._entry = entry
        self._arguments = arguments
        self._lines: list[str] = []
        self._known: dict[Cell[Any], str] = {}
        self._places: dict[Place, str] = {}
        self._names: dict[str, Any] = {
            "__name__": __name__, "MISSED": MISSED, "Tensor": Tensor, "LazyHandle": LazyHandle,
            "current": current.get, "scope": current_scope, "epoch": epoch, "ready": _ready,
            "commit_lock": commit_lock, "wrap": entry.wrap, "epochs": entry.epochs,
            "DonationState": DonationState, "overwritten": _OVERWRITTEN,
            "may_overwrite": may_overwrite,
            "setting": setting, "run": entry.executable, "commits": commits,
            "leaf_key": leaf_key, "unflatten": unflatten, "unchanged": entry.unchanged,
            "run_donating": getattr(entry.executable, "run_donating", None),
            "report": getattr(entry.executable, "report", None),
        }  # fmt: skip

    def _name(self, thing: Any) -> str:
        name = f"k{len(self._names)}"
        self._names[name] = thing
        return name

    def _require(self, condition: str) -> None:
        self._lines.append(f"if not ({condition}): return MISSED")

    def function(self, tree: Any) -> Callable[[Sequence[Any]], Any]:
        entry = self._entry
        self._require("current() is None and scope() is None and epoch() in epochs")
        for ask in asked():
            name = self._name(ask)
            answer = self._name(ask())
            self._lines.append(f"now = {name}()")
            self._require(f"now is {answer} or now == {answer}")
        self._require(f"len(args) == {len(self._arguments)}")
        for place, argument in enumerate(self._arguments):
            self._argument(place, argument)
        if any(entry.readings):
            self._require("unchanged(args)")
        cells = {s for s in (*entry.sources, *entry.numbers) if isinstance(s, Cell)}
        if cells or entry.fixed:
            self._lines.append("begun = commits.count")
        self._fixed(entry.fixed)
        if is_many(entry):
            places = {o: n for o, n, _ in self._pairs()}
            self._names["many"] = ManyCells(entry, places, MISSED, _OVERWRITTEN)
            self._lines += [*(["begun = commits.count"] * (not cells)), "return many(args, begun)"]
            return self._compiled()
        self._numbers()
        before = len(self._lines)
        values = [self._input(source) for source in entry.sources]
        changed = [self._place(place) for place, _ in entry.rebound]
        given_once = {self._place(s) for s in entry.sources if type(s) in (int, Place)}
        for x in changed:
            for y in given_once - {x}:
                self._require(f"{x} is not {y}")
        if any(isinstance(source, Cell) for source in entry.sources):
            # A cell that held a tensor may hold a number now.
            reads = [f"    {line}" for line in self._lines[before:]]
            self._lines[before:] = ["try:", *reads, "except AttributeError: return MISSED"]
        scalars = "".join(f"{n}, " for n in entry.spelled[: entry.scalars])
        given = f"[{', '.join(values)}], ({scalars})"
        donatable = self._donatable()
        if not entry.writes:
            if len(cells) + len(entry.fixed) > 1:
                self._require("commits.count == begun and not begun & 1")
            run = self._run(given)
        else:
            run = (
                self._run_donating(given, donatable)
                if donatable
                else [*self._run(given), *self._writes({})]
            )
            stepped = [(i, self._name(cell)) for cell, i in entry.stepped().items()]
            run[:0] = [f"if {name}._value != x{i}: return MISSED" for i, name in stepped]
            if cells or entry.fixed:
                run.insert(0, "if commits.count != begun: return MISSED")
            locks = ["commit_lock", *[f"{name}.step_lock" for _, name in stepped]]
            run = [f"with {', '.join(locks)}:", *[f"    {line}" for line in run]]
        self._lines += run
        for x, (_, result) in zip(changed, entry.rebound, strict=True):
            self._lines.append(f"{x}._rebind(wrap(out[{result.data}]))")
        self._lines.append(f"return {self._returned(tree)}")
        return self._compiled()

    def _compiled(self) -> Callable[[Sequence[Any]], Any]:
        source = "def call(args):\n    " + "\n    ".join(self._lines) + "\n"
        exec(source, self._names)
        call: Callable[[Sequence[Any]], Any] = self._names["call"]
        return call

    def _argument(self, place: int, argument: Any) -> None:
        name = f"a{place}"
        self._lines.append(f"{name} = args[{place}]")
        if isinstance(argument, Tensor):
            handle = argument._handle
            backend = self._name(handle.backend)
            self._require(f"type({name}) is Tensor")
            self._lines.append(f"h{place} = {name}._handle")
            self._require(f"h{place}.backend is {backend} and {self._fits(f'h{place}', handle)}")
        elif is_number(argument):
            self._require(f"type({name}) is {self._name(type(argument))}")
        elif argument is None or type(argument) is bool:
            self._require(f"{name} is {argument}")
        elif type(argument) is str:
            self._require(f"type({name}) is str and {name} == {argument!r}")
        else:
            key = leaf_key(argument)
            if type(key) is Same and key.reference is not None:
                self._require(f"{self._name(key.reference)}() is {name}")
            else:
                self._require(f"leaf_key({name}) == {self._name(key)}")

    def _fits(self, name: str, handle: Handle) -> str:
        dtype = self._name(handle.dtype)
        return f"{name}.shape == {handle.shape!r} and {name}.dtype is {dtype}"

    def _fixed(self, fixed: Sequence[tuple[Cell[Any], Snapshot]]) -> None:
        """What cells hold besides tensors and numbers; an optimizer has a dict for each moment."""
        shown, ids, held = [], [], []
        things = [(c, v) for c, v in fixed if v.ids is None and v.thing is not None]
        if len(things) >= MANY:  # so many lines would take long to compile
            fixed = [(c, v) for c, v in fixed if v.ids is not None or v.thing is None]
            self._require(f"{self._name(holding(things))}()")
        for cell, value in fixed:
            name = f"{self._name(cell)}._value"
            if value.ids is not None:
                self._require(f"type({name}) is dict")
                shown.append(f"*map(id, {name}), *map(id, {name}.values())")
                held.append(f"{self._name(value.holds)}({name})")
                ids += value.ids
            elif value.thing is not None:
                holds = f"{self._name(value.holds)}({name})"
                self._require(f"{name} is {self._name(value.thing)} or {holds}")
            else:
                self._require(f"{self._name(value.holds)}({name})")
        if shown:
            same = f"[{', '.join(shown)}] == {self._name(ids)}"
            self._require(f"{same} or ({' and '.join(held)})")

    def _numbers(self) -> None:
        for i, source in enumerate(self._entry.numbers):
            if type(source) is int:
                self._lines.append(f"x{i} = a{source}")
            else:
                self._lines.append(f"x{i} = {self._name(source)}._value")
                self._require(f"type(x{i}) is {self._name(self._entry.kinds[i])}")
        lines = [line.replace("return None", "return MISSED") for line in self._entry.tape.lines]
        if lines:
            self._names.update({**NAMES, **self._entry.tape.functions})
            self._names["is_from_outside"] = is_from_outside
            # The function itself says what is wrong with numbers for which this raises.
            self._lines += [
                "try:", *[f"    {x}" for x in lines],
                "except Exception as error:",
                "    if is_from_outside(error): raise",
                "    return MISSED",
            ]  # fmt: skip

    def _input(self, source: Any) -> str:
        if type(source) is int:
            return self._value(f"h{source}", self._arguments[source]._handle)
        if isinstance(source, Place):
            name = self._place(source)
            example = source.find(self._arguments)._handle
            self._lines.append(f"{name} = {self._name(source.find)}(args)")
            self._require(f"type({name}) is Tensor")
            self._lines.append(f"{name}h = {name}._handle")
            backend = self._name(self._entry.backends[source])
            self._require(f"{name}h.backend is {backend} and {self._fits(f'{name}h', example)}")
            return self._value(f"{name}h", example)
        if isinstance(source, Cell):
            name = self._known[source] = self._name(source)
            handle = f"{name}h"
            self._lines.append(f"{handle} = {name}._value._handle")
            backend = self._name(self._entry.backends[source])
            fits = self._fits(handle, source._value._handle)
            self._require(f"{handle}.backend is {backend} and {fits}")
            return self._value(handle, source._value._handle)
        return self._name(_ready(source))

    def _place(self, place: int | Place) -> str:
        """The name of a tensor among the arguments, or in one."""
        if isinstance(place, Place):
            return self._places.setdefault(place, f"p{len(self._places)}_")
        return f"a{place}"

    def _value(self, name: str, handle: Handle) -> str:
        if not isinstance(handle, LazyHandle):
            return name
        # In this order; see `_run_donating`.
        self._lines.append(f"{name}v = {name}.value")
        self._lines.append(f"if {name}.pending_in is not None: {name}v = ready({name})")
        return f"{name}v"

    def _donatable(self) -> dict[int, _Pair]:
        """What may be written over, by the output that is; see `DonationState`."""
        return {o: _Pair(n, self._known[cell], cell) for o, n, cell in self._pairs()}

    def _pairs(self) -> Iterator[tuple[int, int, Cell[Any]]]:
        """Outputs with the inputs in whose memory they may lie, and the cells that hold these."""
        entry = self._entry
        used = getattr(entry.executable, "donors", ())
        for (place,), (output,) in entry.graph.donors:  # a cell's value old and new
            cell = entry.sources[place]
            if place in used and isinstance(cell._value._handle, LazyHandle):
                yield output, place, cell

    def _run(self, given: str) -> list[str]:
        """A run that writes over nothing; in the background if that is wished for."""
        executable = self._entry.executable
        begin = None if self._entry.writes else getattr(executable, "begin", None)
        if begin is not None:
            self._names["run"] = begin
        if begin is not None or not hasattr(executable, "run_donating"):
            return ["before = donation = None", f"out = run({given})"]
        flags = "False, " * len(self._entry.sources)
        return [
            "before = donation = None",
            "if setting.plans:", "    report()", "    donation = DonationState()",
            f"    out = run_donating({given}, ({flags}), donation)",
            f"else: out = run({given})",
        ]  # fmt: skip

    def _run_donating(self, given: str, donatable: dict[int, _Pair]) -> list[str]:
        """A run that writes over what only its cell holds; with `commit_lock`.

        Another thread that reads such a value meanwhile waits. One that took hold of it before its
        handle was marked has to be seen, so that references are counted after the mark.
        """
        pairs = list(donatable.values())
        names = {p.number: f"f{p.number}" for p in pairs}
        flags = ", ".join(names.get(i, "False") for i in range(len(self._entry.sources)))
        writes = self._writes(donatable)
        lines = [
            "if setting.plans: report()",
            "before, donation = None, DonationState(True)",
            f"held = [{', '.join([f'{p.name}h, {p.name}hv' for p in pairs])}]",
            "try:",
        ]
        for place, p in zip(range(0, 2 * len(pairs), 2), pairs, strict=True):
            cell, handle = p.name, f"{p.name}h"
            lines += [
                f"    {handle}.pending_in = overwritten",
                f"    f{p.number} = may_overwrite("
                f"{cell}, held[{place}], held[{place + 1}], {PASSED_ITEM + 1})",
                f"    if not f{p.number}: {handle}.pending_in = None",
            ]
        lines.append(f"    out = run_donating({given}, ({flags},), donation)")
        lines += [f"    {line}" for line in writes]
        lines += [
            "except BaseException:",
            "    if donation.done:",
            "        out = donation.outputs",
        ]
        lines += [f"        {line}" for line in writes]
        lines += ["    raise", "finally:"]
        return [*lines, *[f"    {p.name}h.pending_in = None" for p in pairs]]

    def _writes(self, donatable: dict[int, _Pair]) -> list[str]:
        """Gives cells what the plan made; a run in the background is told what they held before."""
        lines, names = [], []
        for cell, result in self._entry.writes:
            names.append(name := self._name(cell))
            line = f"{name}._value = {self._leaf(result)}"
            pair = donatable.get(result.data) if result.kind == "tensor" else None
            if pair is not None and pair.cell is cell:
                line = f"if out[{result.data}] is not {pair.name}hv: {line}"
            lines += [f"    {line}", f"    {name}.version += 1"]
        before = ", ".join(f"({name}, {name}._value)" for name in names)
        # Ctrl-C in the middle goes on when the group is whole.
        return [
            f"if donation and donation.job: before = before or ({before},)",
            "commits.begin()",
            "try:", *lines, "except BaseException:", *lines, "    raise",
            "finally: commits.end()",
            "if before: donation.job.wrote(before)",
        ]  # fmt: skip

    def _leaf(self, result: Result) -> str:
        if result.kind == "tensor":
            return f"Tensor(wrap(out[{result.data}]))"
        if result.kind == "argument":
            return f"a{result.data}"
        if result.kind == "number":
            number: str = self._entry.spelled[result.data]
            return number
        return self._name(result.data)

    def _returned(self, tree: Any) -> str:
        return self._spelled(tree, iter(self._entry.results))

    def _spelled(self, node: Any, rest: Iterator[Result]) -> str:
        """What is returned, with the rest of the results in its leaves.

        It is no function of its own within another: that would refer to itself, and keep the
        arguments until cycles are looked for.
        """
        kind = type(node)
        if kind is dict:
            pairs = [f"{self._name(k)}: {self._spelled(v, rest)}" for k, v in node.items()]
            return f"{{{', '.join(pairs)}}}"
        named = isinstance(node, tuple) and hasattr(node, "_fields")
        if kind is tuple or named:
            parts = "".join([f"{self._spelled(v, rest)}, " for v in node])
            return f"{'' if kind is tuple else self._name(kind)}({parts})"
        if kind is list:
            return f"[{', '.join([self._spelled(v, rest) for v in node])}]"
        if isinstance(node, (dict, list, tuple, Node)):
            leaves = ", ".join([self._leaf(next(rest)) for _ in flatten(node)])
            return f"unflatten({self._name(node)}, [{leaves}])"
        return self._leaf(next(rest))


def _ready(handle: Handle) -> Handle:
    return handle.computed() if isinstance(handle, LazyHandle) else handle


def bindable(args: Sequence[Any], kwargs: Any) -> bool:
    """Whether a call's arguments are leaves without names."""
    return not kwargs and not any(isinstance(a, (tuple, list, dict, Node)) for a in args)
