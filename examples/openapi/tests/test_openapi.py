from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from pml_example_openapi import OpenApi
from pml_hookspecs import Endpoint, RpcError, TransportError

pytestmark = pytest.mark.anyio
KEY = {"Authorization": "Bearer abc"}


class Handler:
    def closed(self, error):
        self.error = error


def connect(address, **options):
    return OpenApi().connect(Endpoint(name="pets", address=f"openapi:{address}", options=options), Handler())


async def call(link, name, /, **arguments):
    answer = await link.request("tools/call", {"name": name, "arguments": arguments}, timeout_s=5)
    return answer["structuredContent"]


async def test_operations_are_tools_of_a_gateway(gateway, pets):
    async with gateway([OpenApi], {"pets": f"openapi:{pets}/openapi.json"}) as client:
        listed = {tool["name"]: tool for tool in (await client.request("tools/list"))["tools"]}
        assert list(listed) == ["pets__POST_pets", "pets__get_pet", "pets__listPets", "pets__removePet"]
        answer = await client.call("pets__get_pet", {"id": "rex"})
        assert answer["structuredContent"]["path"] == "/v1/pets/rex"
        assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]


async def test_parameters_and_bodies_make_the_schema(pets):
    async with connect(f"{pets}/openapi.json") as link:
        tools = {tool["name"]: tool for tool in (await link.request("tools/list", {}, timeout_s=5))["tools"]}
    assert tools["listPets"] == {
        "name": "listPets",
        "description": "All pets",
        "inputSchema": {
            "type": "object",
            "properties": {"limit": {"type": "integer", "description": "How many"}, "X-Trace": {"type": "string"}},
            "required": [],
        },
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
    }
    schema = tools["POST_pets"]["inputSchema"]
    assert schema["required"] == ["name"]
    assert schema["properties"] == {"name": {"type": "string"}, "owner": {"$ref": "#/$defs/Owner"}}
    assert schema["$defs"] == {"Owner": {"type": "object", "properties": {"boss": {"$ref": "#/$defs/Owner"}}}}
    assert [tools[name]["annotations"]["destructiveHint"] for name in ("POST_pets", "removePet")] == [False, True]


async def test_arguments_go_where_the_document_says(pets):
    async with connect(f"{pets}/openapi.json", headers=KEY) as link:
        listed = await call(link, "listPets", limit=3, **{"X-Trace": "7"})
        assert (listed["query"], listed["trace"], listed["key"]) == ("limit=3", "7", "Bearer abc")
        added = await call(link, "POST_pets", name="größe", owner={"boss": {}})
        assert (added["method"], added["body"]) == ("POST", {"name": "größe", "owner": {"boss": {}}})
        odd = await call(link, "removePet", id="a/b?c#d é%")
        assert (odd["method"], odd["path"]) == ("DELETE", "/v1/pets/a/b?c#d é%")
        assert odd["raw"].count("/") == 3
    async with connect(f"{pets}/openapi.json") as link:
        assert (await call(link, "listPets"))["key"] is None


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("get_pet", {"id": ".."}, "cannot contain dot segments"),
        ("get_pet", {}, "Missing required"),
        ("nothing", {}, "nothing"),
    ],
)
async def test_what_no_request_can_be_made_of_is_refused(pets, name, arguments, problem):
    async with connect(f"{pets}/openapi.json") as link:
        with pytest.raises(RpcError, match=problem):
            await call(link, name, **arguments)


async def test_a_status_from_400_on_is_an_error_of_the_tool(pets):
    async with connect(f"{pets}/openapi.json") as link:
        answer = await link.request("tools/call", {"name": "get_pet", "arguments": {"id": "nobody"}}, timeout_s=5)
        assert answer["isError"]
        text = answer["content"][0]["text"]
        assert "404" in text
        assert "no such pet" in text


async def test_what_is_not_json_is_text(pets):
    async with connect(f"{pets}/openapi.json") as link:
        answer = await link.request("tools/call", {"name": "get_pet", "arguments": {"id": "poem"}}, timeout_s=5)
    assert answer.value == {"content": [{"type": "text", "text": "Roses are red."}]}


@pytest.mark.parametrize("document", ["openapi.yaml", "v1/pets", "v1/nobody", "v1/moved"])
async def test_a_document_that_cannot_be_used_is_said(pets, document):
    with pytest.raises(TransportError, match=f"server 'pets': no OpenAPI document at {pets}/{document}: .+"):
        async with connect(f"{pets}/{document}"):
            raise AssertionError


async def test_mistakes_in_the_configuration_are_said():
    with pytest.raises(ValueError, match=r"\[servers.pets\] era: the options are base_url and headers"):
        connect("http://127.0.0.1:9/x.json", era=1)
    for address in ("", "./openapi.json"):
        with pytest.raises(TransportError, match="server 'pets': no OpenAPI document at "):
            async with connect(address):
                raise AssertionError


async def test_a_service_that_went_away_fails_calls_and_not_the_gateway(services_module):
    with services_module.running(services_module.PETS) as address:
        connection = connect(f"{address}/openapi.json")
        link = await connection.__aenter__()
    with pytest.raises(TransportError, match="server 'pets' did not answer"):
        await call(link, "listPets")
    await connection.__aexit__(None, None, None)


@pytest.fixture
def stranger(services_module):
    """A service that nobody named."""
    with services_module.running(services_module.PETS) as address:
        yield address


@pytest.fixture
def leading(services_module, stranger):
    """Has a service with this document, which may say ``{stranger}``."""
    with ExitStack() as stack:

        def start(url, path="/pets"):
            document = {**services_module.PETS, "servers": [{"url": url.format(stranger=stranger)}]}
            document["paths"] = {path.format(host=stranger.partition("//")[2]): services_module.PETS["paths"]["/pets"]}
            return stack.enter_context(services_module.running(document))

        yield start


@pytest.mark.parametrize(
    ("url", "path"),
    [("{stranger}/v1", "/pets"), ("/", "@{host}/pets"), ("/", "//{host}/pets"), ("//{stranger}", "/pets")],
)
async def test_a_document_cannot_send_the_token_to_another_host(leading, stranger, url, path):
    address = leading(url, path)
    async with connect(f"{address}/openapi.json", headers=KEY) as link:
        assert (await call(link, "listPets"))["port"] == int(address.rpartition(":")[2])


async def test_the_service_can_be_elsewhere_if_the_user_says_so(pets, stranger):
    async with connect(f"{pets}/openapi.json", base_url=f"{stranger}/v2/") as link:
        listed = await call(link, "listPets")
    assert (listed["path"], listed["port"]) == ("/v2/pets", int(stranger.rpartition(":")[2]))


async def test_redirects_are_not_followed(pets):
    async with connect(f"{pets}/openapi.json", headers=KEY) as link:
        moved = {"name": "get_pet", "arguments": {"id": "moved"}}
        answer = await link.request("tools/call", moved, timeout_s=5)
    assert answer["isError"]
    assert "302" in answer["content"][0]["text"]
