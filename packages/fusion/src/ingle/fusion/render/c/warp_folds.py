"""How the threads of a warp fold the partial results of a row into one, by shuffles."""

from __future__ import annotations

from ...kernel.code import SIZES
from .code import CodeRenderer
from .dialect import GroupDialect
from .held_lengths import SPAN, WARP
from .inner import each
from .reductions import Partial, joined
from .text import Scope, value_type


def exchange(
    p: Partial, code: CodeRenderer, dialect: GroupDialect, head: Scope, body: Scope
) -> None:
    """Has the two warps of a row know what both have found, in the order of all kernels."""
    kind, both = value_type(p.dtype), f"both_{p.name}"
    head.declare(both, f"{dialect.local} {kind} {both}[{2 * SPAN}];")
    mine, other = f"{both}[2 * part + n]", f"{both}[{SPAN} + 2 * part + n]"
    shared, alone = Scope(), Scope()
    shared.add(dialect.local_barrier)
    each(shared, 2, [f"{both}[2 * threadIdx.x + n] = {p.name}[n];"])
    shared.add(dialect.local_barrier)
    if p.compensated:
        each(alone, 2, p.keep(code, "n"))
        kept = [*p.keep(code, "n")]
        again = [f"{p.name}[n] = {mine};", *kept, f"{p.name}[n] = {other};", *kept]
    else:
        again = [f"{p.name}[n] = {joined(p, code, mine, other)};"]
    each(shared, 2, again)
    body.block("if (!alone)", shared)
    if p.compensated:
        body.block("else", alone)


def fold_pairs(p: Partial, code: CodeRenderer, body: Scope) -> None:
    """Folds the partial results of a warp whose threads have two neighbours each."""
    kind = value_type(p.dtype)
    if p.compensated:
        each(body, 2, p.round(code, "n"))
    value = f"{p.final}[n]"
    wide = "(int)" if p.dtype == "bool" else ""
    moved = f"({kind})__shfl_down_sync(0xffffffffu, {wide}{value}, apart)"
    step = Scope()
    step.add("#pragma unroll")
    step.block("for (int n = 0; n < 2; n++)", [
        f"const {kind} from_other = {moved};",
        f"{value} = {joined(p, code, value, 'from_other')};",
    ])  # fmt: skip
    body.add("#pragma unroll")
    body.block(f"for (int apart = {WARP // 2}; apart > 0; apart /= 2)", step)
    last = joined(p, code, f"{p.final}[0]", f"{p.final}[1]")
    body.add(f"const {kind} whole_{p.name} = {last};")
    body.add(f"{p.final}[0] = ({kind})__shfl_sync(0xffffffffu, {wide}whole_{p.name}, 0);")


def fold_strided(p: Partial, code: CodeRenderer, body: Scope) -> None:
    """Folds the partial results of a warp whose threads have every 32nd of them; each gets the
    result."""
    apart = p.many // 2
    while apart:
        half = Scope()
        half.add(f"const int64_t apart = {apart};")
        p.fold_half(code, half)
        body.block("", half)
        apart //= 2
    parts = [(p.final, value_type(p.dtype), "(int)" if SIZES[p.dtype] < 4 else "")]
    if p.indexed:
        parts = [(p.name, *parts[0][1:]), (p.final, "int64_t", "")]
    step = Scope()
    for name, kind, wide in parts:
        step.add(f"{name}[1] = ({kind})__shfl_down_sync(0xffffffffu, {wide}{name}[0], apart);")
    if p.indexed:
        own = Scope()
        own.add("const int64_t n = 0, apart = 1;", *p.merge(code))
        step.block("", own)
    else:
        step.add(f"{p.final}[0] = {joined(p, code, f'{p.final}[0]', f'{p.final}[1]')};")
    body.add("#pragma unroll")
    body.block(f"for (int apart = {WARP // 2}; apart > 0; apart /= 2)", step)
    for name, kind, wide in parts:
        body.add(f"{name}[0] = ({kind})__shfl_sync(0xffffffffu, {wide}{name}[0], 0);")
