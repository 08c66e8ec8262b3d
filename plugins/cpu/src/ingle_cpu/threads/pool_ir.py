"""LLVM IR of the gang: offering work, taking chunks of it, waiting and sleeping."""

from __future__ import annotations

from ..jit.host import Host
from .abi import (
    ACTIVE,
    BIAS,
    CHUNK,
    CHUNKS,
    CHUNKS_PER_WORKER,
    DONE,
    ENTRY_BYTES,
    FIRST_ARG,
    FIRST_POINTER,
    GRAIN,
    IDLE,
    LEADER_SLEEPS,
    LOCK,
    OFFER,
    SHARE_BYTES,
    SHARES,
    SLEEPERS,
    SPIN,
    STOP,
    TICKET,
    UNITS,
    WAKE,
)


def at(name: str, offset: int, base: str = "%state") -> str:
    return f"  %{name} = getelementptr i8, ptr {base}, i64 {offset}\n"


PAUSE = """
define internal void @pause() alwaysinline {{
  call void @{pause}
  ret void
}}
"""

# FUTEX_WAIT_PRIVATE is 128, FUTEX_WAKE_PRIVATE 129.
FUTEX = """
define internal void @sleep_on(ptr %word, i32 %seen) noinline {{
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %seen, ptr null)
  ret void
}}
define internal void @wake_up(ptr %word) noinline {{
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 129, i64 2147483647)
  ret void
}}
"""

NO_FUTEX = """
define internal void @sleep_on(ptr %word, i32 %seen) {
  %r = call i32 @ingle_yield()
  ret void
}
define internal void @wake_up(ptr %word) {
  ret void
}
"""

# Runs chunk `number` of the entries on offer.
CHUNK_CODE = f"""
define internal void @chunk(ptr %first, i64 %number, ptr %pointers, ptr %args, i64 %worker) {{
start:
  br label %find
find:
  %entry = phi ptr [%first, %start], [%next, %skip]
  %left = phi i64 [%number, %start], [%rest, %skip]
  %chunks_at = getelementptr i64, ptr %entry, i64 {CHUNKS}
  %chunks = load i64, ptr %chunks_at
  %here = icmp slt i64 %left, %chunks
  br i1 %here, label %found, label %skip
skip:
  %rest = sub i64 %left, %chunks
  %next = getelementptr i8, ptr %entry, i64 {ENTRY_BYTES}
  br label %find
found:
  %size_at = getelementptr i64, ptr %entry, i64 {CHUNK}
  %size = load i64, ptr %size_at
  %units_at = getelementptr i64, ptr %entry, i64 {UNITS}
  %units = load i64, ptr %units_at
  %begin = mul i64 %left, %size
  %after = add i64 %begin, %size
  %short = icmp slt i64 %units, %after
  %end = select i1 %short, i64 %units, i64 %after
  call void @entry(ptr %entry, ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker)
  ret void
}}
define internal void @entry(
    ptr %entry, ptr %pointers, ptr %args, i64 %begin, i64 %end, i64 %worker) {{
  %function = load ptr, ptr %entry
  %pointer_at = getelementptr i64, ptr %entry, i64 {FIRST_POINTER}
  %pointer = load i64, ptr %pointer_at
  %arg_at = getelementptr i64, ptr %entry, i64 {FIRST_ARG}
  %arg = load i64, ptr %arg_at
  %p = getelementptr i64, ptr %pointers, i64 %pointer
  %a = getelementptr i64, ptr %args, i64 %arg
  call void %function(ptr %p, ptr %a, i64 %begin, i64 %end, i64 %worker)
  ret void
}}
; Takes chunks of the offer until none is free and returns how many it ran. Who has a ticket takes
; the next chunk of its own share, or where that is used up, of a share behind it. There are as many
; tickets as chunks, so that the search ends.
define internal i32 @take(ptr %state, i64 %worker) {{
start:
{at("ticket_at", TICKET)}{at("first_at", OFFER)}{at("total_at", OFFER + 16)}
{at("pointers_at", OFFER + 24)}{at("args_at", OFFER + 32)}{at("sharers_at", OFFER + 40)}
{at("shares_at", SHARES)}
  br label %claim
claim:
  %ran = phi i32 [0, %start], [%more, %own]
  %from = phi i64 [%worker, %start], [%share, %own]
  %ticket = atomicrmw sub ptr %ticket_at, i64 1 seq_cst
  %free = icmp sgt i64 %ticket, {BIAS}
  br i1 %free, label %find, label %none
find:
  %first = load ptr, ptr %first_at
  %total = load i64, ptr %total_at
  %pointers = load ptr, ptr %pointers_at
  %args = load ptr, ptr %args_at
  %sharers = load i64, ptr %sharers_at
  br label %search
search:
  %share = phi i64 [%from, %find], [%following, %other]
  %distance = mul i64 %share, {SHARE_BYTES}
  %share_at = getelementptr i8, ptr %shares_at, i64 %distance
  %number = atomicrmw add ptr %share_at, i64 1 seq_cst
  %after = add i64 %share, 1
  %upto = mul i64 %after, %total
  %end = udiv i64 %upto, %sharers
  %inside = icmp slt i64 %number, %end
  br i1 %inside, label %own, label %other
other:
  %around = icmp uge i64 %after, %sharers
  %following = select i1 %around, i64 0, i64 %after
  br label %search
own:
  call void @chunk(ptr %first, i64 %number, ptr %pointers, ptr %args, i64 %worker)
  %more = add i32 %ran, 1
  br label %claim
none:
  ret i32 %ran
}}
"""


