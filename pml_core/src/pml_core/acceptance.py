"""Accepts what servers say of their tools, for a gateway that runs elsewhere and reads the same store."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import AccessEvent, Store

from .definitions import COLLECTION, Change, Definitions, key_of
from .errors import OperatorError

if TYPE_CHECKING:
    from .gateway import Gateway


async def changes_of(gateway: Gateway, server: str) -> tuple[dict[str, Change], int]:
    """What nobody has accepted yet of a configured server, by tool, and the version of what is kept of it."""
    kept = await _store(gateway).documents.get(COLLECTION, key_of(server, gateway.config.servers[server]))
    if kept is None:
        return {}, 0
    return Definitions.of(kept.value, holds=True).changes, kept.version


async def accept(gateway: Gateway, server: str, tools: Iterable[str], version: int) -> None:
    """Take changes as they were shown for what the tools are from now on.

    Raises:
        OperatorError: They have changed again since ``version``.
    """
    key, documents, names = key_of(server, gateway.config.servers[server]), _store(gateway).documents, sorted(tools)
    kept = await documents.get(COLLECTION, key)
    if kept is not None and kept.version == version:
        definitions = Definitions.of(kept.value, holds=True)
        definitions.accept(names, server)
        if await documents.put(COLLECTION, key, definitions.kept() or {}, if_version=version) is not None:
            details = {"server": server, "tools": names, "by": _operator()}
            event = AccessEvent(kind="change", target=server, code="definitions.accepted", details=details)
            await gateway.access_watchers.tell(event)
            return
    raise OperatorError(f"what {server} says of its tools has changed meanwhile", "Look at it again.")


def _operator() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _store(gateway: Gateway) -> Store:
    if gateway.store is None:
        raise OperatorError("the store is not open")
    return gateway.store
