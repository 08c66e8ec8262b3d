"""The promotion tables in tensors.md say what happens."""

from __future__ import annotations

import re
from pathlib import Path

import ingle.tensor as it

PAGE = Path(__file__).with_name("tensors.md")


def tables() -> list[list[list[str]]]:
    """Tables whose first row names dtypes, as rows of cells."""
    found = re.findall(
        r"^\| \| `\w+`.*?(?=\n\n)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return [
        [[c.strip(" `") for c in line.strip("|").split("|")] for line in text.splitlines()]
        for text in found
    ]


def test_promotion_is_as_the_page_says() -> None:
    seen = set()
    for head, _, *rows in tables():
        for first, *cells in rows:
            for second, expected in zip(head[1:], cells, strict=True):
                got = it.promote_types(getattr(it, first), getattr(it, second))
                want = "float32" if expected == "default float" else expected
                assert got.name == want, (first, second)
                seen.add(first)
    assert len(seen) == 14
