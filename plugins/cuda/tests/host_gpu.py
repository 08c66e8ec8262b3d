"""A GPU played by the processor: driver, CuPy and cuBLAS, which compute what a GPU would.

Kernels are the plugin's own in CUDA C++, compiled by g++: threads of a block run in turn up to each
barrier, of their warp or of the block, from the first to the last and back, so that a missing
barrier shows. As on a GPU, what is
put into a stream happens when somebody waits, memory has no content before it is written, and
nothing may be allocated or copied while a graph is captured.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from host_cublas_lt import HostCublasLt
from host_cupy import HostCupy

from ingle.fusion.device.cuda import AFTER_OTHERS, ALONE_AFTER_OTHERS
from ingle.fusion.device.kernels import HALVES
from ingle.tensor.device import Device
from ingle_cuda.attention.tensor_cores import core_source
from ingle_cuda.backend import CudaBackend
from ingle_cuda.driver import devices

_FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing"]
_FLAGS += ["-march=native", "-w", "-shared", "-fPIC", "-nostdlib"]
_LIBRARIES = ["-lgcc"]
"""What else kernels call is in this process: the linker would take a third of the time to look."""
_ALIGNED = 256
_NOTHING = 0xA5
"""What every byte of new memory is."""
_TYPES: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
"""Of `cudaDataType`."""

_THREADS = r"""
#include <ucontext.h>
#include <stdlib.h>
extern "C" {
struct place { unsigned x, y, z; } threadIdx, blockIdx, blockDim, gridDim;
enum { MOST = 1024, STACK = 1 << 18, WARP = 32, OF_WARP = 1, OF_BLOCK = 2, OF_CLUSTER = 3 };
static ucontext_t home, fibers[MOST];
static char *stacks[MOST];
static int done[MOST], waits_at[MOST];
static void (*body)(void **);
static void **given;
/* The number of the thread that runs, among those of a cluster. */
unsigned fiber;
static void barrier(int of)
{
    waits_at[fiber] = of;
    swapcontext(&fibers[fiber], &home);
}
void barrier_of_warp() { barrier(OF_WARP); }
void barrier_of_block() { barrier(OF_BLOCK); }
void barrier_of_cluster() { barrier(OF_CLUSTER); }
/* Lets threads go on all of which have come to one barrier. */
static int released(unsigned first, unsigned last, int of)
{
    int found = 0;
    for (unsigned n = first; n < last; n++) {
        if (!done[n] && waits_at[n] != of)
            return 0;
        found |= !done[n];
    }
    for (unsigned n = first; n < last; n++)
        waits_at[n] = 0;
    return found;
}
static void begun(int n) { body(given); done[n] = 1; }
/* Whether threads wait for one another at different barriers. */
int run_kernel(
    void (*call)(void **), void **params, unsigned blocks, unsigned threads, int waits,
    unsigned cluster)
{
    const unsigned all = threads * cluster;
    body = call;
    given = params;
    gridDim.x = blocks;
    blockDim.x = threads;
    if (all > MOST || blocks % cluster)
        return 1;
    for (unsigned block = 0; block < blocks; block += cluster) {
        if (!waits) {
            blockIdx.x = block;
            for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
                call(params);
            continue;
        }
        for (unsigned n = 0; n < all; n++) {
            if (!stacks[n])
                stacks[n] = (char *)malloc(STACK);
            getcontext(&fibers[n]);
            fibers[n].uc_stack.ss_sp = stacks[n];
            fibers[n].uc_stack.ss_size = STACK;
            fibers[n].uc_link = &home;
            done[n] = waits_at[n] = 0;
            makecontext(&fibers[n], (void (*)())begun, 1, (int)n);
        }
        unsigned left = all;
        for (int turn = 0; left; turn++) {
            for (unsigned k = 0; k < all; k++) {
                const unsigned n = turn % 2 ? all - 1 - k : k;
                if (done[n] || waits_at[n])
                    continue;
                fiber = n;
                threadIdx.x = n % threads;
                blockIdx.x = block + n / threads;
                swapcontext(&home, &fibers[n]);
                left -= done[n];
            }
            int go_on = !left || released(0, all, OF_CLUSTER);
            for (unsigned b = 0; b < all; b += threads) {
                go_on |= released(b, b + threads, OF_BLOCK);
                for (unsigned n = b; n < b + threads; n += WARP)
                    go_on |= released(n, n + WARP < b + threads ? n + WARP : b + threads, OF_WARP);
            }
            if (!go_on)
                return 1;
        }
    }
    return 0;
}
}
"""

_PROLOGUE = """
extern "C" {
struct place { unsigned x, y, z; };
extern place threadIdx, blockIdx, blockDim, gridDim;
extern unsigned fiber;
void barrier_of_warp(); void barrier_of_block(); void barrier_of_cluster();
float fmaf(float, float, float); float sqrtf(float); float floorf(float); float ceilf(float);
float truncf(float); float rintf(float); float fabsf(float);
double fma(double, double, double); double sqrt(double); double floor(double); double ceil(double);
double trunc(double); double rint(double); double fabs(double);
float expf(float); float exp2f(float); float logf(float); float fmaxf(float, float);
}
#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define INGLE_BLOCKS 8
#define INGLE_OWN_BLOCK (fiber / blockDim.x)
#define INGLE_OF_BLOCK(at, block) of_blocks[block][at]
#define wait_for_cluster barrier_of_cluster
#define __syncthreads barrier_of_block
#define __syncwarp barrier_of_warp
struct alignas(16) uint4 { unsigned x, y, z, w; };
template <class T> static T min(T a, T b) { return a < b ? a : b; }
template <class T> static T of_lane(T value, unsigned lane)
{
    static T given[1024];
    given[fiber] = value;
    barrier_of_warp();
    const T found = given[fiber / 32 * 32 + lane];
    barrier_of_warp();
    return found;
}
static int __syncthreads_or(int value)
{
    static int given[1024];
    given[threadIdx.x] = value;
    barrier_of_block();
    int found = 0;
    for (unsigned n = 0; n < blockDim.x; n++)
        found |= given[n];
    barrier_of_block();
    return found;
}
template <class T> static T __shfl_down_sync(unsigned, T value, unsigned apart)
{ return of_lane(value, min(threadIdx.x % 32 + apart, 31u)); }
template <class T> static T __shfl_sync(unsigned, T value, int lane)
{ return of_lane(value, (unsigned)lane); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int apart)
{ return of_lane(value, threadIdx.x % 32 ^ (unsigned)apart); }
static unsigned __ballot_sync(unsigned, int value)
{
    static int given[1024];
    given[fiber] = value;
    barrier_of_warp();
    unsigned found = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        found |= (unsigned)(given[fiber / 32 * 32 + lane] != 0) << lane;
    barrier_of_warp();
    return found;
}
static int __all_sync(unsigned lanes, int value)
{ return __ballot_sync(lanes, value) == lanes; }
"""

_CORES = """
static void add_product(float *sum, const uint32_t *left, uint32_t right0, uint32_t right1)
{
    static uint32_t lefts[1024][4], rights[1024][2];
    for (int n = 0; n < 4; n++)
        lefts[threadIdx.x][n] = left[n];
    rights[threadIdx.x][0] = right0;
    rights[threadIdx.x][1] = right1;
    barrier_of_block();
    const unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (unsigned e = 0; e < 4; e++) {
        const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 16; k++) {
            const uint32_t a = lefts[warp + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
            const uint32_t b = rights[warp + column * 4 + k % 8 / 2][k / 8];
            const unsigned half = k % 2 * 16;
            sum[e] = fmaf(widened((uint16_t)(a >> half)), widened((uint16_t)(b >> half)), sum[e]);
        }
    }
    barrier_of_block();
}
static void matrices(uint32_t *found, const uint16_t *row, bool turned)
{
    static const uint16_t *rows[1024];
    rows[threadIdx.x] = row;
    barrier_of_block();
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4 * 2;
    for (int n = 0; n < 4; n++) {
        const uint16_t *const *const of = rows + threadIdx.x / 32 * 32 + n * 8;
        const uint32_t low = turned ? of[t][g] : of[g][t];
        found[n] = low | (uint32_t)(turned ? of[t + 1][g] : of[g][t + 1]) << 16;
    }
    barrier_of_block();
}
static void load_four(uint32_t *found, const uint16_t *row) { matrices(found, row, false); }
static void load_four_turned(uint32_t *found, const uint16_t *row) { matrices(found, row, true); }
struct copy_t { uint16_t *to; const uint16_t *of; bool there; int group; };
static copy_t copies[1024][64];
static int copied[1024], ended[1024];
static void copy_line(uint16_t *to, const uint16_t *of, bool there)
{ copies[threadIdx.x][copied[threadIdx.x]++] = copy_t{to, of, there, ended[threadIdx.x]}; }
static void end_copies() { ended[threadIdx.x]++; }
template <int LAST> static void wait_for_copies()
{
    int left = 0;
    for (int n = 0; n < copied[threadIdx.x]; n++) {
        const copy_t one = copies[threadIdx.x][n];
        if (one.group >= ended[threadIdx.x] - LAST)
            copies[threadIdx.x][left++] = one;
        else
            for (int k = 0; k < 8; k++)
                one.to[k] = one.there ? one.of[k] : 0;
    }
    copied[threadIdx.x] = left;
}
static uint32_t pair(float low, float high)
{ return (uint32_t)rounded(low) | (uint32_t)rounded(high) << 16; }
static float power_of_two(float x) { return exp2f(x); }
"""
"""What tensor cores do; copies into shared memory arrive when they are waited for."""

_EPILOGUE = """
template <int... I> struct numbers_of {{}};
template <class... A, int... I>
static void applied(void (*f)(A...), void **p, numbers_of<I...>) {{ f(*(A *)p[I]...); }}
template <class... A> static void apply(void (*f)(A...), void **p)
{{ applied(f, p, numbers_of<__integer_pack(sizeof...(A))...>()); }}
template <class... A> static int sized(void (*f)(A...), long long *out)
{{
    const long long found[] = {{(long long)sizeof(A)..., 0}};
    for (unsigned n = 0; n < sizeof...(A); n++)
        out[n] = found[n];
    return sizeof...(A);
}}
extern "C" void call_kernel(void **p) {{ apply({name}, p); }}
extern "C" int sizes_of_arguments(long long *out) {{ return sized({name}, out); }}
"""


_loaded: list[ctypes.PyDLL] = []
"""What runs blocks of threads, once in a process."""
_compiling = threading.Lock()
"""Of whoever makes a kernel's file: a thread that plans beside runs may want the same one."""


