"""Tries each built wheel in a clean environment that has only what the wheel declares.

`nox -f nox.py -s alone` runs it as `python tests/release/each_alone.py dist`; distributions named
behind that are tried alone. pip installs what is not Ingle once, for all of them. An environment
has links to those of its files that a wheel asks for, directly or through others; pip installs the
wheels of Ingle there without an index, and refuses if something that they declare has not come.
`alone.py` does the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import Distribution, distributions
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SMOKE = Path(__file__).resolve().parents[1] / "alone.py"
Known = dict[str, Distribution]


def run(*command: str | Path) -> str:
    """What a command printed; an error has all of it."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def pip(python: Path, *arguments: str | Path) -> None:
    """Installs into an environment that has no pip of its own."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *arguments)


def environment(folder: Path) -> Path:
    """The Python of a new environment with nothing installed."""
    venv.create(folder, symlinks=os.name != "nt")
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def packages_of(folder: Path) -> Path:
    """Where an environment keeps what is installed."""
    (found,) = {f.resolve() for f in folder.glob("[Ll]ib/**/site-packages")}
    return found


def named(found: Iterable[Distribution]) -> Known:
    """Distributions by their names."""
    return {canonicalize_name(d.metadata["Name"]): d for d in found}


def closure(name: str, known: Known) -> set[str]:
    """A distribution and all that it asks for, for this system and Python."""
    found: set[tuple[str, str]] = set()
    todo = {(canonicalize_name(name), "")}
    while todo:
        one, extra = pair = todo.pop()
        found.add(pair)
        for need in map(Requirement, known[one].requires or ()):
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                asked = canonicalize_name(need.name)
                todo |= {(asked, e) for e in ("", *need.extras)} - found
    return {one for one, _ in found}


def link(distribution: Distribution, packages: Path, into: Path) -> None:
    """The files of an installed distribution in another environment; commands stay behind."""
    for file in distribution.files or ():
        if ".." not in file.parts:
            link_file(packages / file, into / file)
            if file.suffix == ".py":
                compiled = cache_from_source(str(file))
                if (packages / compiled).exists():
                    link_file(packages / compiled, into / compiled)


def link_file(source: Path, target: Path) -> None:
    """One file at two places; a copy on another volume, or where there are no links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def install_together(folder: Path, wheels: Iterable[Path]) -> Path:
    """Where all wheels are with all that they need, whose sources are compiled but for tests."""
    python = environment(folder)
    pip(python, "--no-compile", *wheels)
    packages = packages_of(folder)
    run(python, "-m", "compileall", "-q", "-j", "0", "-x", r"[\\/](tests|ingle)[\\/]", packages)
    return packages


def try_alone(name: str, wheels: dict[str, Path], packages: Path, folder: Path) -> str:
    """What `alone.py` says of a distribution in an environment of its own.

    Args:
        name: the distribution.
        wheels: those of Ingle by their distributions.
        packages: where all of them are installed together.
        folder: for the environment.
    """
    known = named(distributions(path=[str(packages)]))
    python = environment(folder)
    needs = closure(name, known)
    for other in sorted(needs - {*wheels}):
        link(known[other], packages, packages_of(folder))
    pip(python, "--no-index", "--no-compile", *(wheels[n] for n in sorted(needs & {*wheels})))
    return run(python, "-I", SMOKE, name)


def attempt(trial: Callable[[str], str], name: str) -> bool:
    """Whether a trial ends well; what it says is printed."""
    try:
        print(trial(name), end="", flush=True)
    except RuntimeError as error:
        print(f"{name} does not stand alone: {error}", flush=True)
        return False
    return True


def main(dist: Path, chosen: list[str]) -> int:
    own = named(d for f in dist.glob("*.whl") for d in distributions(path=[str(f)]))
    wheels = {n: next(dist.glob(f"{n.replace('-', '_')}-*.whl")) for n in own}
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(os.cpu_count()) as pool:
        packages = install_together(Path(root, "together"), wheels.values())

        def trial(name: str) -> str:
            return try_alone(name, wheels, packages, Path(root, name))

        return int(not all([*pool.map(partial(attempt, trial), chosen or sorted(wheels))]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
