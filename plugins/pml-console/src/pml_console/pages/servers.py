"""Servers started anew, enabled and disabled, as ``pml servers`` does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.responses import RedirectResponse

from pml_clients.configuration import server_changes
from pml_clients.configuration.view import SERVED_FILES
from pml_console.history import RefusedError
from pml_hookspecs import InvalidArguments
from pml_kit.errors import OperatorError
from pml_kit.offers import ACCESS, CONNECTIONS, AccessEvent, report_change, required

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from pml_clients.configuration.changes import Change
    from pml_clients.configuration.view import ConfigurationFiles
    from pml_console.visit import Visit
    from pml_hookspecs import ServerStatus

SCOPE = "operate"
"""What a key needs to change servers."""
SEE_OTHER = 303
DONE = {
    "restart": "is started anew by every running gateway with this configuration, within seconds.",
    "enable": "is enabled. Running gateways with this configuration start it within seconds.",
    "disable": "is disabled. Running gateways with this configuration stop it within seconds.",
}
CODES = {"restart": "servers.restart_asked", "enable": "servers.enabled", "disable": "servers.disabled"}


def may_operate(visit: Visit) -> bool:
    """Whether the reader may change servers, and the gateway follows files that say which there are."""
    return SCOPE in visit.session.scopes and visit.site.services.find(SERVED_FILES) is not None


def servers_of(visit: Visit) -> Sequence[ServerStatus]:
    """Those that the reader may know of; all for whoever may change them. What is not up comes first."""
    known = visit.site.services.catalog.servers(None if SCOPE in visit.session.scopes else visit.session)
    return sorted(known, key=lambda server: (server.state == "up", server.name))


def next_attempts_of(visit: Visit) -> Mapping[str, datetime]:
    """When servers that are down are tried again, of those whose reasons the reader is told."""
    told = {server.name for server in servers_of(visit) if server.reason}
    attempts = required(visit.site.services, CONNECTIONS).next_attempts()
    return {name: at for name, at in attempts.items() if name in told}


def notice_of(visit: Visit) -> str:
    """What was done by the form that led here; ``""`` for nothing."""
    given = visit.request.query_params
    server, done = given.get("server", ""), DONE.get(given.get("done", ""), "")
    return f"{server} {done}" if done and server in {one.name for one in servers_of(visit)} else ""


async def change(visit: Visit) -> Response:
    """Start one anew, enable or disable it.

    Raises:
        RefusedError: The reader may not, there is no such server, or its file cannot be changed.
    """
    server, action = visit.request.path_params["name"], visit.form.get("action", "")
    await check_may_operate(visit, f"server {server}")
    if action not in DONE:
        raise RefusedError("There is no such action: restart, enable or disable a server.")
    await written(visit, f"server {server}", CODES[action], {"server": server}, lambda f: _changed(f, server, action))
    return RedirectResponse(f"/console/?{urlencode({'done': action, 'server': server})}", SEE_OTHER)


async def check_may_operate(visit: Visit, target: str) -> None:
    """Have only those go on who may change servers and their tools; whoever watches access hears of others.

    Raises:
        RefusedError: The reader may not.
    """
    if SCOPE not in visit.session.scopes:
        problem = f"This key lacks the scope '{SCOPE}', which changing servers needs: pml keys create --scope {SCOPE}"
        await required(visit.site.services, ACCESS).report(AccessEvent(
            kind="denied", target=target[:200], session=visit.session, code="access.denied", message=problem
        ))  # fmt: skip
        raise RefusedError(problem)


async def written(
    visit: Visit, target: str, code: str, about: Mapping[str, str], change: Callable[[ConfigurationFiles], str]
) -> None:
    """Have ``change`` write a file, whose name it gives, and tell whoever watches access.

    Raises:
        RefusedError: The gateway follows no files, or the file cannot be changed.
    """
    served = visit.site.services.find(SERVED_FILES)
    if served is None:
        raise RefusedError("No file says which servers this gateway has, so it cannot be changed here.")
    try:
        file = await asyncio.to_thread(change, served())
    except (OperatorError, InvalidArguments) as exc:
        raise RefusedError(str(exc)) from None
    details = {**about, "by": visit.session.principal, **({"file": file} if file else {})}
    await report_change(visit.site.services, target, code, details, visit.session)


def _changed(files: ConfigurationFiles, server: str, action: str) -> str:
    """Do it; the file that was written, ``""`` for none."""
    if action == "restart":
        server_changes.restart([server], files)
        return ""
    return write(server_changes.switched(server, files, enabled=action == "enable"))


def write(change: Change) -> str:
    """Write what is needed; the file that was written, ``""`` for none."""
    if change.needed:
        change.write()
    return str(change.file.path) if change.needed else ""
