"""``[servers.x] sandbox``: what a server may have, where everything else is refused by the kernel."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError

from . import programs
from .reach import Place

if TYPE_CHECKING:
    from pml_hookspecs import Json
    from pml_kit.jail import Wall
    from pml_kit.jail.container import Container

KEYS = ("profile", "read", "write", "network", "memory_bytes", "processes", "required")
PROCESSES = 512
OPEN_FILES = 4096
TEMPORARY = "/tmp"  # noqa: S108 - an empty one of the server's own
_OUTSIDE = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "TMPDIR", "TEMP", "TMP")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What is granted beyond what the program is made of (:mod:`pml_transport_stdio.programs`)."""

    profile: str = ""
    """A name of :func:`profiles`; ``""`` for none."""
    read: tuple[str, ...] = ()
    """Files and folders; programs in them can run."""
    write: tuple[str, ...] = ()
    """The same, to be changed as well; nothing in them runs."""
    network: bool | tuple[Place, ...] = False
    """False: none. True: that of the machine. Places: a network of its own, in which there are only these."""
    memory_bytes: int | None = None
    """Memory of its own that each process may have [bytes]."""
    processes: int = PROCESSES
    """Processes and threads at a time."""
    required: bool = True
    """False: the server also starts where the machine lacks a wall, with those that there are."""

    def places(self) -> tuple[Place, ...]:
        """The only ones that it reaches, in a network of its own; none where it has no such network."""
        return () if isinstance(self.network, bool) else self.network


@cache
def profiles() -> Mapping[str, Mapping[str, Any]]:
    """What common servers need, by name: ``about``, and the keys of the table with placeholders."""
    return tomllib.loads(Path(__file__).with_name("profiles.toml").read_text(encoding="utf-8"))


def parse(value: Json, where: str, argv: Sequence[str], environment: Mapping[str, str]) -> Sandbox | None:
    """Read the option; None when there is to be no sandbox.

    Args:
        value: ``true``, ``false``, the name of a profile, or a table.
        where: The server's section, for messages.
        argv: The server's command line, whose arguments profiles refer to.
        environment: What its table adds to its environment.

    Raises:
        ValueError: It is not understood; the message says what to change.
    """
    if value is None or isinstance(value, bool):
        return Sandbox() if value else None
    table = {"profile": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} sandbox must be true, the name of a profile or a table, not {value!r}")  # noqa: TRY004
    for key in table:
        if key not in KEYS:
            raise ValueError(f"{where} sandbox has no {key!r}; it knows: {', '.join(KEYS)}")
    name = table.get("profile", "")
    if name and name not in profiles():
        raise ValueError(f"{where} sandbox: there is no profile {name!r}; there are: {', '.join(profiles())}")
    profile = profiles().get(str(name), {})
    filled = {key: _filled(profile.get(key, ()), argv, environment) for key in ("read", "write")}
    network = table.get("network", profile.get("network", False))
    try:
        if not isinstance(network, bool):
            network = _places(network)
        return Sandbox(
            profile=str(name),
            read=(*filled["read"], *_given(table, "read")),
            write=(*filled["write"], *_given(table, "write")),
            network=network,
            memory_bytes=_number(table, "memory_bytes", None, 1 << 20),
            processes=_number(table, "processes", PROCESSES, 1) or PROCESSES,
            required=_flag(table, "required"),
        )
    except ValueError as error:
        raise ValueError(f"{where} sandbox: {error}") from None


def _places(value: Json) -> tuple[Place, ...]:
    from pml_kit.jail.network import MOST_PORTS

    places = tuple(Place.of(one) for one in _texts(value, "network"))
    if (count := len({place.port for place in places})) > MOST_PORTS:
        raise ValueError(f"network names {count} ports; at most {MOST_PORTS}")
    return places


def _texts(value: Json, key: str) -> Sequence[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) and one for one in value):
        raise ValueError(f"{key} must be a list of texts, not {value!r}")
    return value


def _given(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    paths = _texts(table.get(key, ()), key)
    for path in paths:
        if programs.is_private(Path(path).expanduser().resolve()):
            raise ValueError(f"{key} names {path}, which holds the home folder or PML's own; name folders inside it")
    return tuple(paths)


def _number(table: Mapping[str, Any], key: str, usual: int | None, least: int) -> int | None:
    value = table.get(key, usual)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ValueError(f"{key} must be a number from {least:,} on, not {value!r}")
    return value


def _flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, True)
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, not {value!r}")  # noqa: TRY004
    return value


