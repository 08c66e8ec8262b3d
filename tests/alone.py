"""Run where one distribution is installed alone: imports all of it and tries what it can do.

`nox -f nox.py -s alone` runs it in a clean environment with `python -I alone.py ingle-nn`.
"""

import importlib
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path


def has(*names: str) -> bool:
    """Whether these distributions are installed."""
    try:
        return all(version(name) for name in names)
    except PackageNotFoundError:
        return False


def import_all(name: str) -> int:
    """Imports every module of a distribution; one that needs an extra has to name it."""
    sources = [f for f in files(name) or () if f.suffix == ".py" and f.stem != "__main__"]
    imported = 0
    for source in sources:
        parts = source.with_suffix("").parts
        try:
            importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        except ModuleNotFoundError as error:
            if f'pip install "{name}[' not in str(error):
                raise
        else:
            imported += 1
    return imported


def refuses(action: Callable[[], object], kind: type[Exception], cure: str) -> None:
    """Checks that an action raises, and that the message says what to do."""
    try:
        action()
    except kind as error:
        if cure not in str(error):
            raise
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


def best_device() -> str:
    """The default device that the installed distributions make; empty for none."""
    for name in ("cpu", "numpy"):
        if has(f"ingle-{name}"):
            return name
    if has("ingle-opencl"):
        from ingle_opencl.devices import found

        return "opencl" if found() else ""
    return ""


def try_tensors() -> None:
    """With a backend it computes; without one the error says what to install."""
    import ingle.tensor as it
    from ingle.tensor.errors import BackendError

    wanted = best_device()
    if wanted:
        assert (it.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]
        assert it.default_device().name == wanted
    else:
        refuses(lambda: it.ones(3), BackendError, "pip install ingle-numpy")


def try_gradients() -> None:
    """Without ingle-autodiff an error says what to install; with it there are gradients."""
    import ingle.tensor as it
    from ingle.tensor.errors import MissingPackageError

    x = it.asarray(3.0)
    if has("ingle-autodiff"):
        x = x.require_grad()
        assert (x * x).backward()[x].item() == 6.0
    else:
        refuses(x.require_grad, MissingPackageError, "pip install ingle-autodiff")


def try_training() -> None:
    """A linear layer learns y = 2x."""
    import ingle.nn as nn
    import ingle.optim as optim
    import ingle.tensor as it

    x = it.asarray([[-1.0], [0.0], [1.0], [2.0]])
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(200):
        loss = it.mean(it.square(model(x) - 2 * x))
        optimizer.step(loss.backward())
    assert abs(model.weight.value.item() - 2.0) < 1e-2, model.weight


def try_command() -> None:
    """`ingle info` answers, as the console script and as a module, and misses a backend."""
    script = Path(sys.executable).with_name("ingle")
    for command in ([str(script)], [sys.executable, "-m", "ingle.tensor"]):
        done = subprocess.run([*command, "info"], capture_output=True, text=True, check=False)
        missed = "pip install ingle-numpy" in done.stdout
        assert missed is not bool(best_device()), done.stdout + done.stderr
        assert done.returncode == int(missed), done


def main(name: str) -> None:
    modules = import_all(name)
    if has("ingle-tensor"):
        try_tensors()
        try_command()
    if has("ingle-numpy"):
        try_gradients()
    if has("ingle-autodiff", "ingle-nn", "ingle-numpy", "ingle-optim"):
        try_training()
    print(f"{name} {version(name)} stands alone: {modules} modules imported")


if __name__ == "__main__":
    main(sys.argv[1])
