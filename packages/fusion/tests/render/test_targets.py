"""Kernels for other processors: that they compile, and call nothing."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ingle.fusion.kernel.code import COMPOSITE, FLOATS, INTEGERS, CodeBuilder
from ingle.fusion.kernel.functions import short
from ingle.fusion.kernel.nest import Map, Nest, Operand, Reduce, Row, map_nest, result_dtype
from ingle.fusion.render.llvm.source import render
from ingle.fusion.render.llvm.targets import AVX2, AVX512, NEON, SSE2, Target, target_of

MACHINES = {
    "sse2": (SSE2, "x86_64-unknown-linux-gnu", "x86-64"),
    "avx2": (AVX2, "x86_64-unknown-linux-gnu", "x86-64-v3"),
    "avx512": (AVX512, "x86_64-unknown-linux-gnu", "x86-64-v4"),
    "neon": (NEON, "aarch64-unknown-linux-gnu", "generic"),
}


def undefined_symbols(data: bytes) -> set[str]:
    """Names that a 64-bit ELF object does not define itself."""
    offset, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * n) for n in range(count)]
    found: set[str] = set()
    for head in heads:
        if head[1] != 2:  # SHT_SYMTAB
            continue
        start, size, names = head[4], head[5], heads[head[6]][4]
        for at in range(start + 24, start + size, 24):
            name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
            if section == 0:
                end = data.index(b"\0", names + name)
                found.add(data[names + name : end].decode())
    return found


def nests() -> dict[str, Nest]:
    """Many kernels: each composite function, casts, reductions, masks, gathers."""
    found: dict[str, Nest] = {}
    for name, arity in COMPOSITE.items():
        dtypes = ["float32"] if name in short.EXPANSIONS else ["float32", "float64"]
        if name in ("pow", "rem", "floor_div", "sign"):
            dtypes += ["int32", "int64", "uint8"]
        for dtype in dtypes:
            b = CodeBuilder()
            args = tuple([b.load(k, dtype) for k in range(arity)])
            code, (root,) = b.finish(b.append(name, dtype, args))
            operands = [*[Operand(dtype)] * arity, Operand(dtype, True)]
            found[f"{name}_{dtype}"] = map_nest(0, operands, [], code, (arity, root))
    for source in sorted(FLOATS | INTEGERS | {"bool"}):
        b = CodeBuilder(exact=True)
        others = sorted((FLOATS | INTEGERS | {"bool"}) - {source})
        x = b.load(0, source)
        code, roots = b.finish(*[b.cast(x, to) for to in others])
        operands = [Operand(source), *[Operand(to, True, "strided") for to in others]]
        found[f"casts_{source}"] = map_nest(1, operands, [], code, *enumerate(roots, 1))
    for dtype in ("float32", "float64", "int8", "int64"):
        found |= _reductions(dtype)
    for name in ("floor", "ceil", "trunc", "round", "fma", "scale", "residue"):
        b = CodeBuilder()
        args = [b.load(0, "float64")] * {"fma": 3, "scale": 2, "residue": 2}.get(name, 1)
        code, (root,) = b.finish(b.append(name, "float64", tuple(args)))
        operands = [Operand("float64"), Operand("float64", True)]
        found[name] = map_nest(0, operands, [], code, (1, root))
    return found


def _reductions(dtype: str) -> dict[str, Nest]:
    found = {}
    for lanes in ("inner", "outer"):
        b = CodeBuilder()
        x = b.load(0, dtype)
        code, (root,) = b.finish(x)
        combines = ("sum", "max", "argmin")
        made = [result_dtype(c, dtype) for c in combines]
        b = CodeBuilder()
        after, roots = b.finish(*[b.append("result", d, (), (0, j)) for j, d in enumerate(made)])
        lane = "zero" if lanes == "inner" else "unit"
        operands = (Operand(dtype), *[Operand(d, True, lane) for d in made], Operand(dtype, True))
        b = CodeBuilder()
        last, (out,) = b.finish(
            b.append("sub", dtype, (b.load(0, dtype), b.append("result", dtype, (), (0, 1))))
        )
        stages = (
            Reduce(code, tuple((c, root) for c in combines)),
            Row(after, tuple(enumerate(roots, 1))),
            Map(last, ((4, out),)),
        )
        found[f"reduce_{dtype}_{lanes}"] = Nest(2, operands, (), stages, lanes)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("machine_name", MACHINES)
def test_objects_call_nothing(machine: Any, machine_name: str) -> None:
    target, triple, cpu = MACHINES[machine_name]
    binding = machine.binding
    compiler = binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=1, reloc="pic", codemodel="small"
    )
    for name, nest in nests().items():
        module = binding.parse_assembly(render(nest, name, target))
        module.verify()
        module.triple = triple
        missing = undefined_symbols(compiler.emit_object(module))
        assert not missing, f"{name} for {machine_name} calls {missing}"


def test_targets_by_features() -> None:
    assert target_of({"sse4.2"}) is SSE2
    assert target_of({"avx2", "fma", "f16c"}) is AVX2
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    assert target_of(wide | {"avx2", "fma", "f16c"}) is AVX512
    assert target_of((), "arm64") is NEON


def test_text_depends_on_the_nest_alone() -> None:
    nest = nests()["exp_float32"]
    target: Target = AVX512
    assert render(nest, "k", target) == render(nest, "k", target)
