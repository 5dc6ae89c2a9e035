"""The hook plugin ``agents``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, MetaTool, hookimpl
from pml_kit.shared import GatewayParts

from .settings import SERVER, Settings

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services, Wrapper

    from .agents import Agents

settings_type = Settings


def _made(services: Services) -> Agents:
    from .agents import Agents

    return Agents(services, services.settings or Settings())


agents_of = GatewayParts(_made)


async def _chat(services: Services, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
    from .chat_tool import ChatWithAgent

    return await ChatWithAgent(agents_of(services))(arguments, run)


async def _cancel(services: Services, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
    from .chat_tool import CancelExecution

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
def pml_commands(subcommands: Any) -> None:
    """``pml agents``."""
    from .command import add

    add(subcommands)


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether each agent can be asked."""
    from .checks import checks

    return checks(services)
