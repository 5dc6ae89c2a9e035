"""``pml servers accept``: look at how definitions of tools have changed, and accept that."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pml_catalog.definitions import accept_stored, stored_changes
from pml_catalog.lock.difference import difference
from pml_clients.configuration.view import no_server
from pml_kit.errors import OperatorError
from pml_kit.offers import AccessEvent
from pml_kit.terminal import answer_to, print_json, printable

if TYPE_CHECKING:
    from pml_catalog.definitions import Change
    from pml_settings.installation import Installation

NOT_ACCEPTED = "Nothing was accepted; say yes to it with --yes."


def run_accept(arguments: argparse.Namespace, installation: Installation) -> int:
    """Show the changes and accept them; 1 where they were not accepted."""
    config = installation.config
    if arguments.server not in config.servers:
        raise no_server(arguments.server, config.servers)
    return asyncio.run(_accept(installation, arguments))


async def _accept(installation: Installation, arguments: argparse.Namespace) -> int:
    server, settings = arguments.server, installation.config.servers[arguments.server]
    async with installation.gateway() as gateway:
        if gateway.store is None:
            raise OperatorError("the store is not open")
        documents = gateway.store.documents
        found, version = await stored_changes(documents, server, settings)
        if arguments.tool is not None:
            if arguments.tool not in found:
                raise OperatorError(f"{server} has no changed tool {arguments.tool!r}: {_named(found)}")
            found = {arguments.tool: found[arguments.tool]}
        if not arguments.json:
            for change in found.values():
                print("\n".join(_lines(change)))
        accepted = bool(found) and bool(arguments.yes)
        if found and not (arguments.yes or arguments.json):
            accepted = bool(answer_to(f"Accept {_counted(len(found))}?"))
        if accepted:
            names = sorted(found)
            if not await accept_stored(documents, server, settings, names, version):
                raise OperatorError(f"what {server} says of its tools has changed meanwhile", "Look at it again.")
            details = {"server": server, "tools": names}
            event = AccessEvent(kind="change", target=server, code="definitions.accepted", details=details)
            await gateway.report(event)
        _say(arguments, found, accepted=accepted)
    return 0 if accepted or not found else 1


def _say(arguments: argparse.Namespace, found: dict[str, Change], *, accepted: bool) -> None:
    if arguments.json:
        changes = [one.kept() for one in found.values()]
        print_json({"server": arguments.server, "accepted": accepted, "changes": changes})
    elif not found:
        print(f"Nothing has changed on {arguments.server} that nobody has accepted.")
    else:
        print(f"Accepted on {arguments.server}: {', '.join(map(printable, found))}." if accepted else NOT_ACCEPTED)


def _counted(count: int) -> str:
    return f"{count} changed definition{'s' if count > 1 else ''}"


def _named(found: dict[str, Change]) -> str:
    return f"changed: {', '.join(map(printable, found))}" if found else "nothing has changed there"


def _lines(change: Change) -> Iterator[str]:
    """The difference, member by member."""
    yield f"{printable(change.tool)}: {', '.join(change.fields)} ({change.seen_at})"
    yield from difference(change.before or {}, change.now)
