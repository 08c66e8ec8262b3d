"""Each folder is a distribution of the same shape, and all share one version."""

import re

from workspace import MEMBERS, ROOT, VERSION, Member

from ingle.tensor import plugins

MODULES = {"import": "importer"}
"""Folders whose name is a word of Python, by what users import."""


def test_the_namespace_has_no_init() -> None:
    stray = [*ROOT.glob("*/*/src/ingle/__init__.py"), *ROOT.glob("*/*/src/__init__.py")]
    assert not stray, "it would hide all other packages of the namespace"


def test_requirements_list_every_member() -> None:
    lines = (ROOT / "requirements-dev.txt").read_text("utf-8").split("\n")
    listed = [line.removeprefix("-e ") for line in lines if line.startswith("-e ")]
    assert listed == [m.folder.relative_to(ROOT).as_posix() for m in MEMBERS]


def test_members_have_the_same_shape(member: Member) -> None:
    project = member.project
    assert project["license"] == "MIT OR Apache-2.0"
    assert project["requires-python"] == ">=3.11"
    assert project["description"].endswith(".")
    assert (
        (member.folder / project["readme"])
        .read_text("utf-8")
        .startswith(f"# {member.distribution}\n")
    )
    assert f"`pip install {member.distribution}`" in (member.folder / "README.md").read_text(
        "utf-8"
    )
    if str(member) == "ingle":
        assert not (member.folder / "src").exists()
        return
    name = MODULES.get(str(member), str(member))
    assert member.module == (f"ingle_{member}" if member.is_plugin else f"ingle.{name}")
    root = "ingle_" + str(member) if member.is_plugin else "ingle"
    assert member.config["tool"]["hatch"]["build"]["targets"]["wheel"] == {
        "packages": [f"src/{root}"]
    }


def test_members_have_tests(member: Member) -> None:
    if member.module is not None:
        assert [*member.folder.glob("tests/test_*.py")], f"{member} has no tests"


def test_the_version_is_shared(member: Member) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", VERSION)
    assert member.project["dynamic"] == ["version"]
    assert member.config["tool"]["hatch"]["version"]["path"] == "../../VERSION"


def test_sibling_ranges_hold_the_version(member: Member) -> None:
    major, minor = map(int, VERSION.split(".")[:2])
    extras = member.project.get("optional-dependencies", {}).values()
    needed = [*member.project.get("dependencies", []), *(d for e in extras for d in e)]
    for requirement in needed:
        if requirement.startswith("ingle-"):
            assert requirement.endswith(f">={major}.{minor},<{major}.{minor + 1}"), (
                "write all ranges at once: nox -f nox.py -s bump -- VERSION"
            )


def test_no_extra_is_named_like_a_version(member: Member) -> None:
    """Of pip's versions some compare such a name as one, and end: `InvalidVersion: ''`."""
    for extra in member.project.get("optional-dependencies", {}):
        assert re.match(r"[a-z]", extra), f"{member} has the extra [{extra}]"


def test_no_stranger_comes_before_a_plugin_of_ours(member: Member) -> None:
    points = member.project.get("entry-points", {}).get("ingle", {})
    assert set(points.values()) <= {*plugins._OWN}


def test_entry_points_name_the_plugin(member: Member) -> None:
    points = member.project.get("entry-points", {}).get("ingle", {})
    assert not member.is_plugin or list(points) == [str(member)]
    for place in points.values():
        assert place == f"{member.module}.plugin"


def test_the_front_door_is_short(member: Member) -> None:
    for file, limit in (
        (ROOT / "CONTRIBUTING.md", 40),
        (ROOT / "pyproject.toml", 50),
        (member.folder / "pyproject.toml", 40),
    ):
        assert len(file.read_text("utf-8").splitlines()) <= limit, file
