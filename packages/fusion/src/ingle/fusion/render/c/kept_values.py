"""Values that one stage of a nest computes and a later one needs, which a thread may keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...kernel.code import COMPOSITE, Code
from ...kernel.nest import Row
from .prepared import VARYING, Prepared

_DEAR = 8
"""Instructions from which on a value is kept rather than computed again."""


def values_kept(stages: Sequence[Prepared]) -> list[dict[int, str]]:
    """For each stage the values that one stage reduces and a later one needs, with names."""
    found: list[dict[int, str]] = [{} for _ in stages]
    numbers: dict[object, int] = {}
    keys = [_keys(stage.code, numbers) for stage in stages]
    for number, stage in enumerate(stages):
        for at in dict.fromkeys(stage.ends):
            if isinstance(stage.stage, Row) or stage.levels[at] != VARYING:
                continue
            if stage.code[at].dtype != "float32" or keys[number][at][1] < _DEAR:
                continue
            later = [
                (n, place)
                for n in range(number + 1, len(stages))
                for place, key in enumerate(keys[n])
                if key[0] == keys[number][at][0]
            ]
            if later and at not in found[number]:
                name = f"kept_{number}_{at}"
                for n, place in [(number, at), *later]:
                    found[n][place] = name
    return found


def earlier_values(kept: Mapping[int, str], number: int) -> dict[int, str]:
    """Of the values that a stage keeps or finds, those that an earlier one has computed."""
    return {at: name for at, name in kept.items() if name != f"kept_{number}_{at}"}


def most_at_once(
    stages: Sequence[Prepared],
    kept: Sequence[Mapping[int, str]],
    inputs: Iterable[int],
    registers: Mapping[int | str, int],
) -> int:
    """The registers that a thread has between two stages, at most.

    Args:
        kept: what `values_kept` says of the stages.
        inputs: operands that are loaded before the first stage.
        registers: of operands that are held, and of values that are kept, by name.
    """
    first: dict[int | str, int] = dict.fromkeys(inputs, -1)
    last = dict(first)
    for number, (stage, names) in enumerate(zip(stages, kept, strict=True)):
        loads = _loads(stage, earlier_values(names, number))
        at_hand: list[int | str] = [*loads, *[k for k, _ in stage.stores], *names.values()]
        for held in at_hand:
            first.setdefault(held, number)
            last[held] = number
    return max(
        sum(n for held, n in registers.items() if first[held] < number <= last[held])
        for number in range(len(stages))
    )


def _loads(stage: Prepared, known: Iterable[int]) -> set[int]:
    """The operands that a stage loads for what leaves it, where some of its values are known."""
    waiting, seen, found = list(stage.roots), set(known), set[int]()
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            instruction = stage.code[at]
            if instruction.name == "load" and isinstance(instruction.value, int):
                found.add(instruction.value)
            waiting += instruction.args
    return found


def is_written_again(stages: Sequence[Prepared], number: int, k: int) -> bool:
    """Whether what a stage computes of an operand need not be written, where whoever reads it has
    it in registers: a later stage writes it once more."""
    later = stages[number + 1 :]
    if any(isinstance(stage.stage, Row) for stage in later):
        return False
    return any(k == other for stage in later for other, _ in stage.stores)


def _keys(code: Code, numbers: dict[object, int]) -> list[tuple[int, int]]:
    """For each instruction a number of what it computes, and how many it takes at most.

    A `CodeBuilder` numbers values, too, but one code's, and simplifies what it appends.

    Args:
        numbers: of all that was met in other code.
    """
    found: list[tuple[int, int]] = []
    for name, dtype, args, value in code:
        key = (name, dtype, value, tuple([found[a][0] for a in args]))
        own = _DEAR if name in COMPOSITE else 1
        found.append((numbers.setdefault(key, len(numbers)), own + sum(found[a][1] for a in args)))
    return found
