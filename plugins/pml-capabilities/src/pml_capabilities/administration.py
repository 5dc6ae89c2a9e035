"""What an operator does: ``pml capabilities export | import | rename | disable | enable``, and the tools like them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, replace
from pml_kit.offers import report_change
from pml_kit.terminal import print_json

from .commands import about_one, library_in, one_named, say
from .exchange import MOST_BYTES, NAME_RULE, exported, is_name, read
from .normalization import owned
from .settings import Settings
from .tools import takes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from pml_hookspecs import Run, Services

    from .capability import Capability

SYSTEM, OPERATE = "system", "operate"
"""Scopes of keys: to see everything, and to change what operators change."""
MOST_TOLD = 500


async def export_some(arguments: argparse.Namespace, services: Services) -> int:
    """Write those that are named, or all that are not retired, as JSON."""
    library = library_in(services)
    if arguments.id:
        chosen = [await one_named(text, library, arguments.principal) for text in arguments.id]
    else:
        whose = arguments.principal
        chosen = [c for c in await library.all() if not c.retired and (not whose or c.owner == whose)]
    text = json.dumps(exported(sorted(chosen, key=lambda c: c.id)), indent=2, ensure_ascii=False) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
        return 0
    _write(arguments.output, text)
    say(f"Wrote {len(chosen)} capabilities to {arguments.output}.")
    return 0


def _write(path: Path, text: str) -> None:
    try:
        # It holds code and words of people: for nobody else to read.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    except OSError as exc:
        raise InvalidArguments(f"{path} cannot be written: {exc.strerror}") from None


async def import_some(arguments: argparse.Namespace, services: Services) -> int:
    """Take over what a file holds, as somebody's own; says first what that is and from whom."""
    settings: Settings = services.settings or Settings()
    library = library_in(services)
    read_from = str(arguments.file)
    found = read(_bytes(arguments.file), read_from, arguments.principal, settings)
    vouched = [replace(one, vouched=arguments.proven) for one in found]
    if not arguments.json:
        say(f"For {arguments.principal}, from {read_from}:" if found else f"There is nothing in {read_from}.")
        for one in vouched:
            _tell(one, services)
    if arguments.dry_run:
        if arguments.json:
            print_json({"would_import": [_plain(one) for one in vouched]})
        else:
            say("Nothing was taken: this was a dry run.")
        return 0
    taken: list[Capability] = []
    kept: list[Capability] = []
    for one in vouched:
        details = {**_about(one), "from": one.source, "file": read_from, "tools": sorted(one.tools)}
        await _report(services, "capability.imported", details)
        made = await library.add(one, keep=settings.keep, shared=settings.shared)
        (kept if made is None else taken).append(made or one)
    if arguments.json:
        print_json({"imported": [_plain(one) for one in taken], "kept": [_plain(one) for one in kept]})
        return 0
    _say_what_was_taken(taken, kept, settings, proven=arguments.proven)
    return 0


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as exc:
        raise InvalidArguments(f"{path} cannot be read: {exc.strerror}") from None


def _tell(one: Capability, services: Services) -> None:
    say(f"\n  {one.name}")
    for intent in one.intents:
        say(f"    for: {intent}")
    say(f"    learned by {one.source}, as the file says; {one.language}, {len(one.code.splitlines())} lines")
    for tool, digest in sorted(one.tools.items()):
        entry = services.catalog.get(tool)
        here = "not known here" if entry is None else "as here" if entry.digest == digest else "defined otherwise here"
        say(f"    calls {tool} ({here})")
    if not one.tools:
        say("    calls no tools")
    say(f"    takes {takes(one)}")


def _say_what_was_taken(taken: list[Capability], kept: list[Capability], settings: Settings, *, proven: bool) -> None:
    for one in kept:
        say(f"\n{one.name} was left as it is: its code is known as {one.id} already.")
    say(f"\nImported {len(taken)}. They run as code of whoever calls them, and may call the tools above, no others.")
    if taken and not proven:
        say(
            f"Clients find them beside tools after {settings.proven_after} good runs each by id; import with --proven "
            "where you know that they work."
        )
    for one in taken:
        say(f"  {one.id}  {one.name}")


async def rename(arguments: argparse.Namespace, services: Services) -> int:
    """Give one another name."""
    library, name = library_in(services), arguments.name
    known = await one_named(arguments.id, library, arguments.principal)
    if not is_name(name):
        raise InvalidArguments(f"{name!r} is no name of a capability: {NAME_RULE}")
    if name != known.name and await library.has_name(name, known.owner):
        raise InvalidArguments(f"{name!r} is the name of another capability of {known.owner or 'everybody'}")
    await _report(services, "capability.renamed", {**_about(known), "to": name})
    made = await library.change(known.id, lambda now: replace(now, name=name))
    return _done(arguments, made, f"{known.id} is called {name} now, {_as_a_tool(name, known, services)} as a tool.")


