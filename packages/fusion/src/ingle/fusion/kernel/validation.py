"""What is wrong with a nest, before a renderer takes it."""

from __future__ import annotations

from collections.abc import Iterator

from .code import DTYPES, FLOATS, HALVES, INTEGERS, SIZES, Instruction
from .nest import (
    COMBINES,
    MAX_OUTER,
    MOST_APART,
    SHORT,
    DotNumbers,
    Dots,
    Extend,
    ExtendNumbers,
    Fold,
    FoldNumbers,
    Map,
    Nest,
    Reduce,
    Row,
    Stage,
    accumulators,
    columns_of,
    in_blocks,
    result_dtype,
)


def validate(nest: Nest) -> None:
    """Raises ValueError with what is wrong with a nest."""
    for problem in _problems(nest):
        raise ValueError(f"bad nest: {problem}")


def _problems(nest: Nest) -> Iterator[str]:
    if not 0 <= nest.outer <= MAX_OUTER:
        yield f"{nest.outer} outer axes; 0 to {MAX_OUTER} are possible"
    if nest.lanes not in ("inner", "outer"):
        yield f"lanes {nest.lanes!r}; expected 'inner' or 'outer'"
    if nest.lanes == "outer" and nest.outer == 0:
        yield "lanes 'outer' need an outer axis"
    if nest.ragged and nest.outer - (nest.lanes == "outer") < 1:
        yield "ragged needs an outer axis 0 that the lanes do not run along"
    for k, operand in enumerate(nest.operands):
        if operand.dtype not in DTYPES:
            yield f"operand {k} has dtype {operand.dtype!r}; kernels know {sorted(DTYPES)}"
        if operand.lane not in ("unit", "zero", "strided"):
            yield f"operand {k} has lane {operand.lane!r}"
        if operand.apart not in (0, *range(2, MOST_APART + 1)):
            yield f"operand {k} is {operand.apart} apart; it may be 2 to {MOST_APART}, or 0"
        if operand.apart and (operand.lane != "strided" or nest.lanes != "inner"):
            yield (
                f"operand {k} is {operand.apart} apart: its lane must be 'strided', along the "
                "inner axis"
            )
        if operand.backward and (
            operand.lane != "strided" or operand.apart or nest.lanes != "inner"
        ):
            yield (
                f"operand {k} is backward: its lane must be 'strided', along the inner axis, and "
                "not some elements apart"
            )
        if operand.alike is not None and not 0 <= operand.alike < k:
            yield f"operand {k} is like operand {operand.alike}, which does not come before it"
        if operand.beside is not None and not _takes_turns(nest, k, operand.beside):
            yield (
                f"operand {k} takes turns with operand {operand.beside}: both must be outputs "
                "by two of one size, the other one before it, stored by the same stage"
            )
        if operand.row_base is not None and not _is_place(nest, operand.row_base):
            yield f"operand {k} begins beyond value {operand.row_base}; stage 0 has no such int64"
    if nest.scattered and not (nest.outer and _is_place(nest, 0)):
        yield "scattered rows need an outer axis and a first stage that says where they are"
    if nest.row_length and not (
        0 < nest.row_length <= SHORT and nest.outer and nest.lanes == "inner" and not nest.ragged
    ):
        yield f"rows of {nest.row_length}: short ones have 1 to {SHORT} elements along the lanes"
    if not nest.stages:
        yield "no stages"
    if any(isinstance(s, Reduce) and s.scan for s in nest.stages) and not _runs_alone(nest):
        yield "running results take a stage that only folds and a map, of full rows of any length"
    if any(isinstance(s, Reduce) and not _decays(s) for s in nest.stages):
        yield "what decays is one running sum of floats, by factors of their dtype"
    if any(isinstance(s, Fold) for s in nest.stages) and not _folds_alone(nest):
        yield "windows are added up by one stage that loads floats, of full rows along outer axes"
    if any(isinstance(s, Dots) for s in nest.stages) and not _dots_alone(nest):
        yield "taps are summed by one stage that multiplies two loads of floats, of full rows"
    if any(isinstance(s, Extend) for s in nest.stages) and not _extends_alone(nest):
        yield "rows are extended by one stage that loads what begins where the one before it says"
    if in_blocks(nest) and (nest.outer != 1 or nest.lanes != "inner" or nest.ragged):
        yield "sums over rows need one outer axis, no ragged rows, and lanes 'inner'"
    for number, stage in enumerate(nest.stages):
        for problem in _stage_problems(nest, number, stage):
            yield f"stage {number}: {problem}"


def _runs_alone(nest: Nest) -> bool:
    """Whether running results are all that there is, and somebody stores them."""
    first, *rest = nest.stages
    plain = not (nest.ragged or nest.row_length or nest.scattered or in_blocks(nest))
    folds = isinstance(first, Reduce) and not first.stores
    moved = any(operand.row_base is not None for operand in nest.operands)
    return plain and folds and len(rest) == 1 and isinstance(rest[0], Map) and not moved


