"""The console script `ingle`. Plugins add subcommands with the `ingle_commands` hook."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

import numpy as np

from .contract import CONTRACT_VERSION
from .device import Device
from .errors import IngleError
from .operation import OPERATIONS
from .plugins import (
    Discovery,
    backends_by_priority,
    counted,
    describe,
    discover,
    load_attribute,
    load_backend,
)


class Command(Protocol):
    """What the attribute named by `ingle_commands` must have."""

    help: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int | None:
        """Does the work; returns the exit code, None for 0."""
        ...


@dataclass(slots=True)
class DeviceInfo:
    """One device that can be used."""

    name: str
    index: int
    priority: int
    summary: str
    plugin: str


@dataclass(slots=True)
class Problem:
    """Something that does not work, and what to do about it."""

    subject: str
    reason: str
    fix: str


@dataclass(slots=True)
class Report:
    """What `ingle info` knows."""

    python: str
    platform: str
    contract: int
    distributions: dict[str, str] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict)
    devices: list[DeviceInfo] = field(default_factory=list)
    default: str | None = None
    default_reason: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def gather() -> Report:
    """Looks at what is installed; loads plugins' descriptions but makes no backend."""
    known = discover()
    report = Report(
        platform.python_version(), platform.platform(terse=True), CONTRACT_VERSION,
        distributions=_distributions(), plugins=dict(known.plugins),
    )  # fmt: skip
    for name in known.backends:
        _add_backend(report, name, known)
    for name, reason in known.failures.items():
        report.problems.append(
            Problem(f"plugin {name!r}", reason, "update or reinstall the package that brings it")
        )
    for name, place in known.commands.items():
        try:
            load_attribute(place)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            report.problems.append(Problem(f"command {name!r}", reason, "reinstall its package"))
    _add_default(report)
    return report


def _distributions() -> dict[str, str]:
    from importlib.metadata import distributions

    found = {}
    for d in distributions():
        name = d.metadata["Name"] or ""
        brings = any(e.group == "ingle" for e in d.entry_points)
        if brings or name == "ingle" or name.startswith("ingle-"):
            found[name] = d.version
    return dict(sorted(found.items()))


def _add_backend(report: Report, name: str, known: Discovery) -> None:
    owner = known.owners.get(f"backends:{name}", name)
    try:
        description = describe(name)
        count = counted(name)
    except Exception as error:  # a stranger's plugin
        known.failures.pop(name, None)
        fix = f"update the package of plugin {owner!r} together with ingle-tensor, or uninstall it"
        report.problems.append(Problem(f"backend {name!r}", str(error), fix))
        return
    for index in range(count):
        report.devices.append(
            DeviceInfo(name, index, description.priority, description.summary, owner)
        )
    if not count:
        reason = description.missing or "it found no device"
        report.absent[name] = reason


def _add_default(report: Report) -> None:
    named = os.environ.get("INGLE_DEVICE", "").strip()
    try:
        where = Device.parse(named) if named else Device(next(backends_by_priority()))
    except StopIteration:
        report.problems.append(
            Problem("default device", "no backend is usable", "pip install ingle-numpy")
        )
        return
    except IngleError as error:
        report.problems.append(Problem("INGLE_DEVICE", str(error), "unset or correct it"))
        return
    if named and not any((d.name, d.index) == (where.name, where.index) for d in report.devices):
        report.problems.append(
            Problem(
                "INGLE_DEVICE", f"{named!r} is none of the devices found", "unset or correct it"
            )
        )
        return
    report.default = str(where)
    report.default_reason = (
        "INGLE_DEVICE names it" if named else "it has the highest priority of those found"
    )


