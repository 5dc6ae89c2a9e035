"""What changed in the contract since its last release, whom it breaks, and what a release has to say about it.

``python hookspecs/tests/api_changes.py`` prints it. The rules, in words: docs/plugins/compatibility.md.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from api_lines import DEPRECATED, Entry, Parameter, exports, read

FOLDER = Path(__file__).parents[1]
BY_PLUGINS = frozenset(
    {
        *("CatalogCache", "Documents", "Executions", "Executor", "ExposureMode", "Link", "Secrets", "Store"),
        *("Traces", "Tracer", "Transport", "Wrapper"),
    }
)
"""Protocols that plugins implement: whatever is added there, the gateway would miss in the plugins that exist."""
BY_GATEWAY = frozenset({"Catalog", "Handler", "Run", "Services"})
"""Protocols that the gateway implements: what is added there is one thing more that plugins may use."""
MAY = "may "
"""How a difference begins that breaks nobody."""
Version: TypeAlias = tuple[int, int, int]
Kind: TypeAlias = Literal["added", "changed", "removed"]


@dataclass(frozen=True)
class Change:
    """One difference."""

    kind: Kind
    name: str
    """``Store.prune``, ``RpcError``."""
    breaking: bool
    why: str
    module: str = ""
    """Where what was removed stood: a fragment may name that instead, as `pml_hookspecs.clock`."""

    @property
    def fragment(self) -> Kind:
        """In which kind of changelog fragment it is told: what breaks plugins is not told as an addition."""
        return "changed" if self.kind == "added" and self.breaking else self.kind

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}{' (BREAKING)' if self.breaking else ''}"


def changes(
    old: str, new: str, by_plugins: Collection[str] = BY_PLUGINS, by_gateway: Collection[str] = BY_GATEWAY
) -> list[Change]:
    """All differences between two texts of ``api.txt``; nothing when only lines moved that may move.

    A protocol that is in neither collection counts as one that plugins implement.
    """
    exported = exports(old) | exports(new)
    known = read(old, exported), read(new, exported)
    found = Comparison(*known, frozenset(by_gateway) - frozenset(by_plugins)).all()
    # A name and its export are one thing.
    return list({(one.kind, one.name): one for one in found}.values())


@dataclass(frozen=True)
class Comparison:
    """Two contracts."""

    old: Mapping[str, Entry]
    new: Mapping[str, Entry]
    by_gateway: frozenset[str]

    def all(self) -> Iterator[Change]:
        """Removals, then additions, then changes."""
        for path, entry in self.old.items():
            if path not in self.new and (entry.owner not in self.old or entry.owner in self.new):
                yield self.removed(entry)
        for path, entry in self.new.items():
            if path not in self.old and (entry.owner not in self.new or entry.owner in self.old):
                yield self.added(entry)
        for path, entry in self.new.items():
            if path in self.old and entry.own != DEPRECATED and (found := [*self.differences(self.old[path], entry)]):
                yield Change("changed", entry.name, not all(map(harmless, found)), "; ".join(found))

    def removed(self, entry: Entry) -> Change:
        if entry.own == DEPRECATED:
            return Change("changed", entry.name.rpartition(".")[0], breaking=False, why="no longer deprecated")
        return Change("removed", entry.name, breaking=True, why="gone, or under another name", module=entry.module)

    def added(self, entry: Entry) -> Change:
        if entry.own == DEPRECATED:
            return Change("changed", entry.name.rpartition(".")[0], breaking=False, why="deprecated")
        owner = self.old.get(entry.owner)
        why = "" if owner is None else self.breaks(owner, entry)
        return Change("added", entry.name, bool(why), why or "new")

    def breaks(self, owner: Entry, entry: Entry) -> str:
        """Why plugins break when a class that exists has one member more; ``""`` when they do not."""
        if self.of_plugins(owner):
            return f"plugins that implement {owner.own} do not have it"
        if "NamedTuple" in owner.bases and entry.field:
            return f"who takes a {owner.own} apart does not expect it"
        if owner.constructor and entry.field and entry.required:
            return f"who makes a {owner.own} does not give it"
        if not owner.constructor and entry.own == "__init__":
            return f"who makes a {owner.own} does not know its arguments"
        return ""

    def of_plugins(self, owner: Entry | None) -> bool:
        """Whether a class is a protocol that plugins implement."""
        return owner is not None and "Protocol" in owner.bases and owner.own not in self.by_gateway

    def differences(self, old: Entry, new: Entry) -> Iterator[str]:
        """What changed; :func:`harmless` tells which of it breaks nobody."""
        if old.kind != new.kind:
            yield f"was a {old.kind}, is a {new.kind}"
            return
        if old.lasting != new.lasting:
            yield f"decorators were {old.decorators}, are {new.decorators}"
        elif old.decorators != new.decorators:
            yield f"{MAY}be warned about, or not any more: decorators are {new.decorators}"
        if old.bases != new.bases:
            yield f"bases were ({', '.join(old.bases)}), are ({', '.join(new.bases)})"
        if new.constructor == "positions" and not self.in_place(new):
            yield "fields do not stand where they stood, and may be given by position"
        yield from self.value(old, new)
        yield from self.signature(old, new)

    def in_place(self, new: Entry) -> bool:
        """Whether the fields that were there are the first ones still, in their order."""
        fields = [
            [one.own for one in of.values() if one.owner == new.path and one.field] for of in (self.old, self.new)
        ]
        kept = [name for name in fields[0] if name in fields[1]]
        return fields[1][: len(kept)] == kept

    def value(self, old: Entry, new: Entry) -> Iterator[str]:
        """Constants, fields and aliases."""
        if old.annotation != new.annotation:
            yield f"type was {old.annotation}, is {new.annotation}"
        if old.value == new.value:
            return
        field = old.field and old.required
        yield f"{MAY}be left out" if field and not new.required else f"was {old.value}, is {new.value}"

    def signature(self, old: Entry, new: Entry) -> Iterator[str]:
        """Functions."""
        if old.returns != new.returns:
            yield f"returned {old.returns}, returns {new.returns}"
        implemented = self.of_plugins(self.new.get(new.owner))
        for name, one in old.parameters.items():
            yield from _parameter(name, one, new.parameters.get(name), implemented=implemented)
        for name in new.parameters.keys() - old.parameters.keys():
            yield self.another(name, new, implemented=implemented)
        orders = [[n for n, p in e.parameters.items() if p.kind == "positional"] for e in (old, new)]
        if not new.hook and orders[1][: len(orders[0])] != orders[0] and set(orders[0]) <= set(orders[1]):
            yield "positional parameters do not stand where they stood"

    def another(self, name: str, new: Entry, *, implemented: bool) -> str:
        """A parameter more."""
        one = new.parameters[name]
        if new.hook:
            return f"{MAY}take {name}"
        if implemented:
            return f"plugins do not take {name}"
        return f"{MAY}be given {name}" if one.default is not None or one.kind.startswith("*") else f"asks for {name}"


def harmless(difference: str) -> bool:
    """Whether what :meth:`Comparison.differences` found breaks nobody."""
    return difference.startswith(MAY)


def _parameter(name: str, old: Parameter, new: Parameter | None, *, implemented: bool) -> Iterator[str]:
    if new is None:
        yield f"takes no {name}"
        return
    if old.kind != new.kind:
        yield f"{name} was {old.kind}, is {new.kind}"
    if old.annotation != new.annotation:
        yield f"type of {name} was {old.annotation}, is {new.annotation}"
    if old.default is None and new.default is not None and not implemented:
        yield f"{MAY}go without {name}"
    elif old.default != new.default:
        yield f"default of {name} was {old.default}, is {new.default}"


def version(text: str) -> Version:
    """``1.2.3``.

    Raises:
        ValueError: It is no release's.
    """
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"not a version of three numbers: {text!r}")
    return int(found[1]), int(found[2]), int(found[3])


def newest(folder: Path) -> tuple[Version, Path]:
    """The contract of the last release."""
    return max((version(path.stem.removeprefix("api-")), path) for path in folder.glob("api-*.txt"))


def needed(since: Version, found: Collection[Change]) -> Version:
    """The least version that may have these changes."""
    if not found:
        return since
    if since[0] and any(one.breaking for one in found):
        return (since[0] + 1, 0, 0)
    return (since[0], since[1] + 1, 0)


def untold(found: Collection[Change], changelog: Path) -> Iterator[str]:
    """Changes that no fragment of the right kind names."""
    for one in found:
        texts = [path.read_text(encoding="utf-8") for path in sorted(changelog.glob(f"*.{one.fragment}.*md"))]
        named = rf"(?<!\w){re.escape(one.name)}(?!\w)" + (f"|`pml_hookspecs[.]{one.module}`" if one.module else "")
        if not any(re.search(named, text) for text in texts):
            yield f"no changelog.d/*.{one.fragment}.md names {one.name}"


def objections(folder: Path) -> list[str]:
    """What a release of the contract in ``folder`` as it is would do wrong; none when it may be released."""
    since, baseline = newest(folder / "released")
    found = changes(baseline.read_text(encoding="utf-8"), (folder / "api.txt").read_text(encoding="utf-8"))
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = needed(since, found)
    made = list(untold(found, folder / "changelog.d"))
    if version(project["version"]) < least:
        asked = ".".join(map(str, least))
        made.insert(0, f"pyproject.toml: version is {project['version']} and has to be {asked} or higher")
    return made + [str(one) for one in found] if made else []


if __name__ == "__main__":
    SINCE, BASELINE = newest(FOLDER / "released")
    FOUND = changes(BASELINE.read_text(encoding="utf-8"), (FOLDER / "api.txt").read_text(encoding="utf-8"))
    sys.stdout.write("".join(f"{one}\n" for one in FOUND) or f"nothing changed since {'.'.join(map(str, SINCE))}\n")
