"""Finding plugins, one by one, so that a broken one is named and the others go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from . import settings
from .argument_checks import nearest
from .callers import warn
from .contract import CONTRACT_VERSION, Backend
from .device import Device, Loader, install_loader
from .errors import BackendError, MissingPackageError, SettingError
from .late_imports import load, uninterrupted
from .locks import renewed
from .plugin_checks import BackendDescription as BackendDescription
from .plugin_checks import Discovery as Discovery
from .plugin_checks import check_answers, check_fields, check_made, dtype_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ingle"


_lock = renewed(sys.modules[__name__], "_lock")
_making = renewed(sys.modules[__name__], "_making")
_found: Discovery | None = None
_extra: dict[str, object] = {}
_descriptions: dict[str, BackendDescription] = {}
_backends: dict[Device, Backend] = {}
_attributes: dict[str, Any] = {}


def discover() -> Discovery:
    """Looks for plugins once; later calls return the same answer."""
    global _found
    if _found is None:
        _found = uninterrupted(_discovered)
    return _found


def _discovered() -> Discovery:
    # These take a third of what `import ingle.tensor` may take, and are needed only here.
    from importlib.metadata import entry_points

    with _lock:
        return _found or _look(list(entry_points(group=GROUP)), dict(_extra))


def register(name: str, plugin: object) -> None:
    """Adds a plugin that is not installed: an object or module with `ingle_*` hooks."""
    with _lock:
        _extra[name] = plugin
        _forget()


def unregister(name: str) -> None:
    """Takes back what `register` added."""
    owners = discover().owners
    with _lock:
        for where in list(_backends):
            if owners.get(f"backends:{where.name}") == name:
                del _backends[where]
        _extra.pop(name, None)
        _forget()


def _forget() -> None:
    # Backends stay: tensors of this process hold them, and a device has one backend.
    global _found
    _found = None
    _descriptions.clear()
    _attributes.clear()


_ROOM = 500
"""Frames of Python that are enough to find a plugin and to import what it needs."""


def refuse_to_blame(error: BaseException | None) -> None:
    """Raises a `RecursionError` that a plugin met because its caller is nested too deeply.

    It says nothing of the plugin: a later call from a shallower stack looks for it again. A plugin
    that recurses without end from there is a failure like any other.

    Args:
        error: what was raised at a plugin, or what that was raised from.
    """
    while error is not None:
        if isinstance(error, RecursionError) and sys.getrecursionlimit() - _depth() < _ROOM:
            raise error
        error = error.__cause__ or error.__context__


def _depth() -> int:
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


_OWN = (
    "ingle_numpy.plugin", "ingle_cpu.plugin", "ingle_opencl.plugin", "ingle_cuda.plugin",
    "ingle.autodiff.plugin", "ingle.train.plugin", "ingle.importer.plugin",
    "ingle.dashboard.plugin",
)  # fmt: skip
"""Where the plugins are that are published with Ingle, in the order in which they are listed."""


def _look(points: list[EntryPoint], extra: dict[str, object]) -> Discovery:
    import pluggy

    from . import hooks

    found = Discovery()
    loaders: dict[str, Callable[[], object]] = {}
    places: dict[str, str] = {}
    # Ingle's own come first, so that no other plugin takes the name of the reference, or of what
    # computes gradients.
    for point in sorted(points, key=lambda p: [*_OWN, p.value].index(p.value)):
        name = point.name
        if name in loaders:
            name = f"{point.name} ({point.value})"
            found.failures[name] = (
                f"there is a plugin {point.name!r} already, {places[point.name]}; uninstall one"
            )
            continue
        loaders[name], places[name] = point.load, point.value
    for name, plugin in extra.items():
        loaders[name] = lambda plugin=plugin: plugin  # type: ignore[misc]
        places[name] = "registered in this process"
    for name, loader in loaders.items():
        manager = pluggy.PluginManager("ingle")
        manager.add_hookspecs(hooks)
        # A plugin is a stranger's code: whatever it raises is its failure, never ours. pytest's
        # skips and asyncio's cancellations are no `Exception`.
        try:
            manager.register(loader(), name)
            manager.check_pending()
            answers = {
                "backends": manager.hook.ingle_backends(),
                "transforms": manager.hook.ingle_transforms(),
                "commands": manager.hook.ingle_commands(),
                "loggers": manager.hook.ingle_loggers(),
            }
            for kind, maps in answers.items():
                check_answers(found, kind, maps)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            refuse_to_blame(error)
            found.failures[name] = f"{type(error).__name__}: {error}"
            continue
        found.plugins[name] = places[name]
        for kind, maps in answers.items():
            for key, place in (item for m in maps for item in m.items()):
                getattr(found, kind)[key] = place
                found.owners[f"{kind}:{key}"] = name
    return found


def load_attribute(place: str) -> Any:
    """Imports `"module:attribute"`."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(load(module), attribute)
    except ImportError as error:
        if not sys.is_finalizing():
            raise
        raise BackendError(
            f"Python goes down and has no imports any more, so that nothing can be computed that "
            f"needs {module}, which was not used before; compute it in a function for "
            "atexit.register, not in a finalizer"
        ) from error


