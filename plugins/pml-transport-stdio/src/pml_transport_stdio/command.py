"""What a ``stdio:`` address and its options ask for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Endpoint, Json

    from .sandbox import Sandbox

SCHEME = "stdio:"
OPTIONS = ("allow_concurrent_requests", "cwd", "inherit_env", "sandbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A server to start."""

    argv: tuple[str, ...]
    cwd: str | None = None
    """None: the gateway's own working directory."""
    concurrent: bool = True
    """False: one request at a time."""
    inherit_env: tuple[str, ...] = ()
    """Variables of the gateway's environment that it gets besides the usual ones: names, or beginnings with ``*``."""
    sandbox: Sandbox | None = None
    """None: it may do whatever the gateway's account may."""


def parse(endpoint: Endpoint) -> Command:
    """Read an endpoint's address and options.

    Raises:
        ValueError: Either is not understood; the message says what to change.
    """
    where = f"[servers.{endpoint.name}]"
    argv = _split(endpoint.address, where)
    _refuse_unknown(endpoint.options, where)
    cwd = endpoint.options.get("cwd")
    if not (cwd is None or (isinstance(cwd, str) and cwd)):
        raise ValueError(f"{where} cwd must be the path of a folder, not {cwd!r}")
    concurrent = endpoint.options.get("allow_concurrent_requests", True)
    if not isinstance(concurrent, bool):
        raise ValueError(f"{where} allow_concurrent_requests must be true or false, not {concurrent!r}")  # noqa: TRY004
    inherit_env = _names(endpoint.options.get("inherit_env", ()), where)
    sandbox = None
    if "sandbox" in endpoint.options:
        from .sandbox import parse as parse_sandbox

        sandbox = parse_sandbox(endpoint.options["sandbox"], where, argv, endpoint.env)
    return Command(argv=argv, cwd=cwd, concurrent=concurrent, inherit_env=inherit_env, sandbox=sandbox)


def _names(value: Json, where: str) -> tuple[str, ...]:
    names = tuple(name for name in value if isinstance(name, str)) if isinstance(value, (list, tuple)) else ()
    if not isinstance(value, (list, tuple)) or len(names) != len(value):
        raise ValueError(
            f"{where} inherit_env must be a list of names of variables, such as ['DOCKER_*'], not {value!r}"
        )
    return names


def _split(address: str, where: str) -> tuple[str, ...]:
    # The command line is not repeated in messages: people put tokens there.
    if not address.startswith(SCHEME):
        raise ValueError(f"{where} the address of a stdio server starts with {SCHEME!r}")
    line = address.removeprefix(SCHEME)
    try:
        argv = tuple(shlex.split(line))
    except ValueError as error:
        problem = str(error).lower()
        raise ValueError(f"{where} cannot read the command line: {problem}; quote it as in a POSIX shell") from None
    if not argv or not argv[0]:
        raise ValueError(f"{where} the command is empty; write {SCHEME}<command line>, such as 'stdio:npx -y server'")
    return argv


def _refuse_unknown(options: Mapping[str, Json], where: str) -> None:
    for name in options:
        if name not in OPTIONS:
            from difflib import get_close_matches

            near = get_close_matches(name, OPTIONS, n=1, cutoff=0)[0]
            known = ", ".join(OPTIONS)
            raise ValueError(
                f"{where} unknown option {name!r}; did you mean {near!r}? The stdio transport knows: {known}"
            )
