"""Whether this gateway can do its work: what probes ask, and when it says that it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from pml_kit.offers import ReadinessCheck, ReadinessPart

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Store

CHECK_S = 2.0
"""Longest that one look may take [s]."""
FRESH_S = 1.0
"""How long a look counts [s]: whoever can reach the listener may ask as often as it likes."""
NOT_READY = ("down", "starting")
"""States of a server that clients cannot use."""
UP = "up"


class Settings(Protocol):
    """Those of ``[gateway]`` that say what is looked at."""

    @property
    def ready_servers(self) -> Sequence[str]:
        """Patterns of the servers that have to be up."""
        ...


class LiveReadiness:
    """Implements :class:`pml_kit.offers.Readiness`."""

    shutting_down = False

    def __init__(
        self,
        catalog: Catalog,
        guards: Mapping[str, str],
        health: Mapping[str, str],
        engines: Callable[[], Sequence[str]],
        store: Callable[[], Store | None],
        settings: Callable[[], Settings],
        checks: Callable[[], Sequence[tuple[str, ReadinessCheck]]],
    ) -> None:
        """Nothing is looked at before somebody asks.

        Args:
            catalog: Knows the servers.
            guards: Those that failed, and why: while there is one, every task is refused.
            health: Of plugins that were entered, ``"up"`` or what is wrong.
            engines: Names of the plugins that run tasks.
            store: The one in use.
            settings: Those in force.
            checks: What plugins look at.
        """
        self._catalog, self._guards, self._health, self._engines = catalog, guards, health, engines
        self._store, self._settings, self._checks = store, settings, checks
        self._looking: asyncio.Task[Sequence[ReadinessPart]] | None = None
        self._looked_s = -FRESH_S

    async def parts(self) -> Sequence[ReadinessPart]:
        """The gateway's own and what plugins look at."""
        loop = asyncio.get_running_loop()
        if self._looking is None or (self._looking.done() and loop.time() - self._looked_s >= FRESH_S):
            self._looking, self._looked_s = loop.create_task(self._look(), name="readiness"), loop.time()
        # Others may wait for the same look.
        return [self._gateway(), *await asyncio.shield(self._looking)]

    def _gateway(self) -> ReadinessPart:
        detail = "it has been told to end" if self.shutting_down else ""
        return ReadinessPart("gateway", not self.shutting_down, detail)

    async def _look(self) -> Sequence[ReadinessPart]:
        looks = [("store", self._of_store), *self._checks()]
        found = await asyncio.gather(*(_within(name, check) for name, check in looks))
        wrong = {name: state for name in self._engines() if (state := self._health.get(name, UP)) != UP}
        own = [self._servers(), _none_of("guards", self._guards), _none_of("engines", wrong)]
        return [*own, *(part for parts in found for part in parts)]

    def _servers(self) -> ReadinessPart:
        patterns = self._settings().ready_servers
        needed = [one for one in self._catalog.servers() if any(fnmatchcase(one.name, each) for each in patterns)]
        missing = [one for one in needed if one.state in NOT_READY]
        said = "; ".join(f"{one.name} is {one.state}" + (f": {one.reason}" if one.reason else "") for one in missing)
        return ReadinessPart("servers", not missing, said)

    async def _of_store(self) -> Sequence[ReadinessPart]:
        store = self._store()
        if store is None:
            return [ReadinessPart("store", ready=False, detail="it is not open yet")]
        # Read, and not only asked how it is: what cannot be reached any more may not know it yet.
        await store.documents.get("core.readiness", "none")
        trouble = (await store.health()).get("trouble")
        return [ReadinessPart("store", not trouble, str(trouble or ""))]

    async def leave(self, delay_s: float) -> None:
        """Say that this gateway ends, and give those who ask for it ``delay_s`` seconds to hear."""
        self.shutting_down = True
        if delay_s:
            await asyncio.sleep(delay_s)


def _none_of(name: str, wrong: Mapping[str, str]) -> ReadinessPart:
    return ReadinessPart(name, not wrong, "; ".join(f"{one}: {problem}" for one, problem in wrong.items()))


async def _within(name: str, check: ReadinessCheck) -> Sequence[ReadinessPart]:
    try:
        async with asyncio.timeout(CHECK_S):
            return await check()
    except TimeoutError:
        return [ReadinessPart(name, ready=False, detail=f"no answer within {CHECK_S:g} s")]
    except Exception as exc:
        return [ReadinessPart(name, ready=False, detail=str(exc) or repr(exc))]