def _filled(patterns: Sequence[str], argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Paths of a profile; of those with placeholders, those that are there and do not hold too much."""
    found = []
    for pattern in patterns:
        place = _PLACEHOLDER.search(pattern)
        for value in _values(place[1], argv, environment) if place else ("",):
            filled = Path(pattern.replace(place[0], value) if place else pattern).expanduser()
            path = Path(os.path.normpath(filled))
            if path.is_absolute() and path.exists() and not programs.is_private(path.resolve()):
                found.append(str(path))
    return found


def _values(name: str, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    if name == "*":
        return [one for one in argv[1:] if not one.startswith("-")]
    if not name.startswith("-"):
        return [environment[name]] if environment.get(name) else []
    joined = [one.removeprefix(f"{name}=") for one in argv if one.startswith(f"{name}=")]
    return [value for option, value in pairwise(argv) if option == name] + joined


def _lacking() -> list[Wall]:
    """Walls that this machine cannot build. Starts a process, once, to try."""
    from pml_kit.jail import walls

    return [wall for wall in walls() if not wall.stands]


def checked(server: str, sandbox: Sandbox) -> Sequence[Wall]:
    """Walls that this machine lacks, of one that a server can start on.

    Raises:
        TransportError: One is missing that is required, or all of them are.
    """
    from pml_kit.jail import Jail

    lacking = _lacking()
    if not lacking or (not sandbox.required and Jail().stands()):
        return lacking
    weaker = "required = false in its table, to start it with the walls that there are, or " if Jail().stands() else ""
    why = "; ".join(dict.fromkeys(wall.detail for wall in lacking))
    raise TransportError(
        f"server {server!r} does not start without its sandbox, which this machine cannot build: {why}. Run it in a "
        f"container, or write {weaker}sandbox = false, in [servers.{server}]",
        retryable=False,
    )


def isolation(server: str, sandbox: Sandbox | None) -> str:
    """What keeps a server from the rest of the machine, in one line.

    Raises:
        TransportError: As :func:`checked`.
    """
    if sandbox is None:
        return "no sandbox: it may do what this account may"
    lacking = checked(server, sandbox)
    profile = f" {sandbox.profile}" if sandbox.profile else ""
    places = ", ".join(f"{place.host}:{place.port}" for place in sandbox.places())
    open_network = sandbox.network is True or (places and not _has_namespaces(lacking))
    network = "the machine's network" if open_network else places or "no network"
    weak = "; ".join(dict.fromkeys(wall.detail for wall in lacking))
    walls = f"weakened, as required = false allows: {weak}" if weak else "namespaces, Landlock, seccomp"
    return f"sandbox{profile} ({walls}); {network}"


def _has_namespaces(lacking: Sequence[Wall]) -> bool:
    return not any(wall.name == "names" for wall in lacking)


def contained(
    server: str, sandbox: Sandbox, argv: Sequence[str], folder: str | None, environment: Mapping[str, str]
) -> tuple[Container, tuple[str, ...]]:
    """What is put around a server, and its command line by absolute path. Looks at files.

    Args:
        server: Its name.
        sandbox: What it may have.
        argv: Its command line.
        folder: That it is started in; None for the gateway's own.
        environment: That it is started with.

    Raises:
        TransportError: The machine lacks a wall that is required, or what is granted is not there.
        FileNotFoundError: There is no such program.
    """
    from pml_kit.jail import Jail
    from pml_kit.jail.container import Container

    where, namespaces = f"[servers.{server}] sandbox", _has_namespaces(checked(server, sandbox))
    program = programs.found(argv[0], folder, environment)
    if not Path(program).exists():
        raise FileNotFoundError(program)
    parts = [str(path) for path in programs.parts(program, argv, folder, environment)]
    parts += [environment[name] for name in _CERTIFICATES if environment.get(name)]
    parts += programs.NETWORK if sandbox.network is True else ()
    run = (*programs.SYSTEM, *parts, *_there(sandbox.read, f"{where} read", folder))
    write = tuple(_there(sandbox.write, f"{where} write", folder))
    places = sandbox.places() if namespaces else ()
    jail = Jail(
        run=tuple(dict.fromkeys(run)),
        write=write,
        memory_bytes=sandbox.memory_bytes,
        open_files=OPEN_FILES,
        processes=True,
        sockets=bool(sandbox.network),
    )
    container = Container(
        jail=jail,
        folders=(environment.get("HOME") or TEMPORARY,),
        temporary=() if TEMPORARY in (*run, *write) else (TEMPORARY,),
        network=bool(places),
        ports=tuple(dict.fromkeys(place.port for place in places)),
        addresses=tuple(dict.fromkeys(place.host for place in places if place.is_elsewhere())),
        processes=sandbox.processes,
        namespaces=namespaces,
    )
    return container, (program, *argv[1:])


def _there(paths: Sequence[str], what: str, folder: str | None) -> list[str]:
    found = [Path(folder or Path.cwd(), Path(path).expanduser()) for path in paths]
    for path in found:
        if not path.exists():
            raise TransportError(f"{what}: {path} does not exist; create it or correct the path", retryable=False)
    return [os.path.normpath(path) for path in found]


def environment_of(environment: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    """What a server gets of the gateway's environment: nothing that leads to places that it cannot reach."""
    dropped = set(_OUTSIDE)
    if sandbox.network is not True:
        dropped.update(*((name, name.lower()) for name in _PROXIES))
    kept = {name: value for name, value in environment.items() if name not in dropped}
    home = str(Path(environment.get("HOME") or TEMPORARY).resolve())
    own = {"HOME": TEMPORARY if home == "/" else home, "TMPDIR": TEMPORARY, "XDG_CACHE_HOME": f"{TEMPORARY}/.cache"}
    return {**kept, **own}
