"""The resource ``pml://status``: how the gateway is doing, as far as whoever reads it may know."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from ipaddress import ip_address
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pml_catalog.server_views import is_operator
from pml_hookspecs import Offer
from pml_kit.mcp.tool_schemas import problem_of
from pml_kit.offers import CONNECTIONS, REVIEW, ClientConnection
from pml_mcp.servers.review import LiveReview

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pml_catalog.live import LiveCatalog
    from pml_hookspecs import Session, Store
    from pml_kit.offers import Words
    from pml_mcp.ports import AccessWatchers, Rehearsals
    from pml_mcp.server_settings import ServerSettings
    from pml_mcp.servers import Server
    from pml_mcp.wire.client import ConnectedClient

SCHEMAS = ("inputSchema", "outputSchema")
MOST_UNREAD = 20
"""Schemas of one server that are told of."""


class StatusResource:
    """What the resource says."""

    def __init__(
        self,
        version: str,
        catalog: LiveCatalog,
        servers: Mapping[str, Server],
        rehearsals: Rehearsals,
        plugins: Callable[[], Mapping[str, str]],
        modes: Callable[[], Mapping[str, object]],
    ) -> None:
        """``version`` is the gateway's.

        Args:
            plugins: Gives the state of each plugin.
            modes: Gives those of all endpoints, and what only rehearses.
        """
        self._version, self._catalog, self._servers = version, catalog, servers
        self._rehearsals, self._plugins, self._modes = rehearsals, plugins, modes

    def of(self, session: Session) -> dict[str, Any]:
        """What ``session`` is shown.

        ``changed`` of a server, where there is anything, are the tools that it may see whose definitions nobody has
        accepted as they are now. ``dry_run_only``, where anything does, names what lets it only rehearse. ``refused``
        of a server are its questions and notifications that no client got, because they were too many or too long;
        ``sandbox`` of a program is what its table says of that, false for nothing; ``schemas_not_read``, where there
        are any, says of its tools' schemas why nobody reads them, by tool. These, the modes of all endpoints, reasons
        and plugins are an operator's: see :func:`pml_catalog.server_views.is_operator`.
        """
        servers = [{**asdict(s), **self._changed(s.name, session)} for s in self._catalog.servers(session)]
        locks = self._rehearsals.locks(session)
        about: dict[str, Any] = {"dry_run_only": locks} if locks else {}
        if not is_operator(session):
            return {"version": self._version, "mode": session.mode, **about, "servers": servers}
        running = self._servers
        known = [{**s, "refused": running[s["name"]].quota.refused if s["name"] in running else 0} for s in servers]
        known = [{**s, **_sandbox(running.get(s["name"]))} for s in known]
        known = [{**s, **self._unread(s["name"])} for s in known]
        return {"version": self._version, **self._modes(), **about, "servers": known, "plugins": self._plugins()}

    def _unread(self, server: str) -> dict[str, Any]:
        problems = {
            f"{entry.name}: {member}": problem
            for entry in self._catalog
            if entry.server == server
            for member in SCHEMAS
            if (problem := problem_of(entry, member))
        }
        return {"schemas_not_read": dict(islice(problems.items(), MOST_UNREAD))} if problems else {}

    def _changed(self, server: str, session: Session) -> dict[str, Any]:
        running = self._servers.get(server)
        definitions = None if running is None else running.tools.definitions
        if definitions is None:
            return {}
        visible, every = self._catalog.visible(session), is_operator(session)
        seen = [one for one in definitions.changes.values() if every or f"{server}:{one.tool}" in visible]
        found: dict[str, Any] = (
            {"changed": [{**one.shown(), "held": definitions.holds} for one in seen]} if seen else {}
        )
        if definitions.guard is not None:
            lock = [one for one in definitions.guard.changes.values() if every or f"{server}:{one.tool}" in visible]
            found["lock"] = [{**one.shown(), "blocked": one.judgement.blocks} for one in lock]
        return found


def _sandbox(server: Server | None) -> dict[str, Any]:
    if server is None or not server.settings.command:
        return {}
    return {"sandbox": server.settings.options.get("sandbox", False)}


class LiveConnections:
    """Implements :class:`pml_kit.offers.Connections`."""

    def __init__(self, clients: Collection[ConnectedClient], servers: Mapping[str, Server]) -> None:
        self._clients, self._servers = clients, servers

    def clients(self, session: Session) -> Sequence[ClientConnection]:
        """Those that are connected now."""
        every = is_operator(session)
        known = [one.session for one in tuple(self._clients) if every or one.session.principal == session.principal]
        return sorted(ClientConnection(one.client, one.principal, one.endpoint, one.mode) for one in known)

    def next_attempts(self) -> Mapping[str, datetime]:
        """Of servers that are down."""
        servers = self._servers.items()
        times = {name: one.backoff.next_attempt_at for name, one in servers if one.status.state == "down"}
        return {name: at for name, at in times.items() if at is not None and at > datetime.now(UTC)}

    def words(self) -> Mapping[str, Words]:
        """As configured; of remote servers that say nothing ``untrusted``."""
        return {name: _words(one.settings) for name, one in self._servers.items()}


def _words(settings: ServerSettings) -> Words:
    if settings.words != "auto":
        return settings.words
    address = settings.url or settings.address
    return "untrusted" if "://" in address and not _is_here(address[max(address.find("http"), 0) :]) else "trusted"


def _is_here(url: str) -> bool:
    try:
        host = urlsplit(url).hostname
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def live_offers(
    clients: Collection[ConnectedClient],
    servers: Mapping[str, Server],
    store: Callable[[], Store | None],
    watchers: AccessWatchers,
) -> Sequence[Offer[Any]]:
    """What plugins can ask of clients and servers; ``store`` gives the open one."""
    review = LiveReview(servers, store, watchers)
    return Offer(CONNECTIONS, LiveConnections(clients, servers)), Offer(REVIEW, review)