def lines(report: Report) -> Iterator[str]:
    """The report for people."""
    yield f"Python {report.python} on {report.platform}, contract {report.contract}"
    yield from _section("packages", [f"{n} {v}" for n, v in report.distributions.items()])
    yield from _section("plugins", [f"{n} ({place})" for n, place in report.plugins.items()])
    yield from _section("devices", [_device_line(d, report) for d in report.devices])
    if report.absent:
        absent = [f"{name:<12} no device: {reason}" for name, reason in report.absent.items()]
        yield from _section("plugins without a device here", absent)
    problems = [f"{p.subject}: {p.reason}\n      fix: {p.fix}" for p in report.problems]
    yield from _section("problems", problems)


def _device_line(d: DeviceInfo, report: Report) -> str:
    name = f"{d.name}:{d.index}"
    plain = d.name if d.index == 0 else name
    why = f"  <- default: {report.default_reason}" if plain == report.default else ""
    return f"{name:<12} priority {d.priority:<4} {d.summary}{why}"


def _section(title: str, entries: Sequence[str]) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    for entry in entries or ["none"]:
        yield f"  {entry}"


class Info:
    """`ingle info`."""

    help = "what is installed, which devices were found, what is wrong"

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="the same for programs")
        parser.add_argument(
            "--check", action="store_true",
            help="make each backend, and upload, add and download on each device; exits with 1 if "
            "anything is wrong",
        )  # fmt: skip

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        report = gather()
        if args.check:
            check(report)
        if args.json:
            sys.stdout.write(json.dumps(asdict(report), indent=2) + "\n")
        else:
            sys.stdout.write("\n".join(lines(report)) + "\n")
        return 1 if report.default is None or (args.check and report.problems) else 0


class Ops:
    """`ingle ops`."""

    help = "the operations that a backend may have kernels for"

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", help="only these operations or families")
        parser.add_argument("--json", action="store_true", help="the same for programs")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from .operation_table import operations, table, told

        chosen = operations(args.names)
        if not chosen:
            sys.stderr.write(f"ingle: no operation or family named {', '.join(args.names)}\n")
            return 1
        if args.json:
            sys.stdout.write(json.dumps(told(chosen), indent=2) + "\n")
        else:
            sys.stdout.write("\n".join(table(chosen)) + "\n")
        return 0


def check(report: Report) -> None:
    """Makes each backend that was found and computes on it; adds what is wrong to the problems."""
    add = OPERATIONS["add"].op()
    values = np.arange(5, dtype=np.float32)
    right = values + values
    for found in report.devices:
        subject = f"device '{found.name}:{found.index}'"
        try:
            backend = load_backend(Device(found.name, found.index))
            x = backend.upload(values)
            got = backend.download(backend.execute(add, (x, x))[0])
            backend.synchronize()
            same = isinstance(got, np.ndarray) and got.dtype == right.dtype
            wrong = None if same and np.array_equal(got, right) else f"1 + 1 gave {got!r}"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a stranger's plugin
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            fix = f"update or uninstall the package of plugin {found.plugin!r}"
            report.problems.append(Problem(subject, wrong, fix))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand and returns its exit code; without one, shows the help."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="ingle", description="Tensors whose hardware is a plugin.", allow_abbrev=False
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, command in _commands(given):
        added = subparsers.add_parser(name, help=command.help, description=command.help)
        command.configure(added)
        added.set_defaults(run=command.run)
    args = parser.parse_args(given)
    if not hasattr(args, "run"):
        parser.print_help()
        return 2
    try:
        return int(args.run(args) or 0)
    except IngleError as error:
        sys.stderr.write(f"ingle: {error}\n")
        return 1


def _commands(given: Sequence[str]) -> Iterator[tuple[str, Command]]:
    """The commands to offer; one that is called by name is the only plugin's that is loaded."""
    yield "info", Info
    yield "ops", Ops
    places = discover().commands if given[:1] not in (["info"], ["ops"]) else {}
    for name, place in places.items():
        if given and given[0] in places and given[0] != name:
            continue
        try:
            command = load_attribute(place)
        except Exception as error:
            sys.stderr.write(f"ingle: command {name!r} is broken: {error}; see `ingle info`\n")
            continue
        yield name, command
