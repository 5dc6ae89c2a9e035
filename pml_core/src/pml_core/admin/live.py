"""``pml plugins doctor``: put the plugins together as a gateway does, and see which of them are well."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from pml_core.errors import OperatorError
from pml_core.gateway import Gateway
from pml_core.logs import Logs
from pml_core.plugins.health import UP
from pml_core.settings.config import Config
from pml_hookspecs import encode

from .doctor import Line

WHEN_SERVING = ("pml_lifespan", "pml_routes", "pml_api_routes")
"""Hooks that are asked when a gateway serves; nothing of what they give is used here. Routes import much."""


async def findings(config: Config, known: Sequence[Line], *, connect: bool) -> AsyncIterator[Line]:
    """What goes wrong when the plugins are put together, and names of tools that fit nothing.

    Nothing that a plugin does in the background is begun: that is for a gateway that serves.

    What is ``known`` is told again only with ``connect``, which also tells how the store is.
    """
    told = () if connect else [line for line in known if not line.ok]
    tried = replace(config, gateway=replace(config.gateway, strict=False))
    try:
        async with Gateway(tried, Logs("error"), connect=False) as gateway:
            for hook in WHEN_SERVING if connect else WHEN_SERVING[:1]:
                gateway.assembly.gather(hook, gateway.supervisor.fault)
            names = await gateway.announcement.unmatched(whole=False)
            for plugin, problem in sorted(gateway.supervisor.health.items()):
                if problem != UP and plugin not in {line.subject.partition(" ")[2] for line in told}:
                    yield Line(f"start of {plugin}", ok=False, detail=problem, remedy=f"Mend or block {plugin}.")
            if connect:
                yield await _store(gateway)
            for name in names:
                yield _of_name(name)
    except OperatorError as exc:
        if not any(line.detail.partition(": ")[2] in exc.message for line in told if ": " in line.detail):
            remedy = exc.remedy or "Mend what is named, or take it out of the configuration."
            yield Line("start", ok=False, detail=exc.message, remedy=remedy)


async def unmatched_names(config: Config) -> list[str]:
    """Names and patterns of tools that fit nothing that is known; none where nothing can be put together."""
    tried = replace(config, gateway=replace(config.gateway, strict=False))
    with suppress(Exception):  # what is wrong is said by others
        async with Gateway(tried, Logs("error"), connect=False) as gateway:
            return await gateway.announcement.unmatched(whole=False)
    return []


def _of_name(line: str) -> Line:
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
