"""Discovery: broken plugins are named with their reason, and the rest go on."""

import inspect
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import ingle.tensor as it
from ingle.tensor import plugins
from ingle.tensor.cli import main
from ingle.tensor.contract import CONTRACT_VERSION
from ingle.tensor.device import Device, backend_of
from ingle.tensor.errors import BackendError, DeviceError, MissingPackageError, SettingError
from ingle.tensor.hooks import hookimpl, hookspec
from ingle.tensor.plugins import (
    BackendDescription,
    Discovery,
    PluginWarning,
    discover,
    register,
    unregister,
)


class Plugin:
    """A backend plugin of a fake module, made for one test."""

    def __init__(self, place: str) -> None:
        self._place = place

    @hookimpl
    def ingle_backends(self) -> dict[str, str]:
        return {"fake": self._place}


def make_fake(index: int):
    from ingle_numpy.backend import NumpyBackend

    return NumpyBackend(Device("fake", index))


@pytest.fixture
def fake(monkeypatch):
    """Registers a plugin for the device `fake` with the given description's fields."""
    names = []

    def add(name="fake-plugin", description=None, **fields):
        module = types.ModuleType("fake_ingle_module")
        fields.setdefault("create", make_fake)
        module.description = description or BackendDescription(**fields)
        monkeypatch.setitem(sys.modules, "fake_ingle_module", module)
        register(name, Plugin("fake_ingle_module:description"))
        names.append(name)

    yield add
    for name in names:
        unregister(name)


def entry_points(monkeypatch, **places):
    """Looks at fake installed distributions instead of the real ones."""
    points = [EntryPoint(n, v, plugins.GROUP) for n, v in places.items()]
    return plugins._look(points, {})


def module(monkeypatch, name, **members):
    made = types.ModuleType(name)
    for key, value in members.items():
        setattr(made, key, value)
    monkeypatch.setitem(sys.modules, name, made)


def test_the_installed_plugins_are_found():
    known = discover()
    assert known.failures == {}
    assert known.backends["numpy"] == "ingle_numpy.plugin:description"
    assert known.transforms["backward"].startswith("ingle.autodiff.")
    assert known.owners["backends:numpy"] == "numpy"


def test_a_plugin_registered_in_the_process(fake):
    fake(count=lambda: 2, priority=-5)
    assert it.ones(2, device="fake:1").device == Device("fake", 1)
    assert (it.ones(2, device="fake") + 1.0).tolist() == [2.0, 2.0]
    with pytest.raises(DeviceError, match="different devices"):
        it.ones(2, device="fake") + it.ones(2, device="numpy")


def test_an_unregistered_plugin_is_gone(fake):
    fake()
    unregister("fake-plugin")
    assert "fake" not in discover().backends
    with pytest.raises(BackendError, match="no backend named 'fake'"):
        backend_of("fake")


def test_broken_plugins_are_named_and_the_rest_go_on(monkeypatch):
    @hookimpl
    def ingle_backend():
        return {}

    @hookimpl
    def ingle_backends():
        return {"good": "somewhere:description"}

    @hookimpl(specname="ingle_backends")
    def raising():
        raise OSError("the driver is too old")

    module(monkeypatch, "fake_misspelt", ingle_backend=ingle_backend)
    module(monkeypatch, "fake_good", ingle_backends=ingle_backends)
    module(monkeypatch, "fake_raising", ingle_backends=raising)
    known = entry_points(
        monkeypatch,
        absent="no_such_module_anywhere",
        misspelt="fake_misspelt",
        raising="fake_raising",
        good="fake_good",
    )
    assert known.backends == {"good": "somewhere:description"}
    assert list(known.plugins) == ["good"]
    assert known.failures.keys() == {"absent", "misspelt", "raising"}
    assert "No module named 'no_such_module_anywhere'" in known.failures["absent"]
    assert "ingle_backend" in known.failures["misspelt"]
    assert "the driver is too old" in known.failures["raising"]


