"""The project's chores. `nox -f nox.py --list` names them, `nox -f nox.py -s lint` runs one.

Each session makes its own environment; with `--no-venv --no-install` it runs in the current one.
Sessions loop over the folders of packages and plugins, so that a new one adds no line here.
"""

if __name__ == "nox":
    raise ImportError("run `nox -f nox.py`, not `python -m nox`: from here this file hides nox")

import re
import tempfile
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
DIST = ROOT / "dist"
MEMBERS = {p.parent.name: p.parent for p in sorted(ROOT.glob("p*s/*/pyproject.toml"))}
PLUGINS = {name: folder for name, folder in MEMBERS.items() if folder.parent.name == "plugins"}

SUITES = {
    "nn": "nn/tests", "optim": "optim/tests", "compile": "fusion/tests/compiled",
    "train": "train/tests",
}  # fmt: skip
"""Tests that run on the device of the matrix, by the names of their columns; examples join them."""
OF_OTHER_DEVICES = {
    "custom_kernel", "custom_renderer", "router", "third_party_backend", "third_party_compiler",
}  # fmt: skip
"""Examples whose tests name their devices."""

nox.needs_version = ">=2025.10"
nox.options.sessions = ["lint", "types", "tests", "slow", "docs", "alone"]
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = False


def project(name: str) -> dict:
    """The `[project]` table of a member."""
    return tomllib.loads((MEMBERS[name] / "pyproject.toml").read_text("utf-8"))["project"]


def modules() -> list[str]:
    """The import names of all members: `ingle.nn`, `ingle_numpy`, …"""
    typed = [f.relative_to(m / "src") for m in MEMBERS.values() for f in m.glob("src/**/py.typed")]
    return sorted(".".join(f.parent.parts) for f in typed)


def develop(session: nox.Session) -> None:
    """Everything editable, with the tools."""
    session.install("-r", "requirements-dev.txt")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and layout of every file."""
    session.install("ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict types of packages, plugins, examples and benchmarks."""
    develop(session)
    session.run("mypy", *(a for m in modules() for a in ("-p", m)))
    folders = [[*folder.glob("*.py")] for folder in sorted(ROOT.glob("examples/*"))]
    # Scripts that import one another are each other's modules; all the rest is one run.
    apart = [f for f in folders if len(f) > 1 and not (f[0].parent / "__init__.py").exists()]
    session.run("mypy", *(str(file) for files in folders if files not in apart for file in files))
    for files in apart:
        session.run("mypy", *map(str, files), env={"MYPYPATH": str(files[0].parent)})
    for folder in ROOT.glob("examples/*/src"):
        session.run("mypy", *map(str, folder.rglob("*.py")), env={"MYPYPATH": str(folder)})
    session.run("mypy", *map(str, ROOT.glob("bench/**/*.py")))
    plain = [f"docs/site/{name}.py" for name in ("api_pages", "docstrings", "staging")]
    tables = "docs/pytorch_names.py", "docs/nn_names.py"
    session.run("mypy", *tables, *plain, env={"MYPYPATH": "docs/site"})
    session.run("mypy", *map(str, ROOT.glob("tests/release/*.py")), "tests/alone.py")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the README's command; `-- -k name` chooses."""
    develop(session)
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take seconds each; with `-- --part K/N` one part of them, as changes do."""
    develop(session)
    session.run(
        "python", "-m", "pytest", "-n", "auto", "-m", "slow and not nightly", *session.posargs
    )


@nox.session
def docs(session: nox.Session) -> None:
    """Every code block of README and docs, and every example of a docstring."""
    develop(session)
    session.run("python", "-m", "pytest", "docs", *session.posargs)
    sources = [str(p.relative_to(ROOT)) for m in MEMBERS.values() for p in m.glob("src")]
    session.run("python", "-m", "pytest", "--doctest-modules", *sources, *session.posargs)


@nox.session
def names(session: nox.Session) -> None:
    """Writes docs/pytorch-names.md and docs/nn-names.md, the pages of PyTorch's names."""
    develop(session)
    session.run("python", "docs/pytorch_names.py")
    session.run("python", "docs/nn_names.py")


@nox.session
def site(session: nox.Session) -> None:
    """The documentation as a site in dist/site; a warning or a lost link is an error."""
    develop(session)
    session.install("-r", "docs/site/requirements.txt")
    session.run("python", "docs/site/build.py", str(DIST / "site"))


@nox.session
def build(session: nox.Session) -> None:
    """A sdist and a wheel of each member in dist/."""
    session.install("hatchling")
    session.run("python", "tests/release/build_distributions.py", str(DIST), silent=True)


