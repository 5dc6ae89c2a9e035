"""``pml import``: takes over the servers that an MCP client has configured already."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pml_clients import client_configs, client_files, secret_values, toml_edit
from pml_clients.configuration import trust
from pml_kit.terminal import printable

from .import_report import DEFAULT_TARGET, Item, Report, Variable

BAD_INPUT = 2
STANDARD_INPUT = "standard input"
BYTE_ORDER_MARK = "\ufeff"


class ImportCommandError(Exception):
    """The command cannot do what it was asked to. The message says what, where and what to do."""


def add(subcommands: Any) -> None:
    """Add ``pml import`` to an :mod:`argparse` sub-parser collection."""
    parser = subcommands.add_parser(
        "import",
        help="take over the servers of an MCP client",
        description=(
            "Read the servers that Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI or Codex has "
            "configured and add them to pml.toml. Without FILE, --from and --all, show what there is to import."
        ),
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="a client's file; - reads standard input")
    parser.add_argument("--from", dest="client", choices=client_configs.CLIENTS, help="read the files of this client")
    parser.add_argument(
        "--all", action="store_true", help="read the files of every client; of one name, the first counts"
    )
    parser.add_argument(
        "--to", metavar="FILE", type=Path, default=Path(DEFAULT_TARGET), help="write here (default: pml.toml)"
    )
    parser.add_argument(
        "--secrets",
        choices=("keep", "references"),
        default="keep",
        help="keep literal secrets, or write ${NAME} references to environment variables instead (default: keep)",
    )
    parser.add_argument("--only", nargs="+", action="extend", metavar="NAME", help="import these servers only")
    parser.add_argument("--json", action="store_true", help="print one JSON document; secrets are masked")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, write nothing")
    parser.add_argument("--force", action="store_true", help="replace servers of the same name that differ")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what ``pml import`` was asked to.

    Returns:
        0, or 2 with a message on standard error.
    """
    try:
        report = _report(arguments)
    except (ImportCommandError, client_configs.ClientConfigError, toml_edit.TomlEditError) as exc:
        shown = printable(str(exc), keep="\n")
        sys.stderr.write(f"pml import: {shown}\n")
        return BAD_INPUT
    if arguments.json:
        sys.stdout.write(json.dumps(as_json(report), indent=2) + "\n")
    else:
        from .import_view import show

        show(report)
    return 0


def as_json(report: Report) -> dict[str, Any]:
    """The document of ``--json``; holds no secrets."""
    left = [(item.server.name, item.source, item.reason) for item in report.items if item.action == "skipped"]
    left += [("", path, reason) for path, reason in report.unread]
    return {
        "servers": [
            {
                "name": item.server.name,
                "client": item.client or None,
                "from": item.source,
                "action": item.action,
                "table": secret_values.masked(item.table),
                "secrets": len(secret_values.found_in(item.table)),
                "variables": [variable.name for variable in item.variables],
                "notes": list(item.server.notes),
            }
            for item in report.items
            if item.action != "skipped"
        ],
        "skipped": [{"name": name or None, "from": source, "reason": reason} for name, source, reason in left],
        "written": str(report.target) if report.written else None,
        "notes": list(report.notes),
    }


def _report(arguments: argparse.Namespace) -> Report:
    given = [arguments.file is not None, arguments.client is not None, arguments.all]
    if not any(given) and (arguments.only or arguments.force):
        raise ImportCommandError("--only and --force need to know what to import: give FILE, --from CLIENT or --all")
    if sum(given) > 1:
        raise ImportCommandError("FILE, --from and --all exclude each other: keep one of them")
    unread: list[tuple[str, str]] = []
    if arguments.file is not None:
        items = _from_file(arguments.file, unread)
    elif arguments.client is not None:
        items = _from_client(arguments.client, unread)
    else:
        entries = _of_all(unread)
        items = _items(client_files.first_of_each(entries) if arguments.all else entries)
    if not any(given):
        return Report(items=tuple(items), unread=tuple(unread))
    items = _chosen(items, arguments.only or ())
    if arguments.secrets == "references":
        items = _with_references(items)
    return replace(_merge(items, arguments), unread=tuple(unread))


