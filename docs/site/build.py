"""Builds the documentation into a folder: `python docs/site/build.py dist/site`.

The pages are the Markdown files of docs/ and CONTRIBUTING.md; the lists in docs/index.md are the
table of contents. A copy of the pages goes to Sphinx, with the links changed that would lead out
of it. A warning ends the build with an error, a lost link is one; so are a page that the index
does not list, a public name without an entry, and a file that would be loaded from elsewhere.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import main as sphinx
from sphinx.util.inventory import InventoryFile

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from api_pages import MODULES, names_of  # noqa: E402
from staging import stage  # noqa: E402

LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"((?:https?:)?//[^\"]+)")


def main(target: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        shutil.rmtree(target, ignore_errors=True)
        options = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(HERE)]
        doctrees = str(Path(folder, ".doctrees"))
        failed = sphinx([*options, "-d", doctrees, folder, str(target)])
    faults = [] if failed else [*unlisted(target), *foreign(target)]
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return int(bool(failed or faults))


def unlisted(site: Path) -> list[str]:
    """Public names that have no entry on the site."""
    entries = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    there = {name for kind, names in entries.items() if kind.startswith("py:") for name in names}
    paths = (name.path for module in MODULES for name in names_of(module))
    return [f"{path} has no entry" for path in paths if path not in there]


def foreign(site: Path) -> list[str]:
    """What pages would load from other servers."""
    return [
        f"{file.relative_to(site)} loads {url}"
        for file in sorted(site.rglob("*.html"))
        for url in LOADED.findall(file.read_text("utf-8"))
    ]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