class FaultError(RuntimeError):
    """CuPy's error of the runtime."""


class HostKernel:
    """A kernel, compiled for the processor.

    Attributes:
        function, address: itself, as what the driver is given.
    """

    def __init__(
        self, library: ctypes.PyDLL, waits: bool, after_others: bool, cluster: int
    ) -> None:
        self.call = ctypes.cast(library.call_kernel, ctypes.c_void_p)
        sizes = (ctypes.c_longlong * 64)()
        self.sizes = sizes[: library.sizes_of_arguments(sizes)]
        self.waits = waits
        self.after_others = after_others
        self.cluster = cluster
        self.function = self.address = self


class Node:
    """Work of a graph, and the nodes that come before it."""

    def __init__(self, work: Callable[[], None], before: list[Node]) -> None:
        self.work = work
        self.before = before


class Capture:
    """A graph that is captured, by one stream or several."""

    def __init__(self, origin: Stream) -> None:
        self.nodes: list[Node] = []
        self.streams = [origin]

    def in_order(self) -> list[Node]:
        """The nodes as a GPU may run them: what was captured last comes as early as it can."""
        done: set[int] = set()
        found: list[Node] = []
        while len(found) < len(self.nodes):
            node = next(
                n for n in reversed(self.nodes)
                if id(n) not in done and all(id(b) in done for b in n.before)
            )  # fmt: skip
            done.add(id(node))
            found.append(node)
        return found