WAIT = """wait:
  %now = call i64 @clock()
  %waited = sub i64 %now, %since
  %young = icmp ult i64 %waited, %spin
  br i1 %young, label %short, label %long
short:
  call void @pause()
  br label %look
long:
  %old_enough = icmp ugt i64 %waited, %patience
  br i1 %old_enough, label %tired, label %give_way
give_way:
  %yielded = call i32 @ingle_yield()
  br label %look
"""
"""Looks again, from `since` on: at once while that is `spin` ago, and then only after others had
the processor; after `patience` it goes on as `tired`."""


def work_code(park_in_kernel: bool) -> str:
    """The life of a worker; returns 1 when it shall leave, 0 to sleep outside.

    A worker that slept outside comes back with `woken` 1: it no longer counts as asleep.
    """
    if park_in_kernel:
        may_sleep = "  br label %register\n"
        sleep = """  call void @sleep_on(ptr %wake_at, i32 %seen)
  %slept = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %idle
"""
    else:
        # Nobody can wake a sleeper while a plan runs, so that it stays awake until the end.
        may_sleep = """  %active = load atomic i32, ptr %active_at seq_cst, align 4
  %calm = icmp eq i32 %active, 0
  br i1 %calm, label %register, label %give_way
"""
        sleep = "  ret i32 0\n"
    return f"""
define i32 @work(ptr %state, i64 %index, i32 %woken) {{
start:
{at("ticket_at", TICKET)}{at("done_at", DONE)}{at("stop_at", STOP)}{at("wake_at", WAKE)}
{at("sleepers_at", SLEEPERS)}{at("leader_at", LEADER_SLEEPS)}{at("active_at", ACTIVE)}
{at("spin_at", SPIN)}{at("idle_at", IDLE)}
  %spin = load i64, ptr %spin_at
  %patience = load i64, ptr %idle_at
  %rose = atomicrmw sub ptr %sleepers_at, i32 %woken seq_cst
  br label %idle
idle:
  %since = call i64 @clock()
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket_at seq_cst, align 8
  %free = icmp sgt i64 %ticket, {BIAS}
  br i1 %free, label %try, label %nothing
try:
  %ran = call i32 @take(ptr %state, i64 %index)
  %useful = icmp ne i32 %ran, 0
  br i1 %useful, label %report, label %nothing
report:
  %old = atomicrmw add ptr %done_at, i32 %ran seq_cst
  %leader = load atomic i32, ptr %leader_at seq_cst, align 4
  %leader_sleeps = icmp ne i32 %leader, 0
  br i1 %leader_sleeps, label %call_leader, label %idle
call_leader:
  call void @wake_up(ptr %done_at)
  br label %idle
nothing:
  %stop = load atomic i32, ptr %stop_at seq_cst, align 4
  %leaves = icmp ne i32 %stop, 0
  br i1 %leaves, label %leave, label %wait
{WAIT}tired:
{may_sleep}register:
  %seen = load atomic i32, ptr %wake_at seq_cst, align 4
  %counted = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  %again = load atomic i64, ptr %ticket_at seq_cst, align 8
  %late = icmp sgt i64 %again, {BIAS}
  %stop2 = load atomic i32, ptr %stop_at seq_cst, align 4
  %leaves2 = icmp ne i32 %stop2, 0
  %awake = or i1 %late, %leaves2
  br i1 %awake, label %back, label %sleep
back:
  %gone = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %idle
sleep:
{sleep}leave:
  ret i32 1
}}
"""


