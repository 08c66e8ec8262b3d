"""The backend of one GPU: a stream, memory, kernels from source, products by cuBLAS."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ingle.fusion.device import (
    Launch,
    Offer,
    Ordered,
    WholeCall,
    axes_by_strides,
    taker,
)
from ingle.fusion.device.cuda import (
    AFTER_OTHERS,
    ALONE_AFTER_OTHERS,
    THREADS,
    launch_of,
    sums_beside_maps,
    sums_beside_rows,
)
from ingle.fusion.device.kernel_backend import Held, KernelBackend, MemoryHandle, StridedHandle
from ingle.fusion.device.kernels import Nest, WindowProblem, layout
from ingle.tensor import settings
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import Device
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.eager import Road
from ingle.tensor.errors import LostDeviceError
from ingle.tensor.locks import renewed
from ingle.tensor.memory import Label, Pool, pool_from_environment
from ingle.tensor.operation import Op
from ingle.tensor.ops.quantization.products import QUANTIZED_LINEAR

from . import peers
from .arrays.array_library import ArrayLibrary
from .attention.core_attention import CoreAttention
from .attention.cudnn_attention import Attention
from .attention.decode_attention import DecodeAttention
from .attention.flash_attention import FlashAttention
from .attention.tensor_cores import has_tensor_cores
from .codes.row_products import RowProducts
from .codes.weights import Weights
from .convolution import Convolutions
from .cudnn import LibraryOffer, Plans, Prepared
from .driver import nvml
from .driver.compiler import Kernel, machine_code
from .driver.devices import Limits
from .driver.errors import checked, told
from .driver.flags import TO_HOST, FlagReader
from .driver.forks import forks
from .driver.libraries import cupy, driver
from .driver.memory import DeviceSource, speak_to
from .driver.rates import gpu_rates
from .driver.staging import TO_DEVICE, Arrival, Staging
from .graphs.dependent_launches import can_overlap, launch_dependent
from .graphs.host_numbers import Place
from .graphs.launches import Executable, executable
from .graphs.library_steps import WORKSPACE_ALIGNMENT
from .kernel_offers import KernelOffer, Launches
from .products import cublas
from .products.product_libraries import ProductLibraries
from .products.product_results import sums_are_short
from .products.tile_products import has_clusters

_ON_DEVICE = 3
_ONE_POINTER = ctypes.c_void_p * 1
_GROUPS = 16
"""Groups of a convolution up to which each is a product worth the library."""


class CudaBackend(KernelBackend):
    """Runs kernels in a stream of the GPU, which works while Python goes on.

    Args:
        device: its name in Ingle.
        limits: what the GPU says of itself.

    Attributes:
        lock: of whoever puts something into the stream.
        cupy: CuPy itself, for this GPU.
        stream: CuPy's, in which everything happens in order.
        graphs: whether plans that run again become graphs.
        joins: whether neighbouring launches of one flat kernel become one.
        overlaps: whether launches of a graph may begin while the one before them ends.
        tiles: whether small products in float32 are kernels of their own.
        products: the libraries that compute matrix products.
        branches: whether kernels of a graph run side by side where none waits for another.
        given_up: memory of the host that graphs may still read though nobody launches them again.
    """

    name = "cuda"
    language = "cuda"
    writes_over = True
    splits_sums = True
    aligns_rows = True
    joins_launches = True
    joined_operations = frozenset({QUANTIZED_LINEAR})
    calls_beside = 6
    places_results = True
    joins_maps = True

    def __init__(self, device: Device, limits: Limits) -> None:
        super().__init__(device)
        self.limits = limits
        self.rates = gpu_rates(limits)
        self.graphs = settings.switch("INGLE_CUDA_GRAPHS", True)
        self.joins = settings.switch("INGLE_CUDA_JOINED", True)
        self.branches = settings.switch("INGLE_CUDA_BRANCHES", True)
        overlaps = settings.switch("INGLE_CUDA_OVERLAP", True)
        self.overlaps = overlaps and can_overlap(limits.architecture)
        self._tensor_float = settings.switch("INGLE_CUDA_TF32", False)
        is_nvidia = limits.architecture.startswith("sm_")  # with warps of 32
        tiles = is_nvidia and not self._tensor_float
        self.tiles = tiles and settings.switch("INGLE_CUDA_TILES", True)
        clusters = settings.switch("INGLE_CUDA_CLUSTERS", True)
        self.clusters = clusters and has_clusters(limits.architecture)
        self._forks = forks.count
        self.cupy = cupy()
        self._runtime = self.cupy.cuda.runtime
        self._launch_kernel = self.cupy.cuda.driver.launchKernel
        found = driver()
        assert found is not None
        self._driver = found
        with told(device, "it was opened"):
            speak_to(limits.number)
            self._runtime.free(0)  # which makes the context
            self._context = ctypes.c_void_p()
            checked(found.cuCtxGetCurrent(ctypes.byref(self._context)))
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
        # Steps that meet the same memory again are graphs.
        self._pool = pool_from_environment(DeviceSource(limits.number), "ordered")
        self.lock = renewed(self, "lock")
        self._staging = Staging()
        self._flags = FlagReader(device, self.enter, self.cupy.cuda)
        offers: list[Offer] = []
        if settings.switch("INGLE_CUDA_CUDNN", True):
            plans = Plans(self, self._tensor_float)
            offers += [Convolutions(self, plans), Attention(self, plans)]
        if is_nvidia:
            offers.append(DecodeAttention(self))
            offers += [CoreAttention(self)] if has_tensor_cores(limits.architecture) else []
            offers.append(FlashAttention(self))
            offers += [RowProducts(self), Weights(self)]
        self.offers = tuple(offers)
        self._arrays = ArrayLibrary(self)
        self._capture: Any = None
        self._beside: list[Any] = []
        self._aside: Any = None
        self.products = ProductLibraries(self.allocate, self._tensor_float)
        self.given_up: list[Place] = []
        self._scratch: Held | None = None
        self._scratch_bytes = 0

    def memory(self) -> Pool:
        """The pool of the device's memory."""
        return self._pool

    # What `KernelBackend` asks -----------------------------------------------------------------

    def compile_source(self, source: str, name: str) -> Kernel:
        self.enter()
        code = machine_code(source, self.limits.architecture)
        with told(self.device, "a kernel was loaded"):
            waits = AFTER_OTHERS in source or ALONE_AFTER_OTHERS in source
            return Kernel(code, name, waits)

    def launch(
        self, kernel: Any, pointers: Sequence[int], args: Sequence[int], begin: int, end: int
    ) -> None:
        """Runs a kernel that was written by hand: a thread for each unit of work, and some more.

        It takes pointers, 64-bit integers, and at their end the numbers of the first unit and
        behind the last.
        """
        values = [ctypes.c_int64(v) for v in (*pointers, *args, begin, end)]
        params = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.enter()
        with self.lock, told(self.device, "a kernel was launched"):
            self._launch(kernel, params, -(-(end - begin) // THREADS), THREADS, self.stream)

    def empty(self, aval: Aval) -> MemoryHandle:
        """New memory, labelled for statistics and messages."""
        self.enter()
        memory = Held(self._pool.allocate(*_request(aval)))
        return MemoryHandle(self, aval, memory, memory.address)

    def allocate(self, nbytes: int) -> Held:
        self.enter()
        return Held(self._pool.allocate(nbytes))

    def write(self, address: int, array: np.ndarray) -> None:
        self.enter()
        with told(self.device, f"{array.nbytes} bytes were written"):
            self._runtime.memcpyAsync(
                address, _address(array), array.nbytes, TO_DEVICE, self.stream.ptr
            )
            # The driver has its own copy of what lies in ordinary memory by now.

    def read(self, address: int, array: np.ndarray) -> None:
        self.enter()
        with told(self.device, f"{array.nbytes} bytes were read"):
            self._runtime.memcpyAsync(
                _address(array), address, array.nbytes, TO_HOST, self.stream.ptr
            )
            self.stream.synchronize()

    def empty_flag(self, aval: Aval) -> MemoryHandle:
        """Memory for flags that nobody but the host reads."""
        self.enter()
        place = self._flags.place(math.prod(aval.shape))
        return MemoryHandle(self, aval, place, place.address)

    def begin_flags(self, handles: Sequence[Ordered]) -> Callable[[], Sequence[bool]]:
        """Returns what waits until the stream has come here, and says which are set."""
        self.enter()
        with self.lock, told(self.device, "flags were read"):
            return self._flags.begin(handles, self.stream)

    def stage(self, array: np.ndarray) -> Handle:
        """`upload` by way of memory that the GPU reads by itself; nobody waits for the copy."""
        handle = self.empty(Aval(array.shape, from_numpy_dtype(array.dtype)))
        if array.size:
            self.enter()
            with self.lock, told(self.device, f"{array.nbytes} bytes were written"):
                self._staging.write(handle.address, np.ascontiguousarray(array), self.stream)
        return handle

    def begin_download(self, handle: Any) -> None:
        """Puts a copy to the host into the stream, which `download` waits for."""
        nbytes = math.prod(handle.shape) * handle.dtype.itemsize
        if nbytes and handle.prepacked is None:
            address = self.in_order(handle).address
            self.enter()
            with self.lock, told(self.device, f"{nbytes} bytes were read"):
                handle.prepacked = self._staging.read(address, nbytes, self.stream)

    def fetch(self, handle: Any, array: np.ndarray) -> None:
        """`KernelBackend.fetch`, of a copy that is under way where there is one."""
        arrival: Arrival | None = handle.prepacked
        if arrival is None:
            super().fetch(handle, array)
            return
        self.enter()
        with told(self.device, f"{array.nbytes} bytes were read"):
            arrival.fill(array)

    def gauges(self) -> dict[str, float]:
        """How busy the GPU is, its memory, temperature and power, as far as they can be read."""
        self.enter()
        with told(self.device, "its memory was asked for"):
            free, total = self._runtime.memGetInfo()
            place = self._runtime.deviceGetPCIBusId(self.limits.number)
        return {"used": float(total - free), "total": float(total), **nvml.gauges(place)}

    def synchronize(self) -> None:
        self.enter()
        with told(self.device, "it was waited for"):
            self.stream.synchronize()

    def copy(self, handle: Handle, backend: Any) -> Handle | None:
        """A value of this GPU on another one; None if the other end is none."""
        there = isinstance(backend, CudaBackend) and isinstance(handle.backend, CudaBackend)
        return peers.copied(handle, backend) if there else None

    def reduce(self, groups: Sequence[Sequence[Handle]]) -> list[Handle] | None:
        """The sums of values of several GPUs, at the first of each group; None without NCCL."""
        if any(not isinstance(h.backend, CudaBackend) for group in groups for h in group):
            return None
        return peers.summed(groups)

    def products_apart(self, dtype: str, terms: int) -> bool:
        """Whether what follows a product of so many terms gets it in its own dtype."""
        return sums_are_short(dtype, terms)

    def sums_beside_rows(self, rows: int, columns: int) -> int:
        """As many as a block of threads has memory for, where blocks of rows fill the GPU."""
        return sums_beside_rows(rows, columns, self.limits.processors)

    def road(self, op: Op, inputs: Sequence[Handle | Scalar | Aval]) -> Road:
        """As a backend of kernels, which has what CuPy computes by itself."""
        way = self._arrays.way(op, [Aval(x.shape, x.dtype) for x in inputs])
        return super().road(op, inputs) if way is None else "native"

    def by_library(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...] | None:
        """What CuPy computes: long sorts, transforms, decompositions and complex numbers.

        The host looks at what has no solution again, to say why.
        """
        way = self._arrays.way(op, [Aval(x.shape, x.dtype) for x in inputs])
        if way is None:
            return None
        found = way(op, inputs)
        return self._computed_by_host(op, inputs) if found is None else found

    def workspace_of(self, call: WholeCall) -> int:
        """Bytes that a library works in, with what it takes to begin at a multiple of a line."""
        found = self.whole_step(call)
        if found is None or not isinstance(found[1], Prepared) or not found[1].plan.nbytes:
            return 0
        return found[1].plan.nbytes + WORKSPACE_ALIGNMENT

    def sums_beside_maps(self, rows: int, columns: int) -> int:
        """As many as a thread has registers for, where there are threads enough."""
        return sums_beside_maps(rows, columns, self.limits.processors)

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether cuBLAS takes a matrix product of these."""
        a, b = avals
        return cublas.is_worth_it(a.dtype.name, a.shape[-2], b.shape[-1], a.shape[-1])

    def axes_in_memory(self, handle: Handle) -> tuple[int, ...] | None:
        """The axes, the one along which elements lie closest last: cuBLAS takes transposed operands
        as they are, and its sums depend on that."""
        if not isinstance(handle, StridedHandle):
            return None
        return axes_by_strides(handle.shape, handle.strides)

    def takes_windows(self, problem: WindowProblem) -> bool:
        """Whether a product with windows is one of cuBLAS with a copy of them."""
        sizes = problem.m, problem.n, problem.k
        return problem.groups <= _GROUPS and cublas.is_worth_it(problem.dtype, *sizes)

    def launches_whole(self, call: WholeCall) -> bool:
        """Whether executables compute an operation by a library or kernels of an offer.

        Numbers are values that these hold, no addresses of what changes; words of a place in the
        random stream kernels are given anew in each run.
        """
        found = self.whole_step(call)
        return found is not None and (not call.scalars or isinstance(found[1], Launches))

    def whole_step(
        self, call: WholeCall
    ) -> tuple[LibraryOffer, Prepared] | tuple[KernelOffer, Launches] | None:
        """The offer that computes an operation within executables, and how."""
        if self.has_custom_kernel(call.op, call.avals):
            return None
        offer = taker(self.offers, call.op, call.avals)
        if not isinstance(offer, LibraryOffer | KernelOffer):
            return None
        found = offer.launched(call)
        return None if found is None else (offer, found)  # type: ignore[return-value]

    def executable(
        self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]
    ) -> Executable:
        """Kernels, compiled and ready for the stream."""
        return executable(self, launches, scalars)

    def run_nest(
        self, nest: Nest, sizes: Sequence[int], pointers: Sequence[int], args: Sequence[int]
    ) -> None:
        """Runs all units of a nest by itself, without a plan."""
        assert len(args) == layout(nest).scalar(len(nest.scalars))
        source, grid, taken = launch_of(nest, "nest", args, self.limits.processors)
        behind = [*args, 0, taken, grid.grain]
        given = (ctypes.c_int64 * (len(pointers) + 1 + len(behind)))(*pointers, 0, *behind)
        kernel = self.kernel(source or nest)
        self.enter()
        with self.lock, told(self.device, "a kernel was launched"):
            self.enqueue(kernel, given, grid.blocks, grid.threads, self.stream)

    # What executables ask ----------------------------------------------------------------------

    def duplicate(self, to: int, of: int, nbytes: int) -> None:
        """Puts a copy from memory of the GPU to other memory of it into the stream."""
        self._runtime.memcpyAsync(to, of, nbytes, _ON_DEVICE, self.stream.ptr)

    def enqueue(
        self, kernel: Any, given: Any, blocks: int, threads: int, stream: Any, overlap: bool = False
    ) -> None:
        """Puts a kernel with one argument into a stream.

        Args:
            overlap: whether it may begin while the one before it ends, if it waits by itself.
        """
        params = _ONE_POINTER(ctypes.addressof(given))
        if overlap and kernel.after_others and blocks:
            launch_dependent(self._driver, kernel, params, blocks, threads, stream.ptr)
        else:
            self._launch(kernel, params, blocks, threads, stream)

    def _launch(self, kernel: Any, params: Any, blocks: int, threads: int, stream: Any) -> None:
        if blocks:  # by way of CuPy, as ctypes takes longer to convert these than the driver takes
            self._launch_kernel(
                kernel.address, blocks, 1, 1, threads, 1, 1, 0, stream.ptr,
                ctypes.addressof(params), 0,
            )  # fmt: skip

    def adds_row(self, product: cublas.Product, row: int) -> bool:
        """Whether a library adds one row to each of a product, whose rows lie so far apart."""
        self.enter()
        with self.lock, told(self.device, "a product was looked up"):
            return self.products.adds_row(product, row)

    def scratch(self, nbytes: int) -> int:
        """The address of memory that one launch writes and the next one reads."""
        if nbytes > self._scratch_bytes:
            self._scratch = self.allocate(nbytes)
            self._scratch_bytes = nbytes
        assert self._scratch is not None
        return self._scratch.address

    def capturing(self, multiplies: bool) -> Any:
        """A stream for making graphs; the library of those with products is opened before."""
        if multiplies:
            self.products.open()
        if self._capture is None:
            self._capture = self.cupy.cuda.Stream(non_blocking=True)
        return self._capture

    def streams_beside(self, count: int) -> list[Any]:
        """Streams that are captured with the one for making graphs; they have to be there before a
        capture begins, each with memory for the library if that is open."""
        while len(self._beside) < count:
            stream = self.cupy.cuda.Stream(non_blocking=True)
            self.products.serve(stream)
            self._beside.append(stream)
        return self._beside[:count]

    def stream_aside(self) -> Any:
        """One more, for no product; it has to be there before a capture begins, too."""
        if self._aside is None:
            self._aside = self.cupy.cuda.Stream(non_blocking=True)
        return self._aside

    def forget_streams_beside(self) -> None:
        """Has new ones made, where a capture that failed may have left them in it."""
        for stream in self._beside:
            self.products.forget(stream)
        self._beside, self._aside = [], None

    def event(self) -> Any:
        """A place in a stream, for others to wait for."""
        return self.cupy.cuda.Event(disable_timing=True)

    def enter(self) -> None:
        """Makes this the GPU that the thread speaks to."""
        if forks.count != self._forks:
            raise LostDeviceError(
                f"{self.device} was opened before this process was forked, and CUDA cannot be used "
                "in a forked child; start processes with multiprocessing's method 'spawn'"
            )
        speak_to(self.limits.number)


@lru_cache(maxsize=1024)
def _request(aval: Aval) -> tuple[int, Label]:
    """How many bytes a value has, one at least, and what statistics call them."""
    nbytes = math.prod(aval.shape) * aval.dtype.itemsize
    return max(nbytes, 1), Label("a value of", aval.shape, aval.dtype)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
