"""What an ONNX file holds, and what of it is not supported."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .graph import Port
from .reading import Reader, parse


@dataclass
class Inspection:
    """What `inspect` found.

    Attributes:
        name: of the file.
        producer: what wrote it.
        opsets: the version of each domain.
        inputs, outputs: of the graph.
        operators: how often each occurs, by its full name.
        weights: how many initializers there are, and how many bytes they take.
        missing: operators that are not supported, with the first node of each.
    """

    name: str
    producer: str
    opsets: dict[str, int]
    inputs: list[Port]
    outputs: list[Port]
    operators: Counter[str]
    weights: tuple[int, int]
    missing: dict[str, str]

    def lines(self) -> Iterator[str]:
        """The report for people."""
        opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in self.opsets.items())
        yield f"{self.name}: written by {self.producer or 'nobody who says so'}, opset {opsets}"
        yield from _section("inputs", [str(p) for p in self.inputs])
        yield from _section("outputs", [str(p) for p in self.outputs])
        count, size = self.weights
        yield from _section("weights", [f"{count} of {size / 2**20:.1f} MiB in all"])
        yield from _section(
            "operators", [f"{n:6} {name}" for name, n in self.operators.most_common()]
        )
        problems = [f"{name}, first at {where}" for name, where in self.missing.items()]
        yield from _section("not supported", problems or ["nothing: it can be imported"])


def _section(title: str, entries: list[str]) -> Iterator[str]:
    yield f"{title}:"
    yield from (f"  {e}" for e in entries or ["none"])


def inspect(path: str | os.PathLike[str] | bytes) -> Inspection:
    """Reads a file without making a module of it.

    Raises:
        ModelError: it is damaged, or no ONNX model.
    """
    message, name, folder = parse(path)
    reader = Reader(message, name, folder)
    graph = reader.read(strict=False)
    return Inspection(
        name,
        f"{message.producer_name} {message.producer_version}".strip(),
        reader.opsets,
        graph.inputs,
        graph.outputs,
        Counter(f"{n.domain}.{n.kind}".lstrip(".") for n in graph.walk()),
        (len(graph.initializers), sum(a.nbytes for a in graph.initializers.values())),
        {f"{d or 'ai.onnx'}.{k} of opset {v}": w for (d, k, v), w in reader.missing.items()},
    )