class Stream:
    """A stream: what is put into it happens when somebody waits for it."""

    _working = threading.RLock()

    def __init__(self, gpu: HostGpu) -> None:
        self._gpu = gpu
        self.ptr = len(gpu.streams) + 1
        gpu.streams[self.ptr] = self
        self._waiting: list[Callable[[], None]] = []
        self.capture: Capture | None = None
        self.tails: list[Node] = []

    def put(self, work: Callable[[], None]) -> None:
        if self.capture is None:
            self._waiting.append(work)
        else:
            node = Node(work, self.tails)
            self.capture.nodes.append(node)
            self.tails = [node]

    def synchronize(self) -> None:
        if self.capture is not None:
            raise FaultError("cudaErrorStreamCaptureUnsupported")
        with self._working:  # who waits meanwhile goes on when all is done
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                work()

    def reach(self, event: Event) -> None:
        """Does what comes before an event that was recorded here."""
        with self._working:
            while not event.done:
                self._waiting.pop(0)()

    @property
    def done(self) -> bool:
        """Whether everything is."""
        return not self._waiting

    def wait_event(self, event: Event) -> None:
        """What follows comes behind the event; the stream becomes a part of its graph."""
        assert event.capture is not None, "only streams that are captured wait for each other"
        if self.capture is None:
            self.capture, self.tails = event.capture, []
            self.capture.streams.append(self)
        assert self.capture is event.capture
        self.tails = [*self.tails, *event.tails]

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin_capture(self, mode: int) -> None:
        if self.capture is not None:
            raise FaultError("cudaErrorIllegalState: the stream is capturing already")
        self._gpu.counts["captured"] += 1
        self._gpu.capturing = True
        self.capture, self.tails = Capture(self), []

    def end_capture(self) -> Any:
        capture, tails = self.capture, self.tails
        assert capture is not None
        self._gpu.capturing = False
        for stream in capture.streams:
            stream.capture, stream.tails = None, []
        joined, waiting = set(), [*tails]
        while waiting:
            node = waiting.pop()
            if id(node) not in joined:
                joined.add(id(node))
                waiting += node.before
        if len(joined) < len(capture.nodes):
            raise FaultError("cudaErrorStreamCaptureUnjoined")
        self._gpu.counts["branched"] += len(capture.streams) > 1
        steps = [node.work for node in capture.in_order()]

        def launch(stream: Stream) -> None:
            self._gpu.counts["replayed"] += 1
            for step in steps:
                stream.put(step)

        return SimpleNamespace(launch=launch, steps=steps)


