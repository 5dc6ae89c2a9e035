"""The hook plugin ``capabilities``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pml_hookspecs import hookimpl

from .settings import Settings

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services, ToolFilter, Wrapper

    from .learning import Learning
    from .publishing import Publisher

settings_type = Settings
LAST_LESSONS_S = 2.0
"""How long the end waits for what is still being kept."""
_parts: WeakKeyDictionary[Any, tuple[Publisher, Learning]] = WeakKeyDictionary()
"""What the hooks of one gateway share."""


def _parts_of(services: Services) -> tuple[Publisher, Learning]:
    from .learning import Learning
    from .publishing import Publisher

    if services not in _parts:
        settings: Settings = services.settings or Settings()
        publisher = Publisher(services, settings)
        _parts[services] = publisher, Learning(services, settings, publisher.changed)
    return _parts[services]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """What watches and learns."""
    return [_parts_of(services)[1]]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Keeps what one learned from others; none when the settings share it."""
    from .publishing import Theirs

    settings: Settings = services.settings or Settings()
    return [] if settings.shared else [Theirs(_parts_of(services)[0])]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Publishes while the gateway runs, and keeps the last lessons at the end."""
    return [_life(services)]


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    import asyncio

    publisher, learning = _parts_of(services)
    services.spawn(publisher.keep_in_step, name="publish")
    try:
        yield
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(learning.settled(), LAST_LESSONS_S)
        _parts.pop(services, None)


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """``GET /capabilities/graph``."""
    from .routes import routes

    return routes(services)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """Add ``pml capabilities list | show | forget | graph``."""
    about = "code that worked and was learned"
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "capabilities", help=about, description=f"Look at {about}."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    found = _verb(verbs, "list", list_command, "what was learned; with words, what is for that, best first")
    found.add_argument("intent", nargs="*", metavar="WORD", help="what it should be for")
    found.add_argument("--retired", action="store_true", help="also what is not run any more")
    shown = _verb(verbs, "show", show_command, "the code of one, what it uses and how it has done")
    shown.add_argument("id", metavar="ID", help="its id, or the beginning of it, or its name")
    gone = _verb(verbs, "forget", forget_command, "forget one, or all")
    which = gone.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", metavar="ID", help="its id, or the beginning of it, or its name")
    which.add_argument("--all", action="store_true", help="forget everything that was learned")
    _verb(verbs, "graph", graph_command, "what uses which tools, and which are used together")


def _verb(verbs: Any, name: str, function: Any, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run_with=function)
    return parser


async def list_command(arguments: argparse.Namespace, services: Services) -> int:
    """``pml capabilities list``."""
    from .commands import show_list

    return await show_list(arguments, services)


async def show_command(arguments: argparse.Namespace, services: Services) -> int:
    """``pml capabilities show``."""
    from .commands import show_one

    return await show_one(arguments, services)


async def forget_command(arguments: argparse.Namespace, services: Services) -> int:
    """``pml capabilities forget``."""
    from .commands import forget

    return await forget(arguments, services)


async def graph_command(arguments: argparse.Namespace, services: Services) -> int:
    """``pml capabilities graph``."""
    from .commands import show_graph

    return await show_graph(arguments, services)
