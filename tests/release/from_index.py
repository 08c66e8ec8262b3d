"""Installs the built distributions from a local index, as a user would, and tries them.

`nox -f nox.py -s release` runs it as `python tests/release/from_index.py dist`. What is not Ingle's
comes from the index that pip is set to. Each user has an environment of their own.
"""

import contextlib
import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

ALL = "autodiff cpu dataset fusion nn numpy optim tensor train"
USERS = [
    {"ingle": ALL},
    {"ingle-nn ingle-numpy": "nn numpy tensor", "ingle[cpu]": ALL},
]
"""What a user asks for, one after the other, and the parts of Ingle that are there then."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextlib.contextmanager
def served(dist: Path, folder: Path) -> Iterator[str]:
    """The URL of an index (PEP 503) of the files in a folder."""
    for file in [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]:
        project = folder / "simple" / file.name.split("-")[0].replace("_", "-")
        project.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, project)
        with (project / "index.html").open("a", encoding="utf-8") as page:
            page.write(f'<a href="{file.name}">{file.name}</a>\n')
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def installed(python: Path, wanted: str, index: str, report: Path) -> set[str]:
    """Installs what a user asks for; gives the parts of Ingle that came, all from the index."""
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    options = ["--quiet", "--no-compile", "--extra-index-url", index, "--report", str(report)]
    subprocess.run([*pip, "install", *options, *wanted.split()], check=True)
    subprocess.run([*pip, "check"], check=True, stdout=subprocess.PIPE)
    found = set()
    for item in json.loads(report.read_text("utf-8"))["install"]:
        name, url = item["metadata"]["name"], item["download_info"]["url"]
        if name.startswith("ingle"):
            assert url.startswith(index.removesuffix("simple")), f"{name} came from {url}"
            found.add(name)
    return found


def try_user(asks: dict[str, str], index: str, folder: Path) -> None:
    """Installs one thing after the other in an environment, and tries each."""
    subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(folder)], check=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    there: set[str] = set()
    for wanted, parts in asks.items():
        there |= installed(python, wanted, index, folder / "report.json")
        first = wanted.split()[0].partition("[")[0]
        expected = {f"ingle-{part}" for part in parts.split()} | {first}
        assert there == expected, f"{wanted}: {sorted(there)} instead of {sorted(expected)}"
        subprocess.run(
            [str(python), "-I", str(Path(__file__).parents[1] / "alone.py"), first], check=True
        )
        print(f"pip install {wanted}: {' '.join(sorted(there))}", flush=True)


def main(dist: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, served(dist, Path(folder)) as index:
        for number, asks in enumerate(USERS):
            try_user(asks, index, Path(folder, f"user{number}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