def test_a_hook_with_an_unknown_argument_is_a_failure(monkeypatch):
    @hookimpl
    def ingle_backends(color):
        return {}

    module(monkeypatch, "fake_argument", ingle_backends=ingle_backends)
    assert "color" in entry_points(monkeypatch, bad="fake_argument").failures["bad"]


@pytest.mark.parametrize("answer", [["numpy"], {"x": 3}, {"x": "module_without_attribute"}])
def test_an_answer_that_is_no_map_of_places_is_a_failure(monkeypatch, answer):
    @hookimpl
    def ingle_backends():
        return answer

    module(monkeypatch, "fake_answer", ingle_backends=ingle_backends)
    known = entry_points(monkeypatch, bad="fake_answer")
    assert "ingle_backends must return" in known.failures["bad"]
    assert known.backends == {}


def test_two_plugins_with_one_name_for_a_backend(monkeypatch):
    @hookimpl
    def ingle_backends():
        return {"twin": "somewhere:description"}

    module(monkeypatch, "fake_first", ingle_backends=ingle_backends)
    module(monkeypatch, "fake_second", ingle_backends=ingle_backends)
    known = entry_points(monkeypatch, first="fake_first", second="fake_second")
    assert known.owners["backends:twin"] == "first"
    assert "already brought by plugin 'first'" in known.failures["second"]


def test_a_factory_that_raises_names_the_plugin(fake):
    def create(index: int):
        raise OSError("libfake.so.3: cannot open shared object file")

    fake(create=create)
    with pytest.raises(BackendError, match=r"'fake' of plugin 'fake-plugin' .*libfake\.so\.3"):
        it.zeros(2, device="fake")


def test_a_description_that_cannot_be_imported(monkeypatch):
    register("gone", Plugin("no_such_module_anywhere:description"))
    try:
        with pytest.raises(BackendError, match=r"of plugin 'gone' cannot be loaded: .*No module"):
            backend_of("fake")
        with pytest.warns(PluginWarning, match=r"plugin 'fake' failed: .*No module") as caught:
            default = it.zeros(1).device
        assert default in (Device("cpu"), Device("numpy")), "other backends go on"
        assert f"new tensors are made on '{default}'" in str(caught[0].message)
        assert it.zeros(1).device == default, "and it is said once"
    finally:
        unregister("gone")


def test_a_description_of_the_wrong_type(fake):
    fake(description={"create": make_fake})
    with pytest.raises(BackendError, match="must be a BackendDescription, it is a dict"):
        backend_of("fake")


def test_another_contract_version(fake):
    fake(contract=CONTRACT_VERSION + 1)
    with pytest.raises(BackendError, match=f"written for contract {CONTRACT_VERSION + 1}, this is"):
        backend_of("fake")


def test_no_device_says_why(fake):
    fake(count=lambda: 0, missing="no fake card found; install its driver", priority=50)
    with pytest.raises(BackendError, match="no fake card found; install its driver"):
        backend_of("fake")
    assert it.default_device() != Device("fake"), "a backend without devices is no default"


def test_an_index_beyond_the_devices():
    with pytest.raises(BackendError, match=r"'numpy:7': it has 1 device"):
        it.zeros(2, device="numpy:7")


def test_an_unknown_backend_lists_what_there_is():
    with pytest.raises(BackendError, match=r"Installed: .*'numpy'") as caught:
        it.zeros(2, device="tpu")
    # Whoever registers that name could run code wherever this advice is taken.
    assert "pip install" not in str(caught.value)
    assert "ingle info" in str(caught.value)


