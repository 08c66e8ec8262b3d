"""The backend of the page "Write a backend in a day" passes the testkit."""

import subprocess
import sys

import pytest
from test_pages import ROOT, blocks

from ingle.tensor.operation_table import operations

PAGE = ROOT / "docs" / "backends.md"
CHECK = """
import sys

import pytest

plugins.register("chalk", Plugin())
arguments = "--pyargs ingle.testkit --backend=chalk -q -p no:cacheprovider".split()
smoke = pytest.main([*arguments, "--tier=smoke"])
every_dtype = pytest.main([*arguments, "--tier=standard", "-k", "test_forward"])
sys.exit(smoke or every_dtype)
"""


def test_the_table_has_each_family() -> None:
    table = PAGE.read_text("utf-8").split("| family | operations |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = {name.strip() for row in rows for name in row.split(",")}
    assert named == {o.traits.family for o in operations()} - {None}


@pytest.mark.slow
def test_the_backend_of_the_page_passes_the_testkit(tmp_path):
    code = [b.text for b in blocks(PAGE) if b.language == "python"]
    last = next(i for i, text in enumerate(code) if "import ingle.nn" in text)
    kept = [text for text in code[:last] if "class TestChalk" not in text]
    script = tmp_path / "chalk.py"
    script.write_text("\n".join([*kept, CHECK]), "utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
