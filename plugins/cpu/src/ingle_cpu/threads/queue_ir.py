"""The native part of running ahead, as LLVM IR: a thread that runs what lies in a queue.

A job is a program of few instructions: run this table, fail if that byte is set. One thread, the
executor, runs the jobs in order and never needs Python's lock for it, so that Python code of other
threads neither waits for it nor keeps it waiting. A job that fails halts the queue; what becomes of
those behind it is decided in Python, which then lets it go on.
"""

from __future__ import annotations

from ..jit.host import Host
from .abi import (
    CHECK,
    QUEUE_ASLEEP,
    QUEUE_BELL,
    QUEUE_HALT,
    QUEUE_HEAD,
    QUEUE_IDLE,
    QUEUE_NEWS,
    QUEUE_SLOTS,
    QUEUE_SPIN,
    QUEUE_STOP,
    QUEUE_TAIL,
    QUEUE_WAITERS,
    RUN,
    SLOTS,
)
from .atomics_ir import WAIT, at, change, futex_of, load, store, waiting_code

DONE, HALTED, TIRED = 0, 1, 2
"""What `await` returns: the job ended; the queue halts; a while has passed."""


def queue_code(machine: Host, park_in_kernel: bool) -> str:
    """The module with `serve`, `submit`, `await`, `resume` and `ring`.

    Args:
        machine: x86-64 or ARM64.
        park_in_kernel: sleep in Linux's futex; otherwise `serve` returns when it would sleep.
    """
    parts = [
        waiting_code(machine, park_in_kernel),
        _TELL,
        _serve(park_in_kernel),
        _await(futex_of(machine) if park_in_kernel else None),
        _SUBMIT,
    ]
    return "\n".join(parts)


_TELL = f"""
define internal void @tell(ptr %state) {{
{at("news_at", QUEUE_NEWS)}{at("waiters_at", QUEUE_WAITERS)}
{change("news", "add", "news_at", 1)}
{load("waiters", "waiters_at")}
  %none = icmp eq i32 %waiters, 0
  br i1 %none, label %out, label %wake
wake:
  call void @wake_up(ptr %news_at)
  br label %out
out:
  ret void
}}
"""


def _serve(park_in_kernel: bool) -> str:
    """The life of the executor; returns 1 when it shall leave, 0 to sleep outside."""
    sleep = "  call void @sleep_on(ptr %bell_at, i32 %seen)\n  br label %rise\n"
    outside = f"""{store(0, "asleep_at")}
  ret i32 0
"""
    return f"""
define i32 @serve(ptr %state, ptr %run, ptr %pool) {{
start:
{at("head_at", QUEUE_HEAD)}{at("tail_at", QUEUE_TAIL)}{at("halt_at", QUEUE_HALT)}
{at("stop_at", QUEUE_STOP)}{at("bell_at", QUEUE_BELL)}{at("asleep_at", QUEUE_ASLEEP)}
{at("spin_at", QUEUE_SPIN)}{at("idle_at", QUEUE_IDLE)}{at("slots", QUEUE_SLOTS)}
  %spin = load i64, ptr %spin_at
  %patience = load i64, ptr %idle_at
  br label %idle
idle:
  %since = call i64 @clock()
  br label %look
look:
{load("tail", "tail_at", "i64")}
  %ready = call i1 @ready(ptr %state)
  br i1 %ready, label %job, label %nothing
job:
  %place = and i64 %tail, {SLOTS - 1}
  %slot = getelementptr ptr, ptr %slots, i64 %place
  %program = load ptr, ptr %slot
  br label %step
step:
  %here = phi ptr [%program, %job], [%after, %table], [%after, %check]
  %kind = load i64, ptr %here
  %what_at = getelementptr i64, ptr %here, i64 1
  %what = load ptr, ptr %what_at
  %after = getelementptr i64, ptr %here, i64 2
  switch i64 %kind, label %finished [i64 {RUN}, label %table i64 {CHECK}, label %check]
table:
  %status = call i64 %run(ptr %what, ptr %pool)
  br label %step
check:
  %flag = load i8, ptr %what
  %good = icmp eq i8 %flag, 0
  br i1 %good, label %step, label %failed
failed:
{store(1, "halt_at")}
  call void @tell(ptr %state)
  br label %idle
finished:
  %next = add i64 %tail, 1
{store("next", "tail_at", "i64")}
  call void @tell(ptr %state)
  br label %idle
nothing:
{load("stop", "stop_at")}
  %leaves = icmp ne i32 %stop, 0
  br i1 %leaves, label %leave, label %wait
{WAIT}tired:
{load("seen", "bell_at")}
{store(1, "asleep_at")}
  %late = call i1 @ready(ptr %state)
{load("stop2", "stop_at")}
  %leaves2 = icmp ne i32 %stop2, 0
  %awake = or i1 %late, %leaves2
  br i1 %awake, label %rise, label %sleep
sleep:
{sleep if park_in_kernel else outside}rise:
{store(0, "asleep_at")}
  br label %idle
leave:
  ret i32 1
}}
define internal i1 @ready(ptr %state) {{
{at("head_at", QUEUE_HEAD)}{at("tail_at", QUEUE_TAIL)}{at("halt_at", QUEUE_HALT)}
{load("halt", "halt_at")}
{load("tail", "tail_at", "i64")}
{load("head", "head_at", "i64")}
  %runs = icmp eq i32 %halt, 0
  %more = icmp ne i64 %tail, %head
  %both = and i1 %runs, %more
  ret i1 %both
}}
"""