@pytest.mark.parametrize(("name", "command"), [("cpu", "ingle-cpu"), ("numpy", "ingle-numpy")])
def test_a_published_backend_that_is_not_installed(name, command):
    assert f"Try: pip install {command}" in plugins._unknown(name, plugins.Discovery())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float64", "float64"), ("bfloat16", "bfloat16"), ("half", "float16"), ("double", "float64"),
     ("int8", "int8"), ("bool", "bool"), ("complex64", "complex64"), ("int4", "int4")],
)  # fmt: skip
def test_a_dtype_in_place_of_a_device_says_how_to_cast(name, dtype):
    for act in (
        lambda: it.zeros(2, device=name),
        lambda: it.zeros(2).to_device(name),
        lambda: it.device(name).__enter__(),
    ):
        with pytest.raises(BackendError, match=rf"{name!r} is a dtype.*astype\({dtype!r}\)") as e:
            act()
        assert f"module.to(dtype={dtype!r})" in str(e.value)
        assert "pip install" not in str(e.value)


@pytest.mark.parametrize("name", ["nunpy", "NumPy"])
def test_a_near_miss_is_corrected(name):
    with pytest.raises(BackendError, match="did you mean 'numpy'") as caught:
        it.zeros(2, device=name)
    assert "pip install" not in str(caught.value)


def test_failures_are_part_of_the_error(monkeypatch):
    known = Discovery(failures={"abacus": "ImportError: no beads"})
    monkeypatch.setattr(plugins, "_found", known)
    with pytest.raises(BackendError, match="plugin 'abacus' failed: ImportError: no beads"):
        plugins.describe("abacus")
    with pytest.raises(BackendError, match=r"no backend is usable[\s\S]*no beads"):
        plugins.best_device()


def test_the_highest_priority_is_the_default(fake):
    fake(priority=10)
    assert it.default_device() == Device("fake")


def test_a_default_that_cannot_be_made_gives_way_to_the_next_best(fake):
    def create(index: int):
        raise OSError("libfake.so.3: cannot open shared object file")

    before = it.default_device()
    fake(create=create, priority=50)
    with pytest.warns(PluginWarning, match=r"libfake\.so\.3[\s\S]*INGLE_DEVICE=") as caught:
        assert it.zeros(1).device == before
    assert [warning.filename for warning in caught] == [__file__]
    with it.device(it.default_device()):
        assert it.ones(2).tolist() == [1.0, 1.0]
    assert "libfake" in discover().failures["fake"]
    with pytest.raises(BackendError, match=r"libfake\.so\.3"):
        it.zeros(1, device="fake")


def test_a_count_that_raises_is_a_broken_plugin(fake):
    def count() -> int:
        raise OSError("the driver does not answer")

    before = it.default_device()
    fake(count=count, priority=50)
    with pytest.warns(PluginWarning, match="the driver does not answer"):
        assert it.default_device() == before
    assert "fake" not in {d.name for d in it.__array_namespace_info__().devices()}


def test_a_wrong_host_fallback_is_told_before_a_backend_is_made(fake, monkeypatch):
    """Not at the first operation without a kernel, which may be hours away or never come."""
    fake()
    monkeypatch.setenv("INGLE_HOST_FALLBACK", "eror")
    with pytest.raises(SettingError, match="the variable INGLE_HOST_FALLBACK is 'eror': give "):
        it.ones(2, device="fake")
    monkeypatch.setenv("INGLE_HOST_FALLBACK", "error")
    assert it.ones(2, device="fake").tolist() == [1.0, 1.0]


def test_a_backend_behind_the_default_is_not_counted(fake):
    """Counting may load a driver, which takes longer than all that the default needs."""
    before = it.default_device()
    asked = []
    fake(count=lambda: asked.append(1) or 1, priority=-50)
    assert it.default_device() == before
    assert not asked
    assert "fake" in {d.name for d in it.__array_namespace_info__().devices()}
    assert asked


def test_gradients_without_autodiff_say_what_to_install(monkeypatch):
    monkeypatch.setattr(plugins, "_found", Discovery())
    monkeypatch.setattr(plugins, "_attributes", {})
    with pytest.raises(MissingPackageError, match="pip install ingle-autodiff"):
        plugins.require_transform("backward", "backward")


