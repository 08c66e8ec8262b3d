"""Writes pytorch-names.md from the tables that errors answer from: `nox -f nox.py -s names`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ingle.tensor.pytorch_names import home, refused, renamed

PAGE = Path(__file__).with_name("pytorch-names.md")


def pytorch_names() -> str:
    """The page of PyTorch's names: what is called otherwise, and what is not offered and why."""

    def names(found: Iterable[str]) -> str:
        return ", ".join(f"`{n}`" for n in found)

    by_code: dict[str, list[str]] = {}
    for name, code in renamed.items():
        by_code.setdefault(code, []).append(name)
    called = [f"| {names(found)} | {_cell(code)} |" for code, found in by_code.items()]
    missing = {reason: [n for n in found if not home(n)] for reason, found in refused.items()}
    without = [f"- **{reason}:** {names(found)}" for reason, found in missing.items() if found]
    head = """# PyTorch's names

What the public names of `torch.Tensor`, `torch` and `torch.nn.functional` are called here. `it` is
`ingle.tensor`, `x` a tensor. Names that are not on this page are the same in `it`, `it.linalg`,
`it.fft` or `it.random`; errors give the same answers (`it.cat` says `it.concat`). `x.name_()`, in
place, is `x = x.name()`. How to move a program over is on [another page](pytorch.md).

## Other names

| PyTorch | Ingle |
|---|---|"""
    return "\n".join([head, *called, "\n## Not offered\n", *without, ""])


def _cell(code: str) -> str:
    return "`" + code.replace("|", "\\|") + "`"


if __name__ == "__main__":
    PAGE.write_text(pytorch_names(), "utf-8")
