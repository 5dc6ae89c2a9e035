from __future__ import annotations

import pytest

from pml_hookspecs import RawObject
from pml_mcp.servers.features import Claims
from pml_mcp.servers.links import Links

pytestmark = pytest.mark.anyio


class _Two:
    """Two servers with resources, of which the first has ``a://x``. As much of ``Features`` as links need."""

    several = True

    async def claims(self, _keeps):
        return Claims({"a://x": "one"}, [], ["one", "two"], lambda _server, _uri: True)


class _Second:
    name = "two"

    def offers(self, _capability):
        return True


@pytest.mark.attack("No input stops the house", "answer with links that are no text, no list, no Unicode, or too deep")
@pytest.mark.parametrize(
    "raw",
    [
        b'{"content":["uri",1,null,{"uri":3},{"type":["uri"],"uri":"a"}]}',
        b'{"content":[{"type":"resource_link","uri":"\\ud800"}]}',
        b'{"content":[{"type":"resource","resource":["uri"]}],"contents":{"uri":1}}',
        b'{"messages":[1,{"content":"uri"},{"content":[1]}],"z":{"uri":2}}',
        b'{"_meta":{"ui":{"resourceUri":["x"]}}}',
        b'{"content":[{"type":"resource_link","uri":"a://x","q":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    ],
    ids=["items", "surrogate", "members", "messages", "page", "deep"],
)
async def test_what_is_no_link_goes_on_as_it_came(raw):
    links = Links(_Two(), lambda _name, _session: True)
    assert (await links.followable(_Second(), RawObject(raw), None)).raw == raw
