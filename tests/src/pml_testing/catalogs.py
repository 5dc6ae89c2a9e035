"""A catalog as large as the original's example: 687 tools of some 65 tokens each, of 23 servers, made up."""

from __future__ import annotations

from typing import Any

SIZE = 687
VERBS = ("list", "get", "create", "update", "delete", "search", "export", "archive", "share", "count")
THINGS = {
    "mail": ("message", "thread", "label", "draft"),
    "calendar": ("event", "attendee", "reminder"),
    "git": ("branch", "commit", "tag", "stash"),
    "issues": ("issue", "comment", "milestone"),
    "files": ("file", "folder", "permission"),
    "database": ("table", "row", "index"),
    "crm": ("contact", "deal", "pipeline"),
    "billing": ("invoice", "refund", "subscription"),
    "chat": ("channel", "reaction", "mention"),
    "wiki": ("page", "revision", "attachment"),
    "cloud": ("instance", "volume", "snapshot"),
    "dns": ("zone", "record", "certificate"),
    "metrics": ("dashboard", "alert", "series"),
    "shop": ("product", "order", "coupon"),
    "maps": ("place", "route", "review"),
    "weather": ("forecast", "station", "warning"),
    "music": ("playlist", "track", "album"),
    "photos": ("photo", "gallery", "face"),
    "travel": ("flight", "hotel", "booking"),
    "health": ("workout", "meal", "measurement"),
    "home": ("lamp", "thermostat", "scene"),
    "news": ("article", "feed", "source"),
    "surveys": ("survey", "question", "answer"),
}


def large_catalog() -> dict[str, list[dict[str, Any]]]:
    """Tools by server, :data:`SIZE` in all; the same ones each time."""
    made: dict[str, list[dict[str, Any]]] = {server: [] for server in THINGS}
    count = 0
    for verb in VERBS:
        for server, things in THINGS.items():
            for thing in things:
                if count < SIZE:
                    made[server].append(_tool(server, verb, thing))
                    count += 1
    if count != SIZE:
        raise AssertionError(f"{count} tools, not {SIZE}: add things")
    return made


def _tool(server: str, verb: str, thing: str) -> dict[str, Any]:
    return {
        "name": f"{verb}_{thing}",
        "description": f"{verb.capitalize()} one {thing} or several in {server}, by id or by what it is called.",
        "inputSchema": {
            "type": "object",
            "properties": {
                f"{thing}_id": {"type": "string", "description": f"Id of the {thing}"},
                "limit": {"type": "integer"},
            },
            "required": [f"{thing}_id"],
        },
    }
