"""Looking things up in an OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

BODY = "body"
"""The argument that is the body of the request."""
SCHEMAS = "#/components/schemas/"


def parameters(
    document: Mapping[str, Any], item: Mapping[str, Any], operation: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Those of a path and of one of its operations, and its JSON body as if it were one. Cookies are left out."""
    for given in (*item.get("parameters", []), *operation.get("parameters", [])):
        if (one := _resolved(document, given))["in"] != "cookie":
            yield one
    yield from _body(document, operation)


def _body(document: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A JSON body as if it were a parameter."""
    body = _resolved(document, told.get("requestBody", {}))
    if (media := body.get("content", {}).get("application/json")) is not None:
        yield {"name": BODY, "in": BODY, "required": body.get("required"), "schema": media.get("schema", {})}


def _resolved(document: Mapping[str, Any], node: Any) -> Any:
    while "$ref" in node:
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        node = found
    return node


def with_schemas(document: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with those that it refers to."""
    if SCHEMAS not in json.dumps(schema):
        return schema
    whole = {**schema, "$defs": document["components"]["schemas"]}
    moved: dict[str, Any] = json.loads(json.dumps(whole).replace(SCHEMAS, "#/$defs/"))
    return moved
