"""What ``${NAME}`` stands for in a server's table: its ``env_file``, the environment, the system's keyring."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import client_configs, secret_values
from pml_clients.client_server import KEYRING
from pml_hookspecs import TransportError
from pml_kit.system.environment import is_usual

if TYPE_CHECKING:
    from pml_mcp.server_settings import ServerSettings

SERVICE = "pml"
"""Where the keyring has what is referred to without a service."""


class Values(Mapping[str, str]):
    """By name, as references have it: ``NAME``, or ``keyring:NAME``. The keyring is asked when something is."""

    def __init__(self, name: str, server: ServerSettings, environment: Mapping[str, str]) -> None:
        """Those of ``[servers.<name>]``.

        Raises:
            TransportError: Its ``env_file`` cannot be read.
        """
        self._environment = environment
        self.of_file = read_file(name, server, environment)
        """What ``env_file`` says."""
        self._given: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if not name.startswith(KEYRING):
            return self.of_file[name] if name in self.of_file else self._environment[name]
        if name not in self._given:
            value, problem = _of_keyring(name.removeprefix(KEYRING))
            if value is None:
                self._problems[name] = problem
                raise KeyError(name)
            self._given[name] = value
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._environment, **self.of_file})

    def __len__(self) -> int:
        return len({**self._environment, **self.of_file})

    @property
    def secrets(self) -> Iterable[str]:
        """What of them must not be shown and is not in the environment."""
        return [*secrets_in(self.of_file), *self._given.values()]

    def why_missing(self, names: Iterable[str], who: str) -> str:
        """Why each of ``names``, which ``who`` refers to, has no value, and what to do."""
        return unset(names, who, self._problems)


def unset(names: Iterable[str], who: str, problems: Mapping[str, str] = {}) -> str:
    """Why each of ``names``, which ``who`` refers to, has no value; ``problems`` are those of the keyring."""
    variables = sorted({name for name in names if not name.startswith(KEYRING)})
    said = [f"environment variable {', '.join(variables)} is not set"] if variables else []
    said += [problems.get(name, f"{name} is only for servers") for name in sorted(set(names) - set(variables))]
    return f"{'; '.join(said)}; {who} refers to it"


def asks_keyring(server: ServerSettings) -> bool:
    """Whether a server's table refers to the keyring, which may take its time."""
    table = [server.command, server.args, server.url, server.address, server.cwd, server.env, server.headers]
    return any(name.startswith(KEYRING) for name in client_configs.references([*table, server.options]))


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
    """Values that must not be shown, but those of the keyring, which is asked when a server starts.

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
            text = client_configs.expand(value, {**os.environ, **of_file})[0]
            if secret_values.SECRET_NAME.search(key):
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
    """``tree`` with every ``env_file`` of a server as the path that it has seen from ``folder``."""
    servers = tree.get("servers")
    if not isinstance(servers, Mapping):
        return dict(tree)
    return {**tree, "servers": {name: _anchored(table, folder) for name, table in servers.items()}}


def _anchored(table: Any, folder: Path) -> Any:
    path = table.get("env_file") if isinstance(table, Mapping) else None
    if not isinstance(path, str) or not path or path.startswith("$"):
        return table
    return {**table, "env_file": os.path.normpath(folder / Path(path).expanduser())}


def _of_keyring(name: str) -> tuple[str | None, str]:
    """What the keyring has under ``SERVICE/NAME``, or under a name of PML's own; else None and why."""
    service, slash, user = name.rpartition("/")
    service = service if slash else SERVICE
    try:
        keyring: Any = import_module("keyring")
        errors: Any = import_module("keyring.errors")
    except ImportError:
        return None, f"the keyring is asked for {name!r} and not installed; install pml-gateway[keyring]"
    try:
        value: str | None = keyring.get_password(service, user)
    except errors.KeyringError as exc:
        return None, f"the keyring cannot be asked for {name!r}: {exc}"
    return value, "" if value is not None else f"the keyring has no {name!r}; keyring set {service} {user}"
