"""Modules as ONNX models, from what they record."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.nn import Module, atomic_write
from ingle.tensor import Cell, Tensor, asarray, transaction
from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.errors import IngleError, OperandError
from ingle.tensor.followed import plain
from ingle.tensor.programs import Program, Traced, trace

from ..errors import ModelError, UnsupportedError
from ..onnx.reading import onnx_package
from ..onnx.values import NUMBERS
from . import spectra, windows  # noqa: F401 (rules are entered where they are defined)
from .dynamic_sizes import (
    Statics,
    Variant,
    constant_of,
    known_sizes_of,
    number_of,
    sizes_of,
    traced_inside,
)  # fmt: skip
from .loops import LOOPS
from .rules import RULES, Call
from .spectra import is_complex, pairs
from .writer import Size, Writer

if TYPE_CHECKING:
    import onnx as onnx_types

OPSET, IR = 20, 10


def export_onnx(
    module: Module | Callable[..., Any],
    example_inputs: Tensor | Sequence[Tensor],
    path: str | os.PathLike[str] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
) -> onnx_types.ModelProto:
    """Writes what a module computes as an ONNX model of opset 20.

    Args:
        module: is recorded once with inputs of these shapes; call `eval()` first where it differs.
        example_inputs: a tensor or an array, or several; shapes and dtypes count, and values do
            not.
        path: of the file to write, if any.
        input_names, output_names: `x`, or `x0`, `x1`, … and `y`, … if not given.
        dynamic_axes: names of sizes that may be others, as `{"x": {0: "batch"}}`.

    Returns:
        The model, which onnx's checker has accepted. Initializers have the names of the parameters.

    Raises:
        OperandError: what shall be written cannot be called, or an example is no tensor.
        UnsupportedError: an operation that has no counterpart, or a size that depends on dynamic
            ones in another way than by multiples and sums, or a product.
        TraceError: the module reads values while it runs.

    >>> import ingle.tensor as it
    >>> from ingle import importer, nn
    >>> model = importer.export_onnx(nn.Linear(2, 3), it.ones((4, 2)), dynamic_axes={"x": {0: "n"}})
    >>> [n.op_type for n in model.graph.node], [i.name for i in model.graph.initializer]
    (['Gemm'], ['weight', 'bias'])
    """
    onnx = onnx_package()
    inputs = _examples(module, example_inputs)
    names = list(
        input_names or (["x"] if len(inputs) == 1 else [f"x{i}" for i in range(len(inputs))])
    )
    if len(names) != len(inputs):
        raise ModelError(f"export_onnx: {len(inputs)} inputs and {len(names)} names for them")
    axes = {k: dict(v) for k, v in (dynamic_axes or {}).items()}
    if unknown := axes.keys() - set(names):
        raise ModelError(f"export_onnx: dynamic_axes names {min(unknown)!r}, no input of {names}")
    avals = [Aval(tuple(x.shape), x.dtype) for x in inputs]
    where = inputs[0].device if inputs else None
    recorded = _Recorded(module, len(inputs), where)
    traced = recorded.trace(avals)
    sizes = _Sizes(recorded, names, avals, axes, traced)
    w = Writer(places=sizes.places)
    w._taken.update(names)
    values: list[Any] = list(names)
    for name, cell in recorded.cells.items():
        values.append(w.name(name))
        w.constants[values[-1]] = cell.raw.numpy()
    values += _constants(w, traced, sizes.variants)
    for what, ports in (("takes", avals), ("returns", traced.program.results)):
        if any(map(is_complex, ports)):
            raise UnsupportedError(
                f"export_onnx: the module {what} complex numbers, which ONNX's operators do not "
                f"know; make it {'take' if what == 'takes' else 'return'} real and imag apart"
            )
    results = emit(w, traced.program, values, sizes.variants)
    ends = list(
        output_names or (["y"] if len(results) == 1 else [f"y{i}" for i in range(len(results))])
    )
    helper = onnx.helper
    for name, result in zip(ends, results, strict=True):
        w.nodes.append(helper.make_node("Identity", [result], [name]))
    graph = helper.make_graph(
        _without_identities(w.nodes, ends), type(module).__name__,
        [_info(helper, n, a, sizes.names_of(n, a)) for n, a in zip(names, avals, strict=True)],
        [
            _info(helper, n, a, sizes.shape(o, a))
            for n, o, a in zip(ends, traced.program.outputs, traced.program.results, strict=True)
        ],
        [onnx.numpy_helper.from_array(v, n) for n, v in w.used_constants().items()],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="ingle"
    )
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UnsupportedError(
            f"export_onnx: ONNX has no such operator for these dtypes: {error}; cast what it takes"
        ) from error
    if path is not None:
        with atomic_write(path) as file:
            file.write(model.SerializeToString())
    written: onnx_types.ModelProto = model
    return written


def _info(helper: Any, name: str, aval: Aval, shape: Sequence[int | str | None]) -> Any:
    return helper.make_tensor_value_info(name, NUMBERS[aval.dtype.dtype], list(shape))


def _examples(module: Any, given: Any) -> list[Tensor]:
    if not callable(module):
        raise OperandError(
            f"export_onnx: expected a module or a function, got {type(module).__name__}; the "
            "arguments are (module, example_inputs, path)"
        )
    several = given if isinstance(given, list | tuple) else [given]
    for x in several:
        if not isinstance(x, Tensor | np.ndarray):
            raise OperandError(
                "export_onnx: example_inputs are a tensor, or a list or tuple of tensors, one for "
                f"each input of the module; got {type(x).__name__}"
            )
    return [x if isinstance(x, Tensor) else asarray(x) for x in several]


class _Recorded:
    """A module whose parameters and buffers are inputs of what is recorded, behind its own."""

    def __init__(self, module: Any, arity: int, where: Any) -> None:
        self.module = module
        self.arity = arity
        self.where = where
        self.cells: dict[str, Cell[Tensor]] = {}
        if isinstance(module, Module):
            self.cells = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def trace(self, avals: Sequence[Aval]) -> Traced:
        """What the module computes from inputs of these shapes."""
        held = [Aval(tuple(c.raw.shape), c.raw.dtype) for c in self.cells.values()]
        return trace(self._run, [*avals, *held], self.where)

    def _run(self, *tensors: Tensor) -> Any:
        shown = dict(zip(self.cells.values(), tensors[self.arity :], strict=True))
        with transaction(commit=False, replay=shown) as scope:
            result = self.module(*tensors[: self.arity])
        if scope.writes:
            names = [name for name, cell in self.cells.items() if cell in scope.writes]
            what = f"writes {', '.join(names)}" if names else "draws random numbers"
            raise UnsupportedError(
                f"export_onnx: the module {what} as it runs, which ONNX has no place for; "
                "module.eval() turns off what only training does"
            )
        return result


def _constants(w: Writer, traced: Traced, others: Sequence[Variant]) -> list[str]:
    """The names of what a program takes besides its arguments."""
    found = []
    for i, closed in enumerate(traced.closed):
        value = _value(closed)
        repeated = constant_of(value, [_value(v.closed[i]) for v in others], others)
        if repeated is None:
            found.append(w.constant(value))
        else:
            row, shape = repeated
            found.append(w.expand(w.constant(row), shape, value.dtype))
    return found


def _value(closed: Any) -> np.ndarray:
    if isinstance(closed, Scalar):
        value, dtype = np.asarray(plain(closed.value)), closed.dtype.dtype
    else:
        value, dtype = Tensor(closed).detach().numpy(), closed.dtype.dtype
    return pairs(value, dtype) if dtype.kind == "c" else value.astype(dtype, copy=False)


def _number(w: Writer, x: Scalar) -> str:
    value, dtype = plain(x.value), x.dtype.dtype
    return w.constant(pairs(value, dtype)) if dtype.kind == "c" else w.constant(value, dtype)


def _without_identities(nodes: list[Any], ends: Sequence[str]) -> list[Any]:
    """The nodes without the `Identity` of each result that only one node makes."""
    makers = {name: node for node in nodes for name in node.output}
    used: dict[str, int] = {}
    for node in nodes:
        for name in node.input:
            used[name] = used.get(name, 0) + 1
    inner = {
        n for node in nodes for a in node.attribute for g in [a.g] for m in g.node for n in m.input
    }
    kept = []
    for node in nodes:
        source = node.input[0] if node.input else ""
        maker = makers.get(source)
        alone = used.get(source) == 1 and source not in inner
        if node.op_type == "Identity" and node.output[0] in ends and maker is not None and alone:
            place = list(maker.output).index(source)
            maker.output[place] = node.output[0]
        else:
            kept.append(node)
    return kept


def emit(
    w: Writer, program: Program, values: Sequence[str], others: Sequence[Variant] = ()
) -> list[str]:
    """Writes the steps of a program; gives the names of its results.

    Args:
        w: what they are written to.
        program: the program.
        values: names of its inputs.
        others: the same program for other dynamic sizes.
    """
    found = list(values)
    for at, step in enumerate(program.steps):
        there = [v.step(at) for v in others]
        first = len(found)
        inputs, given = _operands(w, program, step, found, there)
        call = Call(
            w, step.op.operation.name, inputs, given,
            list(program.avals[first : first + step.results]),
            Statics(step.op, there), partial(_shape_of, given, there),
        )  # fmt: skip
        made = _written(call, step.op, there)
        if len(made) < step.results:
            raise UnsupportedError(f"export: {step.op} gives {step.results} results")
        found += made[: step.results]
    return [found[n] for n in program.outputs]


def _shape_of(
    given: Sequence[Aval | Scalar], others: Sequence[Variant], i: int
) -> tuple[Size, ...]:
    return sizes_of(given[i], [v.given[i] for v in others], others)


def _operands(
    w: Writer, program: Program, step: Any, found: Sequence[str], others: Sequence[Variant]
) -> tuple[list[str], list[Aval | Scalar]]:
    """The names of a step's operands, and what they are; numbers that sizes decide are tensors."""
    inputs: list[str] = []
    given: list[Aval | Scalar] = []
    for i, x in enumerate(step.inputs):
        if not isinstance(x, Scalar):
            inputs.append(found[x])
            given.append(program.avals[x])
            continue
        number = Scalar(plain(x.value), x.dtype)
        how = number_of(number, [v.given[i] for v in others], others)
        if how is None:
            inputs.append(_number(w, x))
            given.append(number)
            continue
        dim, inverse = how
        name = w.number(dim, x.dtype.dtype)
        inputs.append(w.node("Reciprocal", name) if inverse else name)
        given.append(Aval((), x.dtype))
        for v in others:
            v.given[i] = Aval((), x.dtype)
    return inputs, given


