"""What a server says of itself and of its tools is kept and shown without secrets; what is called stays as it is."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pml_hookspecs import RawObject
from pml_mcp.servers.connection_context import RedactedLink

pytestmark = pytest.mark.anyio


async def redacted(raw, secret="s3cret"):
    async def request(_method, _params, *, timeout_s):
        assert timeout_s == 1.0
        return given

    given = RawObject(raw)
    link = RedactedLink(SimpleNamespace(request=request), lambda text: text.replace(secret, "****"))
    return await link.request("tools/list", {}, timeout_s=1.0), given


async def test_words_are_redacted_and_names_and_choices_are_not():
    schema = {
        "type": "object", "title": "of s3cret",
        "properties": {"s3cret": {"enum": ["s3cret"], "default": "s3cret", "description": "not s3cret"},
                       "description": {"type": "string", "title": "s3cret"}},
    }  # fmt: skip
    tools = [{"name": "s3cret_list", "description": "Lists s3cret.", "inputSchema": schema}, {"name": "other"}]
    answer, _ = await redacted(json.dumps({"tools": tools, "nextCursor": "s3cret"}).encode())
    assert json.loads(answer.raw) == json.loads(
        json.dumps({"tools": tools, "nextCursor": "s3cret"})
        .replace("of s3cret", "of ****").replace("not s3cret", "not ****").replace("Lists s3cret", "Lists ****")
        .replace('"title": "s3cret"', '"title": "****"')
    )  # fmt: skip


@pytest.mark.parametrize("raw", [b'{"tools": [], "n": 1e400}', b'{"description": "\xff"}'])
async def test_an_answer_without_a_secret_goes_on_as_it_came(raw):
    answer, given = await redacted(raw)
    assert answer is given


async def test_what_is_nested_too_deep_to_be_read_has_no_secret_either():
    answer, _ = await redacted(b'{"a":' * 900 + b'{"description":"s3cret"}' + b"}" * 900)
    assert b"s3cret" not in answer.raw
