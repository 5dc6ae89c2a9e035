"""Operations of an OpenAPI document, as tools and as requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .documents import BODY, parameters, with_schemas

METHODS = ("get", "put", "post", "delete", "patch")
MEMBERS = {"query": "params", "header": "headers"}
"""Of a request."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    places: Mapping[str, str]
    """Where each argument goes: ``path``, ``query``, ``header`` or ``body``."""
    definition: Mapping[str, Any]

    def request(self, base: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What to send. Raises ValueError for arguments that no request can be made of."""
        made: dict[str, Any] = {"method": self.method.upper(), "url": base + self.path}
        for name, value in arguments.items():
            if (place := self.places.get(name)) is None:
                raise ValueError(f"unknown argument {name!r}; there are {', '.join(self.places) or 'none'}")
            if place == BODY:
                made["json"] = value
            elif place == "path":
                if str(value) in ("", ".", ".."):
                    raise ValueError(f"{name} may not be {value!r}: it would lead to another path")
                made["url"] = made["url"].replace(f"{{{name}}}", quote(str(value), safe=""))
            else:
                made.setdefault(MEMBERS[place], {})[name] = str(value) if place != "query" else value
        if missing := [name for name, place in self.places.items() if place == "path" and name not in arguments]:
            raise ValueError(f"{missing[0]} is missing")
        return made


def operations_of(document: Mapping[str, Any]) -> dict[str, Operation]:
    """By the name of the tool."""
    return {operation.definition["name"]: operation for operation in _operations(document)}


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, item in document["paths"].items():
        for method in (m for m in METHODS if path.startswith("/") and m in item):  # else it could name another host
            told = item[method]
            places: dict[str, str] = {}
            schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
            for one in parameters(document, item, told):
                places[one["name"]] = one["in"]
                about = {"description": one["description"]} if "description" in one else {}
                schema["properties"][one["name"]] = {**one.get("schema", {}), **about}
                schema["required"] += [one["name"]] if one.get("required") else []
            definition = {
                "name": re.sub(r"[^A-Za-z0-9_.-]+", "_", told.get("operationId") or f"{method}{path}").strip("_"),
                "description": told.get("description") or told.get("summary") or f"{method.upper()} {path}",
                "inputSchema": with_schemas(document, schema),
                "annotations": {"readOnlyHint": method == "get", "destructiveHint": method in ("put", "delete")},
            }
            yield Operation(method, path, places, definition)
