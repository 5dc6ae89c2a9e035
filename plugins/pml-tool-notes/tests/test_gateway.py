"""A gateway with the plugin in it."""

from __future__ import annotations

import pytest

from pml_hookspecs import Identity
from pml_kit.offers import TOOL_NOTES
from pml_testing.gateway import Client, ScriptedServer, running
from pml_tool_notes import plugin

pytestmark = pytest.mark.anyio


async def rows(name, arguments):
    if "table" not in arguments:
        return {"content": [{"type": "text", "text": "which table?"}], "isError": True}
    return {"content": [], "structuredContent": {"rows": [{"id": 1, "owner": "ann"}] * 3}}


def gateway(**settings):
    servers = {"db": ScriptedServer(["rows"], rows)}
    return running(servers, plugins={("hooks", "tool_notes"): plugin}, tables={"tool_notes": settings})


async def test_what_a_client_calls_teaches_it():
    async with gateway() as started:
        alice = Client(started, modern=True, principal="alice")
        for _ in range(2):
            assert (await alice.call("db__rows", {"name": "x"}))["isError"] is True
            await alice.call("db__rows", {"table": "x"})
        notes = started.offers.find(TOOL_NOTES)
        await notes.read("alice")
        entry = started.catalog.get("db:rows")
        session = started.assembly.services("tool_notes").session
        note = notes.of(entry, session(Identity(principal="alice")))
        assert note.returns == "{rows: {id: number, owner: string}[]}"
        assert note.advice == "failed 2 times until: 'table', not 'name'"
        assert notes.of(entry, session(Identity(principal="bob"))) is None


async def test_nothing_is_offered_where_nothing_is_to_be_learned():
    async with gateway(learn=False) as started:
        assert started.offers.find(TOOL_NOTES) is None
