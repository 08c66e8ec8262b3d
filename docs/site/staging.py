"""The pages as Sphinx reads them: a copy of docs/ and CONTRIBUTING.md, and the lists of names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from api_pages import pages

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?!https?:|#)[^)#\s]+)(#[^)]*)?\)")


def stage(folder: Path) -> None:
    """Writes the pages as Sphinx shall read them."""
    for file in [*DOCS.glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        name = file.name if file.parent == DOCS else "contributing.md"
        text = inside(file.read_text("utf-8"), file)
        (folder / name).write_text(text + contents(text) * (name == "index.md"), "utf-8")
    for picture in [*DOCS.glob("*.svg"), *DOCS.glob("*.png")]:
        shutil.copy(picture, folder)
    (folder / "api").mkdir()
    for name, text in pages().items():
        (folder / "api" / name).write_text(text, "utf-8")


def inside(text: str, file: Path) -> str:
    """The text with links to pages of the site as they are there, and others as bare paths.

    What a link in a source names and does not exist is left for Sphinx to find.
    """

    def changed(found: re.Match[str]) -> str:
        label, path, anchor = found[1], found[2], found[3] or ""
        target = (file.parent / path).resolve()
        if target == ROOT / "CONTRIBUTING.md":
            return f"[{label}](contributing.md{anchor})"
        if target.parent == DOCS or not target.exists():
            return f"[{label}]({target.name if target.parent == DOCS else path}{anchor})"
        inner = target.relative_to(ROOT).as_posix()
        return label if label.strip("`") == inner else f"{label} (`{inner}`)"

    return LINK.sub(changed, text)


def contents(index: str) -> str:
    """A table of contents from the lists of the first page: each heading is a part of it."""
    parts = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        files = [path for _, path, _ in LINK.findall(section) if path.endswith(".md")]
        if files:
            caption = section.partition("\n")[0]
            listed = "\n".join(dict.fromkeys(files))
            parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n")
    parts.append("\n```{toctree}\n:hidden:\n:caption: Reference\n\napi/index.md\n```\n")
    return "".join(parts)
