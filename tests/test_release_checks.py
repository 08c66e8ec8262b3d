"""What `nox -s release` would refuse."""

from __future__ import annotations

from email.message import Message

from check_distributions import LICENSES, VERSION, code_faults, metadata_faults
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
