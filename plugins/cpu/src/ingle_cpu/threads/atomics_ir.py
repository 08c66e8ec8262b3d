"""Atomic steps on the state that threads share, and how threads wait, as LLVM IR.

They are sequentially consistent unless a call says `RELAXED`: the pool and the queue each order
several words against one another, where anything weaker has to be argued for word by word.
"""

from __future__ import annotations

from ..jit.host import Host

_ALIGN = {"i32": 4, "i64": 8}
_ALL = "seq_cst"
RELAXED = "monotonic"
"""For a word that nothing is ordered by: another step publishes it, or nobody reads more after."""


def at(name: str, offset: int, base: str = "%state") -> str:
    """Where a word lies in the shared state."""
    return f"  %{name} = getelementptr i8, ptr {base}, i64 {offset}\n"


def load(name: str, place: str, kind: str = "i32", order: str = _ALL) -> str:
    """What a word holds now."""
    return f"  %{name} = load atomic {kind}, ptr %{place} {order}, align {_ALIGN[kind]}"


def store(value: int | str, place: str, kind: str = "i32", order: str = _ALL) -> str:
    """Writes a word: a number, or what a name stands for."""
    shown = value if isinstance(value, int) else f"%{value}"
    return f"  store atomic {kind} {shown}, ptr %{place} {order}, align {_ALIGN[kind]}"


def change(
    name: str, how: str, place: str, value: int | str, kind: str = "i32", order: str = _ALL
) -> str:
    """Adds to a word or subtracts from it; the name stands for what it held before."""
    shown = value if isinstance(value, int) else f"%{value}"
    return f"  %{name} = atomicrmw {how} ptr %{place}, {kind} {shown} {order}"


def take(name: str, place: str) -> str:
    """Takes a lock that is free, 0, which makes it 1; the name says of it what `cmpxchg` gives."""
    return f"  %{name} = cmpxchg ptr %{place}, i32 0, i32 1 {_ALL} {_ALL}"


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
