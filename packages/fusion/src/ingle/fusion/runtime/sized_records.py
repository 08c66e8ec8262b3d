"""Plans for all sizes on disk: where sizes are new at each call, the first one has its plan.

A record is a JSON text, and behind it the kernels as their device writes them. It stands in the
device's `PlanStore` under a key of the graphs' form and of all else that decided it (`plan_keys`).
What a process computes of it is arithmetic: other text is refused, as what is damaged is.
"""

from __future__ import annotations

from typing import Any

from ingle.tensor.dtypes import DType, as_dtype

from ..errors import GraphFormatError
from ..ir.graph import Graph
from ..ir.scalar_program import ScalarProgram
from ..ir.serialization import read_value, written_value
from ..ir.views import View
from ..lowering.contraction import Windows
from ..lowering.operands import Argument
from ..passes.decompose import FlagText
from ..symbolic.answers import Answers
from ..symbolic.size_program import SizeProgram
from .any_size_plan import AnySizeData, AnySizePlan
from .device import BufferOffset
from .plan_keys import key_of_form
from .record_parts import NONSENSE, count, must, packed, unpacked

MOST_KEPT = 16
"""Plans of one form: for the weights of several layers, and for sizes that are cases of their
own."""
MOST_BYTES = 4 << 20
"""A record that would be larger is not kept."""
_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (int, float, bool, complex, str, tuple, type(None), DType)
}
"""Those that keys of numbers name."""


_PARTS: dict[str, Any] = {kind.__name__: kind for kind in (View, Argument, BufferOffset, Windows)}
"""What programs make of numbers."""


class StoredSizedPlans:
    """The stored plans for all sizes of graphs of one form.

    Args:
        device: which runs them; it has a plan store.
        graph: one of the graphs.

    Attributes:
        all_read: whether there is no next one.
    """

    def __init__(self, device: Any, graph: Graph) -> None:
        self._device = device
        self._store = device.plan_store
        self._key = key_of_form(graph, self._store.description())
        self._count = 0
        self.all_read = self._key is None

    def next(self) -> AnySizePlan | None:
        """The next one that there is."""
        content = None
        if not self.all_read and self._count < MOST_KEPT:
            content = self._store.get(self._name())
        plan = None if content is None else read(self._device, content)
        self.all_read = plan is None
        self._count += plan is not None  # else what is written next stands here
        return plan

    def put(self, plan: AnySizePlan) -> None:
        """Keeps a plan, unless it is one that cannot be kept or there are many."""
        if self._key is None or self._count >= MOST_KEPT:
            return
        content = written(self._device, plan)
        if content is not None:
            self._store.put(self._name(), content)
            self._count += 1

    def _name(self) -> str:
        return f"sized-{self._key}-{self._count}"


def stored_sized_plans(device: Any, graph: Graph) -> StoredSizedPlans | None:
    """The plans for all sizes that outlive the process; None where the device keeps none."""
    if not hasattr(getattr(device, "plan_store", None), "sized_plan"):
        return None
    return StoredSizedPlans(device, graph)


def written(device: Any, plan: AnySizePlan) -> bytes | None:
    """A plan as bytes; None if it cannot be kept."""
    kernels = device.plan_store.written_sized(plan.kernels)
    data = plan.data
    if kernels is None or not data.scalars.is_arithmetic():
        return None
    program = data.scalars
    try:
        said = {
            "decomposition": _written_answers(data.decomposition),
            "answers": _written_answers(data.answers),
            "scalars": [program.given, program.lines, _written_results(program)],
            "checks": [[check.form, check.node] for check in data.checks],
            "rest": data[data._fields.index("sources") :],
        }
        return packed(said, [kernels], MOST_BYTES)
    except (GraphFormatError, TypeError, ValueError):
        return None  # something in it is no data


def read(device: Any, content: bytes) -> AnySizePlan | None:
    """The plan that bytes stand for, if they are one."""
    try:
        said, rest = unpacked(content, MOST_BYTES)
        data = _read_data(said)
        kernels = device.plan_store.sized_plan(rest, device, 1 + len(data.roots), data.taken)
        return None if kernels is None else AnySizePlan(data, kernels)
    except (*NONSENSE, SyntaxError):
        return None  # what else there may be in bytes that are no record


def _read_data(said: Any) -> AnySizeData:
    given, lines, results = said["scalars"]
    program = ScalarProgram(
        count(given), tuple(lines), tuple([(0,) if r is None else r for r in results])
    )
    must(program.is_arithmetic())
    sources, inputs, roots, products, dtypes, outputs, taken = said["rest"]
    checks = tuple([FlagText(str(form), (), count(node)) for form, node in said["checks"]])
    known = count(inputs) + len(dtypes)
    must(all(0 <= count(n) < known for n in (*roots, *outputs)))
    must(all(count(i) < inputs for i in products) and len(checks) <= len(outputs))
    return AnySizeData(
        _read_answers(said["decomposition"]), _read_answers(said["answers"]), program, checks,
        tuple(map(count, sources)), inputs, tuple(roots), tuple(products),
        tuple([as_dtype(name).name for name in dtypes]), tuple(outputs),
        tuple([as_dtype(name).name for name in taken]),
    )  # fmt: skip


def _written_results(program: ScalarProgram) -> list[str | None]:
    """The names among the results; the others are numbers that follow from sizes."""
    return [r if isinstance(r, str) else None for r in program.results]


def _written_answers(answers: Answers) -> list[Any]:
    fixed, expected, symbols, whole, program = answers
    names = [[name, _written(x)] for name, x in program.names.items() if x not in _PARTS.values()]
    return [
        fixed.hex(), _written(expected), list(symbols), list(whole),
        [program.symbols, program.lines, program.result, names],
    ]  # fmt: skip


def _read_answers(said: Any) -> Answers:
    fixed, expected, symbols, whole, (parameters, lines, result, names) = said
    known = {str(name): _read(x) for name, x in names}
    must(all(name[:1] == "k" and name[1:].isdecimal() for name in known))
    program = SizeProgram(
        count(parameters), tuple(lines), result, {**known, **_PARTS}
    )  # fmt: skip
    must(program.is_arithmetic())
    answers = Answers(
        bytes.fromhex(fixed), _read(expected), list(map(count, symbols)),
        list(map(count, whole)), program,
    )  # fmt: skip
    must(all(n < len(answers.fixed) for n in (*answers.symbols, *answers.whole)))
    return answers


def _written(x: Any) -> Any:
    """A number, its key, or a tuple of such."""
    if type(x) is tuple:
        return [_written(e) for e in x]
    if isinstance(x, bytes):
        return {"bytes": x.hex()}
    if isinstance(x, type) and _TYPES.get(x.__name__) is x:
        return {"type": x.__name__}
    return written_value(x)


def _read(x: Any) -> Any:
    match x:
        case list():
            return tuple([_read(e) for e in x])
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case {"type": str(name)}:
            return _TYPES[name]
    return read_value(x)
