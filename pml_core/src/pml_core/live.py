"""``pml plugins doctor --connect``: put the plugins together as a gateway does, and see which of them are well."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

from pml_hookspecs import encode

from .config import Config
from .doctor import Line
from .errors import OperatorError
from .gateway import Gateway
from .health import UP
from .logs import Logs


async def findings(config: Config) -> AsyncIterator[Line]:
    """What goes wrong, and how the store is.

    Nothing that a plugin does in the background is begun: schedules and work that was left are for a gateway that
    serves.
    """
    tried = replace(config, servers={}, gateway=replace(config.gateway, strict=False))
    try:
        async with Gateway(tried, Logs("error"), connect=False) as gateway:
            for plugin, problem in sorted(gateway.supervisor.health.items()):
                if problem != UP:
                    yield Line(f"start of {plugin}", ok=False, detail=problem, remedy=f"Mend or block {plugin}.")
            yield await _store(gateway)
    except OperatorError as exc:
        remedy = exc.remedy or "Mend what is named, or take it out of the configuration."
        yield Line("start", ok=False, detail=exc.message, remedy=remedy)


async def unmatched_names(config: Config) -> list[str]:
    """Names and patterns of tools that fit nothing that is known; none where nothing can be put together."""
    tried = replace(config, gateway=replace(config.gateway, strict=False))
    with suppress(Exception):  # what is wrong is said by others
        async with Gateway(tried, Logs("error"), connect=False) as gateway:
            return await gateway.announcement.unmatched(whole=False)
    return []


def of_names(line: str) -> Line:
    """A line of :func:`unmatched_names` as one of the doctor's."""
    where, _, problem = line.partition(": ")
    return Line(f"names in {where}", ok=False, detail=problem, remedy="Correct the name, or take it out.")


async def _store(gateway: Gateway) -> Line:
    name = gateway.config.gateway.store
    if gateway.store is None:
        raise OperatorError(f"store {name!r} is not open")
    try:
        health = await gateway.store.health()
    except Exception as exc:
        detail = f"does not answer: {type(exc).__name__}: {exc}"
        return Line(f"health of {name}", ok=False, detail=detail, remedy="See whether its data can be reached.")
    return Line(f"health of {name}", ok=True, detail=encode(health).decode())
