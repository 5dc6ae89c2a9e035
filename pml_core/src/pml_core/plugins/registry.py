"""Find plugins without importing them; say what is wrong with each."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import metadata
from typing import Any, TypeAlias

DRIVER_GROUPS = ("pml.exposure_mode", "pml.executor", "pml.transport", "pml.tracer", "pml.store")
HOOK_GROUP = "pml.plugins"
GUARD_GROUP = "pml.guards"
"""Repeats the entry points of hook plugins without which nothing may run: they say what is forbidden."""
GROUPS = frozenset((*DRIVER_GROUPS, HOOK_GROUP, GUARD_GROUP))
API = "pml-hookspecs"
BROKEN, CHANGES = "0.1.0", "docs/plugins/changes-0.2.md"
"""The last contract that no plugin fits any more, and the page that says what became what."""
Advice: TypeAlias = tuple[str, str, str, int]
"""A deprecated member of the contract, what to do instead, and the file and line where the plugin has it."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LOADERS = frozenset({"importlib", "pml_core", "stevedore"})
"""What imports plugins: where the cause of a failure never is."""
REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class State(StrEnum):
    """How far a plugin got."""

    FOUND = "found"
    BLOCKED = "blocked"
    INCOMPATIBLE = "incompatible"
    LOADED = "loaded"
    FAILED = "failed"


@dataclass(slots=True)
class Record:
    """One entry point of one installed distribution, and how far it got."""

    group: str
    name: str
    target: str
    dist: str
    version: str
    entry_point: metadata.EntryPoint = field(repr=False)
    requires_api: str = ""
    state: State = State.FOUND
    problem: str = ""
    remedy: str = ""
    error: BaseException | None = field(default=None, repr=False)
    provided: Any = field(default=None, repr=False)
    """The plugin itself when it came as an object; None when it has to be loaded by its entry point."""
    deprecated: list[str] = field(default_factory=list)
    """One sentence for each deprecated member of the contract that it has; known once it is loaded."""
    file: str = ""
    """Where it is when it is a file of the user's; ``""`` when it came with a distribution."""
    guard: bool = False
    """Whether nothing may run without it, since it is there to forbid: it says so of itself, or it is a file."""

    @property
    def kind(self) -> str:
        """``exposure_mode``, ``executor``, ``transport``, ``tracer``, ``store`` or ``hooks``."""
        return "hooks" if self.group == HOOK_GROUP else self.group.removeprefix("pml.")

    @property
    def origin(self) -> str:
        """Where it came from: ``pml-store-sqlite 1.2.0``, or the path of a file."""
        return self.file or f"{self.dist} {self.version}"

    @property
    def label(self) -> str:
        """How messages call it: ``store driver 'sqlite' (pml-store-sqlite 1.2.0)``."""
        kind = "hook plugin" if self.group == HOOK_GROUP else f"{self.kind.replace('_', ' ')} driver"
        return f"{kind} {self.name!r} ({self.origin})"

    @property
    def mend(self) -> str:
        """What to do when it is broken."""
        if self.file:
            return f"Mend {self.file}, or take it out of [gateway] local."
        return f"Mend or remove {self.dist}: upgrade it, or block it with [gateway] block."

    def advise(self, advice: Iterable[Advice]) -> None:
        """Note the deprecated members that it has, and warn whoever tests it."""
        for member, text, file, line in advice:
            sentence = f"{member} is deprecated: {text}"
            self.deprecated.append(sentence)
            warnings.warn_explicit(f"{self.label}: {sentence}", DeprecationWarning, file, line)

    def fail(self, state: State, problem: str, remedy: str = "", error: BaseException | None = None) -> None:
        """Note what is wrong; the first problem stays."""
        if self.state in (State.FOUND, State.LOADED):
            self.state, self.problem, self.remedy, self.error = state, problem, remedy, error


def provide(group: str, name: str, plugin: Any) -> Record:
    """A record for a plugin that is not installed but given as an object."""
    target = f"{getattr(plugin, '__module__', plugin.__class__.__module__)}"
    return Record(group, name, target, "in-process", "0", metadata.EntryPoint(name, target, group), provided=plugin)


def cause(exc: BaseException, file: str = "") -> str:
    """What an import raised, and where: ``NameError: name 'x' is not defined (/x/policy.py:12)``.

    Args:
        exc: It.
        file: Where the operator would look, if that is known; the innermost place otherwise.
    """
    if isinstance(exc, SyntaxError) and exc.filename:
        return f"{type(exc).__name__}: {exc.msg} ({exc.filename}:{exc.lineno})"
    from traceback import walk_tb

    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(exc.__traceback__)]
    places = [place for place in frames if place[0] == file] or [place for place in frames if not _loads(place[0])]
    where = f" ({places[-1][0]}:{places[-1][1]})" if places else ""
    return f"{type(exc).__name__}: {exc}{where}"


def _loads(file: str) -> bool:
    return file.startswith("<") or not LOADERS.isdisjoint(file.replace("\\", "/").split("/"))