class Event:
    """A place in a stream, which is reached when somebody waits."""

    def __init__(self, disable_timing: bool) -> None:
        self.done = False
        self.capture: Capture | None = None
        self.tails: list[Node] = []

    def record(self, stream: Stream) -> None:
        self._stream, self.done = stream, False
        if stream.capture is not None:
            self.capture, self.tails = stream.capture, stream.tails
        else:
            stream.put(lambda: setattr(self, "done", True))

    def synchronize(self) -> None:
        self._stream.reach(self)


class Pinned(bytearray):
    """Memory of the host that the GPU reads when it is its turn."""

    places: ClassVar[set[int]] = set()

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        self.ptr = ctypes.addressof((ctypes.c_uint8 * nbytes).from_buffer(self))
        self.places.add(self.ptr)

    def __del__(self) -> None:
        # Ordinary memory may lie there next.
        self.places.discard(self.ptr)


class HostGpu(HostCublasLt):
    """What a driver, CuPy and cuBLAS do, on the processor.

    Args:
        folder: for compiled kernels.
        total: bytes of memory that it has.

    Attributes:
        counts: what happened, by name.
        fails: names of functions that fail from now on, with what they answer or raise.
    """

    def __init__(self, folder: Path, total: int = 1 << 30) -> None:
        self.counts: Counter[str] = Counter()
        self.fails: dict[str, Any] = {}
        self.streams: dict[int, Stream] = {}
        self.capturing = False
        self.total = total
        self._folder = folder
        self._all = np.empty(total + _ALIGNED, np.uint8)
        self._held: dict[int, int] = {}
        if not _loaded:
            # Of a second one, kernels would meet the barriers of the first.
            _loaded.append(self._built(_THREADS, "threads"))
        self._threads = _loaded[0]
        self._stream_of_products = 0
        runtime = SimpleNamespace(
            setDevice=lambda number: None, malloc=self._malloc, free=self._free,
            memcpyAsync=self._copy, memGetInfo=self._memory, CUDARuntimeError=FaultError,
            deviceGetPCIBusId=lambda number: "0000:00:00.0",
        )  # fmt: skip
        self.cupy = HostCupy(
            self.synchronize, runtime=runtime, Stream=lambda non_blocking: Stream(self),
            Event=Event, alloc_pinned_memory=self._pinned,
            driver=SimpleNamespace(launchKernel=self._launch),
        )  # fmt: skip

    # The runtime -------------------------------------------------------------------------------

    def _memory(self) -> tuple[int, int]:
        return self.total - sum(self._held.values()), self.total

    def _malloc(self, nbytes: int) -> int:
        """The lowest place that is large enough."""
        if self.capturing:
            raise FaultError("cudaErrorStreamCaptureUnsupported: allocation during a capture")
        first = -(-self._all.ctypes.data // _ALIGNED) * _ALIGNED
        place, size = first, max(-(-nbytes // _ALIGNED) * _ALIGNED, _ALIGNED)
        for address, held in sorted(self._held.items()):
            if address - place >= size:
                break
            place = address + held
        if place + size > first + self.total:
            raise FaultError("cudaErrorMemoryAllocation: out of memory")
        ctypes.memset(place, _NOTHING, size)
        self._held[place] = size
        return place

    def _pinned(self, nbytes: int) -> Pinned:
        if self.capturing:
            raise FaultError("cudaErrorStreamCaptureUnsupported: pinned memory during a capture")
        return Pinned(nbytes)

    def synchronize(self) -> None:
        for stream in self.streams.values():
            stream.synchronize()

    def _free(self, address: int) -> None:
        self.synchronize()
        if address:
            self._held.pop(address)

    def _copy(self, to: int, of: int, nbytes: int, kind: int, stream: int) -> None:
        if self.capturing:
            raise FaultError("cudaErrorStreamCaptureUnsupported: a copy during a capture")
        if "memcpyAsync" in self.fails:
            raise self.fails["memcpyAsync"]
        # Ordinary memory is copied at once; pinned memory and the GPU's when it is their turn.
        at_once = kind == 1 and of not in Pinned.places
        source = ctypes.string_at(of, nbytes) if at_once else None

        def work() -> None:
            if kind == 1 and source is None:
                assert of in Pinned.places, "pinned memory was given back before its copy"
            ctypes.memmove(to, of if source is None else source, nbytes)

        self.streams[stream].put(work)

    # The driver --------------------------------------------------------------------------------

    def cuCtxGetCurrent(self, context: Any) -> int:  # noqa: N802 - the driver's names
        return 0

    def cuGetErrorName(self, status: int, name: Any) -> int:  # noqa: N802
        names = {700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 2: b"CUDA_ERROR_OUT_OF_MEMORY"}
        name._obj.value = names.get(status)
        return 0

    def cuLaunchKernelEx(  # noqa: N802
        self, config: Any, kernel: HostKernel, params: Any, extra: Any
    ) -> int:
        launch = config._obj
        (attribute,) = launch.attributes[: launch.count]
        assert kernel.after_others
        assert (attribute.number, attribute.value[0]) == (6, 1)
        self.counts["dependent"] += 1
        address = ctypes.addressof(params)
        if "cuLaunchKernel" in self.fails:
            return int(self.fails["cuLaunchKernel"])
        self._launch(kernel, *launch.grid, *launch.block, launch.shared, launch.stream, address, 0)
        return 0

    def _launch(
        self, kernel: HostKernel, blocks: int, _y: int, _z: int, threads: int, _ty: int, _tz: int,
        _shared: int, stream: int, address: int, _extra: int,
    ) -> None:  # fmt: skip
        """As CuPy does it."""
        if "cuLaunchKernel" in self.fails:
            name = ctypes.c_char_p()
            self.cuGetErrorName(self.fails["cuLaunchKernel"], ctypes.byref(name))
            raise FaultError((name.value or b"").decode())
        self.counts["launched"] += not self.capturing
        params = (ctypes.c_void_p * len(kernel.sizes)).from_address(address)
        kept = [
            ctypes.create_string_buffer(ctypes.string_at(params[n], size), size)
            for n, size in enumerate(kernel.sizes)
        ]
        given = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(k) for k in kept])

        def work() -> None:
            assert kept
            waits, cluster = int(kernel.waits), kernel.cluster
            stuck = self._threads.run_kernel(kernel.call, given, blocks, threads, waits, cluster)
            assert not stuck, "threads wait for others at different barriers"

        self.streams[stream].put(work)

    def compiled(self, source: str, name: str) -> HostKernel:
        """A kernel of a source in CUDA C++."""
        text = _PROLOGUE + source + _EPILOGUE.format(name=name)
        for dtype in HALVES:
            text = text.replace(core_source(dtype), _CORES)
        waits = any(word in source for word in ("__syncthreads()", "__shfl"))
        cluster = re.search(r"__cluster_dims__\((\d+)\)", source)
        together = 1 if cluster is None else int(cluster[1])
        after_others = AFTER_OTHERS in source or ALONE_AFTER_OTHERS in source
        return HostKernel(self._built(text, name), waits, after_others, together)

    def _built(self, text: str, name: str) -> ctypes.PyDLL:
        key = hashlib.sha256(text.encode()).hexdigest()[:24]
        library = self._folder / f"{key}.so"
        with _compiling:
            if not library.exists():
                self.counts["compiled"] += 1
                path = self._folder / f"{key}.cpp"
                path.write_text(text)
                command = ["g++", *_FLAGS, "-o", str(library), str(path), *_LIBRARIES]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{name}: {done.stderr}\n{text}"
        return ctypes.PyDLL(str(library), mode=ctypes.RTLD_GLOBAL if name == "threads" else 0)

    # cuBLAS ------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cublas"):
            raise AttributeError(name)
        return lambda *args: self.fails.get(name, 0)

    @staticmethod
    def matrix(*lies: Any) -> np.ndarray:
        return matrix(*lies)

    def cublasSetStream_v2(self, _handle: Any, stream: ctypes.c_void_p) -> int:  # noqa: N802
        assert stream.value is not None
        self._stream_of_products = stream.value
        return 0

    def cublasGemmStridedBatchedEx(  # noqa: N802
        self, _handle: Any, a_turned: int, b_turned: int, m: int, n: int, k: int, _one: Any,
        a: Any, a_type: int, a_lead: int, a_step: Any, b: Any, b_type: int, b_lead: int,
        b_step: Any, _zero: Any, c: Any, c_type: int, c_lead: int, c_step: Any, count: int,
        *_how: int,
    ) -> int:  # fmt: skip
        """The product by the library's documentation: matrices lie by columns."""
        if "cublasGemmStridedBatchedEx" in self.fails:
            return int(self.fails["cublasGemmStridedBatchedEx"])
        self.counts["multiplied"] += not self.capturing
        wide = np.float64 if a_type == 1 else np.float32

        def work() -> None:
            for i in range(count):
                left = matrix(a, i * a_step.value, a_type, a_lead, a_turned, m, k)
                right = matrix(b, i * b_step.value, b_type, b_lead, b_turned, k, n)
                out = matrix(c, i * c_step.value, c_type, c_lead, 0, m, n)
                out[:] = (left.astype(wide) @ right.astype(wide)).astype(out.dtype)

        self.streams[self._stream_of_products].put(work)
        return 0


def matrix(
    place: Any, step: int, kind: int, lead: int, turned: int, rows: int, columns: int
) -> np.ndarray:
    """Memory as a matrix that lies by columns, or by rows if it is turned."""
    dtype = np.dtype(_TYPES[kind])
    size, near, far = dtype.itemsize, *((columns, rows) if turned else (rows, columns))
    count = lead * (far - 1) + near
    data = (ctypes.c_uint8 * (count * size)).from_address(place.value + step * size)
    flat = np.frombuffer(data, dtype)
    strides = (lead * size, size) if turned else (size, lead * size)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), strides)


