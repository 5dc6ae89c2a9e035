"""The hook plugin ``agents``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pml_hookspecs import Check, MetaTool, hookimpl

from .settings import SERVER, Settings

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services, Wrapper

    from .agents import Agents

settings_type = Settings
_agents: WeakKeyDictionary[Any, Agents] = WeakKeyDictionary()
"""The agents of each gateway in this process, by its services."""


def agents_of(services: Services) -> Agents:
    """What the hooks of one gateway share."""
    from .agents import Agents

    if services not in _agents:
        _agents[services] = Agents(services, services.settings or Settings())
    return _agents[services]


async def _chat(services: Services, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
    from .chat_tool import ChatWithAgent

    return await ChatWithAgent(agents_of(services))(arguments, run)


async def _cancel(services: Services, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
    from .cancel_tool import CancelExecution

    return await CancelExecution(services)(arguments, run)


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``chat_with_agent`` and ``cancel_execution``; publishes the agents."""
    from .definitions import CANCEL_EXECUTION, CHAT_WITH_AGENT

    settings: Settings = services.settings or Settings()
    if settings.agents:
        services.publish(SERVER, agents_of(services).tools())
    listed = settings.listed and bool(settings.agents)
    return [
        MetaTool(definition=CHAT_WITH_AGENT, call=partial(_chat, services), listed=listed),
        MetaTool(definition=CANCEL_EXECUTION, call=partial(_cancel, services), listed=False),
    ]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """What tells those who wait; also without agents, so that the contract's tests hold it as it is installed."""
    from .chat_tool import CompletionNotifier

    return [CompletionNotifier(agents_of(services))]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """What is kept for a gateway ends with it."""
    return [_life(services)]


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    try:
        yield
    finally:
        _agents.pop(services, None)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml agents``."""
    from .command import add

    add(subcommands)


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether each agent can be asked."""
    from .checks import checks

    return checks(services)
