"""What holds for every test of the repository."""

from __future__ import annotations

import builtins
import dis
import gc
import inspect
import signal
import sys
import zlib
from collections.abc import Iterator
from contextvars import Context, ContextVar, copy_context
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

MARKERS = (
    "slow: takes more than a third of a second; `nox -f nox.py -s slow` runs it, a part of them on "
    "every change",
    "nightly: too long for every change; `nox -f nox.py -s nightly` runs it",
    "sampled(every, slow=4): of its sets of parameters one in `every` runs with all tests; of the "
    "others one in `slow` is slow (0: none is), and the rest nightly",
)
PEERS = ("torch", "jax", "scipy", "mpmath", "safetensors", "transformers")
"""Libraries that tests compare with, and that may be absent."""
JUMPS = {*dis.hasjrel, *dis.hasjabs}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", metavar="K/N", default="1/1", help="the part K of N of the tests that are slow"
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    # Shells start what runs in the background without Ctrl-C, which tests send to themselves.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Leaves out early what cannot run, unless a test is asked for by name.

    Nothing is collected of a class that `-m` leaves out whole: the testkit's long tiers are
    classes of thousands of tests. All tests of a file that need the same absent peer are one skip.
    """
    if any("::" in argument for argument in collector.config.args):
        return None
    if inspect.isclass(obj):
        marks = {mark.name for mark in getattr(obj, "pytestmark", ())}
        return [] if marks & unwanted(collector.config.option.markexpr) else None
    if collector.istestfunction(obj, name) and (peer := absent_peer(obj)):
        return AbsentPeer.skipping(collector, peer)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what `sampled` leaves for later, before `-m` chooses, and leaves out other parts.

    The first set of parameters always runs. Which others do hangs on their names alone: counting
    would choose one dtype only where dtypes alternate.
    """
    started: set[str] = set()
    for item in items:
        marks = [*item.iter_markers("sampled")]
        test = item.nodeid.partition("[")[0]
        if marks and test in started:
            # A file may leave out more of what its tests leave out themselves.
            tiers = {tier_of(item.name, *mark.args, **mark.kwargs) for mark in marks}
            for tier in tiers - {""}:
                item.add_marker(tier)
        started.add(test)
    part = config.getoption("--part")
    left = [one for one in items if one.get_closest_marker("slow") and not is_in(part, one.nodeid)]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = {id(one) for one in left}
        items[:] = [one for one in items if id(one) not in gone]


def is_in(part: str, test: str) -> bool:
    """Whether a part, such as 2/3, has a test: that hangs on its name, and not on `sampled`."""
    number, count = map(int, part.split("/"))
    return zlib.crc32(test[::-1].encode()) % count == number % count


def tier_of(name: str, every: int, slow: int = 4) -> str:
    """The marker of a test that `sampled(every, slow)` is on: none, slow or nightly."""
    number = zlib.crc32(name.encode())
    if number % every == 0:
        return ""
    return "slow" if slow and number // every % slow == 0 else "nightly"


def unwanted(expression: str) -> set[str]:
    """The markers of which `-m` leaves out every test."""
    if "(" in expression or " or " in expression:
        return set()
    terms = expression.split(" and ")
    return {term.removeprefix("not ") for term in terms if term.startswith("not ")}


def absent_peer(test: Any) -> str | None:
    """The peer without which a test is skipped whatever its parameters, if it is not installed."""
    code = getattr(inspect.unwrap(test), "__code__", None)
    if code is None or "importorskip" not in code.co_names:
        return None
    asked = False
    for instruction in dis.get_instructions(code):
        if instruction.opcode in JUMPS:
            return None
        if asked and isinstance(instruction.argval, str):
            peer = instruction.argval.partition(".")[0]
            if peer in PEERS and not installed(peer):
                return peer
        asked = instruction.argval == "importorskip"
    return None


@cache
def installed(peer: str) -> bool:
    """Whether a library can be imported."""
    return find_spec(peer) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Calls a test with context variables of its own, so that none that it leaves set reaches the
    tests behind it: it fails itself. Its random numbers are its own, too, whatever ran before.

    Interrupts that tests raise anywhere would otherwise make some other test fail now and then.
    """
    if "ingle.tensor" in sys.modules:
        sys.modules["ingle.tensor"].random.seed(0)
    before = copy_context()
    inside = before.copy()
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    inside.run(pyfuncitem.obj, **given)
    left = [
        variable.name
        for variable, value in inside.items()
        if variable.name.startswith("ingle_") and value is not _value_in(before, variable)
    ]
    assert not left, f"the test leaves context variables set: {left}"
    return True


def _value_in(context: Context, variable: ContextVar[Any]) -> Any:
    """The value of a variable in a context, or what it has where nobody has set it."""
    return context[variable] if variable in context else Context().run(variable.get)


class AbsentPeer(pytest.Item):
    """Stands for all tests of a file that need a library which is not installed."""

    tests = 0

    @classmethod
    def skipping(cls, collector: pytest.Module | pytest.Class, peer: str) -> list[pytest.Item]:
        """The item if this is the first such test of the file, nothing for the others."""
        module = collector.getparent(pytest.Module)
        assert module is not None
        items = module.stash.setdefault(ABSENT, {})
        first = peer not in items
        if first:
            items[peer] = cls.from_parent(module, name=f"needs_{peer}")
        items[peer].tests += 1
        return [items[peer]] if first else []

    def runtest(self) -> NoReturn:
        peer = self.name.removeprefix("needs_")
        pytest.skip(f"{self.tests} test functions need {peer}, which is not installed")

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


ABSENT = pytest.StashKey[dict[str, AbsentPeer]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Takes what collecting left, some million objects, out of the collector's sight.

    A full collection looked at all of them each time: a second, in every test that asks for one.
    """
    session.stash[FROZEN_FOR] = None
    freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Does the same between two files where tests have left many: modules that PyTorch loads late.

    Fixtures of the file before are gone by now, and those of the next are not there yet.
    """
    stash = item.session.stash
    if stash.get(FROZEN_FOR, None) != item.path:
        stash[FROZEN_FOR] = item.path
        if len(gc.get_objects()) > MANY:
            freeze()


def freeze() -> None:
    """Collects garbage, and what is alive is never looked at again."""
    gc.collect()
    gc.freeze()


FROZEN_FOR = pytest.StashKey[Path | None]()
"""The file of the test that ran last."""
MANY = 100_000
"""Objects that take a full collection some 20 ms."""


@pytest.fixture(scope="session", autouse=True)
def plans_of_this_session() -> Iterator[None]:
    """Plans are made in this process: one from disk would leave nothing to see of how it is made.

    Without this a test that watches or replaces a pass would fail, or check nothing, in the second
    session that runs it.
    """
    with pytest.MonkeyPatch.context() as patch:
        if installed("ingle.fusion"):
            patch.setattr(
                "ingle.fusion.runtime.graph_plans.stored_plans", lambda device, graph: None
            )
            patch.setattr(
                "ingle.fusion.runtime.sized_graph.stored_sized_plans", lambda device, graph: None
            )
            # Nor is one made between others because a log has come in an earlier session, too.
            patch.setattr(
                "ingle.fusion.runtime.plan_cache.PlanCache._note_once", lambda *arguments: None
            )
        yield


@pytest.fixture(scope="session", autouse=True)
def names_of_python(doctest_namespace: dict[str, object]) -> None:
    """Examples mean Python's `round` and `abs`, though their module may export its own."""
    own = {n: f for n, f in vars(builtins).items() if not n.startswith("_") and n != "compile"}
    doctest_namespace.update(own)
