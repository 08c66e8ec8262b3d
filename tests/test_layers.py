"""Dependencies go downwards, and what is imported is what is declared."""

import re
import sys

from workspace import BY_DISTRIBUTION, BY_MODULE, MEMBERS, ROOT, Member, imports_of

LAYERS = (
    {"tensor"},
    {"autodiff", "fusion", "remote", "nn", "dataset"},
    {"optim", "import", "router"},
    {"train", "testkit"},
    {"dashboard"},
    {"ingle"},
)
"""From the bottom to the top. A package needs only what stands below its own layer."""

BELOW_PLUGINS = {"tensor", "fusion"}
BETWEEN_PLUGINS = {("cpu", "numpy")}
"""A plugin that runs on another's kernels where it has none of its own, in the same memory."""

DISTRIBUTIONS = {
    "PIL": "pillow",
    "cuda": "cuda-pathfinder",
    "cupy": "cupy-cuda13x",
    "cupyx": "cupy-cuda13x",
    "cykooz_resizer": "cykooz-resizer",
    "mlflow": "mlflow-skinny",
    "ml_dtypes": "ml-dtypes",
    "sklearn": "scikit-learn",
    "textual_serve": "textual-serve",
}
"""Import names that differ from their distributions'."""

HOOKED = {"backward": "ingle-autodiff", "require_grad": "ingle-autodiff"}
"""Methods of tensors that another distribution brings by plugin hook, without an import."""


def layer(member: Member) -> int:
    for height, names in enumerate(LAYERS):
        if str(member) in names:
            return height
    raise AssertionError(f"packages/{member} stands in no layer: add it to LAYERS in {__file__}")


def owner(module: str) -> str:
    """The distribution that a module belongs to."""
    parts = module.split(".")
    for name in (".".join(parts[:2]), parts[0]):
        if name in BY_MODULE:
            return BY_MODULE[name].distribution
    return DISTRIBUTIONS.get(parts[0], parts[0]).lower()


def siblings(member: Member) -> list[Member]:
    needed = member.dependencies | member.optional
    return [BY_DISTRIBUTION[d] for d in sorted(needed) if d in BY_DISTRIBUTION]


def test_dependencies_point_downwards(member: Member) -> None:
    for needed in siblings(member):
        if member.is_plugin and needed.is_plugin:
            assert (str(member), str(needed)) in BETWEEN_PLUGINS, f"plugin {member} needs {needed}"
        elif member.is_plugin:
            assert str(needed) in BELOW_PLUGINS, f"plugin {member} needs {needed}"
        elif needed.is_plugin:
            assert member.module is None, f"package {member} needs the plugin {needed}"
        else:
            assert layer(needed) < layer(member), f"{member} needs {needed}, which is not below it"


def test_every_package_stands_in_a_layer() -> None:
    for member in MEMBERS:
        if not member.is_plugin:
            layer(member)


def test_imports_are_declared(member: Member) -> None:
    declared = member.dependencies | member.optional | {member.distribution}
    undeclared = [
        str(i)
        for i in member.imports
        if i.module.split(".")[0] not in sys.stdlib_module_names and owner(i.module) not in declared
    ]
    assert not undeclared, f"declare these in {member.folder.name}/pyproject.toml"


def test_declared_dependencies_are_imported(member: Member) -> None:
    if member.module is None:
        return
    used = {owner(i.module) for i in member.imports}
    used |= {HOOKED[name] for name in member.attributes & HOOKED.keys()}
    assert member.dependencies <= used, f"{member} never imports these: remove them"


def test_extras_are_imported_only_where_they_are_used(member: Member) -> None:
    """An extra may be missing, so no module imports one at its top level."""
    extras = {d for d in member.optional if d not in BY_DISTRIBUTION} - member.dependencies
    for found in member.imports:
        if owner(found.module) in extras:
            line = found.file.read_text("utf-8").splitlines()[found.line - 1]
            assert line.startswith(" "), f"{found} at the top level, but it is optional"


def test_packages_do_not_import_plugins(member: Member) -> None:
    allowed = {b for a, b in BETWEEN_PLUGINS if member.is_plugin and str(member) == a}
    plugins = {m.distribution for m in MEMBERS if m.is_plugin and str(m) not in allowed}
    plugins -= {member.distribution}
    assert not [str(i) for i in member.imports if owner(i.module) in plugins]


EXAMPLE = re.compile(r">>> from (ingle\.fusion[\w.]*) import")
ENTRANCES = ("ingle.fusion", "ingle.fusion.device")
"""What plugins see of fusion: its public names, and those of `device/` with the modules in it."""


def test_plugins_enter_fusion_by_one_door() -> None:
    plugins = [f for m in MEMBERS if m.is_plugin for f in m.sources]
    plugins += [f for f in (ROOT / "examples").rglob("*.py") if "tests" not in f.parts]
    assert len(plugins) > 10
    others = [
        str(found)
        for file in plugins
        for found in imports_of(file)
        if owner(found.module) == "ingle-fusion"
        and found.module not in ENTRANCES
        and not found.module.startswith("ingle.fusion.device.")
    ]
    # Readers copy examples.
    others += [
        f"{file}: {module}"
        for file in plugins
        for module in EXAMPLE.findall(file.read_text("utf-8"))
        if module not in ENTRANCES and not module.startswith("ingle.fusion.device.")
    ]
    assert not others, "export it in packages/fusion/src/ingle/fusion/device/"
