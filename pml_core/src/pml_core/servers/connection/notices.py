"""What a server tells without being asked: who hears of it, and which lists are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_core.mcp.client import current_client
from pml_core.mcp.upstream import Upstream
from pml_hookspecs import EMPTY, RawObject

from .lists import CHANGED

if TYPE_CHECKING:
    from pml_core.servers.own_lists import OwnLists
    from pml_core.servers.tools import Tools

    from .instance import Instance

OF_TASKS = "notifications/tasks"


class Notices:
    """Hands on the notifications of one server, whichever connection they come by."""

    def __init__(self, name: str, upstream: Upstream, main: Instance, tools: Tools, own_lists: OwnLists) -> None:
        """``main`` is the connection that serves all clients."""
        self._name, self._upstream, self._main = name, upstream, main
        self._tools, self._own_lists = tools, own_lists

    def heard(self, instance: Instance, method: str, params: RawObject) -> None:
        """A changed list is fetched again, the rest goes to clients as it is."""
        if method == "notifications/tools/list_changed":
            if instance.client is None:
                self._tools.changed(self._main)
            self._own_lists.heard(instance)
            for one in self._upstream.clients():
                if self._own_lists.serves(instance, one):
                    one.conversation.told_of_tools(self._name)
        elif method in CHANGED.values():
            instance.lists.heard(method)
            self._tell(instance, method, params)
        elif method == "notifications/resources/updated":
            # On a connection of one client's, whatever the server tells is for that client.
            alone = self._upstream.one_client or instance.client is not None
            self._tell(instance, method, params, unasked=alone or not instance.offer.takes_subscriptions)
        elif method.startswith(OF_TASKS):  # about work that goes on when the call that began it is over
            self._tell(instance, method, params)
        elif (client := current_client.get()) is not None:
            client.tell(method, params)
        elif len(instance.calls.callers):
            self._upstream.tell(self._name, instance.calls.callers, method, params)
        else:
            self._tell(instance, method, params)

    def lists_changed(self, instance: Instance, method: str) -> None:
        """A list was found to be another one than before."""
        self._tell(instance, method, EMPTY)

    def _tell(self, instance: Instance, method: str, params: RawObject, *, unasked: bool = False) -> None:
        """Tell those who use a connection."""
        if instance.client is None:
            self._upstream.tell_all(self._name, method, params, unasked=unasked)
        else:
            instance.client.tell(method, params, unasked=unasked, server=self._name)
