"""Whom the client of a gateway on stdio is taken for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pml_hookspecs import EMPTY, Identity, Peer, RpcError, UnauthenticatedError
from pml_testing.transport import START_S
from pml_transport_stdio import caller

SECRET = "pml_ada_hunter2"
NEEDED = "MCP API key authentication required"
ADA = Identity(
    principal="ada",
    access_key="ada",
    scopes=frozenset({"read"}),
    agent="report",
    mode="hybrid",
    intent="read files",
    execution_mode="dry_run",
    allow=("files:*",),
    deny=("files:delete",),
)
GATEWAY = f"""
import asyncio, os, sys
from pml_hookspecs import Endpoint, Identity, UnauthenticatedError
from pml_testing.fakes import FakeServices
from pml_testing.transport import Recorder
from pml_transport_stdio import Settings, Stdio

class Knowing(FakeServices):
    async def identify(self, token):
        if token is None and "required" in sys.argv:
            raise UnauthenticatedError({NEEDED!r})
        if "broken" in sys.argv:
            raise OSError("the disk of " + str(token))
        if token not in (None, {SECRET!r}):
            raise UnauthenticatedError("The API key was revoked")
        return None if token is None else Identity(principal="ada", access_key="k1", allow=("files:*",))

class Told(Recorder):
    def __init__(self, peer):
        super().__init__()
        self.peer = peer

    async def request(self, method, params, origin):
        return {{"who": self.peer.principal, "key": self.peer.access_key, "allow": self.peer.allow,
                "left": os.environ.get("PML_API_KEY")}}

endpoint = Endpoint(name="default", address="stdio:")
asyncio.run(Stdio(Settings(), Knowing()).serve(endpoint, lambda link, peer: Told(peer), started=lambda bound: None))
"""
REQUESTS = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}\n'
)


def asked(*words, key=None):
    """What the gateway answers, and what it says on standard error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    if key is not None:
        environment["PML_API_KEY"] = key
    command = [sys.executable, "-c", GATEWAY, *words]
    done = subprocess.run(
        command, input=REQUESTS, capture_output=True, env=environment, timeout=2 * START_S, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_the_key_of_the_environment_says_who_it_is_and_is_kept_from_children():
    answers, said = asked(key=SECRET)
    who = {"who": "ada", "key": "k1", "allow": ["files:*"], "left": None}
    assert [answer["result"] for answer in answers] == [who, who]
    assert said == ""


def test_without_a_key_it_is_whoever_started_the_gateway():
    answers, said = asked()
    assert [answer["result"]["who"] for answer in answers] == ["local", "local"]
    assert said == ""


def test_where_a_key_is_needed_each_request_is_told_so():
    answers, said = asked("required")
    assert [answer["id"] for answer in answers] == [1, 2]
    assert [answer["error"] for answer in answers] == [{"code": -32600, "message": NEEDED}] * 2
    assert NEEDED in said
    assert "PML_API_KEY" in said


def test_a_key_that_is_refused_is_refused_with_each_request_and_never_shown():
    answers, said = asked(key="pml_eve_hunter3")
    assert [answer["error"]["message"] for answer in answers] == ["The API key was revoked"] * 2
    assert "The API key was revoked" in said
    assert "hunter3" not in said + json.dumps(answers)


def test_a_key_that_cannot_be_looked_up_lets_nobody_in():
    answers, said = asked("broken", key=SECRET)
    assert [answer["error"]["code"] for answer in answers] == [-32603, -32603]
    assert "cannot be looked up" in answers[0]["error"]["message"]
    assert "hunter2" not in json.dumps(answers) + said


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("PML_API_KEY", SECRET)


@pytest.mark.anyio
async def test_all_that_is_said_of_a_key_is_said_of_the_client(key, log):
    async def identify(token):
        assert token == SECRET
        return ADA

    expected = Peer(
        address="stdio",
        principal="ada",
        access_key="ada",
        scopes=frozenset({"read"}),
        agent="report",
        mode="hybrid",
        intent="read files",
        execution_mode="dry_run",
        allow=("files:*",),
        deny=("files:delete",),
    )
    assert await caller.identify(identify, log) == expected


@pytest.mark.anyio
async def test_a_key_that_nobody_knows_is_not_ignored(key, log, capsys):
    async def identify(token):
        return None

    refusing = await caller.identify(identify, log)
    assert isinstance(refusing, caller.ErrorHandler)
    assert "The API key is not valid" in capsys.readouterr().err


@pytest.mark.anyio
async def test_without_a_standard_error_it_is_refused_all_the_same(key, log, monkeypatch):
    async def identify(token):
        raise UnauthenticatedError("no")

    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(await caller.identify(identify, log), caller.ErrorHandler)


@pytest.mark.anyio
async def test_each_request_that_is_refused_is_told_of_and_the_key_is_not(key, log):
    heard = []

    async def identify(token):
        raise UnauthenticatedError("The API key was revoked")

    async def hear(event):
        heard.append(event)

    refusing = await caller.identify(identify, log, hear)
    for method in ("initialize", "tools/list"):
        with pytest.raises(RpcError, match="was revoked"):
            await refusing.request(method, EMPTY, None)
    about = [(e.kind, e.target, e.address, e.code, e.message, e.session) for e in heard]
    why = ("stdio", "access.unauthenticated", "The API key was revoked", None)
    assert about == [("denied", "initialize", *why), ("denied", "tools/list", *why)]
