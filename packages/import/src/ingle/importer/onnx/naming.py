"""Names of ONNX values as paths of modules: `encoder.0.weight` becomes nested modules."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


def paths(names: Iterable[str]) -> dict[str, str]:
    """A path of identifiers and numbers for each name; all differ, and none lies below another.

    >>> from ingle.importer.onnx.naming import paths
    >>> paths(["layer1.0.weight", "model/dense/kernel:0", "onnx::MatMul_23", "class"])
    {'layer1.0.weight': 'layer1.0.weight', 'model/dense/kernel:0': 'model.dense.kernel', \
'onnx::MatMul_23': 'onnx_MatMul_23', 'class': 'class_'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    folders: set[str] = set()
    for name in names:
        parts = [_part(p) for p in re.split(r"[./]", re.sub(r":0$", "", name)) if p] or ["value"]
        # A folder may not be where a value is: `a` and `a.b`.
        for n in range(1, len(parts)):
            while ".".join(parts[:n]) in taken:
                parts[n - 1] += "_"
        path, copies = ".".join(parts), 1
        while path in taken or path in folders:
            copies += 1
            path = ".".join([*parts[:-1], f"{parts[-1]}_{copies}"])
        taken.add(path)
        folders.update(".".join(parts[:n]) for n in range(1, len(parts)))
        found[name] = path
    return found


_RESERVED = {
    "apply", "buffers", "checkpointed", "children", "eval", "forward", "freeze", "graph", "load",
    "modules", "parameters", "summary", "to", "train", "training", "unfreeze",
}  # fmt: skip


def _part(text: str) -> str:
    clean = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"{clean}_" if keyword.iskeyword(clean) or clean in _RESERVED else clean