def test_the_hooks_fit_a_page_and_are_documented():
    from ingle.tensor import hooks

    specs = [getattr(hooks, n) for n in dir(hooks) if n.startswith("ingle_")]
    assert len(specs) >= 3
    assert all(s.__doc__ for s in specs)
    assert hookspec is hooks.hookspec
    assert len(Path(hooks.__file__).read_text().splitlines()) < 60


HEAVY = "{'ingle.fusion', 'ingle_cpu.backend', 'ingle_numpy.backend', 'llvmlite', 'scipy', 'torch'}"


@pytest.mark.slow
def test_listing_devices_imports_nothing_heavy():
    code = (
        "import sys, ingle.tensor as it\n"
        "from ingle.tensor.cli import gather\n"
        "assert gather().default in ('cpu', 'numpy')\n"
        f"print(sorted(set(sys.modules) & {HEAVY}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.slow
def test_importing_looks_for_no_plugins():
    code = "import sys, ingle.tensor; print({'pluggy', 'importlib.metadata'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.slow
def test_importing_asks_for_no_advice_on_names():
    """Python asks packages for their modules by name before it loads them."""
    code = (
        "import sys, ingle.tensor, ingle.nn, ingle.optim\n"
        "from ingle.tensor import checked\n"
        "print('ingle.tensor.pytorch_names' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize("named", [None, "numpy"])
def test_only_a_device_that_the_variable_chose_blames_the_variable(named, monkeypatch):
    def broken(where):
        raise BackendError("it is broken")

    monkeypatch.setenv("INGLE_DEVICE", named or "")
    it.default_device()
    with it.device("numpy"):
        monkeypatch.setattr(plugins, "load_backend", broken)
        with pytest.raises(BackendError, match=r"^it is broken$"):
            backend_of(None)
    expected = "^it is broken$" if named is None else "the variable INGLE_DEVICE='numpy' is wrong"
    with pytest.raises(BackendError, match=expected):
        backend_of(None)


def explode(*_):
    raise RuntimeError("no driver here")


def leave(*_):
    sys.exit(3)


@pytest.mark.parametrize("wrong", [explode, leave, lambda: -1, lambda: "two"])
def test_a_count_that_does_not_count(fake, wrong):
    fake(count=wrong, priority=50)
    with pytest.raises(BackendError, match=r"backend 'fake'.*count"):
        it.zeros(2, device="fake")
    with pytest.warns(PluginWarning, match="'fake' failed"):
        assert plugins.best_device().name in ("cpu", "numpy")


@pytest.mark.parametrize("wrong", [explode, leave])
def test_check_names_a_constructor_that_raises(fake, wrong, capsys):
    fake(create=wrong)
    assert main(["info", "--check"]) == 1
    told = capsys.readouterr().out
    assert "device 'fake:0': BackendError: backend 'fake' of plugin 'fake-plugin' cannot be" in told


class Odd(BaseException):
    """As pytest's skips are."""


def skip(*_):
    raise Odd("not here")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"priority": "high"}, "priority='high', an int was expected"),
        ({"priority": None}, "priority=None, an int was expected"),
        ({"count": 2}, "count=2, a function without arguments"),
        ({"create": None}, "create=None, a function of an index"),
        ({"summary": 1}, "summary=1, a string"),
    ],
)
def test_a_description_of_wrong_values_is_told_and_the_rest_go_on(fake, fields, told, capsys):
    fake(**fields)
    with pytest.raises(BackendError, match="backend 'fake': its description has") as error:
        it.zeros(2, device="fake")
    assert told in str(error.value)
    with pytest.warns(PluginWarning, match="'fake' failed"):
        assert plugins.best_device().name in ("cpu", "numpy")
    assert main(["info", "--check"]) == 1
    shown = capsys.readouterr().out
    assert told in shown
    assert "fix: update the package of plugin 'fake-plugin'" in shown


