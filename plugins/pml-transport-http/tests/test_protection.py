"""What the listener tells clients of where access tokens come from, and of those that are not enough."""

from __future__ import annotations

import pytest
from listening import Script, listening
from starlette.responses import JSONResponse
from starlette.routing import Route
from test_callers import ADA, Knowing

from pml_hookspecs import UnauthenticatedError
from pml_kit.offers import PROTECTED_RESOURCE, MissingScopeError, OpenRoute

pytestmark = pytest.mark.anyio
METADATA = "/.well-known/oauth-protected-resource"
CHALLENGE = 'resource_metadata="https://g.example/m", scope="read"'


class Resource:
    def __init__(self):
        self.calls, self.asked = [], []
        self.description = "https://g.example/m"

    def metadata(self, path):
        self.asked.append(path)
        return {"resource": f"https://g.example{path}"} if path in ("", "/mcp", "/mcp/research") else None

    def challenge(self, path):
        return {"resource_metadata": self.description, "scope": "read"}

    def check(self, identity, path):
        if identity.principal == "agent:bot":
            raise UnauthenticatedError("It is for another server")
        if path.startswith("/mcp/research"):
            raise MissingScopeError("It allows nothing here", ("research",))

    def check_call(self, identity, params):
        self.calls.append(dict(params))
        if params.get("name") == "write":
            raise MissingScopeError("This needs another scope", ("read", "write"))


@pytest.fixture
def resource():
    return Resource()


@pytest.fixture
def knowing(resource):
    made = Knowing(required=True)
    made.offer(PROTECTED_RESOURCE, resource)
    return made


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/research"])
async def test_anybody_reads_what_the_resource_is(path, knowing):
    async with listening(knowing) as listener, listener.client() as client:
        said = await client.http.get(METADATA + path)
        assert (said.status_code, said.json()) == (200, {"resource": f"https://g.example{path}"})
        assert said.headers["content-type"] == "application/json"


async def test_of_nothing_else_there_are_metadata(knowing, resource):
    async with listening(knowing) as listener, listener.client() as client:
        for path in (f"{METADATA}/api", f"{METADATA}x", "/.well-known/openid-configuration", "/.well-known"):
            assert (await client.http.get(path)).status_code == 404, path
        assert (await client.http.post(METADATA)).status_code == 404
    assert "x" not in resource.asked


async def test_without_somebody_who_knows_there_are_none():
    async with listening(Knowing()) as listener, listener.client() as client:
        assert (await client.http.get(METADATA)).status_code == 404
        refused = await client.modern("tools/list", authorization="Bearer pml_nobody")
        assert refused.headers["www-authenticate"] == 'Bearer error="invalid_token"'


@pytest.mark.parametrize("revision", ["legacy", "modern"])
async def test_who_is_not_let_in_is_told_where_to_log_in(revision, knowing):
    async with listening(knowing) as listener, listener.client() as client:
        ask, about = client.modern, "tools/list"
        if revision == "legacy":
            ask, about = client.post, client.message("initialize")
        assert (await ask(about)).headers["www-authenticate"] == f"Bearer {CHALLENGE}"
        for token in ("pml_nobody", "pml_bot"):
            refused = await ask(about, authorization=f"Bearer {token}")
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == f'Bearer error="invalid_token", {CHALLENGE}'


async def test_a_token_that_allows_nothing_at_an_endpoint_says_which_scope_would(knowing):
    async with listening(knowing) as listener, listener.client(authorization="Bearer pml_ada") as client:
        refused = await client.http.post("/mcp/research", json={})
        assert refused.status_code == 403
        assert refused.headers["www-authenticate"] == (
            'Bearer error="insufficient_scope", scope="research", resource_metadata="https://g.example/m", '
            'error_description="It allows nothing here"'
        )
    (event,) = knowing.access
    assert (event.kind, event.code, event.target) == ("denied", "access.forbidden", "POST /mcp/research")
    assert event.details == {"by": "ada"}


@pytest.mark.parametrize("revision", ["legacy", "modern"])
async def test_a_call_that_needs_another_scope_says_so_before_anything_runs(revision, knowing, resource):
    called = []

    async def write(params, origin):
        called.append(params)

    script = Script(write=write)
    async with listening(knowing, script) as listener, listener.client(authorization="Bearer pml_ada") as client:
        if revision == "modern":
            refused = await client.modern("tools/call", {"name": "write", "arguments": {"a": 1}})
        else:
            await client.initialize()
            refused = await client.post(client.calling("write", {"a": 1}))
        assert (refused.status_code, called) == (403, [])
        assert refused.headers["www-authenticate"].startswith('Bearer error="insufficient_scope", scope="read write", ')
        assert refused.json()["error"]["message"] == "This needs another scope"
        assert refused.json()["id"] is not None
        assert resource.calls[0]["arguments"] == {"a": 1}


async def test_a_challenge_stays_one_header_whatever_is_in_it(knowing, resource):
    resource.description = 'https://g.example/"\r\nx: y\\é'
    async with listening(knowing) as listener, listener.client() as client:
        refused = await client.modern("tools/list")
        assert refused.headers["www-authenticate"] == 'Bearer resource_metadata="https://g.example/x: y", scope="read"'
        assert "x" not in refused.headers


async def test_a_page_that_logs_people_in_itself_takes_no_token_for_another_server(knowing):
    async def page(request):
        try:
            return JSONResponse((await request.state.identify(request.query_params["key"])).principal)
        except UnauthenticatedError as exc:
            return JSONResponse(str(exc), 401)

    async with (
        listening(knowing, routes={"console": [OpenRoute(Route("/", page))]}) as listener,
        listener.client() as client,
    ):
        said = [(await client.http.get(f"/console/?key={key}")).json() for key in ("pml_ada", "pml_bot")]
        assert said == [ADA.principal, "It is for another server"]
