"""Hook plugin ``audit``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import ACCESS_WATCHERS
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Check, Services, Wrapper

    from .access import Access
    from .recorder import Recorder
    from .wrapper import Audit

settings_type = Settings


def _made(services: Services) -> tuple[Recorder, Audit, Access]:
    from .access import Access
    from .recorder import Recorder
    from .wrapper import Audit

    settings = services.settings or Settings()
    recorder = Recorder(services, settings)
    return recorder, Audit(recorder, settings), Access(recorder)


_parts_of = GatewayParts(_made)


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper that sees denials, queries and keys."""
    return [_parts_of(services)[1]]


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What sees those who are not let in, and requests about tasks."""
    return [Offer(ACCESS_WATCHERS, _parts_of(services)[2])]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """The start and the end of the gateway, and what changes in between."""
    return [_life(services)]


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    from .lifespan import auditing

    async with auditing(services, services.settings or Settings(), *_parts_of(services)):
        yield


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml audit``."""
    from .command import add

    add(subcommands)


@hookimpl
def pml_checks(services: Services) -> Iterable[Awaitable[Check]]:
    """Whether the rows are as they were written."""
    from .checks import check

    return [check(services)]