def _of_all(unread: list[tuple[str, str]]) -> list[client_files.Entry]:
    """What all clients have. What could not be read is added to ``unread``."""
    entries: list[client_files.Entry] = []
    for client in client_configs.CLIENTS:
        try:
            entries += client_files.of_client(client, Path.home(), Path.cwd(), unread)
        except client_configs.ClientConfigError as exc:
            unread.append((client, str(exc)))
    return entries


def _from_client(client: str, unread: list[tuple[str, str]]) -> list[Item]:
    """The servers of one client. What is wrong with single ones is added to ``unread``."""
    if not client_files.files(client, Path.home(), Path.cwd()):
        paths = [path for known, path in client_configs.known_files(Path.home(), Path.cwd()) if known == client]
        looked = "\n".join(f"  {path}" for path in paths)
        raise ImportCommandError(f"{client} has no file here; looked for\n{looked}\nGive the file: pml import FILE")
    return _items(client_files.of_client(client, Path.home(), Path.cwd(), unread))


def _from_file(file: str, unread: list[tuple[str, str]]) -> list[Item]:
    where = STANDARD_INPUT if file == "-" else file
    text = _decoded(sys.stdin.buffer.read(), STANDARD_INPUT) if file == "-" else client_files.text_of(Path(file))
    problems: list[str] = []
    servers = client_configs.every(text, where, project=None, problems=problems)
    if problems and not servers:
        raise client_configs.mistakes(where, problems)
    unread += [(where, problem) for problem in problems]
    return [_item(server, where) for server in client_configs.named(servers, override=False)]


def _items(entries: Iterable[client_files.Entry]) -> list[Item]:
    """What counts, and, skipped, what is hidden by a server that differs."""
    items = []
    for entry in entries:
        item = _item(entry.server, str(entry.path), entry.client)
        if entry.hidden_by is None or item.action == "skipped":
            items.append(item)
        elif entry.differs:
            reason = f"a server of this name in {entry.hidden_by} comes first"
            items.append(replace(item, action="skipped", reason=reason))
    return items


def _item(server: client_configs.ImportedServer, source: str, client: str = "") -> Item:
    item = Item(server=server, source=source, client=client, table=server.table())
    if client_configs.is_gateway(server):
        return replace(item, action="skipped", reason="is PML itself, which cannot be one of its own servers")
    return item


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ImportCommandError(f"{where}: is not UTF-8 text (byte {exc.start}). Save it as UTF-8") from None


def _chosen(items: list[Item], names: Iterable[str]) -> list[Item]:
    wanted = list(dict.fromkeys(names))
    known = [item.server.name for item in items]
    if missing := [name for name in wanted if name not in known]:
        there = ", ".join(dict.fromkeys(known)) or "none"
        raise ImportCommandError(f"--only: no server named {', '.join(missing)}; there are: {there}")
    return [item for item in items if not wanted or item.server.name in wanted]


def _with_references(items: Iterable[Item]) -> list[Item]:
    """The items with ``${NAME}`` in the place of their secrets. Equal secrets of one name share a variable."""
    values: dict[str, str] = {}
    result = []
    for item in items:
        variables: list[Variable] = []

        def reference(secret: secret_values.Secret, item: Item = item, variables: list[Variable] = variables) -> str:
            name = _variable_name(item.server.name, secret, values)
            variables.append(Variable(name=name, secret=secret))
            return f"${{{name}}}"

        table = item.table if item.action == "skipped" else secret_values.replaced(item.table, reference)
        result.append(replace(item, table=table, variables=tuple(variables)))
    return result