# A sleeper looks up twenty times a second, since a signal may have reached another thread.
_NAP = """
define internal void @nap_on(ptr %word, i32 %seen) noinline {{
  %until = alloca [2 x i64]
  %part = getelementptr i64, ptr %until, i64 1
  store i64 0, ptr %until
  store i64 50000000, ptr %part
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %seen, ptr %until)
  ret void
}}
"""


def _await(futex: int | None) -> str:
    """Waits for the end of a job, but not for ever."""
    nap = "  call void @nap_on(ptr %news_at, i32 %seen)\n"
    return f"""{_NAP.format(futex=futex) if futex else ""}
define i32 @await(ptr %state, i64 %number) {{
start:
{at("spin_at", QUEUE_SPIN)}{at("idle_at", QUEUE_IDLE)}{at("news_at", QUEUE_NEWS)}
{at("waiters_at", QUEUE_WAITERS)}
  %spin = load i64, ptr %spin_at
  %patience = load i64, ptr %idle_at
  %since = call i64 @clock()
  br label %look
look:
  %found = call i32 @found(ptr %state, i64 %number)
  %open = icmp eq i32 %found, {TIRED}
  br i1 %open, label %wait, label %out
out:
  ret i32 %found
{WAIT}tired:
{load("seen", "news_at")}
{change("counted", "add", "waiters_at", 1)}
  %again = call i32 @found(ptr %state, i64 %number)
  %still = icmp eq i32 %again, {TIRED}
  br i1 %still, label %sleep, label %rise
sleep:
{nap if futex else ""}  br label %rise
rise:
{change("gone", "sub", "waiters_at", 1)}
  %now_found = call i32 @found(ptr %state, i64 %number)
  ret i32 %now_found
}}
define internal i32 @found(ptr %state, i64 %number) {{
{at("tail_at", QUEUE_TAIL)}{at("halt_at", QUEUE_HALT)}
{load("halt", "halt_at")}
{load("tail", "tail_at", "i64")}
  %ended = icmp sgt i64 %tail, %number
  %halted = icmp ne i32 %halt, 0
  %other = select i1 %halted, i32 {HALTED}, i32 {TIRED}
  %found = select i1 %ended, i32 {DONE}, i32 %other
  ret i32 %found
}}
"""


_SUBMIT = f"""
; Appends a job and returns how many there were before.
define i64 @submit(ptr %state, ptr %program) {{
{at("head_at", QUEUE_HEAD)}{at("slots", QUEUE_SLOTS)}
  %head = load i64, ptr %head_at
  %place = and i64 %head, {SLOTS - 1}
  %slot = getelementptr ptr, ptr %slots, i64 %place
  store ptr %program, ptr %slot
  %next = add i64 %head, 1
{store("next", "head_at", "i64")}
  call void @ring(ptr %state)
  ret i64 %head
}}
; Goes on after a failure.
define void @resume(ptr %state) {{
{at("halt_at", QUEUE_HALT)}
{store(0, "halt_at")}
  call void @ring(ptr %state)
  ret void
}}
; Wakes the executor if it sleeps.
define void @ring(ptr %state) {{
{at("bell_at", QUEUE_BELL)}{at("asleep_at", QUEUE_ASLEEP)}
{load("asleep", "asleep_at")}
  %awake = icmp eq i32 %asleep, 0
  br i1 %awake, label %out, label %wake
wake:
{change("rung", "add", "bell_at", 1)}
  call void @wake_up(ptr %bell_at)
  br label %out
out:
  ret void
}}
"""
