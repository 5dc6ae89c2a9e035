"""``select`` of ``get_execution_result``: what of a response is answered."""

from __future__ import annotations

import json

import pytest

from pml_hookspecs import RawObject, encode

pytestmark = pytest.mark.anyio
ROWS = {"rows": [{"n": 1}, {"n": 2}]}
TEXT = json.dumps(ROWS)


@pytest.mark.parametrize(
    "members",
    [
        {"response": {"content": [{"type": "text", "text": TEXT}]}},
        {"response": {"content": [], "structuredContent": ROWS}},
        {"response": {"content": [], "structuredContent": {"response": TEXT}}, "target": "agents:ruby-agent"},
        {"response": ROWS, "kind": "workflow", "target": "", "trigger": "schedule"},
        {"response": RawObject(encode(ROWS)), "kind": "capability", "trigger": "schedule"},
        {"response": {"value": TEXT}["value"], "kind": "code"},
    ],
    ids=["text", "structured", "an agent's", "a scheduled plan's", "a capability's", "code's"],
)
async def test_of_a_response_what_is_selected_is_answered(history, members):
    assert (await history.result(history.record(**members), select="rows[1].n"))["response"] == 2
    assert (await history.result(select="nothing"))["response"] is None


@pytest.mark.parametrize(
    ("response", "select", "message"),
    [
        (ROWS, "rows[", "'select' is no JMESPath expression"),
        (ROWS, "abs(rows)", "'select' "),
        ("15 invoices", "a", "'select' is for JSON, and the response is a text."),
        ({"truncated": True, "size_bytes": 9_000_000, "head": "["}, "a", "only the head of 9,000,000 bytes"),
    ],
)
async def test_what_cannot_be_selected_is_said(history, response, select, message):
    await history.put(history.record(kind="code", response=response))
    arguments = {"agent_name": "ruby-agent", "execution_id": "abc123", "select": select}
    assert message in await history.refused("get_execution_result", arguments)