@pytest.mark.parametrize("made", [None, "fake", object()])
def test_what_is_made_is_a_backend(fake, made):
    fake(create=lambda index: made)
    with pytest.raises(
        BackendError, match=r"create\(0\) returned .* which lacks name, device, level, execute"
    ):
        it.zeros(2, device="fake")


def test_what_is_made_is_the_backend_of_its_device(fake):
    fake(create=lambda index: make_fake(0), count=lambda: 2)
    assert it.zeros(2, device="fake").device == Device("fake")
    with pytest.raises(BackendError, match="'fake', and 'fake:1' was asked for"):
        it.zeros(2, device="fake:1")


@pytest.mark.parametrize("field", ["create", "count"])
def test_what_is_no_exception_is_told_as_well(fake, field):
    fake(**{field: skip})
    with pytest.raises(BackendError, match="Odd: not here"):
        it.zeros(2, device="fake")


def test_an_interrupt_is_no_fault_of_a_plugin(fake):
    def interrupted(index):
        raise KeyboardInterrupt

    fake(create=interrupted)
    with pytest.raises(KeyboardInterrupt):
        it.zeros(2, device="fake")


def _deep(count: int, function: Callable[[], object]) -> object:
    return function() if count <= 0 else _deep(count - 1, function)


def _near_the_limit(function: Callable[[], object], left: int) -> object:
    """What a function gives from a stack that has so many frames left."""
    here = len(inspect.stack(0))
    return _deep(sys.getrecursionlimit() - here - left, function)


@pytest.mark.parametrize("left", [*range(12, 40, 2), 60, 90])
def test_a_caller_that_is_nested_too_deeply_is_no_fault_of_a_plugin(fake, monkeypatch, left):
    def create(index):
        _deep(100, lambda: None)
        return make_fake(index)

    fake(create=create, priority=1000)
    monkeypatch.setattr(plugins, "_backends", dict(plugins._backends))
    with pytest.raises(RecursionError):
        _near_the_limit(plugins.best_device, left)
    assert plugins.best_device() == Device("fake")
    assert not discover().failures


def test_a_plugin_that_recurses_without_end_fails(fake):
    def endless():
        return endless()

    fake(count=endless)
    with pytest.raises(BackendError, match="cannot count its devices: RecursionError"):
        backend_of("fake")


def test_check_names_a_device_that_computes_nonsense(fake, capsys):
    from ingle_numpy.backend import NumpyBackend

    class Wrong(NumpyBackend):
        kernels = {**NumpyBackend.kernels, "add": lambda op, x, y: x}  # noqa: RUF012

    fake(create=lambda index: Wrong(Device("fake", index)))
    assert main(["info", "--check"]) == 1
    assert "1 + 1 gave array([0., 1." in capsys.readouterr().out


@pytest.mark.parametrize("name", ["Bad:Name", "", "two words", "1st", 7, "float32", "half"])
def test_a_name_that_no_device_can_have(name):
    class Named:
        @hookimpl
        def ingle_backends(self):
            return {name: "somewhere:description"}

    found = plugins._look([], {"named": Named()})
    assert "a backend is named" in found.failures["named"]
    assert found.backends == {}


def test_no_plugin_replaces_the_reference():
    own = EntryPoint("numpy", "ingle_numpy.plugin", "ingle")
    thief = EntryPoint("numpy", "ingle_thief.plugin", "ingle")
    for points in ([own, thief], [thief, own]):
        found = plugins._look(points, {})
        assert found.plugins["numpy"] == "ingle_numpy.plugin"
        assert "there is a plugin 'numpy' already" in found.failures["numpy (ingle_thief.plugin)"]


@pytest.mark.parametrize("kind", [SystemExit, Odd, GeneratorExit])
def test_a_plugin_that_exits_on_import_is_named(kind):
    class Exits(EntryPoint):
        def load(self):
            raise kind("not on this machine")

    found = plugins._look([Exits("rude", "ingle_rude.plugin", "ingle")], {})
    assert found.failures["rude"] == f"{kind.__name__}: not on this machine"
