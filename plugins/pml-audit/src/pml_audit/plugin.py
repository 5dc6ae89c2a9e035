"""Hook plugin ``audit``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pml_hookspecs import hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import AccessWatcher, Check, Services, Wrapper

    from .access import Access
    from .recorder import Recorder
    from .wrapper import Audit

settings_type = Settings
_parts: WeakKeyDictionary[Any, tuple[Recorder, Audit, Access]] = WeakKeyDictionary()
"""The audit of each gateway in this process, by its services."""


def _parts_of(services: Services) -> tuple[Recorder, Audit, Access]:
    from .access import Access
    from .recorder import Recorder
    from .wrapper import Audit

    if services not in _parts:
        settings = services.settings or Settings()
        recorder = Recorder(services, settings)
        _parts[services] = recorder, Audit(recorder, settings), Access(recorder)
    return _parts[services]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper that sees denials, queries and keys."""
    return [_parts_of(services)[1]]


@hookimpl
def pml_access_watchers(services: Services) -> Iterable[AccessWatcher]:
    """What sees those who are not let in, and requests about tasks."""
    return [_parts_of(services)[2]]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """The start and the end of the gateway, and what changes in between."""
    return [_life(services)]


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    from .lifespan import auditing

    try:
        async with auditing(services, services.settings or Settings(), *_parts_of(services)):
            yield
    finally:
        _parts.pop(services, None)


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
