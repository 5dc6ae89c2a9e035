"""``reference/clients.md``: for each client, its files, what PML writes into them, how to check and how to undo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pml_clients.client_configs import known_files
from pml_setup.clients.client_text import by_hand
from pml_setup.clients.connect import NAME
from pml_setup.clients.connect_places import CLIENTS, IMPORTED_AS, USERS_ONLY, Place, place

HOME, PROJECT = Path("~"), Path("project")
COMMAND = "/home/ada/.local/bin/pml"
URL = "http://127.0.0.1:8808/mcp"
URL_IMPOSSIBLE = ("claude-desktop",)
CHECKS = {
    "claude-code": "`claude mcp list` in a terminal, or `/mcp` in a session.",
    "claude-desktop": "Quit it altogether and start it again; *Settings*, *Developer* lists its servers.",
    "cursor": "*Settings*, the page about MCP: `pml` is there with its tools.",
    "vscode": "*MCP: List Servers* in the command palette.",
    "windsurf": "The list of MCP servers in Cascade's settings; refresh it.",
    "gemini": "`/mcp` in a session.",
    "codex": "`/mcp` in a session, or `codex mcp list` in a terminal.",
}
"""Where each client shows its servers; menus of others change, so a page says no more of them."""
INTRODUCTION = f"""\
# Clients

What stands where, client by client: the files that `pml import` reads, what `pml connect` writes, how to see that it
works, and how to undo it. `~` is your home folder; paths below `project` belong to the folder that you work in.

For all of them:

```console
$ pml import                           # shows which client has which servers, and takes over nothing
$ pml import --from CLIENT             # takes them over
$ pml connect CLIENT --dry-run         # shows what it would write
$ pml connect CLIENT                   # shows it, asks, and writes
$ pml disconnect CLIENT                # puts everything back
```

`pml connect` names PML by its full path, because clients search in other folders than your shell, and with `--config`
when a folder's own configuration is in force. Here, PML is `{COMMAND}`; `command -v pml` says where yours is.
Whatever else stands in a file stays, comments included, and a copy of the file as it was lies beside it.

After a change, start the client anew. Its agent then has the tools that the [mode](../guides/modes.md) lists: three of
them by default. If it does not, see [troubleshooting](../troubleshooting.md).
"""


def clients() -> str:
    """The page."""
    before = os.environ.pop("CODEX_HOME", None)
    try:
        return "\n".join([INTRODUCTION, *(line for client in CLIENTS for line in _client(client))])
    finally:
        if before is not None:
            os.environ["CODEX_HOME"] = before


def _client(client: str) -> Iterator[str]:
    imported = IMPORTED_AS.get(client, client)
    users = _place(client, of_project=False)
    yield from (f"## {CLIENTS[client]}", "", "| to | do |", "|---|---|")
    yield f"| take over its servers | `pml import --from {imported}` |"
    yield f"| connect it | `pml connect {client}` |"
    if client not in USERS_ONLY:
        yield f"| connect it in one project | `pml connect {client} --project` |"
    yield f"| see that it works | {CHECKS[client]} |"
    yield f"| undo | `pml disconnect {client}` |"
    files = ", ".join(f"`{path.as_posix()}`" for name, path in known_files(HOME, PROJECT) if name == imported)
    yield from (
        f"| know the files that are read | {files} |",
        "",
        f"Written into your own file ({_written(client)}):",
        "",
    )
    yield from _block(users, users.entry([COMMAND, "serve"], ""))
    if client in URL_IMPOSSIBLE:
        yield from (f"{CLIENTS[client]}'s file has programs only: it cannot be connected to a gateway that runs.", "")
        return
    yield from (f"For a gateway that runs already (`pml connect {client} --url {URL}`):", "")
    yield from _block(users, users.entry([], URL))


def _place(client: str, *, of_project: bool) -> Place:
    return place(client, HOME, PROJECT, of_project=of_project)


def _written(client: str) -> str:
    files = [
        path.as_posix()
        for name, path in known_files(HOME, Path("nowhere"))
        if name == IMPORTED_AS.get(client, client)
        and path.is_relative_to(HOME)
        and (client, path.name) != ("vscode", "settings.json")
    ]
    first = "" if len(files) == 1 else ", the first of these that is there"
    return ", ".join(f"`{file}`" for file in files) + first


def _block(where: Place, entry: dict[str, object]) -> Iterator[str]:
    yield from (f"```{where.format}", by_hand(where, NAME, entry).strip(), "```", "")
