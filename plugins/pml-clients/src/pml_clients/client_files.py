"""What one MCP client has in all of its files together: which servers it starts, and which it does not.

Servers of a folder's files are strangers' until their user has agreed to them in the client: until then they take no
other server's place, and where the client writes such agreements down, they are not started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import claude_settings
from .client_configs import ClientConfigError, NoServersError, every, known_files, mistakes, named, parsed
from .client_server import ImportedServer
from .codex_config import trusts

_NOWHERE = Path("nowhere")
_KEEP_AGREEMENTS = ("claude-code", "codex")
"""Clients that write down where others can read it what their users agreed to."""
_STRANGERS = 3
"""Rank of a server that a folder brings and that nobody is known to have agreed to."""
NOT_TRUSTED = "is disabled, because Codex does not trust this folder; enabled = true starts it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One server in one of a client's files."""

    client: str
    path: Path
    server: ImportedServer
    """Under the name that PML has for it."""
    hidden_by: Path | None = None
    """The file of the server of the same name that counts instead; None: this one counts."""
    differs: bool = False
    """From what hides it."""
    is_brought: bool = False
    """It stands in a file of the folder's."""
    is_refused: bool = False
    """The client does not start it, because its user has not agreed to it or has said no."""


def of_client(
    client: str,
    home: Path,
    project: Path,
    problems: list[tuple[str, str]],
    *,
    only: Path | None = None,
    texts: Mapping[Path, str] | None = None,
) -> list[Entry]:
    """Every server that a client has for ``project``, in the order of its files, the project's first.

    Args:
        client: One of :data:`.client_configs.CLIENTS`.
        home: The user's folder.
        project: The folder that the client is used in.
        problems: What is wrong with single servers, which are left out, is added here, each with its file.
        only: Read this file alone, as the client would.
        texts: Take this for what stands in a file.

    Raises:
        ClientConfigError: A file cannot be read, or none holds a sound server and something is wrong in one.
    """
    entries: list[Entry] = []
    brought, known = _brought(home, project), texts or {}
    wrong: dict[Path, list[str]] = {}
    judge = _judge(client, home, project)
    for path in files(client, home, project) if only is None else [only]:
        try:
            text = known[path] if path in known else text_of(path)
            servers = every(text, str(path), project=project, problems=wrong.setdefault(path, []))
        except NoServersError:
            continue
        found = [Entry(client=client, path=path, server=server, is_brought=path in brought) for server in servers]
        entries += map(judge, found)
    if not entries:
        for path in (path for path, said in wrong.items() if said):
            raise mistakes(str(path), wrong[path])
    problems += [(str(path), problem) for path, said in wrong.items() for problem in said]
    return _named(_without_hidden(entries))


def files(client: str, home: Path, project: Path) -> list[Path]:
    """The files of a client that there are."""
    known = (path for name, path in known_files(home, project) if name == client)
    return [path for path in known if os.path.isfile(path)]  # noqa: PTH113 - Path.is_file raises where nobody may enter


def text_of(path: Path) -> str:
    """What stands in a client's file.

    Raises:
        ClientConfigError: It cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as exc:
        raise ClientConfigError(
            f"{path}: cannot be read: {exc.strerror}. Give a file that exists and can be read"
        ) from None
    except UnicodeDecodeError as exc:
        raise ClientConfigError(f"{path}: is not UTF-8 text (byte {exc.start}). Save it as UTF-8") from None


def _brought(home: Path, project: Path) -> frozenset[Path]:
    """The files that come with a folder; not those of the user's own, where the folder is theirs."""
    theirs, own = known_files(_NOWHERE, project), known_files(home, _NOWHERE)
    return frozenset(path for _, path in theirs) - {path for _, path in own}


def _judge(client: str, home: Path, project: Path) -> Callable[[Entry], Entry]:
    """Says of an entry what its user has decided about it in the client."""
    if client == "claude-code":
        decisions = claude_settings.read(home, project, _tree)
        return lambda entry: _claude(entry, decisions)
    if client == "codex":
        users = set(files(client, home, project)) - _brought(home, project)
        trusted = any(trusts(_tree(path), project) for path in users)
        return lambda entry: entry if trusted or not entry.is_brought else _off(entry, NOT_TRUSTED)
    return lambda entry: entry


def _claude(entry: Entry, decisions: claude_settings.Decisions) -> Entry:
    name = entry.server.keys[-1]
    if why := decisions.denied(name, entry.server):
        return _off(entry, why)
    if entry.is_brought and (why := decisions.not_approved(name)):
        return _off(entry, why)
    denied = (*entry.server.tools.get("deny", ()), *decisions.denied_tools(name))
    tools = {**entry.server.tools, "deny": denied} if denied else entry.server.tools
    return replace(entry, server=replace(entry.server, tools=tools))


def _off(entry: Entry, why: str) -> Entry:
    notes = (*entry.server.notes, why) if entry.server.enabled else entry.server.notes
    server = replace(entry.server, enabled=False, notes=notes)
    return replace(entry, server=server, is_refused=True)


def _rank(entry: Entry) -> int:
    """What counts first has the lowest: what is the user's in this folder, what they agreed to, theirs, strangers'."""
    if entry.server.keys[0] == "projects":
        return 0
    if not entry.is_brought:
        return 2
    return 1 if entry.client in _KEEP_AGREEMENTS and not entry.is_refused else _STRANGERS


def _without_hidden(entries: Sequence[Entry]) -> list[Entry]:
    """The entries; of each name all but the first by rank say what hides them."""
    first: dict[str, Entry] = {}
    for entry in sorted(entries, key=_rank):
        first.setdefault(entry.server.name, entry)
    return [_hidden(entry, first[entry.server.name]) for entry in entries]


def _hidden(entry: Entry, first: Entry) -> Entry:
    if first is entry:
        return entry
    return replace(entry, hidden_by=first.path, differs=entry.server.table() != first.server.table())


def _named(entries: Sequence[Entry]) -> list[Entry]:
    """The entries under names that PML can use; those that are hidden have the name of what hides them."""
    counting = [entry.server for entry in entries if entry.hidden_by is None]
    usable = {server.keys[-1]: server for server in named(counting, override=False)}
    return [
        replace(entry, server=usable[entry.server.keys[-1]])
        if entry.hidden_by is None
        else replace(entry, server=replace(entry.server, name=usable[entry.server.keys[-1]].name))
        for entry in entries
    ]


def _tree(path: Path) -> Mapping[str, Any]:
    """What stands in a file of settings; nothing where there is none.

    Raises:
        ClientConfigError: It cannot be read, so that what its user decided is not known.
    """
    if not path.exists():
        return {}
    tree = parsed(text_of(path), str(path)) if path.stat().st_size else {}
    return tree if isinstance(tree, Mapping) else {}


def first_of_each(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of several clients; of servers of one name that differ, all but the first say what hides them.

    Strangers' come last, and are not started: nobody has named the client that would ask about them.
    """
    found = [_unasked(entry) if entry.hidden_by is None and _rank(entry) == _STRANGERS else entry for entry in entries]
    kept: dict[str, Entry] = {}
    for entry in sorted(found, key=lambda entry: _rank(entry) == _STRANGERS):
        if entry.hidden_by is None:
            kept.setdefault(entry.server.name, entry)
    return [entry if entry.hidden_by is not None else _hidden(entry, kept[entry.server.name]) for entry in found]


def _unasked(entry: Entry) -> Entry:
    return _off(entry, "is disabled, because this folder brings it; enabled = true starts it")
