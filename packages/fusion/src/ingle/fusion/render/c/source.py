"""Nests as plain C11: the same results as the LLVM renderer's, for any compiler of C.

What a kernel computes is the same bit for bit, since the core operations are IEEE's, composite
functions are written out by the same rules, and reductions add in the same order. Where one of
them multiplies and adds with one rounding and the other with two (`fma`), mathematical functions
differ in their last place; C does it in one where the compiler says that it is fast
(`FP_FAST_FMAF`, as with `-march=native`). So they do where processors choose among numbers in a
register (`permute`), for which there are other formulas.

The compiler must neither contract nor reorder: `-ffp-contract=off` and no `-ffast-math`. It may use
what it has of vectors: loops over lanes have no dependences and say so.
"""

from __future__ import annotations

from ...kernel.nest import Nest, runs
from ...kernel.validation import validate
from .dialect import C, Dialect
from .inner import InnerNest
from .outer import OuterNest
from .rows import NestRenderer
from .scans import ColumnScan, RowScan


def render(nest: Nest, name: str) -> str:
    """The source of one kernel, a function `name` with the kernels' signature.

    Args:
        nest: is validated; ValueError says what is wrong with it.
        name: of the function.

    >>> from ingle.fusion.kernel.code import CodeBuilder
    >>> from ingle.fusion.kernel.nest import Operand, map_nest
    >>> b = CodeBuilder()
    >>> code, (root,) = b.finish(b.append("neg", "float32", (b.load(0, "float32"),)))
    >>> nest = map_nest(0, [Operand("float32"), Operand("float32", True)], [], code, (1, root))
    >>> print(render(nest, "negative").split("{")[-1])
    <BLANKLINE>
                const float x0_1 = in0[i];
                const float neg_2 = -x0_1;
                out1[i] = neg_2;
            }
        }
    }
    <BLANKLINE>
    """
    return rendered(nest, name, C)


def rendered(nest: Nest, name: str, dialect: Dialect) -> str:
    """The source of one kernel in a language of the C family; see `render`."""
    return renderer(nest, name, dialect).render()


def renderer(nest: Nest, name: str, dialect: Dialect) -> NestRenderer:
    """What writes the source of one kernel in a language of the C family; see `render`."""
    validate(nest)
    if runs(nest):
        return (ColumnScan if nest.lanes == "outer" else RowScan)(nest, name, dialect)
    return (OuterNest if nest.lanes == "outer" else InnerNest)(nest, name, dialect)