def canonical(name: str) -> str:
    """A distribution's name as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required_names() -> frozenset[str]:
    """The distributions that those installed here ask for, extras included, as PEP 503 spells them."""
    lines = [line for dist in metadata.distributions() for line in _about(dist)[2]]
    return frozenset(map(_requirement_name, lines))


def _requirement_name(line: str) -> str:
    found = REQUIREMENT_NAME.match(line)
    return canonical(found.group()) if found else ""


def _unmet(requirements: list[str]) -> Iterator[str]:
    """Requirements that the environment does not satisfy. Installers check this; ``pip install --no-deps`` does not."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            yield f"has a requirement that cannot be read: {line}"
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            have = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield f"needs {requirement}, which is not installed"
            continue
        if not requirement.specifier.contains(have, prereleases=True):
            yield f"needs {requirement}, found {have}"


def mismatches(distribution: str) -> str:
    """What of PML the distribution asks for and does not find, on one line; ``""`` for nothing."""
    asked = metadata.requires(distribution) or []
    return "; ".join(_unmet([line for line in asked if _requirement_name(line).startswith("pml-")]))


def _check(record: Record, requirements: list[str], own: list[str], *, thorough: bool) -> None:
    """Mark ``record`` when its name or its distribution's requirements will not do; ``own`` are the core's."""
    api = [line for line in requirements if _requirement_name(line) == API]
    record.requires_api = api[0].removeprefix(API).strip() if api else ""
    if not NAME.fullmatch(record.name):
        problem, remedy = f"name {record.name!r} is not snake_case", f"Rename the entry point of {record.dist}."
        record.fail(State.INCOMPATIBLE, problem, remedy)
    if not api:
        problem = f"does not declare which {API} it was written for"
        remedy = f"Add {API} with a version range to the dependencies of {record.dist}."
        record.fail(State.INCOMPATIBLE, problem, remedy)
        return
    # The range that the core itself declares is met, or the core would not run: no need to import packaging.
    if not thorough and not {*api} - {*own}:
        return
    if problems := list(_unmet(requirements if thorough else api)):
        remedy = f"Install versions that fit together: pip install --upgrade {record.dist} pml-core"
        record.fail(State.INCOMPATIBLE, "; ".join(problems), remedy)
    elif _admits(api[0], BROKEN):
        problem = f"was made for {API} {BROKEN}: its range {record.requires_api} admits it, and 0.2 broke that"
        record.fail(State.INCOMPATIBLE, problem, f"Upgrade {record.dist}, or change it as {CHANGES} says.")


def _admits(requirement: str, version: str) -> bool:
    from packaging.requirements import Requirement

    return Requirement(requirement).specifier.contains(version, prereleases=True)


def _entry_points(dist: metadata.Distribution) -> list[metadata.EntryPoint]:
    """The entry points of ours; none where the file cannot be read."""
    text = dist.read_text("entry_points.txt") or ""
    if "pml." not in text:
        return []
    try:
        return [e for e in dist.entry_points if e.group in GROUPS]
    except Exception:  # one distribution's broken file must not hide the others
        return []


def _about(dist: metadata.Distribution) -> tuple[str, str, list[str]]:
    """Name, version and requirements; from the folder's name where the metadata are damaged."""
    try:
        # Each of dist's own properties would read the whole file again.
        told = dist.metadata
        return canonical(told["Name"]), told["Version"], list(told.get_all("Requires-Dist") or dist.requires or ())
    except Exception:
        folder = getattr(getattr(dist, "_path", None), "name", "unknown")
        name, _, version = folder.removesuffix(".dist-info").removesuffix(".egg-info").partition("-")
        return canonical(name), version or "unknown", []


def mark_clashes(records: list[Record]) -> None:
    """Mark those whose name another distribution claims, too; it belongs to none of them."""
    owners: Mapping[str, set[str]] = defaultdict(set)
    claiming = [record for record in records if record.state is not State.BLOCKED]
    for record in claiming:
        owners[record.name].add(record.dist)
    for record in claiming:
        if others := owners[record.name] - {record.dist}:
            problem = f"name also claimed by {', '.join(sorted(others))}"
            remedy = f"Rename {record.file}." if record.file else f"Uninstall {record.dist} or {min(others)}."
            record.fail(State.INCOMPATIBLE, problem, remedy)


def discover(blocked: frozenset[str] = frozenset(), *, thorough: bool = False) -> list[Record]:
    """Every PML entry point in the environment, sorted by group, name and distribution. Imports no plugin.

    Args:
        blocked: Names of plugins or distributions that are to be left out.
        thorough: Check every requirement of a plugin's distribution, not only the one on the hook specs.
    """
    records: list[Record] = []
    seen: set[tuple[str, str, str]] = set()
    own = metadata.requires("pml-core") or []
    for dist in metadata.distributions():
        points = _entry_points(dist)
        if not points:
            continue
        name, version, requirements = _about(dist)
        guards = {point.name for point in points if point.group == GUARD_GROUP}
        for point in points:
            if point.group == GUARD_GROUP:
                continue
            if (key := (name, point.group, point.name)) in seen:  # one distribution found twice on sys.path
                continue
            seen.add(key)
            record = Record(point.group, point.name, point.value, name, version, point)
            record.guard = point.group == HOOK_GROUP and point.name in guards
            if point.name in blocked or name in blocked:
                record.fail(State.BLOCKED, "blocked by [gateway] block")
            _check(record, requirements, own, thorough=thorough)
            records.append(record)
    mark_clashes(records)
    return sorted(records, key=lambda r: (r.group, r.name, r.dist))
