"""Checks distributions: `python tests/release/check_distributions.py dist` says what is wrong.

A wheel holds what belongs into it and nothing else. A wheel and its sdist say the same: name,
version, licences with their texts, and the README as the long description, without links that lead
nowhere from an index. A second build gives the same bytes.
"""

from __future__ import annotations

import email
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import NamedTuple

from build_distributions import LICENSES, MEMBERS, ROOT

VERSION = (ROOT / "VERSION").read_text("utf-8").strip()
RELATIVE = re.compile(r"\]\((?!https?:|#)[^)]+\)")


class Built(NamedTuple):
    """The two files of one distribution."""

    member: Path
    sdist: Path
    wheel: Path

    @property
    def stem(self) -> str:
        return self.sdist.name.removesuffix(".tar.gz")

    def sdist_files(self) -> dict[str, bytes]:
        """Contents of the sdist's files by their names inside of its folder."""
        with tarfile.open(self.sdist) as archive:
            files = [m for m in archive.getmembers() if m.isfile()]
            read = {m.name: archive.extractfile(m) for m in files}
            return {n.removeprefix(f"{self.stem}/"): f.read() for n, f in read.items() if f}

    def wheel_files(self) -> dict[str, bytes]:
        with zipfile.ZipFile(self.wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def built(folder: Path) -> list[Built]:
    """Where the files of each member are, or would be."""
    found = []
    for member in MEMBERS:
        config = tomllib.loads((member / "pyproject.toml").read_text("utf-8"))
        stem = f"{config['project']['name'].replace('-', '_')}-{VERSION}"
        wheel = folder / f"{stem}-py3-none-any.whl"
        found.append(Built(member, folder / f"{stem}.tar.gz", wheel))
    return found


def code_faults(member: Path, files: set[str]) -> Iterator[str]:
    """What is wrong with the code that a wheel ships."""
    code = {f for f in files if ".dist-info/" not in f}
    roots = {f.split("/")[0] for f in code}
    own = {"ingle"} if member.parent.name == "packages" else {f"ingle_{member.name}"}
    if not roots <= own:
        yield f"ships {sorted(roots - own)} besides {sorted(own)}"
    if "ingle/__init__.py" in files:
        yield "ships ingle/__init__.py, which hides its siblings"
    if code and not any(f.endswith("/py.typed") for f in code):
        yield "ships no py.typed"
    if stray := [f for f in code if "/tests/" in f or f.endswith(".pyc")]:
        yield f"ships {stray}"
    sources = (f.relative_to(member / "src").as_posix() for f in member.glob("src/**/*.py"))
    if lost := sorted({*sources} - code):
        yield f"lacks {lost}"


def metadata_faults(found: Message, project: dict[str, str], readme: str) -> Iterator[str]:
    """What an index would show that is not so."""
    wanted = {
        "Name": project["name"],
        "Version": VERSION,
        "Summary": project["description"],
        "Requires-Python": project["requires-python"],
        "License-Expression": project["license"],
        "Description-Content-Type": "text/markdown",
    }
    for field, value in wanted.items():
        if found[field] != value:
            yield f"{field} is {found[field]!r} instead of {value!r}"
    if found.get_all("License-File") != [file.name for file in LICENSES]:
        yield f"License-File is {found.get_all('License-File')}"
    if str(found.get_payload()).strip() != readme.strip():
        yield "its long description is not the README"
    if links := RELATIVE.findall(readme):
        yield f"its README has links that an index cannot follow: {links}"


def faults(one: Built) -> Iterator[str]:
    """What is wrong with a distribution."""
    project = tomllib.loads((one.member / "pyproject.toml").read_text("utf-8"))["project"]
    readme = (one.member / "README.md").read_text("utf-8")
    sdist, wheel = one.sdist_files(), one.wheel_files()
    info = f"{one.stem}.dist-info"
    yield from (f"{one.wheel.name} {fault}" for fault in code_faults(one.member, {*wheel}))
    for file, text in ((one.sdist, sdist["PKG-INFO"]), (one.wheel, wheel[f"{info}/METADATA"])):
        told = email.message_from_string(text.decode())
        yield from (f"{file.name}: {fault}" for fault in metadata_faults(told, project, readme))
    for file in LICENSES:
        kept = (sdist.get(file.name), wheel.get(f"{info}/licenses/{file.name}"))
        if kept != (file.read_bytes(), file.read_bytes()):
            yield f"{one.stem} does not ship {file.name} as it is"
    if not any(name.startswith("tests/") for name in sdist) and (one.member / "tests").exists():
        yield f"{one.sdist.name} lacks the tests"


def changed(folder: Path) -> Iterator[str]:
    """The files that a second build makes otherwise."""
    with tempfile.TemporaryDirectory() as again:
        script = Path(__file__).with_name("build_distributions.py")
        subprocess.run([sys.executable, str(script), again], check=True, stdout=subprocess.PIPE)
        for one in built(folder):
            for file in (one.sdist, one.wheel):
                digests = [
                    hashlib.sha256((d / file.name).read_bytes()) for d in (folder, Path(again))
                ]
                if len({d.hexdigest() for d in digests}) > 1:
                    yield f"{file.name} has other bytes when it is built again"


def main(folder: Path) -> int:
    found = built(folder)
    wrong = [fault for one in found for fault in faults(one)] + [*changed(folder)]
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    files = [str(file) for one in found for file in (one.sdist, one.wheel)]
    twine = [sys.executable, "-m", "twine", "check", "--strict", *files]
    checked = subprocess.run(twine, capture_output=True, text=True, check=False)
    if checked.returncode:
        sys.stdout.write(checked.stdout + checked.stderr)
    elif not wrong:
        sys.stdout.write(f"{len(files)} files are as they should be\n")
    return int(bool(wrong or checked.returncode))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
