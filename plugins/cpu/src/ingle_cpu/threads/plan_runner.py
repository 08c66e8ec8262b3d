"""The native part of running a plan, as LLVM IR: the plan runner walks a table, a pool helps.

A plan is a table of entries. The calling thread (worker 0) walks it alone and calls small entries
itself. A large one it *offers*: it describes the entry in the pool's state and sets a counter to
the number of chunks. A worker that decrements the counter to a value that was still positive owns a
chunk, and adds to `done` when finished; the leader takes chunks like everybody and goes on when
all are done. So nobody waits for a worker that has not come: a worker whose core is busy with
something else costs nothing, where a barrier of all would wait for its next time slice. Nor does a
worker need to know which entry is at hand, since owning a chunk means that the entry stays.

Which chunk it is: the next of the worker's own share, an even part of all chunks, and then what is
left of others' shares. So a worker meets in the next entry, and in the next run, the part of the
data that lies in its own caches.

Waiting is a microsecond of spinning, then giving the core away, then sleeping: on Linux in a futex,
elsewhere by returning to Python, which waits on an event.
"""

from __future__ import annotations

from ..jit.host import Host
from .abi import (
    ABORTED,
    ACTIVE,
    ALONE,
    CONTROL,
    ENTRY_BYTES,
    FINISHED,
    FLAGS,
    GRAIN,
    POINT_OF_NO_RETURN,
    UNITS,
    WANTED,
    WITH_PREVIOUS,
    WORKERS,
)
from .atomics_ir import RELAXED, at, change, load, waiting_code
from .pool_ir import CHUNK_CODE, OFFER_CODE, work_code


def plan_runner_ir(machine: Host, park_in_kernel: bool) -> str:
    """The module with `run(control, state)`, `repeat(loop, state)`, `work(state, index)` and
    `clock()`.

    Args:
        machine: x86-64 or ARM64.
        park_in_kernel: sleep in Linux's futex; otherwise `work` returns when it would sleep.
    """
    parts = [
        waiting_code(machine, park_in_kernel),
        CHUNK_CODE,
        work_code(park_in_kernel),
        OFFER_CODE,
        _RUN,
        _REPEAT,
    ]
    return "\n".join(parts)


def _control(*names: str) -> str:
    lines = []
    for name in names:
        place = 8 * CONTROL.index(name)
        kind = "i64" if name.endswith("count") else "ptr"
        lines.append(at(f"{name}_at", place, "%control"))
        lines.append(f"  %{name} = load {kind}, ptr %{name}_at\n")
    return "".join(lines)