class HostBackend(CudaBackend):
    """The plugin's backend on a played GPU."""

    gpu: HostGpu

    def compile_source(self, source: str, name: str) -> Any:
        self.enter()
        return self.gpu.compiled(source, name)


def opened(gpu: HostGpu, name: str, monkeypatch: Any) -> HostBackend:
    """A device `name`, which is that GPU until the test's end."""
    import ingle_cuda.products.cublas
    import ingle_cuda.products.cublas_lt
    from ingle.tensor import plugins
    from ingle_cuda import backend
    from ingle_cuda.arrays import array_library
    from ingle_cuda.driver import errors, memory, staging

    for module in (backend, memory, staging):
        monkeypatch.setattr(module, "cupy", lambda: gpu.cupy)
    monkeypatch.setattr(array_library, "answers_checked", nullcontext)
    for module in (backend, errors):
        monkeypatch.setattr(module, "driver", lambda: gpu)
    for module in (ingle_cuda.products.cublas, ingle_cuda.products.cublas_lt):
        monkeypatch.setattr(module, "library", lambda name: gpu)
    made = HostBackend.__new__(HostBackend)
    made.gpu = gpu
    HostBackend.__init__(made, Device(name), devices.Limits(0, "host", 4, "sm_90", gpu.total))
    device, whole = Device(name), made.composition()
    description = plugins.BackendDescription(
        create=lambda index: whole, summary="CUDA on the processor"
    )
    monkeypatch.setitem(plugins._descriptions, name, description)
    monkeypatch.setitem(plugins._backends, device, whole)
    return made
