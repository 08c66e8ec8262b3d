"""cuBLASLt played by the processor, by the library's documentation: matrices lie by columns."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

TURNED_A, TURNED_B, EPILOGUE, ADDED = 3, 4, 7, 8
ADDS_ROW = 4
WORKSPACE = 1


class HostCublasLt:
    """What the library does with products to which a row is added.

    Attributes:
        counts: what happened, by name.
        fails: names of functions that fail from now on, with what they answer.
        streams: by their numbers.
        matrix: memory as a matrix; see `host_gpu.matrix`.
    """

    counts: Counter[str]
    fails: dict[str, Any]
    streams: dict[int, Any]
    capturing: bool
    matrix: Callable[..., np.ndarray]

    def _kept(self, place: Any, made: Any) -> int:
        """Keeps what is made under a number."""
        known: dict[int, Any] = self.__dict__.setdefault("_described", {})
        place._obj.value = len(known) + 1
        known[len(known) + 1] = made
        return 0

    def _known(self, number: Any) -> Any:
        return self.__dict__["_described"][number.value]

    def cublasLtMatmulDescCreate(  # noqa: N802 - the library's names
        self, place: Any, sums: int, scale: int
    ) -> int:
        assert (sums, scale) == (68, 0)
        return self._kept(place, {})

    def cublasLtMatmulPreferenceCreate(self, place: Any) -> int:  # noqa: N802
        return self._kept(place, {})

    def cublasLtMatrixLayoutCreate(  # noqa: N802
        self, place: Any, kind: int, rows: Any, columns: Any, leading: Any
    ) -> int:
        assert leading.value >= rows.value
        return self._kept(place, (kind, rows.value, columns.value, leading.value))

    def cublasLtMatmulDescSetAttribute(  # noqa: N802
        self, number: Any, attribute: int, value: Any, size: Any
    ) -> int:
        assert size.value == (8 if attribute == ADDED else 4)
        self._known(number)[attribute] = value._obj.value
        return 0

    def cublasLtMatmulPreferenceSetAttribute(  # noqa: N802
        self, number: Any, attribute: int, value: Any, size: Any
    ) -> int:
        assert size.value == (8 if attribute == WORKSPACE else 4)
        self._known(number)[attribute] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(  # noqa: N802
        self, _handle: Any, work: Any, a: Any, b: Any, c: Any, d: Any, wanted: Any, most: int,
        found: Any, count: Any,
    ) -> int:  # fmt: skip
        name = "cublasLtMatmulAlgoGetHeuristic"
        if name in self.fails:
            return int(self.fails[name])
        assert self._known(c) == self._known(d)
        limits = self._known(wanted)
        assert limits.pop(WORKSPACE) > 0
        (alignment,) = set(limits.values())
        assert len(limits) == 4
        assert self._known(work)[ADDED] % alignment == 0
        found[0], count._obj.value = alignment, 1
        return 0

    def cublasLtMatmul(  # noqa: N802
        self, _handle: Any, work: Any, one: Any, a: Any, a_lies: Any, b: Any, b_lies: Any,
        zero: Any, c: Any, _c_lies: Any, d: Any, d_lies: Any, algorithm: Any, workspace: Any,
        nbytes: Any, stream: Any,
    ) -> int:  # fmt: skip
        self.counts["added a row"] += not self.capturing
        given = dict(self._known(work))
        assert given[EPILOGUE] == ADDS_ROW
        assert (one._obj.value, zero._obj.value) == (1, 0)
        assert workspace.value
        assert nbytes.value
        added = given[ADDED]
        assert not any(p % algorithm[0] for p in (a.value, b.value, c.value, d.value, added))
        (kind, m, n, out_leading) = self._known(d_lies)
        turned = given[TURNED_A], given[TURNED_B]
        (a_kind, *a_size, a_leading), (b_kind, *b_size, b_leading) = map(
            self._known, (a_lies, b_lies)
        )
        assert a_kind == b_kind == kind
        k = a_size[0] if turned[0] else a_size[1]
        assert a_size == ([k, m] if turned[0] else [m, k])
        assert b_size == ([n, k] if turned[1] else [k, n])

        def work_done() -> None:
            left = self.matrix(a, 0, kind, a_leading, turned[0], m, k)
            right = self.matrix(b, 0, kind, b_leading, turned[1], k, n)
            row = self.matrix(ctypes.c_void_p(added), 0, kind, m, 0, m, 1)
            out = self.matrix(d, 0, kind, out_leading, 0, m, n)
            sums = left.astype(np.float32) @ right.astype(np.float32) + row.astype(np.float32)
            out[:] = sums.astype(out.dtype)

        self.streams[stream.value].put(work_done)
        return 0
