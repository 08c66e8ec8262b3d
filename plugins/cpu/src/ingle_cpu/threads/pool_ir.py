"""LLVM IR of the thread pool: offering work, taking chunks of it, waiting and sleeping."""

from __future__ import annotations

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
from .atomics_ir import RELAXED, WAIT, at, change, load, store, take

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
; Takes chunks of the offer until none is free and returns how many it ran. A ticket takes
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
{change("ticket", "sub", "ticket_at", 1, "i64")}
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
{change("number", "add", "share_at", 1, "i64")}
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


def work_code(park_in_kernel: bool) -> str:
    """The life of a worker; returns 1 when it shall leave, 0 to sleep outside.

    A worker that slept outside comes back with `woken` 1: it no longer counts as asleep.
    """
    if park_in_kernel:
        may_sleep = "  br label %register\n"
        sleep = f"""  call void @sleep_on(ptr %wake_at, i32 %seen)
{change("slept", "sub", "sleepers_at", 1)}
  br label %idle
"""
    else:
        # Nobody can wake a sleeper while a plan runs, so that it stays awake until the end.
        may_sleep = f"""{load("active", "active_at")}
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
{change("rose", "sub", "sleepers_at", "woken")}
  br label %idle
idle:
  %since = call i64 @clock()
  br label %look
look:
{load("ticket", "ticket_at", "i64")}
  %free = icmp sgt i64 %ticket, {BIAS}
  br i1 %free, label %try, label %nothing
try:
  %ran = call i32 @take(ptr %state, i64 %index)
  %useful = icmp ne i32 %ran, 0
  br i1 %useful, label %report, label %nothing
report:
{change("old", "add", "done_at", "ran")}
{load("leader", "leader_at")}
  %leader_sleeps = icmp ne i32 %leader, 0
  br i1 %leader_sleeps, label %call_leader, label %idle
call_leader:
  call void @wake_up(ptr %done_at)
  br label %idle
nothing:
{load("stop", "stop_at")}
  %leaves = icmp ne i32 %stop, 0
  br i1 %leaves, label %leave, label %wait
{WAIT}tired:
{may_sleep}register:
{load("seen", "wake_at")}
{change("counted", "add", "sleepers_at", 1)}
{load("again", "ticket_at", "i64")}
  %late = icmp sgt i64 %again, {BIAS}
{load("stop2", "stop_at")}
  %leaves2 = icmp ne i32 %stop2, 0
  %awake = or i1 %late, %leaves2
  br i1 %awake, label %back, label %sleep
back:
{change("gone", "sub", "sleepers_at", 1)}
  br label %idle
sleep:
{sleep}leave:
  ret i32 1
}}
"""


# Lets the thread pool share the entries [first, last); false if another leader has it.
OFFER_CODE = f"""
define internal i1 @offer(
    ptr %first, ptr %last, ptr %pointers, ptr %args, ptr %state, i64 %workers) {{
start:
{at("lock_at", LOCK)}{at("ticket_at", TICKET)}{at("done_at", DONE)}{at("first_at", OFFER)}
{at("total_at", OFFER + 16)}{at("pointers_at", OFFER + 24)}{at("args_at", OFFER + 32)}
{at("sleepers_at", SLEEPERS)}{at("wake_at", WAKE)}{at("leader_at", LEADER_SLEEPS)}
{at("spin_at", SPIN)}{at("idle_at", IDLE)}{at("sharers_at", OFFER + 40)}{at("shares_at", SHARES)}
{take("pair", "lock_at")}
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
{store(0, "done_at", order=RELAXED)}
  br label %share
share:
  %owner = phi i64 [0, %publish], [%owner1, %share]
  %before_it = mul i64 %owner, %total
  %begin = udiv i64 %before_it, %workers
  %distance = mul i64 %owner, {SHARE_BYTES}
  %share_at = getelementptr i8, ptr %shares_at, i64 %distance
{store("begin", "share_at", "i64", RELAXED)}
  %owner1 = add i64 %owner, 1
  %shared = icmp eq i64 %owner1, %workers
  br i1 %shared, label %open, label %share
open:
  %ticket = add i64 %total, {BIAS}
{store("ticket", "ticket_at", "i64")}
{load("sleepers", "sleepers_at")}
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %alarm, label %help
alarm:
{change("rung", "add", "wake_at", 1)}
  call void @wake_up(ptr %wake_at)
  br label %help
help:
  %ran = call i32 @take(ptr %state, i64 0)
  %total32 = trunc i64 %total to i32
{change("before", "add", "done_at", "ran")}
  %spin = load i64, ptr %spin_at
  %patience = load i64, ptr %idle_at
  %since = call i64 @clock()
  br label %look
look:
{load("done", "done_at")}
  %all = icmp eq i32 %done, %total32
  br i1 %all, label %release, label %wait
{WAIT}tired:
{store(1, "leader_at")}
{load("seen", "done_at")}
  %late = icmp eq i32 %seen, %total32
  br i1 %late, label %awake, label %rest
rest:
  call void @sleep_on(ptr %done_at, i32 %seen)
  br label %awake
awake:
{store(0, "leader_at")}
  br label %look
release:
{store(0, "lock_at")}
  ret i1 true
}}
"""
