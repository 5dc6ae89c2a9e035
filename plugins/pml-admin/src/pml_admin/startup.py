"""``pml plugins doctor``: put the plugins together as a gateway does, and see which of them are well."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import encode
from pml_kit.command_line.plugin_health import UP
from pml_kit.errors import OperatorError

from .finding import Finding

if TYPE_CHECKING:
    from pml_settings.installation import IdleGateway, Installation

WHEN_SERVING = ("pml_lifespan", "pml_routes")
"""Hooks that are asked when a gateway serves; nothing of what they give is used here. Routes import much."""


async def findings(installation: Installation, known: Sequence[Finding], *, connect: bool) -> AsyncIterator[Finding]:
    """What goes wrong when the plugins are put together, and names of tools that fit nothing.

    Nothing that a plugin does in the background is begun: that is for a gateway that serves.

    What is ``known`` is told again only with ``connect``, which also tells how the store is.
    """
    told = () if connect else [line for line in known if not line.ok]
    try:
        async with installation.gateway(tolerant=True) as gateway:
            for hook in WHEN_SERVING if connect else WHEN_SERVING[:1]:
                gateway.gather(hook)
            names = await gateway.unmatched()
            for plugin, problem in sorted(gateway.health.items()):
                if problem != UP and plugin not in {line.subject.partition(" ")[2] for line in told}:
                    yield Finding(f"start of {plugin}", ok=False, detail=problem, remedy=f"Mend or block {plugin}.")
            if connect:
                yield await _store(gateway, installation.config.gateway.store or "memory")
            for name in names:
                yield _of_name(name)
    except OperatorError as exc:
        if not any(line.detail.partition(": ")[2] in exc.message for line in told if ": " in line.detail):
            remedy = exc.remedy or "Mend what is named, or take it out of the configuration."
            yield Finding("start", ok=False, detail=exc.message, remedy=remedy)


def _of_name(line: str) -> Finding:
    where, _, problem = line.partition(": ")
    return Finding(f"names in {where}", ok=False, detail=problem, remedy="Correct the name, or take it out.")


async def _store(gateway: IdleGateway, name: str) -> Finding:
    if gateway.store is None:
        raise OperatorError(f"store {name!r} is not open")
    try:
        health = await gateway.store.health()
    except Exception as exc:
        detail = f"does not answer: {type(exc).__name__}: {exc}"
        return Finding(f"health of {name}", ok=False, detail=detail, remedy="See whether its data can be reached.")
    return Finding(f"health of {name}", ok=True, detail=encode(health).decode())