def transform(name: str) -> Any | None:
    """The transform of that name, or None where no installed package brings it."""
    found = _attributes.get(name)
    if found is None:
        place = discover().transforms.get(name)
        if place is None:
            return None
        found = _attributes[name] = load_attribute(place)
    return found


def require_transform(name: str, asked: str) -> Any:
    """The transform, or an error that says what to install."""
    found = transform(name)
    if found is None:
        broken = "".join(f" Plugin {n!r} failed: {why}." for n, why in discover().failures.items())
        raise MissingPackageError(
            f"{asked} needs gradients, and no installed package brings them.{broken} "
            "Try: pip install ingle-autodiff"
        )
    return found


def describe(name: str) -> BackendDescription:
    """The description of a backend by device name; an error lists what there is.

    Raises:
        BackendError: there is no such backend, or its plugin is broken or of another contract.
    """
    found = _descriptions.get(name)
    if found is not None:
        return found
    known = discover()
    if name not in known.backends:
        raise BackendError(_unknown(name, known))
    try:
        description = load_attribute(known.backends[name])
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        refuse_to_blame(error)
        raise BackendError(_broken(name, "cannot be loaded", error)) from error
    if not isinstance(description, BackendDescription):
        raise BackendError(
            f"backend {name!r}: {known.backends[name]!r} must be a BackendDescription, "
            f"it is a {type(description).__name__}; this is a mistake in its plugin"
        )
    check_fields(name, description)
    if description.contract != CONTRACT_VERSION:
        raise BackendError(
            f"backend {name!r} was written for contract {description.contract}, this is contract "
            f"{CONTRACT_VERSION}; install matching versions of it and of ingle-tensor"
        )
    _descriptions[name] = description
    return description


_PUBLISHED = {"numpy": "ingle-numpy", "cpu": "ingle-cpu"}
"""Backends that are published with Ingle. A command to install any name would invite squatters."""


def _unknown(name: str, known: Discovery) -> str:
    dtype = dtype_of(name)
    if dtype is not None:
        return (
            f"{name!r} is a dtype, and a device was expected. To cast, write "
            f"x.astype({dtype!r}) for a tensor, or module.to(dtype={dtype!r}) for a module"
        )
    near = nearest(name.lower(), known.backends, cutoff=0.7)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    have = ", ".join(repr(n) for n in known.backends) or "none"
    install = ""
    if name in _PUBLISHED and name not in known.failures:
        install = f"\n  Try: pip install {_PUBLISHED[name]}"
    elif not near:
        install = "\n  A device comes with a plugin: `ingle info` shows what is installed here"
    return f"no backend named {name!r}{guess} Installed: {have}.{failure_lines(known)}{install}"


def failure_lines(known: Discovery) -> str:
    """The plugins that failed, each on a line of its own, for the end of a message."""
    return "".join(f"\n  plugin {n!r} failed: {why}" for n, why in known.failures.items())


def _broken(name: str, what: str, error: BaseException) -> str:
    owner = discover().owners.get(f"backends:{name}", name)
    return f"backend {name!r} of plugin {owner!r} {what}: {type(error).__name__}: {error}"