def _written(call: Call, op: Any, others: Sequence[Variant]) -> list[str]:
    name = op.operation.name
    if name in LOOPS:
        return LOOPS[name](call, op, emit, others)
    spectral = any(map(is_complex, [*call.given, *call.results]))
    found = spectra.written(call) if spectral else None
    if found is not None:
        return list(found)
    rule = None if spectral else RULES.get(name)
    made = None if rule is None else rule(call)  # None again where the operation says more.
    if made is not None:
        return [made] if isinstance(made, str) else list(made)
    if op.operation.body is None:
        raise UnsupportedError(
            f"export: the operation {op}{' of complex numbers' if spectral else ''} has no "
            "counterpart in ONNX that is known here; export the module without it"
        )
    avals = [x for x in call.given if not isinstance(x, Scalar)]
    names = [n for n, x in zip(call.inputs, call.given, strict=True) if not isinstance(x, Scalar)]
    traced = _body(op, call.given)
    assert traced.program.arity == len(avals) + len(traced.closed)
    there = traced_inside(traced, others, lambda v: _body(v.op, v.given))
    return emit(call.w, traced.program, [*names, *_constants(call.w, traced, there)], there)


def _body(op: Any, given: Sequence[Aval | Scalar]) -> Traced:
    """The body of a composite as a program of its tensors."""
    avals = [x for x in given if not isinstance(x, Scalar)]

    def run(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        operands = [x.value if isinstance(x, Scalar) else next(rest) for x in given]
        return op.operation.body(*operands, **op.attributes)

    return trace(run, avals)


class _Sizes:
    """The dynamic sizes of a model, and the model recorded for other values of them."""

    def __init__(
        self, recorded: _Recorded, names: list[str], avals: list[Aval],
        axes: dict[str, dict[int, str]], traced: Traced,
    ) -> None:  # fmt: skip
        self.axes = axes
        self.places: dict[str, tuple[str, int]] = {}
        self.base: dict[str, int] = {}
        for name, aval in zip(names, avals, strict=True):
            for axis, size in axes.get(name, {}).items():
                self.places.setdefault(size, (name, axis))
                self.base.setdefault(size, aval.shape[axis])
        changes: list[dict[str, int]] = [{size: n + 2} for size, n in self.base.items()]
        if self.base:
            changes.append({size: n + 1 for size, n in self.base.items()})
        examples = []
        for change in changes:
            new = {**self.base, **change}
            shaped = [
                Aval(
                    tuple(new.get(axes.get(n, {}).get(i, ""), k) for i, k in enumerate(a.shape)),
                    a.dtype,
                )
                for n, a in zip(names, avals, strict=True)
            ]
            try:
                examples.append((recorded.trace(shaped), new))
            except IngleError as error:
                told = ", ".join(f"{size} = {n}" for size, n in new.items())
                raise UnsupportedError(
                    f"export_onnx: the module does not run for {told}: {error}; leave sizes that "
                    "have to be as they are out of dynamic_axes"
                ) from error
        bare = [Variant(t.program, new, self.base) for t, new in examples]
        made = iter(t for t, _ in examples)
        self.variants = traced_inside(traced, bare, lambda _: next(made))

    def names_of(self, name: str, aval: Aval) -> list[int | str | None]:
        chosen = self.axes.get(name, {})
        return [chosen.get(i, n) for i, n in enumerate(aval.shape)]

    def shape(self, number: int, aval: Aval) -> list[int | str | None]:
        """An output's shape, with the names of sizes that are dynamic as they are."""
        others = [v.program.avals[number] for v in self.variants]
        found: list[int | str | None] = []
        for dim in known_sizes_of(aval, others, self.variants):
            if dim is None or isinstance(dim, int):
                found.append(dim)
            else:
                plain_name = not dim.constant and len(dim.parts) == 1 and dim.parts[0][1] == 1
                found.append(dim.parts[0][0] if plain_name else None)
        return found
