"""`ingle import`: what is in a model file."""

from __future__ import annotations

import argparse
import sys


class Import:
    """`ingle import inspect model.onnx`."""

    help = "what a model file holds, and whether it can be imported"

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        inspect = actions.add_parser("inspect", help="inputs, outputs, operators, what is missing")
        inspect.add_argument("file", help="an ONNX model")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from .onnx.inspection import inspect

        report = inspect(args.file)
        sys.stdout.write("\n".join(report.lines()) + "\n")
        return 1 if report.missing else 0
