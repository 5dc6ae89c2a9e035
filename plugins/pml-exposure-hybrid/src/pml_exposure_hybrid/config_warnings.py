"""What is legal in ``[plugins.hybrid]``, but hardly meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

from pml_hookspecs import GATEWAY_SERVER, split_tool_id

if TYPE_CHECKING:
    from pml_kit.offers import View

    from .settings import Settings

MANY = 100
"""More listed tools than this fill a context [tools]."""
MODE, TABLE = "hybrid", "plugins.hybrid"
READERS = (MODE, "semantic")
"""Modes that take settings of this table."""
PATTERN = "*?["


def settings_warnings(settings: Settings, views: Sequence[View], servers: Collection[str]) -> Iterator[str]:
    """One sentence each, with what to do.

    Args:
        settings: The table.
        views: What each endpoint shows, the default one first.
        servers: Names of those that are configured and enabled.
    """
    modes = {view.mode for view in views}
    yield from _intents(settings, views)
    if MODE in modes:
        yield from _contradictions(settings)
    if modes.isdisjoint(READERS):
        yield from _unused(settings)
    elif MODE in modes:
        yield from _caps(settings)
    yield from _lists(settings, servers)


def _intents(settings: Settings, views: Sequence[View]) -> Iterator[str]:
    if settings.intents or settings.fallback != "nothing" or not settings.apply_semantic_filter:
        return
    for view in views:
        if view.mode == MODE and not view.intent.strip():
            where = "gateway" if view.endpoint == "default" else f"endpoints.{view.endpoint}"
            yield (
                f"{where}.intent: is empty, so {MODE} lists no tools by relevance to clients that send no hint of "
                f"their own. Say in a few words what the clients do, or one by one in {TABLE}.intents, or set "
                f"{TABLE}.fallback, or choose meta_only."
            )


def _contradictions(settings: Settings) -> Iterator[str]:
    if not settings.expose_meta_tools and not settings.expose_underlying_tools:
        yield f"{TABLE}: expose_meta_tools and expose_underlying_tools are both off: clients see nothing. Turn one on."
    elif not settings.expose_meta_tools:
        yield f"{TABLE}.expose_meta_tools: is off: what is not listed cannot be found. Turn it on."
    if not settings.expose_underlying_tools and settings.whitelisted_tools:
        yield f"{TABLE}.whitelisted_tools: has no effect while expose_underlying_tools is off."
    if len(settings.whitelisted_tools) > settings.max_underlying_tools:
        yield (
            f"{TABLE}.whitelisted_tools: names more tools than max_underlying_tools allows; they are all listed, "
            "and the list is longer than that."
        )


def _caps(settings: Settings) -> Iterator[str]:
    if settings.max_underlying_tools > MANY:
        yield f"{TABLE}.max_underlying_tools: over {MANY} tools fill a context; 20 to 50 suit most clients."
    if settings.apply_semantic_filter and settings.semantic_threshold == 0:
        yield f"{TABLE}.semantic_threshold: at 0 the list is filled up with tools that do not fit; 0.6 is the default."
    if settings.apply_semantic_filter and settings.semantic_threshold == 1:
        yield f"{TABLE}.semantic_threshold: at 1 hardly any tool is listed; 0.6 is the default."


def _unused(settings: Settings) -> Iterator[str]:
    defaults = {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default
        for one in fields(settings)
    }
    said = [
        name for name, value in defaults.items() if getattr(settings, name) != value and name != "blacklisted_tools"
    ]
    if said:
        yield f"{TABLE}: {', '.join(said)} has no effect: no endpoint uses {' or '.join(READERS)}."


def _lists(settings: Settings, servers: Collection[str]) -> Iterator[str]:
    white, black = settings.whitelisted_tools, settings.blacklisted_tools
    for name in sorted(set(white) & set(black)):
        yield f"{TABLE}: {name!r} is in both lists; the blacklist wins. Take it out of one of them."
    known = {*servers, GATEWAY_SERVER}
    for key, names in (("whitelisted_tools", white), ("blacklisted_tools", black)):
        for name in names:
            server = split_tool_id(name)[0] or (name.partition("__")[0] if "__" in name else "")
            if not server and key == "blacklisted_tools" and any(char in name for char in PATTERN):
                yield f"{TABLE}.{key}: {name!r} names no server, so it fits nothing; write '*:{name}' for any server."
            elif server and servers and server not in known and not any(char in server for char in PATTERN):
                remedy = f"correct the name{_near(server, known)}"
                yield f"{TABLE}.{key}: {name!r}: no server {server!r} is configured and enabled; {remedy}."


def _near(server: str, known: Iterable[str]) -> str:
    import difflib

    found = difflib.get_close_matches(server, known, n=1)
    return f", maybe to {found[0]!r}" if found else ""
