"""Which of a client's servers PML has taken over, and which it has not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pml_clients import client_configs, client_files, secret_values
from pml_clients.configuration.view import Configuration
from pml_clients.trees import KeyPath

from .connect_places import CLIENTS, IMPORTED_AS

_IDENTITY: Mapping[str, Any] = {"command": "", "args": [], "url": "", "env": {}, "headers": {}, "cwd": None}
"""What makes two servers the same, with what it is where nothing is said; the rest is how PML treats it."""
_MARK = "\0"
_REFERENCE = r"\$\{[^{}]+\}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The servers of one client."""

    moves: Mapping[Path, tuple[KeyPath, ...]] = field(default_factory=dict)
    """Where in which file they stand that PML has too, or that would come forth when these go."""
    notes: tuple[str, ...] = ()
    """One sentence each about what stays."""


def by_pml(
    client: str, config: Configuration, *, only: Path | None, folders: bool, texts: Mapping[Path, str]
) -> Takeover:  # fmt: skip
    """What ``config`` has of a client's servers.

    Args:
        client: As ``pml connect`` calls it.
        config: The configuration that PML is started with.
        only: Look at this file alone, not at all that the client reads here.
        folders: Move what stands in the files of this folder alone, not in the user's.
        texts: Take this for what stands in a file.

    Raises:
        pml_clients.client_configs.ClientConfigError: The client's files cannot be read.
    """
    if only is not None and not only.is_file():
        return Takeover()
    imported = IMPORTED_AS.get(client, client)
    unread: list[tuple[str, str]] = []
    entries = client_files.of_client(imported, Path.home(), Path.cwd(), unread, only=only, texts=texts)
    sources = {Path(source.label).resolve() for source in config.sources}
    entries = [entry for entry in entries if not client_configs.is_gateway(entry.server) and not entry.is_refused]
    here = [entry for entry in entries if entry.is_brought or not folders]
    counting = [entry for entry in entries if entry.hidden_by is None]
    names = {entry.server.keys[-1] for entry in counting if _has(config, entry) and not _is_off(config, entry)}
    moves: dict[Path, tuple[KeyPath, ...]] = {}
    for entry in here:
        if entry.server.keys[-1] in names and entry.path.resolve() not in sources:
            moves[entry.path] = (*moves.get(entry.path, ()), entry.server.keys)
    left = [e for e in counting if e.server.enabled and e.server.keys not in moves.get(e.path, ())]
    notes = [*_left(client, config, left, sources), *(f"{path}: {problem}; it stays." for path, problem in unread)]
    return Takeover(moves=moves, notes=tuple(notes))


def _left(
    client: str, config: Configuration, left: Sequence[client_files.Entry], sources: set[Path]
) -> Iterator[str]:  # fmt: skip
    who, imported = CLIENTS[client], IMPORTED_AS.get(client, client)
    read = [entry.server.name for entry in left if entry.path.resolve() in sources]
    if read:
        yield f"{who} still starts {', '.join(read)} itself: PML reads that file, so they stay in it."
    rest = [entry for entry in left if entry.path.resolve() not in sources]
    other = [e.server.name for e in rest if e.server.name in config.servers and not _has(config, e)]
    if other:
        yield (
            f"{who} still starts {', '.join(other)} itself: PML has another server of this name; "
            f"pml import --from {imported} --force takes the client's over."
        )
    new = [e.server.name for e in rest if e.server.name not in config.servers]
    if new:
        yield (
            f"{who} still starts {', '.join(new)} itself; pml import --from {imported} takes them over, "
            f"then pml connect {client} moves them."
        )
    off = [e.server.name for e in rest if _has(config, e) and _is_off(config, e)]
    if off:
        yield f"{who} still starts {', '.join(off)} itself: PML has it with enabled = false."
    here = [e.server.name for e in rest if _has(config, e) and not _is_off(config, e)]
    if here:
        yield f"{who} still starts {', '.join(here)} itself, in every folder; without --project they are moved."


def _has(config: Configuration, entry: client_files.Entry) -> bool:
    """Whether PML has the very server; a secret may be a reference there."""
    there = config.servers.get(entry.server.name)
    if there is None:
        return False
    written = {**_IDENTITY, **{key: value for key, value in entry.server.table().items() if key in _IDENTITY}}
    template = secret_values.replaced(written, lambda _: _MARK)
    return all(_fits(written[key], template[key], there[key]) for key in _IDENTITY)


def _is_off(config: Configuration, entry: client_files.Entry) -> bool:
    """Whether the client starts a server that PML would not."""
    return entry.server.enabled and not config.servers[entry.server.name]["enabled"]


def _fits(written: Any, template: Any, value: Any) -> bool:
    if isinstance(template, str) and isinstance(value, str):
        pattern = _REFERENCE.join(re.escape(part) for part in template.split(_MARK))
        return written == value or (_MARK in template and re.fullmatch(pattern, value) is not None)
    if isinstance(template, Mapping) and isinstance(value, Mapping):
        return set(template) == set(value) and all(_fits(written[k], template[k], value[k]) for k in template)
    if isinstance(template, list | tuple) and isinstance(value, list | tuple):
        return len(template) == len(value) and all(map(_fits, written, template, value))
    return bool(written == value)
