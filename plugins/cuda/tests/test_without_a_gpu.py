"""What needs no GPU: kernels compile, products are seen as the library wants them, and what is
missing is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ingle.fusion.device.cuda import for_rows, render
from ingle.fusion.device.kernels import CodeBuilder, Map, Nest, Operand, Reduce
from ingle.tensor.errors import BackendError
from ingle_cuda.driver import compiler, libraries, sources
from ingle_cuda.products.cublas import Operand as Matrix
from ingle_cuda.products.cublas import is_worth_it, operand_of


@pytest.fixture
def compiled() -> Any:
    """Compiles CUDA C++, where NVRTC is installed."""
    try:
        libraries.library("nvrtc")
    except BackendError as error:
        pytest.skip(str(error))
    return lambda source: compiler.machine_code(source, "sm_90")


def softmax(dtype: str) -> Nest:
    """A maximum, a sum of exponentials, and a map: what groups of threads do together."""
    operands = (Operand(dtype), Operand(dtype, True))
    stages: list[Any] = []
    b = CodeBuilder()
    x = b.load(0, dtype)
    code, (root,) = b.finish(b.append("cast", "float32", (x,)) if dtype != "float32" else x)
    stages.append(Reduce(code, (("max", root),)))
    for last in (False, True):
        b = CodeBuilder()
        x = b.load(0, dtype)
        x = b.append("cast", "float32", (x,)) if dtype != "float32" else x
        most = b.append("result", "float32", (), (0, 0))
        power = b.append("exp", "float32", (b.append("sub", "float32", (x, most)),))
        if not last:
            code, (root,) = b.finish(power)
            stages.append(Reduce(code, (("sum", root),)))
            continue
        total = b.append("result", "float32", (), (1, 0))
        found = b.append("div", "float32", (power, total))
        found = b.append("cast", dtype, (found,)) if dtype != "float32" else found
        code, (root,) = b.finish(found)
        stages.append(Map(code, ((1, root),)))
    return Nest(1, operands, (), tuple(stages))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_nest_with_reductions_compiles(compiled: Any, dtype: str) -> None:
    source = render(softmax(dtype), "nest")
    assert "__syncthreads" in source
    # Of wide elements several are loaded before the first is computed with.
    assert source.count("ahead0[n] = ") == (3 if dtype == "float32" else 0)
    assert compiled(source)[:4] == b"\x7fELF"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "exp", "log"])
def test_functions_compile(compiled: Any, name: str) -> None:
    b = CodeBuilder()
    code, (root,) = b.finish(b.append(name, "float64", (b.load(0, "float64"),)))
    nest = Nest(0, (Operand("float64"), Operand("float64", True)), (), (Map(code, ((1, root),)),))
    assert compiled(render(nest, "nest"))


@pytest.mark.slow
def test_kernels_by_hand_compile(compiled: Any) -> None:
    windows = [sources.windows_source(2, rank, over) for rank in (1, 3) for over in (True, False)]
    for source in (
        sources.numbers_source(), sources.taken_source(),
        *[sources.copy_source(n) for n in (1, 2, 4, 8)], *windows,
    ):  # fmt: skip
        assert compiled(source)


def test_what_does_not_compile_is_shown(compiled: Any) -> None:
    with pytest.raises(BackendError, match=r"NVRTC: .*nothing(.|\n)*int x = nothing;"):
        compiled("int x = nothing;")


@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        ((7, 1), Matrix(False, 7, False, ())), ((9, 1), Matrix(False, 9, False, ())),
        ((1, 5), Matrix(True, 5, False, ())), ((1, 8), Matrix(True, 8, False, ())),
        ((14, 2), Matrix(False, 7, True, ())), ((-7, 1), Matrix(False, 7, True, ())),
        ((0, 1), Matrix(False, 7, True, ())), ((3, 1), Matrix(False, 7, True, ())),
    ],
)  # fmt: skip
def test_which_matrices_the_library_reads(strides: Any, expected: Matrix) -> None:
    """Rows or columns side by side and apart from each other; others are copied."""
    assert operand_of((), 5, 7, strides) == expected


def test_a_row_and_a_column_lie_in_order() -> None:
    assert operand_of((), 1, 7, (100, 1)) == Matrix(False, 7, False, ())
    assert operand_of((), 7, 1, (1, 100)) == Matrix(False, 1, False, ())
    assert operand_of((), 7, 1, (3, 100)) == Matrix(False, 3, False, ())  # rows apart
    assert not operand_of((4,), 5, 7, (0, 7, 1)).copied
    assert operand_of((4, 2), 5, 7, (0, 35, 14, 2)).steps == (70, 35)


def test_sizes_that_no_32_bits_hold() -> None:
    """The driver counts blocks, and cuBLAS rows and distances, in 31 bits: more is cut up, copied
    or computed by a kernel."""
    rows = (1 << 32) + 5
    grid = for_rows(softmax("bfloat16"), "nest", (rows, 100, 100, 1, 100, 1), 132)[1]
    assert grid.blocks < 1 << 31
    assert rows <= grid.blocks * grid.grain < 2 * rows
    assert operand_of((), 5, 7, (1 << 31, 1)).copied
    assert operand_of((), 5, 7, (1, 1 << 31)).copied
    assert not operand_of((), 5, 7, ((1 << 31) - 1, 1)).copied
    assert is_worth_it("float16", 8, 8, (1 << 31) - 1)
    assert not is_worth_it("float16", 8, 8, 1 << 31)
    assert not is_worth_it("float16", 1 << 31, 8, 8)


PROGRAM = """
import ingle.tensor as it
from ingle.tensor.errors import IngleError
assert it.zeros(3).tolist() == [0, 0, 0]
try:
    it.zeros(3, device="cuda")
except IngleError as error:
    print(error)
"""


@pytest.mark.slow
def test_where_there_is_no_gpu_it_says_so() -> None:
    if libraries.driver() is not None:
        pytest.skip("there is a driver")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert "no NVIDIA GPU was found" in done.stdout
