"""`ingle train show RUN` and `ingle train compare A B`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from .reading import Run, RunError


class Train:
    """`ingle train`."""

    help = "open trainings, running or finished, and compare them"

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        """Adds `show` and `compare`."""
        parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
        show = parts.add_parser("show", help="the dashboard of a run, or its figures as lines")
        show.add_argument("folder", metavar="RUN", type=Path, help="folder of the run")
        show.add_argument("--plain", action="store_true", help="lines, also in a terminal")
        show.add_argument("--serve", action="store_true", help="in a browser, by textual-serve")
        show.add_argument("--host", default="localhost", help="where to serve (%(default)s)")
        show.add_argument("--port", type=int, default=8000, help="where to serve (%(default)s)")
        compare = parts.add_parser("compare", help="runs side by side")
        compare.add_argument(
            "folders", metavar="RUN", type=Path, nargs="+", help="folders of the runs"
        )

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Does what was asked for."""
        try:
            if args.part == "compare":
                return compare(args.folders)
            if args.serve:
                return serve(args.folder, args.host, args.port)
            return show(args.folder, plain=args.plain)
        except RunError as error:
            sys.stderr.write(f"ingle: {error}\n")
            return 1


def show(folder: Path, *, plain: bool) -> int:
    """Opens the dashboard, or writes lines where there is no terminal."""
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from .comparing import described

        sys.stdout.write(described(Run(folder)))
        return 0
    from .app import show as open_dashboard

    open_dashboard(folder)
    return 0


def compare(folders: Sequence[Path]) -> int:
    """Writes a table of runs and plots of what they have in common."""
    from .comparing import print_comparison

    print_comparison([Run(folder) for folder in folders])
    return 0


def serve(folder: Path, host: str, port: int) -> int:
    """Serves the dashboard to browsers, until Ctrl-C."""
    Run(folder)
    try:
        from textual_serve.server import Server
    except ImportError:
        raise RunError("serving needs textual-serve: pip install ingle-dashboard[serve]") from None
    command = shlex.join([sys.executable, "-m", "ingle.dashboard", str(folder.resolve())])
    Server(command, host=host, port=port, title=f"ingle {folder}").serve()
    return 0