@nox.session(requires=["build"])
def release(session: nox.Session) -> None:
    """What an index gets: its content and metadata, the same bytes twice, and pip installs it."""
    session.install("hatchling", "twine", "virtualenv")
    session.run("python", "tests/release/check_distributions.py", str(DIST))
    session.run("python", "tests/release/from_index.py", str(DIST))


@nox.session(requires=["build"])
def alone(session: nox.Session) -> None:
    """Each wheel in a clean environment with only what it declares; `-- ingle-nn` chooses."""
    session.install("packaging")
    session.run("python", "tests/release/each_alone.py", str(DIST), *session.posargs)


def check_backends(session: nox.Session, plugin: str, *options: str) -> None:
    """Runs the testkit on each backend of a plugin."""
    for name in project(plugin)["entry-points"]["ingle"]:
        suite = ["--pyargs", "ingle.testkit", f"--backend={name}"]
        session.run("python", "-m", "pytest", *suite, *options)


@nox.session
@nox.parametrize("plugin", list(PLUGINS), ids=list(PLUGINS))
def contract(session: nox.Session, plugin: str) -> None:
    """The testkit on each backend of a plugin."""
    develop(session)
    check_backends(session, plugin, *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """All backends that have a device, in one table; `-- --plugin PATH_OR_URL` adds one, and the
    options of `python -m ingle.testkit.matrix` choose backends, time and workers."""
    develop(session)
    options = list(session.posargs)
    while "--plugin" in options:
        at = options.index("--plugin")
        if at + 1 == len(options):
            session.error("--plugin needs what pip installs: a path or a URL")
        if session.venv_backend == "none":  # also with --no-install: it is not here yet
            session.run("python", "-m", "pip", "install", "--quiet", options[at + 1])
        else:
            session.install(options[at + 1])
        del options[at : at + 2]
    own = [f"--tests={name}={ROOT / 'packages' / folder}" for name, folder in SUITES.items()]
    examples = sorted(ROOT.glob("examples/*/tests"))
    own += [f"--tests=examples={f}" for f in examples if f.parent.name not in OF_OTHER_DEVICES]
    job = [str(ROOT / "examples" / "mnist" / "train.py"), "--device", "{device}", "--digits"]
    # Not nox's own folder: where there was no environment, that would be taken for one later.
    with tempfile.TemporaryDirectory() as out:
        job += ["--model", "mlp", "--epochs", "10", "--out", out]
        session.run("python", "-m", "ingle.testkit.matrix", *own, *options, "--job", *job)


@nox.session
def standard(session: nox.Session) -> None:
    """The Array API's public suite on `ingle.tensor`: `-s standard -- CHECKOUT [options]`."""
    if not session.posargs:
        session.skip("name a checkout of data-apis/array-api-tests: -s standard -- PATH")
    checkout, *options = session.posargs
    develop(session)
    with session.chdir(checkout):
        session.install("-r", "requirements.txt")
        suite = ["array_api_tests", "--max-examples=100", *options]
        env = {"ARRAY_API_TESTS_MODULE": "ingle.tensor"}
        session.run("python", "-m", "pytest", *suite, env=env)


@nox.session
def nightly(session: nox.Session) -> None:
    """What takes too long for every change: long tests, every sample, the benchmarks."""
    develop(session)
    # A test of all float32 numbers takes longer than any other on a machine that others use.
    patience = "-o", "faulthandler_timeout=3600"
    session.run("python", "-m", "pytest", "-m", "slow or nightly", *patience, *session.posargs)
    for name in PLUGINS:
        check_backends(session, name, "--tier=full", "--ingle-table")
    session.run("python", "bench/run.py", "--systems", "ingle-cpu,ingle-cpu-eager,numpy,torch")


@nox.session(venv_backend="none")
def bump(session: nox.Session) -> None:
    """Writes a new version into VERSION and into every sibling range: `-s bump -- 0.2.0`."""
    if not session.posargs or not re.fullmatch(r"\d+\.\d+\.\d+\S*", session.posargs[0]):
        session.error("give the new version: nox -f nox.py -s bump -- 0.2.0")
    (version,) = session.posargs
    major, minor = map(int, version.split(".")[:2])
    (ROOT / "VERSION").write_text(f"{version}\n", "utf-8")
    for folder in MEMBERS.values():
        file = folder / "pyproject.toml"
        text = file.read_text("utf-8")
        ranges = rf"\1>={major}.{minor},<{major}.{minor + 1}"
        file.write_text(re.sub(r"(\"ingle-[\w\[\],-]+)>=[\d.]+,<[\d.]+", ranges, text), "utf-8")
