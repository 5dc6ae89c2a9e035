"""Plugins without packaging: ``[gateway] local`` names files of Python, each a hook plugin named after its file."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from pml_clients.configuration import trust
from pml_clients.configuration.files import state_of
from pml_clients.trees import at
from pml_kit.errors import OperatorError
from pml_settings.config import Config

from . import registry
from .registry import HOOK_GROUP, NAME, Record, State

SETTING = "gateway.local"
DISTRIBUTION = "local:"
MODULE = "pml_local_"
POLL_S = 1.0
COMMANDS = "pml_commands"
"""The hook that is asked before any configuration is read."""


class LocalFileError(OperatorError):
    """A file that is not to be run."""


class _EntryPoint(metadata.EntryPoint):
    """Stands where that of a distribution does; loads a file."""

    digest: str | None
    """Of what may be run; None: whatever stands there, the file is the user's own."""

    def load(self) -> Any:
        return _run(self.name, Path(self.value), self.digest)


def files(config: Config) -> list[Path]:
    """The files that are named, each as an absolute path."""
    saying = [source for source in config.sources if at(source.tree, trust.LOCAL)]
    # The user's first word counts; what projects add was agreed to with each of them.
    own = [source for source in saying if not source.is_projects][:1]
    named: dict[Path, None] = {}
    for source in (*own, *(source for source in saying if source.is_projects)):
        path = Path(source.label)
        # Of what is said on the command line or in the environment, the label is no file.
        folder = trust.place_of(path).parent if path.is_file() else Path.cwd()
        named |= dict.fromkeys(trust.runs_of(source.tree, folder))
    return list(named)


def _agreed(config: Config) -> dict[Path, str]:
    """Digests of the files that projects name; ``""`` for one that was not agreed to."""
    projects = [source for source in config.sources if source.is_projects]
    named = [path for s in projects for path in trust.runs_of(s.tree, trust.place_of(Path(s.label)).parent)]
    return {path: config.runs.get(str(path), "") for path in named}


def found(config: Config, *, thorough: bool = False) -> list[Record]:
    """Every plugin under a configuration: those installed, and the files it names. Imports none.

    Args:
        config: Says what is blocked, too.
        thorough: As with :func:`registry.discover`.
    """
    blocked = frozenset(config.gateway.block)
    installed = registry.discover(blocked, thorough=True) if thorough else registry.discover(blocked)
    if not config.gateway.local:
        return installed
    agreed = _agreed(config)
    records = [*installed, *(_record(path, blocked, agreed.get(path)) for path in files(config))]
    registry.mark_clashes(records)
    _mark_twins(records)
    return sorted(records, key=lambda r: (r.group, r.name, r.dist))


def _record(path: Path, blocked: frozenset[str], digest: str | None) -> Record:
    name, value = path.stem, os.path.normpath(path)
    point = _EntryPoint(name, value, HOOK_GROUP)
    vars(point)["digest"] = digest
    record = Record(HOOK_GROUP, name, value, f"{DISTRIBUTION}{name}", "", point)
    record.file, record.guard = value, True  # nobody asked what it is for; it may be a policy
    if name in blocked or record.dist in blocked:
        record.fail(State.BLOCKED, "blocked by [gateway] block")
    elif path.suffix != ".py" or not NAME.fullmatch(name):
        problem = f"{path.name!r} does not name a plugin"
        record.fail(State.INCOMPATIBLE, problem, "Rename it: small letters, digits and single '_', then .py.")
    else:
        try:
            _check(path.stat(), value)
        except LocalFileError as exc:
            record.fail(State.INCOMPATIBLE, exc.message, exc.remedy)
        except OSError as exc:
            remedy = f"Correct {SETTING}: a path is relative to the file that says it."
            record.fail(State.INCOMPATIBLE, f"cannot be read: {exc.strerror}", remedy)
    return record


def _mark_twins(records: Sequence[Record]) -> None:
    """Two files of one name clash as two distributions do."""
    mine = [record for record in records if record.file]
    for record in mine:
        if others := sorted(o.file for o in mine if o.name == record.name and o.file != record.file):
            record.fail(State.INCOMPATIBLE, f"name also claimed by {', '.join(others)}", f"Rename {record.file}.")


def _check(found: os.stat_result, file: str) -> None:
    """Refuse what somebody else could have written: it runs with all that the gateway may do.

    Raises:
        LocalFileError: Somebody could.
    """
    if not stat.S_ISREG(found.st_mode):
        raise LocalFileError("is no file", "Name a file of Python.")
    if not hasattr(os, "getuid"):
        return
    if found.st_uid not in (os.getuid(), 0):
        problem = f"belongs to another user (uid {found.st_uid}), who could have the gateway do anything"
        raise LocalFileError(problem, f"Read it, then make it yours: cp it, or chown {os.getuid()} {file}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        whose = "anybody" if found.st_mode & stat.S_IWOTH else "others in its group"
        problem = f"can be written by {whose} (mode {stat.S_IMODE(found.st_mode):04o})"
        raise LocalFileError(problem, f"Read it, then: chmod go-w {file}")


def _run(name: str, path: Path, digest: str | None) -> ModuleType:
    """Run a file, and give what it defines.

    Raises:
        LocalFileError: It must not be run, or is no hook plugin.
        Exception: Whatever it raises.
    """
    with path.open("rb") as file:
        # The one that is open, whatever stands in its place by now.
        _check(os.fstat(file.fileno()), str(path))
        source = file.read()
    if digest is not None and trust.digest_of(source) != digest:
        raise LocalFileError(f"{trust.CHANGED} by its user", f"Read it, then: pml trust {path.parent}")
    module = ModuleType(f"{MODULE}{name}")
    module.__file__ = str(path)
    # Dataclasses look for their module there.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102 - it is the operator's own, see _check
        _check_hooks(name, module)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _check_hooks(name: str, module: ModuleType) -> None:
    hooks = [member for member, value in vars(module).items() if member.startswith("pml_") and callable(value)]
    if not hooks:
        raise LocalFileError("has no hooks", "Mark a function of it, such as pml_wrap_executor, with @hookimpl.")
    if COMMANDS in hooks:
        remedy = f"Make it a distribution: pml plugin new hooks {name}"
        raise LocalFileError(f"has {COMMANDS}, which is asked before any configuration is read", remedy)


async def watch(config: Config, log: Any) -> None:
    """Tell of files that change, which takes effect with the next start. Until cancelled."""
    paths = files(config)
    known = state_of(paths)
    while True:
        await asyncio.sleep(POLL_S)
        now = state_of(paths)
        if changed := [str(path) for path in paths if now[path] != known[path]]:
            log.warning("a local plugin has changed; it takes effect with the next start", files=changed)
        known = now
