"""Builds a sdist and a wheel of each distribution.

`python tests/release/build_distributions.py dist` puts them into `dist`.

What is built is a copy of the member's folder beside the files that all members share: the version
and the licences. The wheel is made from the sdist, as pip does where it finds no wheel, so the
sdist is complete. Two builds of the same sources give the same bytes; `SOURCE_DATE_EPOCH` sets the
time that stands in them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from hatchling import build

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = [p.parent for p in sorted(ROOT.glob("p*s/*/pyproject.toml"))]
LICENSES = sorted(ROOT.glob("LICENSE-*"))
PARTS = ("pyproject.toml", "README.md", "src", "tests")


def main(target: Path) -> None:
    target.mkdir(exist_ok=True)
    for old in [*target.glob("*.whl"), *target.glob("*.tar.gz")]:
        old.unlink()
    for file in build_all(target):
        print(f"{file.stat().st_size:>10,}  {file.name}")


def build_all(target: Path) -> Iterator[Path]:
    """The sdist and the wheel of each member, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "VERSION", folder)
        for member in MEMBERS:
            copy = Path(folder, member.relative_to(ROOT))
            staged(member, copy)
            with chdir(copy):
                sdist = target / build.build_sdist(str(target))
            yield sdist
            with tarfile.open(sdist) as archive:
                archive.extractall(copy / "unpacked", filter="data")
            with chdir(copy / "unpacked" / sdist.name.removesuffix(".tar.gz")):
                yield target / build.build_wheel(str(target))


def staged(member: Path, copy: Path) -> None:
    """Copies what belongs to a member, with the licences."""
    copy.mkdir(parents=True)
    for part in PARTS:
        if (member / part).is_dir():
            shutil.copytree(
                member / part, copy / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        elif (member / part).exists():
            shutil.copy(member / part, copy)
    for file in LICENSES:
        shutil.copy(file, copy)


if __name__ == "__main__":
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1577836800")  # 2020, as hatchling has it
    main(Path(sys.argv[1]).resolve())
