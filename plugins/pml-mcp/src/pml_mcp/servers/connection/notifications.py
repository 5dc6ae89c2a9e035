"""What a server tells without being asked: who hears of it, and which lists are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_hookspecs import EMPTY, RawObject
from pml_kit.mcp.protocol import LIST_CHANGED, UPDATED
from pml_mcp.wire.client import current_client
from pml_mcp.wire.upstream import Upstream

from .feature_lists import CHANGED

if TYPE_CHECKING:
    from pml_mcp.servers.client_tool_lists import ClientToolLists
    from pml_mcp.servers.tools import Tools

    from .connection import Connection

OF_TASKS = "notifications/tasks"


class Notifications:
    """Hands on the notifications of one server, whichever connection they come by."""

    def __init__(
        self, name: str, upstream: Upstream, main: Connection, tools: Tools, client_lists: ClientToolLists
    ) -> None:
        """``main`` is the connection that serves all clients."""
        self._name, self._upstream, self._main = name, upstream, main
        self._tools, self._client_lists = tools, client_lists

    def heard(self, connection: Connection, method: str, params: RawObject) -> None:
        """A changed list is fetched again, the rest goes to clients as it is."""
        if method == LIST_CHANGED["tools"]:
            if connection.client is None:
                self._tools.changed(self._main)
            self._client_lists.heard(connection)
            for one in self._upstream.clients():
                if self._client_lists.serves(connection, one):
                    one.conversation.told_of_tools(self._name)
        elif method in CHANGED.values():
            connection.lists.heard(method)
            self._tell(connection, method, params)
        elif method == UPDATED:
            # On a connection of one client's, whatever the server tells is for that client.
            alone = self._upstream.one_client or connection.client is not None
            self._tell(connection, method, params, unasked=alone or not connection.offer.takes_subscriptions)
        elif method.startswith(OF_TASKS):  # about work that goes on when the call that began it is over
            self._tell(connection, method, params)
        elif (client := current_client.get()) is not None:
            client.tell(method, params)
        elif len(connection.calls.callers):
            self._upstream.tell(self._name, connection.calls.callers, method, params)
        else:
            self._tell(connection, method, params)

    def lists_changed(self, connection: Connection, method: str) -> None:
        """A list was found to be another one than before."""
        self._tell(connection, method, EMPTY)

    def _tell(self, connection: Connection, method: str, params: RawObject, *, unasked: bool = False) -> None:
        """Tell those who use a connection."""
        if connection.client is None:
            self._upstream.tell_all(self._name, method, params, unasked=unasked)
        else:
            connection.client.tell(method, params, unasked=unasked, server=self._name)
