"""Languages that are C but for a few words: what stands in front of a kernel, and around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...kernel.nest import Nest, layout


class Dialect(Protocol):
    """What a language of the C family spells in its own way.

    Attributes:
        preamble: what each source begins with. It defines the types of `<stdint.h>` and the
            functions of `<math.h>` where the language has other names for them, `INGLE_ALIAS` and
            `INGLE_INDEPENDENT`.
        table: the qualifiers of an array of constants beside the functions.
    """

    preamble: str
    table: str

    def memory(self, k: int) -> str:
        """The qualifier of pointers into operand `k`, with a blank behind it."""
        ...

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        """The kernel's head, its brace, and what makes `begin` and `end`."""
        ...

    def operand(self, k: int, kind: str) -> str:
        """Where operand `k` begins, as a value of the pointer type `kind`."""
        ...

    def argument(self, place: int, nest: Nest) -> str:
        """The int64 at a place of `args` in front of the scalars."""
        ...

    def scalar(self, nest: Nest, number: int) -> str:
        """The int64 with the bits of a scalar."""
        ...


def is_vectorized(dialect: Dialect) -> bool:
    """Whether compilers of a dialect take several iterations of a loop at a time where it says
    `INGLE_INDEPENDENT`: its `vectorized`, if it has that."""
    found: bool = getattr(dialect, "vectorized", False)
    return found


def functions_of(dialect: Dialect) -> frozenset[str]:
    """Functions of float32 that a dialect's machines may have instructions for: its `functions`, if
    it has any. Where its preamble defines `INGLE_EXP_FLOAT32`, that is what `exp` calls; the others
    are polynomials."""
    found: frozenset[str] = getattr(dialect, "functions", frozenset())
    return found


class GroupDialect(Dialect, Protocol):
    """A language in which work items form groups with memory of their own.

    Attributes:
        lane, group: the number of a work item in its group, and of the group.
        local: the qualifier of an array that a group shares.
        local_barrier: a statement behind which a group sees what its members wrote there.
        barrier: the same for all memory.
    """

    lane: str
    group: str
    local: str
    local_barrier: str
    barrier: str


class LateDialect(GroupDialect, Protocol):
    """A language whose kernels begin while those before them end, and say where they wait.

    Attributes:
        after_others: a statement behind which all has happened that was launched before.
    """

    after_others: str


class VectorDialect(GroupDialect, Protocol):
    """A language whose work items load and store 16 bytes at a time.

    Attributes:
        width: how many work items a group has.
    """

    width: str


class C11:
    """C as any compiler takes it: a function that gets arrays of pointers and arguments."""

    preamble = """\
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Compile without contraction of a * b + c and without relaxed floating point:
   gcc and clang: -O3 -ffp-contract=off -fno-math-errno; MSVC: /O2 /fp:precise. */
#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "this code needs IEEE arithmetic in the types as they are written"
#endif
#if defined(_WIN32)
#define INGLE_EXPORT __declspec(dllexport)
#else
#define INGLE_EXPORT
#endif
/* An output may lie in the memory of an input of another type, place by place. */
#if defined(__GNUC__)
#define INGLE_ALIAS __attribute__((__may_alias__))
#else
#define INGLE_ALIAS
#endif
/* No iteration reads what another one writes. */
#if defined(__clang__)
#define INGLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INGLE_INDEPENDENT _Pragma("GCC ivdep")
#elif defined(_MSC_VER)
#define INGLE_INDEPENDENT __pragma(loop(ivdep))
#else
#define INGLE_INDEPENDENT
#endif
"""
    table = "static const"
    vectorized = True

    def memory(self, k: int) -> str:
        return ""

    def opening(self, nest: Nest, name: str) -> Sequence[str]:
        return [
            f"INGLE_EXPORT void {name}(void **pointers, const int64_t *args,",
            "    int64_t begin, int64_t end, int64_t worker)",
            "{",
            "    (void)args, (void)worker;",
        ]

    def operand(self, k: int, kind: str) -> str:
        return f"pointers[{k}]"

    def argument(self, place: int, nest: Nest) -> str:
        return f"args[{place}]"

    def scalar(self, nest: Nest, number: int) -> str:
        return f"args[{layout(nest).scalar(number)}]"


C = C11()
