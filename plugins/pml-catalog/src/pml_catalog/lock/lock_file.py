"""``pml.lock``: what people took of servers' tools, as text that people read and compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pml_catalog.definitions import JUDGED

from .judgement import folded
from .replacement import replacement

NAME = "pml.lock"
FORMAT = 1
MOST_BYTES = 64 << 20
"""Of a file; more is not read."""


class LockError(Exception):
    """The file cannot be used, or not be changed now; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ServerLock:
    """What was taken of one server."""

    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The judged members of each tool's definition, with its name; by that."""
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class LockFile:
    """What stands in one file."""

    path: Path
    servers: Mapping[str, ServerLock] = field(default_factory=dict)
    text: str = ""
    """As read; empty where there was none."""

    @classmethod
    def read(cls, path: Path) -> LockFile:
        """What stands there; nothing where there is no file.

        Raises:
            LockError: It is damaged, or of a newer version.
        """
        try:
            if path.stat().st_size > MOST_BYTES:
                raise LockError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; take it from version control again")
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return cls(path)
        except (OSError, UnicodeDecodeError) as exc:
            raise LockError(f"{path}: cannot be read: {exc}") from exc
        return cls(path, _servers(text, path), text)

    def with_server(self, name: str, server: ServerLock | None) -> LockFile:
        """With this taken of a server; None forgets it. Nothing is written."""
        servers = {**self.servers} | ({} if server is None else {name: server})
        if server is None:
            servers.pop(name, None)
        return replace(self, servers=servers)

    def write(self) -> LockFile:
        """Replace the file in one step, where it is as it was read.

        Raises:
            LockError: Somebody has changed it since, or it cannot be written.
        """
        return self if text_of(self.servers) == self.text else self.changed(self.path, self._on)

    @classmethod
    def changed(cls, path: Path, change: Callable[[LockFile], LockFile]) -> LockFile:
        """What ``change`` makes of the file, which nobody else writes meanwhile.

        Raises:
            LockError: It is damaged, cannot be written, or ``change`` says so.
        """
        try:
            with replacement(path) as write:
                now = cls.read(path)
                then = change(now)
                text = text_of(then.servers)
                if text != now.text:
                    write(text.encode())
        except TimeoutError:
            raise LockError(f"{path}: somebody else has been writing it for seconds; look again") from None
        except OSError as exc:
            raise LockError(f"{path}: cannot be written: {exc.strerror}") from exc
        return replace(then, text=text)

    def _on(self, now: LockFile) -> LockFile:
        if now.text != self.text:
            raise LockError(f"{self.path}: has changed meanwhile; look again")
        return self


class Locks:
    """The files of all servers: what counts of one stands beside the file that configures it."""

    def __init__(self, paths: Mapping[str, Path], before: Locks | None = None) -> None:
        """Read them. Of one that cannot be read, what was read ``before`` counts.

        Args:
            paths: Where the file of each server is, or would be.
            before: As they were.
        """
        self._paths = paths
        self.files: dict[Path, LockFile] = {}
        self.problems: dict[Path, str] = {}
        """Why a file cannot be read."""
        for path in dict.fromkeys(paths.values()):
            try:
                self.files[path] = LockFile.read(path)
            except LockError as exc:
                self.problems[path] = str(exc)
                if before is not None and path in before.files:
                    self.files[path] = before.files[path]
        self._names: dict[str, list[tuple[str, str]]] | None = None

    def file_of(self, server: str) -> LockFile | None:
        """What can be read of a server's file; None where it has none, or it cannot be read."""
        return self.files.get(self._paths[server]) if server in self._paths else None

    def problem_of(self, server: str) -> str:
        """Why nobody knows what was taken of a server; empty where that is known, or nothing was."""
        path = self._paths.get(server)
        return "" if path is None or path in self.files else self.problems[path]

    def exist_for(self, server: str) -> bool:
        """Whether there is a file for a server, whatever stands in it."""
        file = self.file_of(server)
        return bool(self.problem_of(server)) or (file is not None and bool(file.text))

    def locked(self, server: str) -> ServerLock | None:
        """What was taken of a server; None for nothing."""
        file = self.file_of(server)
        return None if file is None else file.servers.get(server)

    def shadowed(self, server: str, tool: str) -> str:
        """The tool of another server that a tool of ``server`` has the name of, or looks as if; empty for none."""
        if self._names is None:
            self._names = {}
            every = [pair for file in self.files.values() for pair in file.servers.items()]
            for owner, locked in every:
                for name in locked.tools:
                    for key in {folded(name), folded(f"{owner}{name}")}:
                        self._names.setdefault(key, []).append((owner, name))
        found = (f"{owner}:{name}" for owner, name in self._names.get(folded(tool), ()) if owner != server)
        return next(found, "")


def judged(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Of a definition, what is kept of it."""
    return {"name": definition["name"]} | {member: definition[member] for member in JUDGED if member in definition}


def digest_of(definition: Mapping[str, Any]) -> str:
    """Of what is kept: the same for the same JSON, whatever its order."""
    text = json.dumps(judged(definition), sort_keys=True, separators=(",", ":"), default=dict)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def text_of(servers: Mapping[str, ServerLock]) -> str:
    """The file: members sorted, texts by line, nothing in it that an editor does not show."""
    shown = {
        name: {
            "instructions": servers[name].instructions.split("\n") if servers[name].instructions else [],
            "tools": {tool: _shown(servers[name].tools[tool]) for tool in sorted(servers[name].tools)},
        }
        for name in sorted(servers)
    }
    text = json.dumps({"pml_lock": FORMAT, "servers": shown}, indent=1, ensure_ascii=False)
    if not text.isascii():
        text = "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return f"{text}\n"


def _shown(definition: Mapping[str, Any]) -> dict[str, Any]:
    kept = json.loads(json.dumps(judged(definition), sort_keys=True, default=dict))
    del kept["name"]
    if isinstance(kept.get("description"), str):
        kept["description"] = kept["description"].split("\n")
    return {"digest": digest_of(definition), **kept}


def _servers(text: str, path: Path) -> dict[str, ServerLock]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise LockError(f"{path}: is damaged: {exc}; take it from version control again, or write it anew") from exc
    version = document.get("pml_lock") if isinstance(document, dict) else None
    if type(version) is not int or version > FORMAT or version < 1 or not isinstance(document.get("servers"), dict):
        raise LockError(
            f'{path}: is no lock that this PML reads: it does not say {{"pml_lock": {FORMAT}, "servers": …}}'
        )
    return {name: _server(f"{path}: {name}", value) for name, value in document["servers"].items()}


def _server(where: str, value: Any) -> ServerLock:
    if not isinstance(value, dict) or not isinstance(value.get("tools"), dict):
        raise LockError(f"{where}: is damaged: a server has an object of tools")
    tools = {name: _tool(f"{where}:{name}", name, one) for name, one in value["tools"].items()}
    return ServerLock(tools, _joined(value.get("instructions", []), where))


def _tool(where: str, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LockError(f"{where}: is damaged: a tool is an object")
    definition = {"name": name, **value}
    digest = definition.pop("digest", None)
    if isinstance(definition.get("description"), list):
        definition["description"] = _joined(definition["description"], where)
    if digest != digest_of(definition):
        raise LockError(
            f"{where}: its digest is not that of its text, so that somebody has changed one by hand or in a merge; "
            "take that from version control again, or remove the tool and run pml lock"
        )
    return definition


def _joined(lines: Any, where: str) -> str:
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise LockError(f"{where}: is damaged: texts are lists of lines")
    return "\n".join(lines)