def _decays(stage: Reduce) -> bool:
    """Whether a decay, if there is one, fits what it is of."""
    if stage.decay is None:
        return True
    if not stage.scan or [combine for combine, _ in stage.reductions] != ["sum"]:
        return False
    inside = all(0 <= at < len(stage.code) for at in (stage.decay, stage.reductions[0][1]))
    kinds = {stage.code[at].dtype for at in (stage.decay, stage.reductions[0][1])} if inside else {}
    return len(kinds) == 1 and set(kinds) <= FLOATS


def _folds_alone(nest: Nest) -> bool:
    """Whether adding up windows is all that there is."""
    numbers = ("int64",) * len(FoldNumbers._fields)
    plain = not (nest.ragged or nest.row_length or nest.scattered or nest.lanes == "outer")
    if not (plain and nest.outer and len(nest.stages) == 1 and nest.scalars == numbers):
        return False
    (stage,), count = nest.stages, len(nest.operands) - 1
    loads = [(i.name, i.value) for i in stage.code[:2]] == [("load", 0), ("load", 1)][:count]
    loads = loads and [i.name for i in stage.code[2:]] == ["mul"][: count - 1]
    floats = {operand.dtype for operand in nest.operands} <= {"float32", "float64"}
    moved = any(operand.row_base is not None for operand in nest.operands)
    kinds = [(operand.output, operand.lane) for operand in nest.operands]
    factor = [(False, "zero")][: count - 1]
    ends = kinds in ([(False, lane), *factor, (True, "unit")] for lane in ("unit", "strided"))
    return loads and floats and ends and not moved and isinstance(stage, Fold)


def _dots_alone(nest: Nest) -> bool:
    """Whether summing what taps see is all that there is."""
    numbers = ("int64",) * len(DotNumbers._fields)
    plain = not (nest.ragged or nest.row_length or nest.scattered or nest.lanes == "outer")
    if not (plain and nest.outer == 2 and len(nest.stages) == 1 and nest.scalars == numbers):
        return False
    (stage,) = nest.stages
    product = [(i.name, i.value) for i in stage.code] == [("load", 0), ("load", 1), ("mul", None)]
    dtypes = {operand.dtype for operand in nest.operands}
    moved = any(operand.row_base is not None for operand in nest.operands)
    outputs = [operand.output for operand in nest.operands] == [False, False, True]
    floats = len(dtypes) == 1 and dtypes <= {"float32", "float64"}
    right = isinstance(stage, Dots) and stage.taps > 0 and nest.operands[2].lane == "unit"
    return product and floats and outputs and right and not moved


def _extends_alone(nest: Nest) -> bool:
    """Whether adding elements at the ends of rows is all that there is."""
    plain = not (nest.ragged or nest.row_length or nest.scattered or nest.lanes == "outer")
    if not plain or len(nest.stages) != 2 or len(nest.operands) != 2:
        return False
    (first, stage), (source, target) = nest.stages, nest.operands
    numbers = len(ExtendNumbers._fields)
    told = nest.scalars[:numbers] == ("int64",) * numbers and source.row_base == 0
    right = isinstance(stage, Extend) and stage.step in (-1, 0, 1) and stage.stores == ((1, 0),)
    moves = [(i.name, i.value) for i in stage.code] == [("load", 0)]
    lanes = (source.output, source.lane, target.lane) == (False, "zero", "unit")
    sums = isinstance(stage, Extend) and stage.back and source.dtype not in ("float32", "float64")
    return isinstance(first, Row) and told and right and moves and lanes and not sums


def _takes_turns(nest: Nest, number: int, other: int) -> bool:
    """Whether an output may take turns with another one, element by element."""
    if not 0 <= other < number:
        return False
    pair = nest.operands[other], nest.operands[number]
    if not all(operand.output and operand.apart == 2 for operand in pair):
        return False
    stored = [{k for k, _ in stage.stores} for stage in nest.stages]
    sizes = {SIZES[operand.dtype] for operand in pair}
    return len(sizes) == 1 and any({other, number} <= outputs for outputs in stored)


def _is_place(nest: Nest, number: int) -> bool:
    """Whether the first stage computes a value that rows of operands may begin at."""
    first = nest.stages[0] if nest.stages else None
    if not isinstance(first, Row) or nest.lanes != "inner" or nest.ragged or in_blocks(nest):
        return False
    return number < len(first.values) and first.code[first.values[number]].dtype == "int64"