_RUN = f"""
define i64 @run(ptr %control, ptr %state) {{
start:
{_control("entries", "count", "base_of", "offset_of", "pointer_count", "pointers", "bases", "args")}
{_control("profile")}{at("abort_at", 8 * CONTROL.index("abort"), "%control")}
{at("position_at", 8 * CONTROL.index("position"), "%control")}
{at("workers_at", WORKERS)}{at("wanted_at", WANTED)}{at("active_at", ACTIVE)}
  %profiled = icmp ne ptr %profile, null
  %workers32 = load i32, ptr %workers_at
  %workers = zext i32 %workers32 to i64
  %wanted = load i32, ptr %wanted_at
  %several = icmp ugt i32 %workers32, 1
  %too_few = icmp ult i32 %workers32, %wanted
  %alone = select i1 %too_few, i64 {ALONE}, i64 {FINISHED}
  %bytes = mul i64 %count, {ENTRY_BYTES}
  %end = getelementptr i8, ptr %entries, i64 %bytes
{change("enter", "add", "active_at", 1, order=RELAXED)}
  br label %resolve
resolve:
  %slot = phi i64 [0, %start], [%slot1, %resolve_one]
  %resolved = icmp sge i64 %slot, %pointer_count
  br i1 %resolved, label %walk, label %resolve_one
resolve_one:
  %base_at = getelementptr i64, ptr %base_of, i64 %slot
  %base = load i64, ptr %base_at
  %from = getelementptr i64, ptr %bases, i64 %base
  %address = load i64, ptr %from
  %shift_at = getelementptr i64, ptr %offset_of, i64 %slot
  %shift = load i64, ptr %shift_at
  %pointer = add i64 %address, %shift
  %into = getelementptr i64, ptr %pointers, i64 %slot
  store i64 %pointer, ptr %into
  %slot1 = add i64 %slot, 1
  br label %resolve
walk:
  %here = phi ptr [%entries, %resolve], [%next, %advance]
  %bound = phi i1 [false, %resolve], [%bound2, %advance]
  %result = phi i64 [{FINISHED}, %resolve], [%result2, %advance]
  %over = icmp eq ptr %here, %end
  br i1 %over, label %leave, label %check
check:
  %flags_at = getelementptr i64, ptr %here, i64 {FLAGS}
  %flags = load i64, ptr %flags_at
  %commit = and i64 %flags, {POINT_OF_NO_RETURN}
  %commits = icmp ne i64 %commit, 0
  %bound2 = or i1 %bound, %commits
{load("abort", "abort_at", "i64", RELAXED)}
  %wished = icmp ne i64 %abort, 0
  %free = xor i1 %bound2, true
  %stop = and i1 %wished, %free
  br i1 %stop, label %aborted, label %measure
measure:
  %t0 = call i64 @stamp(i1 %profiled)
  br label %gather
gather:
  %last = phi ptr [%here, %measure], [%after, %joins]
  %large = phi i1 [false, %measure], [%large2, %joins]
  %units_at = getelementptr i64, ptr %last, i64 {UNITS}
  %units = load i64, ptr %units_at
  %grain_at = getelementptr i64, ptr %last, i64 {GRAIN}
  %grain = load i64, ptr %grain_at
  %big = icmp sgt i64 %units, %grain
  %large2 = or i1 %large, %big
  %after = getelementptr i8, ptr %last, i64 {ENTRY_BYTES}
  %at_end = icmp eq ptr %after, %end
  br i1 %at_end, label %decide, label %peek
peek:
  %flags2_at = getelementptr i64, ptr %after, i64 {FLAGS}
  %flags2 = load i64, ptr %flags2_at
  %joined = and i64 %flags2, {WITH_PREVIOUS}
  %joins_it = icmp ne i64 %joined, 0
  %apart = and i64 %flags2, {POINT_OF_NO_RETURN}
  %commits_next = icmp ne i64 %apart, 0
  %separate = or i1 %profiled, %commits_next
  %together = select i1 %separate, i1 false, i1 %joins_it
  br i1 %together, label %joins, label %decide
joins:
  br label %gather
decide:
  %next = phi ptr [%after, %gather], [%after, %peek]
  %shared = and i1 %large2, %several
  br i1 %shared, label %share, label %serial
share:
  %done = call i1 @offer(ptr %here, ptr %next, ptr %pointers, ptr %args, ptr %state, i64 %workers)
  br i1 %done, label %advance_shared, label %serial
serial:
  %missed = select i1 %large2, i64 %alone, i64 {FINISHED}
  br label %one
one:
  %e = phi ptr [%here, %serial], [%e1, %one]
  %all_at = getelementptr i64, ptr %e, i64 {UNITS}
  %all = load i64, ptr %all_at
  call void @entry(ptr %e, ptr %pointers, ptr %args, i64 0, i64 %all, i64 0)
  %e1 = getelementptr i8, ptr %e, i64 {ENTRY_BYTES}
  %served = icmp eq ptr %e1, %next
  br i1 %served, label %advance, label %one
advance_shared:
  br label %advance
advance:
  %miss = phi i64 [%missed, %one], [{FINISHED}, %advance_shared]
  %result2 = or i64 %result, %miss
  call void @note(ptr %profile, ptr %entries, ptr %here, i64 %t0)
  br label %walk
aborted:
  %from_start = ptrtoint ptr %entries to i64
  %now = ptrtoint ptr %here to i64
  %distance = sub i64 %now, %from_start
  %position = sdiv i64 %distance, {ENTRY_BYTES}
  store i64 %position, ptr %position_at
  br label %leave
leave:
  %status = phi i64 [%result, %walk], [{ABORTED}, %aborted]
{change("exit", "sub", "active_at", 1, order=RELAXED)}
  ret i64 %status
}}
define internal i64 @stamp(i1 %profiled) {{
  br i1 %profiled, label %yes, label %no
yes:
  %t = call i64 @clock()
  ret i64 %t
no:
  ret i64 0
}}
; Adds the ticks that an entry took to its place in the profile.
define internal void @note(ptr %profile, ptr %entries, ptr %here, i64 %t0) {{
  %none = icmp eq ptr %profile, null
  br i1 %none, label %out, label %write
write:
  %t1 = call i64 @clock()
  %took = sub i64 %t1, %t0
  %a = ptrtoint ptr %entries to i64
  %b = ptrtoint ptr %here to i64
  %distance = sub i64 %b, %a
  %index = sdiv i64 %distance, {ENTRY_BYTES}
  %at = getelementptr i64, ptr %profile, i64 %index
  %old = load i64, ptr %at
  %new = add i64 %old, %took
  store i64 %new, ptr %at
  br label %out
out:
  ret void
}}
"""


_REPEAT = f"""
; Runs tables one after the other, and that as often as the loop says: each time with the next of
; their rows of addresses.
define i64 @repeat(ptr %loop, ptr %state) {{
start:
  %turns = load i64, ptr %loop
  %count_at = getelementptr i64, ptr %loop, i64 1
  %count = load i64, ptr %count_at
  %tables = getelementptr i64, ptr %loop, i64 2
  %bytes = mul i64 %count, 16
  %end = getelementptr i8, ptr %tables, i64 %bytes
  br label %turn
turn:
  %t = phi i64 [0, %start], [%t1, %turned]
  %result = phi i64 [{FINISHED}, %start], [%result2, %turned]
  %over = icmp sge i64 %t, %turns
  br i1 %over, label %out, label %table
table:
  %here = phi ptr [%tables, %turn], [%next, %ran]
  %before = phi i64 [%result, %turn], [%result2, %ran]
  %control = load ptr, ptr %here
  %status = call i64 @run(ptr %control, ptr %state)
  %result2 = or i64 %before, %status
  %aborted = icmp eq i64 %status, {ABORTED}
  br i1 %aborted, label %stopped, label %ran
ran:
  %row_at = getelementptr i64, ptr %here, i64 1
  %row = load i64, ptr %row_at
{at("bases_at", 8 * CONTROL.index("bases"), "%control")}
  %bases = load i64, ptr %bases_at
  %bases1 = add i64 %bases, %row
  store i64 %bases1, ptr %bases_at
  %next = getelementptr i64, ptr %here, i64 2
  %last = icmp eq ptr %next, %end
  br i1 %last, label %turned, label %table
turned:
  %t1 = add i64 %t, 1
  br label %turn
stopped:
  ret i64 {ABORTED}
out:
  ret i64 %result
}}
"""
