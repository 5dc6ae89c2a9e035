"""Hook plugin ``flows``."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, Phase, ServerRequest, ToolCall, hookimpl
from pml_kit.offers import CONNECTIONS, FLOWS
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, ExecutionId, Outcome, Run, Services, Task, Wrapper
    from pml_kit.offers import Words

    from .follower import Follower

settings_type = Settings


class FlowWrapper:
    """Follows nothing, and has nothing loaded that could, before there is a plan or code and an untrusted server.

    Inside of the checks of rights, so that it tells nothing of tools that the caller may not have; outside of what
    rehearses and asks, so that a rehearsal tells of it and people are asked with the values before them.
    """

    phase = Phase.VALIDATE

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings: Settings = services.settings or Settings()
        self._follower: Follower | None = None
        self.direct = self._settings.matching
        """Whether it is around calls that clients make by themselves."""

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Hand on what no untrusted server has to do with."""
        if self._follower is not None:
            return self._follower(task, run, call_next)
        if isinstance(task, (ToolCall, ServerRequest)) and not self._settings.matching:
            return call_next(task, run)
        if all(words == "trusted" for words in self._levels().values()):
            return call_next(task, run)
        from .follower import Follower

        self._follower = Follower(self._services, self._settings, self._levels)
        return self._follower(task, run, call_next)

    def of(self, execution: ExecutionId) -> Sequence[str]:
        """See :class:`pml_kit.offers.Flows`."""
        return () if self._follower is None else self._follower.of(execution)

    def _levels(self) -> Mapping[str, Words]:
        connections = self._services.find(CONNECTIONS)
        return {} if connections is None else connections.words()


wrapper_of = GatewayParts(FlowWrapper)


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What tells those who ask a human which values flow."""
    return [Offer(FLOWS, wrapper_of(services))]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """What follows values; none where nothing would come of it."""
    return [] if (services.settings or Settings()).action == "off" else [wrapper_of(services)]
