"""What ``${NAME}`` and ``${KIND:WHAT}`` stand for in the tables of servers and plugins."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import client_configs, secret_values
from pml_clients.client_server import is_of_kind
from pml_clients.trees import with_texts
from pml_hookspecs import TransportError
from pml_kit.system.environment import is_usual

if TYPE_CHECKING:
    from pml_mcp.server_settings import ServerSettings

FILE = re.compile(r"(?<=\$\{file:)(?!/|~|\$)(?=[^{}])")
"""Where in a text the path of a file begins that is relative."""


class Values(Mapping[str, str]):
    """By name, as references have it: ``NAME``, or ``KIND:WHAT``, which is looked for when something refers to it."""

    def __init__(self, variables: Mapping[str, str], ended: threading.Event | None = None) -> None:
        """Those of ``variables``, and of all kinds; once ``ended`` is set, nobody waits for them any more."""
        self._variables, self._ended = variables, ended or threading.Event()
        self._given: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if not is_of_kind(name):
            return self._variables[name]
        if name in self._problems:
            raise KeyError(name)
        if name not in self._given:
            from .secret_sources import SOURCES, SecretError

            kind, _, what = name.partition(":")
            try:
                self._given[name] = SOURCES[kind](what, self._ended)
            except SecretError as exc:
                self._problems[name] = str(exc)
                raise KeyError(name) from None
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    @property
    def secrets(self) -> Iterable[str]:
        """What was found, but variables."""
        return list(self._given.values())

    def why_missing(self, names: Iterable[str], who: str) -> str:
        """Why each of ``names``, which ``who`` refers to, has no value, and what to do."""
        variables = sorted({name for name in names if not is_of_kind(name)})
        said = [f"environment variable {', '.join(variables)} is not set"] if variables else []
        said += [self._problems[name] for name in sorted(set(names) - set(variables))]
        return f"{'; '.join(said)}; {who} refers to it"


def takes_time(server: ServerSettings) -> bool:
    """Whether a server's table refers to what may take its time: the keyring, a file, a command."""
    table = [server.command, server.args, server.url, server.address, server.cwd, server.env, server.headers]
    return any(map(is_of_kind, client_configs.references([*table, server.options])))


def read_file(name: str, server: ServerSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables in a server's ``env_file``; none where it has no such file.

    Raises:
        TransportError: It cannot be read.
    """
    if not server.env_file:
        return {}
    path = Path(client_configs.expand(server.env_file, environment)[0])
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise TransportError(f"[servers.{name}] env_file {path} cannot be read: {why}", retryable=False) from exc
    from io import StringIO

    from dotenv import dotenv_values

    return {key: value for key, value in dotenv_values(stream=StringIO(text), interpolate=False).items() if value}


def secrets_of(trees: Sequence[Mapping[str, Any]], servers: Mapping[str, ServerSettings]) -> Iterator[str]:
    """Values that must not be shown, but those of kinds, which are looked for when a server starts.

    Args:
        trees: All that the configuration says.
        servers: What it came to.
    """
    referred = {name for tree in trees for name in client_configs.references(tree)}
    yield from (os.environ.get(name, "") for name in sorted(referred) if not is_usual(name))
    for name, server in servers.items():
        written = {"env": server.env, "headers": server.headers, "args": list(server.args), "url": server.url}
        for secret in secret_values.found_in(written):
            yield secret.value
        try:
            of_file = read_file(name, server, os.environ)
        except TransportError:  # it is told when the server starts
            of_file = {}
        yield from secrets_in(of_file)
        for key, value in {**server.env, **server.headers, **dict(_texts(server.options))}.items():
            text, missing = client_configs.expand(value, {**os.environ, **of_file})
            if secret_values.SECRET_NAME.search(key) and not missing:
                yield text
                yield text.rpartition(" ")[2]  # "Bearer abc": the token alone is as secret


def _texts(options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Every text in a table of options, with the key it stands under."""
    for key, value in options.items():
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, Mapping):
            yield from _texts(value)


def secrets_in(variables: Mapping[str, str]) -> Iterator[str]:
    """The values of an ``env_file``, but those of variables that every program is given anyway."""
    yield from (value for name, value in variables.items() if not is_usual(name))


def anchored(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """``tree`` with paths seen from ``folder``: every ``env_file`` of a server, and each ``${file:…}`` of any table."""
    made: dict[str, Any] = with_texts(tree, lambda text: FILE.sub(lambda _: f"{folder}/", text))
    servers = made.get("servers")
    if not isinstance(servers, Mapping):
        return made
    return {**made, "servers": {name: _anchored(table, folder) for name, table in servers.items()}}


def _anchored(table: Any, folder: Path) -> Any:
    path = table.get("env_file") if isinstance(table, Mapping) else None
    if not isinstance(path, str) or not path or path.startswith("$"):
        return table
    return {**table, "env_file": os.path.normpath(folder / Path(path).expanduser())}
