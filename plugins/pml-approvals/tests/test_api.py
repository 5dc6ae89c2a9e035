"""Approvals over HTTP answer through the tools, for those who may and in the right words only."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from starlette.routing import Router

from pml_approvals.api import LONGEST_BODY, routes
from pml_approvals.openapi import description
from pml_hookspecs import Failure, Identity, RawObject, Status
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio
LEAD = Identity(principal="lea", scopes=frozenset({"approve"}))
YES = b'{"approve": true}'


class Gateway:
    """Answers calls of tools as it is told, and remembers them."""

    def __init__(self):
        self.calls, self.failure = [], None

    def session(self, identity, *, client=""):
        return SimpleNamespace(principal=identity.principal, client=client)

    async def run(self, task, session, options):
        self.calls.append((task.tool, dict(task.arguments), session.principal, options.trigger))
        content = RawObject(b'{"structuredContent": {"state": "approved"}}')
        if self.failure is not None:
            return outcome("call", status=Status.ERROR, failure=self.failure)
        return outcome("call", output=content)


@pytest.fixture
def gateway():
    return Gateway()


async def asked(gateway, method, path, body=b"", *, identity=LEAD, content_type=b"application/json"):
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", content_type)],
        "state": {"identity": identity},
    }
    await Router(routes(gateway))(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


async def test_an_answer_is_a_call_of_the_tool(gateway):
    status, told = await asked(gateway, "POST", "/approvals/apr-1", b'{"approve": false, "reason": "no"}')
    assert (status, told) == (200, {"state": "approved"})
    given = {"approve": False, "reason": "no", "approval_id": "apr-1"}
    assert gateway.calls == [("pml:answer_approval", given, "lea", "manual")]


async def test_the_list_is_a_call_of_the_tool(gateway):
    status, _ = await asked(gateway, "GET", "/approvals")
    assert status == 200
    assert gateway.calls == [("pml:list_approvals", {}, "lea", "manual")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"yes",
        b"[]",
        b"{}",
        b'{"approve": "yes"}',
        b'{"approve": 1}',
        b'{"approve": true, "reason": 1}',
        b'{"approve": true, "approval_id": "apr-2"}',
        b"\xff",
        b'{"approve": true, "reason": "' + b"x" * LONGEST_BODY + b'"}',
    ],
)
async def test_what_is_no_answer_is_refused_and_nothing_is_called(gateway, body):
    status, told = await asked(gateway, "POST", "/approvals/apr-1", body)
    assert status == 422
    assert "approve" in told["error"]["message"]
    assert gateway.calls == []


async def test_a_form_of_another_page_is_refused(gateway):
    status, _ = await asked(gateway, "POST", "/approvals/apr-1", YES, content_type=b"text/plain")
    assert status == 422
    assert gateway.calls == []


@pytest.mark.parametrize(("identity", "expected"), [(None, 401), (Identity(principal="ann"), 403)])
async def test_others_may_neither_look_nor_answer(gateway, identity, expected):
    for method, path in (("GET", "/approvals"), ("POST", "/approvals/apr-1")):
        status, _ = await asked(gateway, method, path, YES, identity=identity)
        assert status == expected
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure("arguments.invalid", "answer_approval: apr-1: there is no such request"), 404),
        (Failure("arguments.invalid", "answer_approval: apr-1: it is denied"), 409),
        (Failure("policy.denied", "not you"), 403),
        (Failure("limit.rate", "too often", details={"retry_after_s": 2.5}), 429),
        (Failure("executor.fault", "oh"), 500),
    ],
)
async def test_what_the_tool_refuses_has_its_status(gateway, failure, expected):
    gateway.failure = failure
    status, told = await asked(gateway, "POST", "/approvals/apr-1", YES)
    assert status == expected
    assert told["error"]["message"] == failure.message


async def test_the_openapi_document_is_told_of_every_route_and_answer(gateway):
    told = description()
    described = {(path, method.upper()) for path, item in told.paths.items() for method in item}
    mounted = {
        (f"/api{one.path}".replace("{id}", "{approval_id}"), "POST" if "{" in one.path else "GET")
        for one in routes(gateway)
    }
    assert described == mounted
    assert set(told.schemas) == {"Approvals", "Answered"}
    answering = told.paths["/api/approvals/{approval_id}"]["post"]
    assert answering["requestBody"]["content"]["application/json"]["schema"]["required"] == ["approve"]
    assert {"200", "401", "403", "404", "409", "422", "429"} == set(answering["responses"])