def counted(name: str) -> int:
    """How many devices a backend has now.

    Raises:
        BackendError: there is no such backend, or its plugin cannot count.
    """
    count = describe(name).count
    try:
        found = uninterrupted(count)  # which often imports what drives the devices
    except BackendError:  # the plugin says itself what is wrong, and what to do
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        refuse_to_blame(error)
        raise BackendError(_broken(name, "cannot count its devices", error)) from error
    if type(found) is not int or found < 0:
        raise BackendError(
            f"backend {name!r}: count() returned {found!r}, a number of devices was expected; "
            "this is a mistake in its plugin"
        )
    return found


def made(where: Device) -> Backend | None:
    """The backend of a device, if it is made."""
    return _backends.get(where)


def load_backend(where: Device) -> Backend:
    """The backend of a device, made at its first use.

    Raises:
        BackendError: there is no such device, or its plugin cannot make the backend.
        SettingError: a variable that backends heed has a value that makes no sense.
    """
    found = _backends.get(where)
    if found is not None:
        return found
    settings.runs_on_host()  # the first operation without a kernel may be hours away
    description = describe(where.name)
    count = counted(where.name)
    if where.index >= count:
        raise BackendError(
            f"no device '{where.name}:{where.index}': {_too_few(description, count)}"
        )
    with _making:
        if where not in _backends:
            try:
                made = description.create(where.index)
            except KeyboardInterrupt:
                raise
            except SettingError:
                raise  # another device would not be what the user has set
            except BaseException as error:
                refuse_to_blame(error)
                raise BackendError(_broken(where.name, "cannot be made", error)) from error
            check_made(where, made)
            # A handler of signals may have come by, and a device has one backend.
            _backends.setdefault(where, made)
    return _backends[where]


def _too_few(description: BackendDescription, count: int) -> str:
    if not count and description.missing:
        return description.missing
    return f"it has {count} {'device' if count == 1 else 'devices'}, numbered from 0"


_best: tuple[Discovery, Device] | None = None


class PluginWarning(UserWarning):
    """A plugin is broken, so that the default device was chosen among the others."""


def backends_by_priority() -> Iterator[str]:
    """The installed backends that have a device, the best first; makes none of them.

    A backend is asked for its devices, which may load a driver, when its turn comes.
    """
    known = discover()
    found: list[tuple[int, str]] = []
    for name in known.backends:
        try:
            found.append((describe(name).priority, name))
        except Exception as error:  # a stranger's plugin: named by `ingle info`, never fatal here
            _note(known, name, error)
    for _, name in sorted(found, key=lambda entry: -entry[0]):
        try:
            count = counted(name)
        except Exception as error:
            _note(known, name, error)
        else:
            if count:
                yield name


def _note(known: Discovery, name: str, error: Exception) -> None:
    refuse_to_blame(error)
    known.failures[name] = f"{type(error).__name__}: {error}"


def best_device() -> Device:
    """The device of the installed backend with the highest priority; makes the backend.

    Warns of plugins that failed, since one of them might have brought a better one.

    Raises:
        BackendError: there is none.
    """
    global _best
    known = discover()
    if _best is not None and _best[0] is known:
        return _best[1]
    for name in backends_by_priority():
        where = Device(name)
        try:
            load_backend(where)
        except SettingError:
            raise
        except Exception as error:
            _note(known, name, error)
            continue
        _best = (known, where)
        if known.failures:
            warn(_settled_for(name, known), PluginWarning)
        return _best[1]
    raise BackendError(
        f"no backend is usable.{failure_lines(known)}\n  Try: pip install ingle-numpy"
    )


def settled() -> Device | None:
    """The device that `best_device` has found, while that is known."""
    return _best[1] if _best is not None and _best[0] is _found else None


def _settled_for(name: str, known: Discovery) -> str:
    return (
        f"new tensors are made on {name!r}, the best device that works.{failure_lines(known)}\n"
        f"  Repair or uninstall what failed, or set INGLE_DEVICE={name} to choose for yourself"
    )


install_loader(cast(Loader, sys.modules[__name__]))
