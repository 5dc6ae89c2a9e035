"""Tools to make plans of: some seven hundred made up after real ones, or those of a file."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pml_catalog.live import make_entry
from pml_hookspecs import CatalogEntry

ID = {"type": "string", "pattern": "^[a-z]{2,4}_[0-9a-f]{8}$", "description": "Identifier"}
WHEN = {"type": "string", "format": "date-time"}
DAY = {"type": "string", "format": "date"}
MAIL = {"type": "string", "format": "email"}
LINK = {"type": "string", "format": "uri"}
TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
WORDS = {"type": "array", "items": {"type": "string"}, "maxItems": 10}
MONEY = {"type": "number", "minimum": 0, "maximum": 100_000}
COUNT = {"type": "integer", "minimum": 1, "maximum": 100}
NUMBER = {"type": "integer", "minimum": 1}
FLAG = {"type": "boolean"}


def choice(*options: str) -> dict[str, Any]:
    """One of several words."""
    return {"type": "string", "enum": list(options)}


PERSON = {
    "type": "object",
    "properties": {"name": TEXT, "email": MAIL, "phone": {"type": ["string", "null"]}},
    "required": ["name", "email"],
    "additionalProperties": False,
}
PLACE = {
    "type": "object",
    "properties": {
        "latitude": {"type": "number", "minimum": -90, "maximum": 90},
        "longitude": {"type": "number", "minimum": -180, "maximum": 180},
        "label": {"type": "string"},
    },
    "required": ["latitude", "longitude"],
}
SERVERS: dict[str, dict[str, dict[str, Any]]] = {
    "tracker": {
        "issue": {"title": TEXT, "body": TEXT, "state": choice("open", "closed"), "labels": WORDS, "number": NUMBER},
        "milestone": {"title": TEXT, "due_on": DAY, "state": choice("open", "closed"), "progress": MONEY},
        "comment": {"body": TEXT, "author": PERSON, "created_at": WHEN},
        "release": {"tag": {"type": "string", "pattern": r"^v\d+\.\d+\.\d+$"}, "notes": TEXT, "draft": FLAG},
    },
    "mail": {
        "message": {"to": MAIL, "subject": TEXT, "body": TEXT, "priority": choice("low", "normal", "high")},
        "folder": {"name": TEXT, "unread": NUMBER, "shared": FLAG},
        "contact": {"person": PERSON, "groups": WORDS, "homepage": LINK},
    },
    "calendar": {
        "event": {"title": TEXT, "starts_at": WHEN, "ends_at": WHEN, "attendees": {"type": "array", "items": PERSON}},
        "room": {"name": TEXT, "seats": COUNT, "floor": {"type": "integer"}},
        "reminder": {"text": TEXT, "at": WHEN, "repeat": choice("never", "daily", "weekly")},
    },
    "shop": {
        "order": {"customer": PERSON, "total": MONEY, "currency": choice("EUR", "USD", "GBP"), "paid": FLAG},
        "product": {"name": TEXT, "price": MONEY, "stock": NUMBER, "tags": WORDS, "image": LINK},
        "refund": {"amount": MONEY, "reason": choice("damaged", "late", "other"), "note": TEXT},
        "coupon": {"code": TEXT, "percent": COUNT, "valid_until": DAY},
    },
    "maps": {
        "route": {"origin": PLACE, "goal": PLACE, "mode": choice("car", "bike", "foot"), "meters": NUMBER},
        "place": {"at": PLACE, "name": TEXT, "rating": {"type": "number", "minimum": 0, "maximum": 5}},
        "area": {"corners": {"type": "array", "items": PLACE, "minItems": 3}, "name": TEXT},
    },
    "crm": {
        "lead": {"person": PERSON, "value": MONEY, "stage": choice("new", "talking", "won", "lost"), "source": TEXT},
        "company": {"name": TEXT, "site": LINK, "employees": NUMBER, "address": PLACE},
        "note": {"text": TEXT, "pinned": FLAG, "written_at": WHEN},
    },
    "metrics": {
        "series": {"name": TEXT, "points": {"type": "array", "items": {"type": "number"}}, "unit": TEXT},
        "alert": {"level": choice("info", "warning", "critical"), "limit": MONEY, "enabled": FLAG, "since": WHEN},
        "dashboard": {"title": TEXT, "panels": COUNT, "public": FLAG},
    },
    "people": {
        "employee": {"person": PERSON, "joined": DAY, "team": TEXT, "salary": MONEY, "skills": WORDS},
        "absence": {"from_day": DAY, "to_day": DAY, "kind": choice("holiday", "sick", "parental")},
        "review": {"score": {"type": "integer", "minimum": 1, "maximum": 5}, "text": TEXT},
    },
}
VERBS = ("list", "get", "create", "update", "delete", "search", "count")
COPIES = ("", "_eu", "_us", "_test", "_archive")
"""As many of each server, as companies have them."""


def made_up(least: int, seed: int) -> list[CatalogEntry]:
    """At least ``least`` tools, always the same ones for the same seed."""
    found: list[CatalogEntry] = []
    for copy in range((least // 182) + 1):
        suffix = COPIES[copy] if copy < len(COPIES) else f"_{copy}"
        for server, things in SERVERS.items():
            for thing, fields in things.items():
                for verb in VERBS:
                    chance = random.Random(f"{seed} {server}{suffix} {thing} {verb}")
                    found.append(make_entry(f"{server}{suffix}", _definition(verb, thing, fields, chance)))
    return found


def _definition(verb: str, thing: str, fields: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    whole = {"id": ID, **fields, "created_by": {"anyOf": [PERSON, {"type": "null"}]}}
    told: dict[str, Any] = {
        "name": f"{verb}_{thing}{'s' if verb in ('list', 'search', 'count') else ''}",
        "description": f"{verb} {thing}".capitalize(),
        "inputSchema": _input(verb, thing, fields, chance),
    }
    hints = {
        "list": {"readOnlyHint": True},
        "get": {"readOnlyHint": True},
        "search": {"readOnlyHint": True, "openWorldHint": True},
        "create": {"destructiveHint": False},
        "update": {"destructiveHint": True, "idempotentHint": True},
        "delete": {"destructiveHint": True},
    }
    if verb in hints and chance.random() < 0.8:
        told["annotations"] = hints[verb]
    if (output := _output(verb, thing, whole, chance)) is not None:
        told["outputSchema"] = output
    return told


def _input(verb: str, thing: str, fields: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    id_ = {f"{thing}_id": ID}
    page = {"limit": COUNT, "cursor": {"type": ["string", "null"]}}
    if verb in ("get", "delete"):
        schema: dict[str, Any] = {"properties": {**id_, "force": FLAG}, "required": [f"{thing}_id"]}
    elif verb in ("list", "count"):
        filters = {name: one for name, one in fields.items() if one.get("type") in ("string", "integer", "boolean")}
        schema = {"properties": {**filters, **page}, "required": chance.sample(sorted(filters), min(1, len(filters)))}
    elif verb == "search":
        order = {"order": choice("newest", "oldest", "best")}
        schema = {"properties": {"query": TEXT, **page, **order}, "required": ["query"]}
    elif chance.random() < 0.3:
        # As generators for typed languages write them.
        inner = {"type": "object", "properties": fields, "required": sorted(fields)[:2], "additionalProperties": False}
        schema = {
            "properties": {thing: {"$ref": f"#/$defs/{thing}"}, **(id_ if verb == "update" else {})},
            "required": [thing, *(id_ if verb == "update" else ())],
            "$defs": {thing: inner},
        }
    else:
        schema = {"properties": {**(id_ if verb == "update" else {}), **fields}, "required": sorted(fields)[:2]}
        schema["required"] += list(id_) if verb == "update" else []
        if chance.random() < 0.3:
            schema["properties"]["notify"] = {"oneOf": [{"type": "boolean"}, {"type": "array", "items": MAIL}]}
    closed = {"additionalProperties": False} if chance.random() < 0.6 else {}
    return {"type": "object", **schema, **closed}


def _output(verb: str, thing: str, whole: dict[str, Any], chance: random.Random) -> dict[str, Any] | None:
    if chance.random() < 0.4:
        return None
    closed = {"additionalProperties": False} if chance.random() < 0.6 else {}
    one = {"type": "object", "properties": whole, "required": ["id"], **closed}
    if verb in ("list", "search"):
        total = {"total": {"type": "integer"}, "next": {"type": ["string", "null"]}}
        items = {"items": {"type": "array", "items": {"$ref": f"#/$defs/{thing}"}}}
        return {"type": "object", "properties": {**items, **total}, "$defs": {thing: one}, **closed}
    if verb == "count":
        return {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"], **closed}
    if verb == "delete":
        return {"type": "object", "properties": {"deleted": FLAG, "id": ID}, **closed}
    return one


def of_files(data: Path, most: int) -> Iterator[tuple[str, list[CatalogEntry]]]:
    """The catalogs below a folder, each ``catalog.jsonl`` one, and no more than ``most`` tools of each."""
    for path in sorted(data.rglob("catalog.jsonl")):
        entries: dict[str, CatalogEntry] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            definition = {
                "name": row["name"],
                "description": row.get("description", ""),
                "inputSchema": row.get("input_schema") or {"type": "object"},
            }
            entry = make_entry(row["server"].replace(":", "_") or "server", definition)
            entries.setdefault(entry.id, entry)
        yield path.parent.name, _some(list(entries.values()), most)


def _some(entries: Sequence[CatalogEntry], most: int) -> list[CatalogEntry]:
    """The same ones each time, from everywhere in the file."""
    return sorted(entries, key=lambda e: hashlib.sha256(e.id.encode()).digest())[:most]
