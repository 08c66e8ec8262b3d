"""What `nox -s release` would refuse."""

from __future__ import annotations

import sys
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path

from check_distributions import LICENSES, VERSION, code_faults, metadata_faults
from each_alone import closure, link, named
from workspace import BY_DISTRIBUTION

OPTIM = BY_DISTRIBUTION["ingle-optim"]
CODE = {f.relative_to(OPTIM.folder / "src").as_posix() for f in OPTIM.sources}
WHOLE = {*CODE, "ingle/optim/py.typed", "ingle_optim-0.1.0.dist-info/METADATA"}


def test_a_wheel_ships_its_code_and_nothing_else() -> None:
    def faults(files: set[str]) -> str:
        return "; ".join(code_faults(OPTIM.folder, files))

    assert faults(WHOLE) == ""
    assert "py.typed" in faults(CODE)
    assert "besides ['ingle']" in faults(WHOLE | {"tests/a.py"})
    assert "hides its siblings" in faults(WHOLE | {"ingle/__init__.py"})
    assert "tests" in faults(WHOLE | {"ingle/optim/tests/test_a.py"})
    assert "lacks ['ingle/optim/__init__.py']" in faults(WHOLE - {"ingle/optim/__init__.py"})


def metadata(**changed: str) -> Message:
    fields = {
        "Name": OPTIM.distribution, "Version": VERSION, "License-Expression": "MIT OR Apache-2.0",
        "Summary": OPTIM.project["description"], "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }  # fmt: skip
    message = Message()
    for name, value in {**fields, **changed}.items():
        message[name] = value
    for file in LICENSES:
        message["License-File"] = file.name
    message.set_payload("# ingle-optim\n")
    return message


def test_metadata_are_those_of_the_project() -> None:
    def faults(message: Message, readme: str = "# ingle-optim\n") -> str:
        return "; ".join(metadata_faults(message, OPTIM.project, readme))

    assert faults(metadata()) == ""
    assert "Version is '0'" in faults(metadata(Version="0"))
    assert "not the README" in faults(metadata(), "# other\n")
    assert "cannot follow: ['](../a.md)']" in faults(metadata(), "[a](../a.md)")
    bare = metadata()
    del bare["License-File"]
    assert "License-File" in faults(bare)


def installed(folder: Path, name: str, *needs: str) -> None:
    """An installed distribution of one module and a command."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    asked = "".join(f"Requires-Dist: {need}\n" for need in needs)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{asked}")
    (folder / f"{name}.py").write_text("")
    (info / "RECORD").write_text(f"{name}.py,,\n{info.name}/METADATA,,\n../bin/{name},,\n")


def test_an_environment_has_what_is_declared_and_nothing_else(tmp_path: Path) -> None:
    installed(tmp_path, "whole", "part[more]>=1", 'old; python_version < "3"', 'few; extra == "x"')
    installed(tmp_path, "part", 'Long_Name; extra == "more"', 'few; extra == "less"', "whole")
    for name in ("long-name", "few", "old"):
        installed(tmp_path, name)
    known = named(distributions(path=[str(tmp_path)]))
    assert closure("whole", known) == {"whole", "part", "long-name"}
    assert closure("part", known) == {"whole", "part", "long-name"}
    assert closure("few", known) == {"few"}


def test_files_are_linked_with_what_was_compiled_of_them(tmp_path: Path) -> None:
    together, alone = tmp_path / "together", tmp_path / "alone"
    together.mkdir()
    installed(together, "part")
    installed(together, "other")
    compiled = together / "__pycache__" / f"part.{sys.implementation.cache_tag}.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"compiled")
    (part,) = (d for d in distributions(path=[str(together)]) if d.metadata["Name"] == "part")
    link(part, together, alone)
    files = sorted(f.relative_to(alone).as_posix() for f in alone.rglob("*") if f.is_file())
    assert files == [f"__pycache__/{compiled.name}", "part-1.dist-info/METADATA", "part.py"]