def _variable_name(server: str, secret: secret_values.Secret, values: dict[str, str]) -> str:
    """``SERVER_NAME``, or ``NAME`` alone when it starts with the server's; numbered when taken for another value."""
    prefix, own = (re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_") for text in (server, secret.name or "secret"))
    wanted = own if own == prefix or own.startswith(f"{prefix}_") else f"{prefix}_{own}"
    wanted = f"_{wanted}" if wanted[0].isdigit() else wanted
    name, number = wanted, 2
    while values.setdefault(name, secret.value) != secret.value:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _merge(items: list[Item], arguments: argparse.Namespace) -> Report:
    target: Path = arguments.to
    if target.suffix != ".toml":
        raise ImportCommandError(f"--to {target}: only TOML is written; give a name that ends in .toml")
    text = _target_text(target)
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    text = text.removeprefix(mark)
    if target.absolute().parent != Path.cwd():
        items = [_seen_from_here(item) for item in items]
    try:
        there = toml_edit.servers_of(text)
        items = [_decided(item, there, force=arguments.force) for item in items]
        tables = {item.server.name: item.table for item in items if item.action in ("added", "replaced")}
        merged = mark + toml_edit.with_servers(text, tables)
    except toml_edit.TomlEditError as exc:
        raise ImportCommandError(f"{target}: {exc}") from None
    literal = _literal_secrets({**there, **tables})
    why = ""
    if tables and not arguments.dry_run:
        before = target.read_bytes() if target.exists() else None
        _write(target, merged, private=bool(literal))
        why = trust.follow(target, before, merged.encode())
    return Report(
        items=tuple(items),
        target=target,
        written=bool(tables) and not arguments.dry_run,
        dry_run=arguments.dry_run,
        notes=(*_warnings(items, literal, arguments), *([why] if why else [])),
    )


def _seen_from_here(item: Item) -> Item:
    """With an ``env_file`` that means the same in a configuration that stands elsewhere."""
    path = item.table.get("env_file", "")
    if not path or path.startswith("$"):
        return item
    return replace(item, table={**item.table, "env_file": str(Path.cwd() / path)})


def _decided(item: Item, there: Mapping[str, Any], *, force: bool) -> Item:
    name = item.server.name
    if item.action == "skipped":
        return item
    if name not in there:
        return replace(item, action="added")
    if there[name] == item.table:
        return replace(item, action="unchanged")
    if force:
        return replace(item, action="replaced")
    return replace(item, action="skipped", reason="there is a different server of this name; --force replaces it")


def _literal_secrets(tables: Mapping[str, Any]) -> list[str]:
    """Names of the servers that hold secrets in clear."""
    return [name for name, table in tables.items() if isinstance(table, dict) and secret_values.found_in(table)]


def _warnings(items: Iterable[Item], literal: list[str], arguments: argparse.Namespace) -> Iterable[str]:
    names = [item.server.name for item in items if item.action != "skipped" and item.server.name in literal]
    if names:
        holds = "would hold" if arguments.dry_run else "holds"
        yield (
            f"{arguments.to} {holds} secrets in clear ({', '.join(names)}). Keep it out of version control, or import "
            "with --secrets references --force and set environment variables"
        )


def _target_text(target: Path) -> str:
    try:
        return target.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise ImportCommandError(f"{target}: cannot be read: {exc.strerror}. Give another file with --to") from None
    except UnicodeDecodeError as exc:
        raise ImportCommandError(f"{target}: is not UTF-8 text (byte {exc.start}). Save it as UTF-8") from None


def _write(target: Path, text: str, *, private: bool) -> None:
    """Replace the file in one step, so that no reader and no crash sees half of it."""
    import secrets

    try:
        real = target.resolve()
        temporary = real.with_name(f".{real.name}.{secrets.token_hex(8)}")
        try:
            _write_new(temporary, text, mode=0o600 if private else 0o666)
            if real.exists():
                mode = real.stat().st_mode & 0o777
                temporary.chmod(mode & 0o600 if private else mode)
            temporary.replace(real)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as exc:
        raise ImportCommandError(f"{target}: cannot be written: {exc.strerror}. Give another file with --to") from None


def _write_new(path: Path, text: str, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
