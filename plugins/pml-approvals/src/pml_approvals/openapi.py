"""What the OpenAPI document of the gateway says of the routes of approvals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_kit.offers import ApiDescription

from .tool import DEFINITION, LIST_DEFINITION

TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
APPROVAL = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("approval_id", "principal", "kind", "target"), TEXT),
        **dict.fromkeys(("intent", "execution_id", "agent", "requested_at"), TEXT_OR_NULL),
        "request": {},
        "flows": {"type": "array"},
        "before": {"type": ["object", "null"], "description": "What was approved last of the same target, and by whom"},
    },
    "required": ["approval_id", "principal", "kind", "target"],
}
LISTED = {
    "type": "object",
    "properties": {"approvals": {"type": "array", "items": APPROVAL}},
    "required": ["approvals"],
}
ANSWERED = {
    "type": "object",
    "properties": {"approval_id": TEXT, "state": TEXT},
    "required": ["approval_id", "state"],
}
GIVEN = {
    "type": "object",
    "properties": {name: DEFINITION["inputSchema"]["properties"][name] for name in ("approve", "reason")},
    "required": ["approve"],
    "additionalProperties": False,
}
ID = {"name": "approval_id", "in": "path", "required": True, "description": "As the list has it", "schema": TEXT}
ERRORS = {
    "401": "No key, or one that is not known",
    "403": "The key lacks the scope 'approve', or may not use the tool",
    "429": "Too often; Retry-After says when to try again",
}
ERRORS_OF_ANSWER = {
    "404": "There is no such request",
    "409": "It is answered already, or ended",
    "422": "The body is not what it must be; the message says what that is",
}


def description() -> ApiDescription:
    """Both routes."""
    listing = _operation("listApprovals", LIST_DEFINITION, "Approvals", ERRORS)
    answering = _operation("answerApproval", DEFINITION, "Answered", {**ERRORS, **ERRORS_OF_ANSWER})
    body = {"required": True, "content": {"application/json": {"schema": GIVEN}}}
    return ApiDescription(
        paths={
            "/api/approvals": {"get": listing},
            "/api/approvals/{approval_id}": {"post": {**answering, "parameters": [ID], "requestBody": body}},
        },
        schemas={"Approvals": LISTED, "Answered": ANSWERED},
    )


def _operation(id: str, tool: Mapping[str, Any], answers: str, errors: Mapping[str, str]) -> dict[str, Any]:
    return {
        "operationId": id,
        "summary": tool["description"],
        "responses": {
            "200": _said("The answer", answers),
            **{status: _said(about, "Error") for status, about in sorted(errors.items())},
        },
    }


def _said(about: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": about, "content": content}