async def disable(arguments: argparse.Namespace, services: Services) -> int:
    """Switch one off: it is neither run nor shown, whatever is learned."""
    return await _switch(arguments, services, off=True)


async def enable(arguments: argparse.Namespace, services: Services) -> int:
    """Switch one on again."""
    return await _switch(arguments, services, off=False)


async def _switch(arguments: argparse.Namespace, services: Services, *, off: bool) -> int:
    known = await one_named(arguments.id, library_in(services), arguments.principal)
    made = await switched(known, services, off=off)
    said = f"{known.id} ({known.name}) is not run any more." if off else f"{known.id} ({known.name}) may be run again."
    return _done(arguments, made, said)


async def switched(known: Capability, services: Services, *, off: bool, by: str = "") -> Capability | None:
    """Switch one off or on, as ``by`` says, an operator's command if nobody; None when it is not there any more."""
    about = {**_about(known), **({"by": by} if by else {})}
    await _report(services, "capability.disabled" if off else "capability.enabled", about)
    return await library_in(services).change(known.id, lambda now: replace(now, disabled=off))


async def tell(arguments: Mapping[str, Any], run: Run, services: Services) -> Mapping[str, Any]:
    """``{"capabilities": […], "total": N}``, those that changed last first; of one that is asked for, its code as well.

    With the scope ``system`` all are told of, else those that the caller may know of.

    Raises:
        InvalidArguments: The arguments do not fit, or there is no such capability for the caller.
    """
    settings: Settings = services.settings or Settings()
    library, id, limit = library_in(services), arguments.get("capability_id", ""), arguments.get("limit", MOST_TOLD)
    if not isinstance(id, str) or type(limit) is not int or not 1 <= limit <= MOST_TOLD:
        raise InvalidArguments(f"list_capabilities: capability_id must be a text, and limit 1 to {MOST_TOLD}")
    known = [one for one in await library.all() if _may_know(one, run, settings)]
    if not id:
        return {"capabilities": [about_one(one, services) for one in known[:limit]], "total": len(known)}
    for one in known:
        if one.id == id:
            more = {"code": one.code, "inputs": dict(one.inputs), "takes": takes(one)}
            return {"capabilities": [{**about_one(one, services), **more}], "total": 1}
    raise InvalidArguments(f"list_capabilities: there is no capability {id[:80]!r} of yours")


def _may_know(one: Capability, run: Run, settings: Settings) -> bool:
    return SYSTEM in run.session.scopes or one.visible(run.session.principal, settings)


async def switch(arguments: Mapping[str, Any], run: Run, services: Services) -> Mapping[str, Any]:
    """``{"capability_id", "disabled"}``.

    Raises:
        InvalidArguments: The caller may not, the arguments do not fit, or there is no such capability for it.
    """
    if OPERATE not in run.session.scopes:
        raise InvalidArguments(
            "switch_capability: this key lacks the scope 'operate'; on the terminal it is pml capabilities disable"
        )
    settings: Settings = services.settings or Settings()
    id, enabled = arguments.get("capability_id"), arguments.get("enabled")
    if not isinstance(id, str) or not isinstance(enabled, bool):
        raise InvalidArguments("switch_capability: give capability_id (text) and enabled (true or false)")
    known = await library_in(services).get(id)
    made = None
    if known is not None and _may_know(known, run, settings):
        made = await switched(known, services, off=not enabled, by=run.session.principal)
    if made is None:
        raise InvalidArguments(f"switch_capability: there is no capability {id[:80]!r}")
    return {"capability_id": made.id, "disabled": made.disabled}


def _done(arguments: argparse.Namespace, made: Capability | None, said: str) -> int:
    if made is None:
        raise InvalidArguments(f"there is no capability {arguments.id!r} any more")
    if arguments.json:
        print_json(_plain(made))
    else:
        say(said)
    return 0


def _as_a_tool(name: str, one: Capability, services: Services) -> str:
    settings: Settings = services.settings or Settings()
    return f"{settings.server}__{owned(name, '' if settings.shared else one.owner)}"


def _plain(one: Capability) -> dict[str, Any]:
    return {"id": one.id, "name": one.name, "principals": sorted(one.principals), "disabled": one.disabled}


def _about(one: Capability) -> dict[str, Any]:
    return {"capability": one.id, "name": one.name, "principals": sorted(one.principals)}


async def _report(services: Services, code: str, details: Mapping[str, Any]) -> None:
    # First, because somebody who changes things might end the command before it is through.
    await report_change(services, "capabilities", code, details)