def _stage_problems(nest: Nest, number: int, stage: Stage) -> Iterator[str]:
    for at, instruction in enumerate(stage.code):
        problem = _instruction_problem(nest, number, stage, at, instruction)
        if problem:
            yield f"instruction {at} ({instruction.name}): {problem}"
            return
    for k, at in (*stage.stores, *columns_of(stage)):
        if not (0 <= k < len(nest.operands) and nest.operands[k].output):
            yield f"stores to operand {k}, which is no output"
        elif not 0 <= at < len(stage.code):
            yield f"stores instruction {at} of {len(stage.code)}"
        elif stage.code[at].dtype != nest.operands[k].dtype:
            yield f"stores {stage.code[at].dtype} to operand {k} of {nest.operands[k].dtype}"
        elif nest.operands[k].lane == "zero" and not (
            isinstance(stage, Row) and nest.lanes == "inner"
        ):
            yield f"operand {k} is stored along lanes where its stride is 0"
    for k, _ in columns_of(stage):
        if nest.operands[k].dtype not in ("float32", "float64") or nest.operands[k].lane != "unit":
            yield f"sums over rows in operand {k}: they are float32 or float64 side by side"
    if isinstance(stage, Reduce):
        floats = {stage.code[a].dtype for c, a in stage.reductions if c == "sum"} & FLOATS
        if len({accumulators(dtype) for dtype in floats}) > 1:
            yield f"sums of {' and '.join(sorted(floats))}, whose blocks differ: take two stages"
        for combine, at in stage.reductions:
            yield from _reduction_problems(stage, combine, at)
            if combine == "totals" and nest.lanes != "outer":
                yield "totals need lanes 'outer'"


def _reduction_problems(stage: Reduce, combine: str, at: int) -> Iterator[str]:
    code = stage.code
    if combine not in COMBINES:
        yield f"no reduction {combine!r}; there are {', '.join(COMBINES)}"
    if not 0 <= at < len(code):
        yield f"{combine} of instruction {at} of {len(code)}"
    elif combine in ("any", "all") and code[at].dtype != "bool":
        yield f"{combine} of {code[at].dtype}: it takes bool"
    elif combine not in ("any", "all", "max", "min") and code[at].dtype == "bool":
        yield f"{combine} of bool: it takes numbers"
    elif stage.scan and combine.startswith("arg") and code[at].dtype not in INTEGERS:
        yield f"running {combine} of {code[at].dtype}: it takes integers"
    elif combine == "totals" and code[at].dtype not in FLOATS:
        yield f"totals of {code[at].dtype}: they are of floats"
    elif code[at].dtype in HALVES:
        yield f"{combine} of {code[at].dtype}: widen it to float32"


def _instruction_problem(
    nest: Nest, number: int, stage: Stage, at: int, instruction: Instruction
) -> str | None:
    name, dtype, args, value = instruction
    if any(not 0 <= a < at for a in args):
        return f"arguments {args} are not before it"
    if name in ("load", "gather"):
        if not 0 <= value < len(nest.operands):
            return f"operand {value} of {len(nest.operands)}"
        if nest.operands[value].dtype != dtype:
            return f"{dtype} from operand {value} of {nest.operands[value].dtype}"
    if name == "scalar" and not (0 <= value < len(nest.scalars) and nest.scalars[value] == dtype):
        return f"scalar {value} as {dtype}; the nest's are {nest.scalars}"
    if name == "index" and not -1 <= value < nest.outer:
        return f"axis {value} of {nest.outer} outer axes"
    if name == "index" and value == -1 and isinstance(stage, Row):
        return "the inner index has no value in a Row stage"
    if name in ("result", "row"):
        return _reference_problem(nest, number, name, dtype, value)
    if dtype in HALVES and name not in _HALF_OPERATIONS:
        return f"arithmetic on {dtype}: widen it to float32"
    if name in ("div", "sqrt", "floor", "ceil", "trunc", "round", "fma") and dtype not in FLOATS:
        return f"{dtype} is no float"
    return None


_HALF_OPERATIONS = frozenset(
    {"load", "gather", "table", "constant", "scalar", "cast", "bitcast", "select", "argument"}
)


def _reference_problem(
    nest: Nest, number: int, name: str, dtype: str, value: tuple[int, int]
) -> str | None:
    stage, j = value
    if not 0 <= stage < number:
        return f"refers to stage {stage}, which is not before it"
    source = nest.stages[stage]
    if name == "result":
        if not isinstance(source, Reduce) or not 0 <= j < len(source.reductions):
            return f"stage {stage} has no reduction {j}"
        combine, at = source.reductions[j]
        made = result_dtype(combine, source.code[at].dtype)
    else:
        if not isinstance(source, Row) or not 0 <= j < len(source.values):
            return f"stage {stage} has no row value {j}"
        made = source.code[source.values[j]].dtype
    return None if made == dtype else f"is {made} there, {dtype} here"
