"""What runs on every change is the same here, on the public service and in the README."""

import re

from workspace import BY_DISTRIBUTION, ROOT

RUN = (ROOT / ".ci" / "run").read_text("utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
RELEASE = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
MATRIX = (ROOT / ".github" / "workflows" / "matrix.yml").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
BUDGETS = re.findall(r"(\w+)=(\d+)", re.search(r'^budgets="(.*)"$', RUN, re.MULTILINE)[1])
PARTS = [part for part, _ in BUDGETS]


def test_every_part_is_a_function_within_the_whole_budget() -> None:
    """All parts are to take 20 minutes; each budget is half as much again as its part takes."""
    assert all(re.search(rf"^{part}\(\) {{", RUN, re.MULTILINE) for part in PARTS)
    assert sum(int(seconds) for _, seconds in BUDGETS) <= 30 * 60


def test_every_part_runs_once() -> None:
    order = re.search(r'^order="(.*)"$', RUN, re.MULTILINE)[1]
    assert sorted(re.split(r"[ +]", order)) == sorted(PARTS)


def test_the_workflow_runs_the_same_parts() -> None:
    """What does not depend on the system and its Python runs once."""
    check, once, _ = re.split(r"\n  (?:once|nightly):\n", WORKFLOW)
    everywhere, alone = [re.findall(r"- run: \.ci/run (\w+)", job) for job in (check, once)]
    assert everywhere[0] == alone[0] == PARTS[0] == "setup"
    assert sorted([*everywhere, *alone[1:]]) == sorted(PARTS)


def test_the_workflow_covers_systems_and_versions() -> None:
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in WORKFLOW
    assert 'python: ["3.11", "3.12", "3.13", "3.14"]' in WORKFLOW


def test_the_tests_are_those_of_the_readme() -> None:
    (command,) = re.findall(r"requirements-dev\.txt && (python -m pytest.*)", README)
    assert f"tests() {{ {command} || again; }}" in RUN


def test_the_table_of_a_plugin_is_called_in_two_ways() -> None:
    """By hand, and by a plugin's repository: what a step asks for is an input of both."""
    called, jobs = MATRIX.split("\njobs:\n")
    by_hand, by_others = called.split("workflow_call:")
    asked = set(re.findall(r"inputs\.(\w+)", jobs))
    for inputs in (by_hand, by_others):
        assert set(re.findall(r"^ {6}(\w+): \{.*type: string", inputs, re.MULTILINE)) == asked
    assert asked == {"ingle", "plugin", "packages"}


def test_the_table_of_a_plugin_comes_before_its_job_is_ended() -> None:
    (minutes,) = re.findall(r"timeout-minutes: (\d+)", MATRIX)
    (seconds,) = re.findall(r"--within (\d+)", MATRIX)
    assert int(seconds) <= 60 * (int(minutes) - 15)  # installing, and the part that runs then


def test_a_release_publishes_each_distribution_by_itself() -> None:
    """Without a token; a job that publishes may do nothing else."""
    listed = re.findall(r"^ {10}- (\S+)$", RELEASE, re.MULTILINE)
    assert sorted(listed) == sorted(BY_DISTRIBUTION)
    build, publish = RELEASE.split("\n  publish:\n")
    assert "nox -f nox.py -s release" in build
    assert "id-token" not in build
    assert "id-token: write" in publish
    assert "secrets." not in RELEASE
