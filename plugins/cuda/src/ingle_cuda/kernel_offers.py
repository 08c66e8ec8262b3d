"""Offers of kernels that are written for one operation: how these are launched, in plain code and
within executables."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.fusion.device import WholeCall
from ingle.fusion.device.kernel_backend import MemoryHandle, StridedHandle
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op, infer

from .cudnn import Strides, strides_of
from .driver.errors import told
from .row_lines import BYTES

if TYPE_CHECKING:
    from .backend import CudaBackend

SCRATCH = -1
"""The number of a pointer to scratch memory."""
_MOST = 1024
"""Kinds of operands whose launches are kept."""


class KernelLaunch(NamedTuple):
    """A kernel with all but addresses.

    Attributes:
        source, name: of the kernel.
        operands: numbers of its pointers among operands and results, or `SCRATCH`.
        numbers: what follows the addresses in its argument.
        blocks, threads: of the grid.
        early: operands that it reads before it waits for the launches in front of it.
        joins: whether several launches of it may be one kernel's (`render_many`); its pointers are
            the operands and results in order then.
        changing: for each number from `changes_at` on its position among those that each run is
            given, -1 for one that never changes; nothing where none is given.
        changes_at: the place of the first of these.
    """

    source: str
    name: str
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    blocks: int
    threads: int
    early: tuple[int, ...] = ()
    joins: bool = False
    changing: tuple[int, ...] = ()
    changes_at: int = 0

    def argument(self) -> Any:
        """The kernel's argument, with zeros in the place of addresses."""
        first = len(self.operands) + 1
        return (ctypes.c_int64 * (first + len(self.numbers)))(*[0] * first, *self.numbers)


class Launches(NamedTuple):
    """The kernels of an operation.

    Attributes:
        kernels: one behind the other.
        nbytes: of the scratch memory that they share.
        number_at: where, among the numbers of each, the bits of the operand lie that is one; None
            if none is.
        words_at: the place of the first of the words that say where random bits are drawn.
    """

    kernels: tuple[KernelLaunch, ...]
    nbytes: int
    number_at: int | None
    words_at: int = 0

    def given(self, number: Scalar | int | None) -> Launches | None:
        """The same with the operand that is a number; None if what is given is none."""
        if self.number_at is None:
            return self
        if not isinstance(number, Scalar):
            return None
        bits = int(np.asarray(number.value.real, np.float32).view(np.int32))
        return self._with(self.number_at, [bits])

    def drawn_at(self, words: Sequence[Scalar | int]) -> Launches:
        """The same with random bits from a place, each of whose words is a number, or the position
        of one that each run is given."""
        if not words:
            return self
        given = [int(w.value.real) if isinstance(w, Scalar) else 0 for w in words]
        found = self._with(self.words_at, given)
        changing = tuple([w if isinstance(w, int) else -1 for w in words])
        if not any(n >= 0 for n in changing):
            return found
        kernels = [k._replace(changing=changing, changes_at=self.words_at) for k in found.kernels]
        return found._replace(kernels=tuple(kernels))

    def _with(self, at: int, numbers: Sequence[int]) -> Launches:
        kernels = [
            k._replace(numbers=(*k.numbers[:at], *numbers, *k.numbers[at + len(numbers) :]))
            for k in self.kernels
        ]
        return self._replace(kernels=tuple(kernels))


class KernelOffer(ABC):
    """What generated kernels compute, with one operand that may be a number, and perhaps the words
    of a place in the random stream.

    Args:
        backend: of a GPU of NVIDIA's.
    """

    def __init__(self, backend: CudaBackend) -> None:
        self.backend = backend
        self._known: dict[Hashable, Launches | None] = {}

    @abstractmethod
    def takes(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether there are kernels for an operation."""

    @abstractmethod
    def launches(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: Sequence[Strides] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        """The kernels, with any number; None for operands that they do not take.

        Args:
            strides: of the tensors.
            results: strides of the results; in C order if none are given.
            offsets: of the tensors from a multiple of 16 bytes, in bytes.
        """

    @abstractmethod
    def number_of(self, op: Op) -> int:
        """The operand that may be a number, which kernels take as a float32."""

    def words_of(self, op: Op) -> tuple[int, ...]:
        """The operands that are those words."""
        return ()

    def launched(self, call: WholeCall) -> Launches | None:
        """The kernels of an operation within executables, whose inputs begin at multiples of 16
        bytes; None where operands or results have to be copied."""
        number = call.numbers[self.number_of(call.op)]
        words = [w for n in self.words_of(call.op) if (w := call.numbers[n]) is not None]
        if len(words) < len(self.words_of(call.op)):
            return None
        given = [a for a, number in zip(call.avals, call.numbers, strict=True) if number is None]
        offsets = [
            argument.offset * aval.dtype.itemsize % BYTES
            for argument, aval in zip(call.operands, given, strict=True)
        ]
        results = tuple([a.strides for a in call.outputs])
        found = self._of(call.op, call.avals, call.strides, results, offsets)
        whole = None if found is None else found.given(number)
        return None if whole is None else whole.drawn_at(words)

    def run(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Puts the kernels into the stream."""
        number = inputs[self.number_of(op)]
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        words = [self._word(inputs[n]) for n in self.words_of(op)]
        tensors = [x for n, x in enumerate(inputs) if n not in self.words_of(op)]
        handles = [x for x in tensors if isinstance(x, MemoryHandle | StridedHandle)]
        found = self._lying(op, avals, handles)
        if found is None:
            handles = [self.backend.in_order(x) for x in handles]
            found = self._lying(op, avals, handles)
        assert found is not None, "takes() has seen it"
        made = [self.backend.empty(aval) for aval in infer(op, avals)]
        found = found.given(number if isinstance(number, Scalar) else None)
        assert found is not None, f"operand {self.number_of(op)} must be a number"
        self._put(op, found.drawn_at(words), [h.address for h in (*handles, *made)])
        return tuple(made)

    def _word(self, word: Handle | Scalar) -> Scalar:
        """A word of a place; one that the GPU has computed is read."""
        if isinstance(word, Scalar):
            return word
        return Scalar(int(self.backend.download(word)), word.dtype)

    def _put(self, op: Op, found: Launches, places: Sequence[int]) -> None:
        backend = self.backend
        kernels = [backend.kernel(launch.source, launch.name) for launch in found.kernels]
        # The pool gives it to others only behind what the stream does until then.
        scratch = backend.allocate(max(found.nbytes, 1))
        with backend.lock, told(backend.device, f"{op.operation.name} was launched"):
            for kernel, launch in zip(kernels, found.kernels, strict=True):
                pointers = [scratch.address if n == SCRATCH else places[n] for n in launch.operands]
                given = launch.argument()
                given[: len(pointers)] = pointers
                backend.enqueue(kernel, given, launch.blocks, launch.threads, backend.stream)

    def _lying(
        self, op: Op, avals: Sequence[Aval], handles: Sequence[MemoryHandle | StridedHandle]
    ) -> Launches | None:
        strides = [strides_of(h) for h in handles]
        return self._of(op, avals, strides, None, [h.address % BYTES for h in handles])

    def _of(
        self, op: Op, avals: Sequence[Aval], strides: Sequence[Strides],
        results: tuple[Strides, ...] | None, offsets: Sequence[int],
    ) -> Launches | None:  # fmt: skip
        key = op, *avals, *strides, results, *offsets
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = self.launches(op, avals, strides, results, offsets)
        return self._known[key]
