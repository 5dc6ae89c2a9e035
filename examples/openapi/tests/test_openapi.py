from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from pml_example_openapi import OpenApi
from pml_hookspecs import Endpoint, RpcError, TransportError

pytestmark = pytest.mark.anyio


class Handler:
    def closed(self, error):
        self.error = error


def connect(address, **options):
    return OpenApi().connect(Endpoint(name="pets", address=f"openapi:{address}", options=options), Handler())


async def call(link, name, **arguments):
    answer = await link.request("tools/call", {"name": name, "arguments": arguments}, timeout_s=5)
    return answer["structuredContent"]


async def test_operations_are_tools_of_a_gateway(gateway, pets):
    async with gateway([OpenApi], {"pets": f"openapi:{pets}/openapi.json"}) as client:
        listed = {tool["name"]: tool for tool in (await client.request("tools/list"))["tools"]}
        assert list(listed) == ["pets__get_pet", "pets__listPets", "pets__post_pets", "pets__removePet"]
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
    schema = tools["post_pets"]["inputSchema"]
    assert schema["required"] == ["body"]
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Pet"}
    assert schema["$defs"]["Pet"]["properties"]["owner"] == {"$ref": "#/$defs/Owner"}
    assert tools["get_pet"]["description"] == "GET /pets/{id}"
    assert tools["removePet"]["annotations"]["destructiveHint"]


async def test_arguments_go_where_the_document_says(pets):
    async with connect(f"{pets}/openapi.json", headers={"Authorization": "Bearer abc"}) as link:
        listed = await call(link, "listPets", limit=3, **{"X-Trace": "7"})
        assert (listed["query"], listed["trace"], listed["key"]) == ("limit=3", "7", "Bearer abc")
        added = await call(link, "post_pets", body={"name": "größe"})
        assert (added["method"], added["body"]) == ("POST", {"name": "größe"})
        odd = await call(link, "removePet", id="a/b?c#d é%")
        assert (odd["method"], odd["path"]) == ("DELETE", "/v1/pets/a/b?c#d é%")
        assert odd["raw"].count("/") == 3


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("get_pet", {"id": ".."}, "would lead to another path"),
        ("get_pet", {"id": ""}, "would lead to another path"),
        ("get_pet", {}, "id is missing"),
        ("listPets", {"size": 1}, "unknown argument 'size'; there are limit, X-Trace"),
        ("nothing", {}, "Unknown tool: nothing"),
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
        assert answer["content"][0]["text"] == '404 Not Found: {"error": "no such pet"}'


async def test_what_is_not_json_is_text(pets):
    async with connect(f"{pets}/openapi.json") as link:
        answer = await link.request("tools/call", {"name": "get_pet", "arguments": {"id": "poem"}}, timeout_s=5)
    assert answer.value == {"content": [{"type": "text", "text": "Roses are red."}]}


async def test_a_document_can_be_a_file(pets, services_module, tmp_path):
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(services_module.PETS))
    with pytest.raises(TransportError, match="set base_url"):
        async with connect(file):
            raise AssertionError
    async with connect(file, base_url=f"{pets}/v2/") as link:
        assert (await call(link, "get_pet", id="rex"))["path"] == "/v2/pets/rex"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("openapi.yaml", "is no OpenAPI document in JSON"),
        ("v1/pets", "is no OpenAPI document in JSON"),
        ("v1/nobody", "cannot be read: .*404"),
    ],
)
async def test_a_document_that_cannot_be_used_is_said(pets, document, problem):
    with pytest.raises(TransportError, match=problem):
        async with connect(f"{pets}/{document}"):
            raise AssertionError


async def test_mistakes_in_the_configuration_are_said_at_once():
    with pytest.raises(ValueError, match=r"\[servers.pets\] era: not an option"):
        connect("x.json", era=1)
    with pytest.raises(ValueError, match="say which document"):
        connect("")
    with pytest.raises(TransportError, match=r"'pets': its OpenAPI document cannot be read: .*no-such"):
        async with connect("/no-such-file.json"):
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


async def test_a_document_cannot_send_headers_to_another_host(leading, stranger):
    address = leading("{stranger}/v1")
    with pytest.raises(TransportError, match=f"leads to {stranger}/v1: set base_url"):
        async with connect(f"{address}/openapi.json", headers={"Authorization": "Bearer abc"}):
            raise AssertionError
    async with connect(f"{address}/openapi.json", base_url=f"{stranger}/v1") as link:
        assert (await call(link, "listPets"))["path"] == "/v1/pets"


async def test_a_path_that_is_none_is_no_tool(leading):
    async with connect(f"{leading('/')}/openapi.json") as link:
        assert (await link.request("tools/list", {}, timeout_s=5))["tools"]
    async with connect(f"{leading('/', '@{host}/pets')}/openapi.json") as link:
        assert (await link.request("tools/list", {}, timeout_s=5))["tools"] == []


async def test_redirects_are_not_followed(pets):
    async with connect(f"{pets}/openapi.json", headers={"Authorization": "Bearer abc"}) as link:
        moved = {"name": "get_pet", "arguments": {"id": "moved"}}
        answer = await link.request("tools/call", moved, timeout_s=5)
    assert answer["isError"]
    assert answer["content"][0]["text"].startswith("302 Found")
    with pytest.raises(TransportError, match="302"):
        async with connect(f"{pets}/v1/moved"):
            raise AssertionError
