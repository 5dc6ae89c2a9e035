"""The hook plugin ``capabilities``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, hookimpl
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Run, Services, ToolFilter, Wrapper

    from .learning import Learning
    from .publisher import Publisher

settings_type = Settings
LIST: Mapping[str, Any] = {
    "name": "list_capabilities",
    "description": "List code that worked and was learned, with how it has done; of one that is named, its code too.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "capability_id": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 500},
        },
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}
SWITCH: Mapping[str, Any] = {
    "name": "switch_capability",
    "description": "Switch learned code off, whatever is learned, or on again. Needs a key with the scope 'operate'.",
    "inputSchema": {
        "type": "object",
        "properties": {"capability_id": {"type": "string"}, "enabled": {"type": "boolean"}},
        "required": ["capability_id", "enabled"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
}
LAST_LESSONS_S = 2.0
"""How long the end waits for what is still being kept."""


def _made(services: Services) -> tuple[Publisher, Learning]:
    from .learning import Learning
    from .publisher import Publisher

    settings: Settings = services.settings or Settings()
    publisher = Publisher(services, settings)
    return publisher, Learning(services, settings, publisher.changed)


_parts_of = GatewayParts(_made)


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """What watches and learns."""
    return [_parts_of(services)[1]]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Keeps what one learned from others; none when the settings share it."""
    from .publisher import OwnerFilter

    settings: Settings = services.settings or Settings()
    return [] if settings.shared else [OwnerFilter(_parts_of(services)[0])]


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``list_capabilities`` and ``switch_capability``, unlisted: what the commands do, for programs."""

    async def tell(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from . import administration

        return await administration.tell(arguments, run, services)

    async def switch(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from . import administration

        made = await administration.switch(arguments, run, services)
        _parts_of(services)[0].changed()
        return made

    return [
        MetaTool(definition=LIST, call=tell, listed=False, recorded=False),
        MetaTool(definition=SWITCH, call=switch, listed=False),
    ]


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


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """``GET /capabilities/graph``."""
    from .routes import routes

    return routes(services)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """Add ``pml capabilities`` and its verbs."""
    about = "code that worked and was learned"
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "capabilities", help=about, description=f"Look at {about}."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    found = _verb(verbs, "list", "what was learned; with words, what is for that, best first")
    found.add_argument("intent", nargs="*", metavar="WORD", help="what it should be for")
    found.add_argument("--retired", action="store_true", help="also what is not run any more")
    _one(_verb(verbs, "show", "the code of one, what it uses and how it has done"))
    gone = _verb(verbs, "forget", "forget one, or all")
    which = gone.add_mutually_exclusive_group(required=True)
    _one(which, nargs="?")
    which.add_argument("--all", action="store_true", help="forget everything that was learned")
    _verb(verbs, "graph", "what uses which tools, and which are used together", whose=False)
    out = _verb(verbs, "export", "write some, or all that are not retired, as JSON", plain=False)
    _one(out, nargs="*")
    out.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to; printed if not given")
    taken = _verb(verbs, "import", "take over what export has written", whose=False)
    taken.add_argument("file", type=Path, metavar="FILE", help="what export has written")
    taken.add_argument("--principal", default="local", metavar="NAME", help="whose they will be (local)")
    taken.add_argument("--proven", action="store_true", help="show them beside tools at once: you know that they work")
    taken.add_argument("--dry-run", action="store_true", help="only say what would be taken, and from whom")
    named = _verb(verbs, "rename", "give one another name")
    _one(named)
    named.add_argument("name", metavar="NAME", help="lower case letters and digits in words joined by _")
    _one(_verb(verbs, "disable", "switch one off, whatever is learned"))
    _one(_verb(verbs, "enable", "switch one on again"))


def _one(parser: Any, **more: Any) -> None:
    parser.add_argument("id", metavar="ID", help="its id, or the beginning of it, or its name", **more)


def _verb(verbs: Any, name: str, about: str, *, whose: bool = True, plain: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    if plain:
        parser.add_argument("--json", action="store_true", help="one JSON document")
    if whose:
        parser.add_argument("--principal", default="", metavar="NAME", help="only what this principal's code taught")
    parser.set_defaults(run_with=_run, verb=name)
    return parser


async def _run(arguments: argparse.Namespace, services: Services) -> int:
    from . import administration, commands

    verbs = {
        "list": commands.show_list,
        "show": commands.show_one,
        "forget": commands.forget,
        "graph": commands.show_graph,
        "export": administration.export_some,
        "import": administration.import_some,
        "rename": administration.rename,
        "disable": administration.disable,
        "enable": administration.enable,
    }
    return await verbs[arguments.verb](arguments, services)
