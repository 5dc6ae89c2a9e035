"""The resource ``pml://status``: how the gateway is doing, as far as whoever reads it may know."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from .server_views import is_operator

if TYPE_CHECKING:
    from pml_hookspecs import Session

    from .gateway import Gateway

SCHEMAS = ("inputSchema", "outputSchema")
MOST_UNREAD = 20
"""Schemas of one server that are told of."""


def status_of(gateway: Gateway, session: Session) -> dict[str, Any]:
    """What ``session`` is shown.

    ``changed`` of a server, where there is anything, are the tools that it may see whose definitions nobody has
    accepted as they are now. ``dry_run_only``, where anything does, names what lets it only rehearse. ``refused`` of a
    server are its questions and notifications that no client got, because they were too many or too long;
    ``schemas_not_read``, where there are any, says of its tools' schemas why nobody reads them, by tool. These, the
    modes of all endpoints, reasons and plugins are an operator's: see :func:`pml_core.server_views.is_operator`.
    """
    servers = [{**asdict(s), **_changed(gateway, s.name, session)} for s in gateway.catalog.servers(session)]
    locks = gateway.rehearsals.locks(session)
    about: dict[str, Any] = {"dry_run_only": locks} if locks else {}
    if not is_operator(session):
        return {"version": gateway.version, "mode": session.mode, **about, "servers": servers}
    plugins = {r.name: gateway.supervisor.health.get(r.name, r.state) for r in gateway.assembly.records}
    running = gateway.servers
    known = [{**s, "refused": running[s["name"]].quota.refused if s["name"] in running else 0} for s in servers]
    known = [{**s, **_unread(gateway, s["name"])} for s in known]
    return {"version": gateway.version, **gateway.announcement.modes(), **about, "servers": known, "plugins": plugins}


def _unread(gateway: Gateway, server: str) -> dict[str, Any]:
    problems = {
        f"{entry.name}: {member}": problem
        for entry in gateway.catalog
        if entry.server == server
        for member in SCHEMAS
        if (problem := entry.schema_problem(member))
    }
    return {"schemas_not_read": dict(islice(problems.items(), MOST_UNREAD))} if problems else {}


def _changed(gateway: Gateway, server: str, session: Session) -> dict[str, Any]:
    running = gateway.servers.get(server)
    definitions = None if running is None else running.tools.definitions
    if definitions is None or not definitions.changes:
        return {}
    visible = gateway.catalog.visible(session)
    seen = [one for one in definitions.changes.values() if is_operator(session) or f"{server}:{one.tool}" in visible]
    return {"changed": [{**one.shown(), "held": definitions.holds} for one in seen]} if seen else {}