# Lets the gang share the entries [first, last); false if another leader has it.
OFFER_CODE = f"""
define internal i1 @offer(
    ptr %first, ptr %last, ptr %pointers, ptr %args, ptr %state, i64 %workers) {{
start:
{at("lock_at", LOCK)}{at("ticket_at", TICKET)}{at("done_at", DONE)}{at("first_at", OFFER)}
{at("total_at", OFFER + 16)}{at("pointers_at", OFFER + 24)}{at("args_at", OFFER + 32)}
{at("sleepers_at", SLEEPERS)}{at("wake_at", WAKE)}{at("leader_at", LEADER_SLEEPS)}
{at("spin_at", SPIN)}{at("idle_at", IDLE)}{at("sharers_at", OFFER + 40)}{at("shares_at", SHARES)}
  %pair = cmpxchg ptr %lock_at, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue {{i32, i1}} %pair, 1
  br i1 %mine, label %split, label %refused
refused:
  ret i1 false
split:
  %entry = phi ptr [%first, %start], [%next, %split]
  %sum = phi i64 [0, %start], [%total, %split]
  %units_at = getelementptr i64, ptr %entry, i64 {UNITS}
  %units = load i64, ptr %units_at
  %grain_at = getelementptr i64, ptr %entry, i64 {GRAIN}
  %grain = load i64, ptr %grain_at
  %parts = mul i64 %workers, {CHUNKS_PER_WORKER}
  %span = mul i64 %parts, %grain
  %above = add i64 %units, %span
  %above1 = sub i64 %above, 1
  %grains = sdiv i64 %above1, %span
  %zero = icmp slt i64 %grains, 1
  %grains1 = select i1 %zero, i64 1, i64 %grains
  %size = mul i64 %grains1, %grain
  %up = add i64 %units, %size
  %up1 = sub i64 %up, 1
  %count = sdiv i64 %up1, %size
  %size_at = getelementptr i64, ptr %entry, i64 {CHUNK}
  store i64 %size, ptr %size_at
  %count_at = getelementptr i64, ptr %entry, i64 {CHUNKS}
  store i64 %count, ptr %count_at
  %total = add i64 %sum, %count
  %next = getelementptr i8, ptr %entry, i64 {ENTRY_BYTES}
  %finished = icmp eq ptr %next, %last
  br i1 %finished, label %publish, label %split
publish:
  store ptr %first, ptr %first_at
  store i64 %total, ptr %total_at
  store ptr %pointers, ptr %pointers_at
  store ptr %args, ptr %args_at
  store i64 %workers, ptr %sharers_at
  store atomic i32 0, ptr %done_at monotonic, align 4
  br label %share
share:
  %owner = phi i64 [0, %publish], [%owner1, %share]
  %before_it = mul i64 %owner, %total
  %begin = udiv i64 %before_it, %workers
  %distance = mul i64 %owner, {SHARE_BYTES}
  %share_at = getelementptr i8, ptr %shares_at, i64 %distance
  store atomic i64 %begin, ptr %share_at monotonic, align 8
  %owner1 = add i64 %owner, 1
  %shared = icmp eq i64 %owner1, %workers
  br i1 %shared, label %open, label %share
open:
  %ticket = add i64 %total, {BIAS}
  store atomic i64 %ticket, ptr %ticket_at seq_cst, align 8
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %alarm, label %help
alarm:
  %rung = atomicrmw add ptr %wake_at, i32 1 seq_cst
  call void @wake_up(ptr %wake_at)
  br label %help
help:
  %ran = call i32 @take(ptr %state, i64 0)
  %total32 = trunc i64 %total to i32
  %before = atomicrmw add ptr %done_at, i32 %ran seq_cst
  %spin = load i64, ptr %spin_at
  %patience = load i64, ptr %idle_at
  %since = call i64 @clock()
  br label %look
look:
  %done = load atomic i32, ptr %done_at seq_cst, align 4
  %all = icmp eq i32 %done, %total32
  br i1 %all, label %release, label %wait
{WAIT}tired:
  store atomic i32 1, ptr %leader_at seq_cst, align 4
  %seen = load atomic i32, ptr %done_at seq_cst, align 4
  %late = icmp eq i32 %seen, %total32
  br i1 %late, label %awake, label %rest
rest:
  call void @sleep_on(ptr %done_at, i32 %seen)
  br label %awake
awake:
  store atomic i32 0, ptr %leader_at seq_cst, align 4
  br label %look
release:
  store atomic i32 0, ptr %lock_at seq_cst, align 4
  ret i1 true
}}
"""


def futex_of(machine: Host) -> int:
    """The number of Linux's system call for futexes."""
    return 98 if _is_arm(machine) else 202


def waiting_code(machine: Host, park_in_kernel: bool) -> str:
    """What threads wait with on x86-64 or ARM64: `clock()`, a pause, and parking.

    Args:
        machine: which of the two.
        park_in_kernel: threads sleep in Linux's futex.
    """
    arm = _is_arm(machine)
    # The cycle counter of ARM64 traps outside of the kernel; its system timer does not.
    clock = "llvm.readsteadycounter" if arm else "llvm.readcyclecounter"
    pause = "llvm.aarch64.isb(i32 15)" if arm else "llvm.x86.sse2.pause()"
    pause_type = "llvm.aarch64.isb(i32)" if arm else "llvm.x86.sse2.pause()"
    parts = [
        f"declare i64 @{clock}()\ndeclare void @{pause_type}\ndeclare i32 @ingle_yield()",
        "declare i64 @syscall(i64, ...)" if park_in_kernel else "",
        f"define i64 @clock() {{\n  %t = call i64 @{clock}()\n  ret i64 %t\n}}",
        PAUSE.format(pause=pause),
        FUTEX.format(futex=futex_of(machine)) if park_in_kernel else NO_FUTEX,
    ]
    return "\n".join(parts)


def _is_arm(machine: Host) -> bool:
    return machine.triple.startswith(("aarch64", "arm64"))
