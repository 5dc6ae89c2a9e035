"""What one principal can ask answers the same whatever another one did."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import pml_access.plugin
import pml_capabilities.plugin
import pml_execution_tools.plugin
import pml_search_tools.plugin
import pml_suggester.settings
from pml_capabilities import Capabilities
from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, ExecutionQuery, Identity, MetaTool, RpcError, Scope, hookimpl
from pml_store_sqlite import SqliteStore
from pml_suggester.planner import Planner
from pml_testing.fakes import FakeRun, outcome
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
WORDS = ("payroll", "pay", "zebra", "garden")
INTENTS = ("count the zebras", "Water the garden")
HERS = (("call", "garden"), ("code", INTENTS[1]), ("code", INTENTS[1]), ("search", "garden"), ("call", "zebra"))
DOES = st.tuples(
    st.sampled_from(["bob", "carol"]),
    st.sampled_from(["call", "fail", "search", "code", "history"]),
    st.sampled_from([*WORDS, *INTENTS]),
    st.integers(0, len(HERS)),
)
"""Who, what, with which words, and before which of hers."""
ID = re.compile(r"0[0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f-]{21}")
VARYING = re.compile(
    r'"((?:avg_)?duration_seconds|started_at|completed_at|last_execution_at|next_cursor)": ("[^"]+"|[0-9.e-]+|null)'
)
NOWHERE = "01900000-0000-7000-8000-00000000ffff"


class Code:
    """Runs code by saying so."""

    handles: ClassVar[frozenset[type]] = frozenset({CodeRun})

    def __init__(self, settings: Any = None, services: Any = None) -> None:
        """Takes what every driver does."""

    async def execute(self, task: CodeRun, run: Any) -> Any:
        return outcome(task.id, "done")


class Tools:
    """A tool that stands for code."""

    @hookimpl
    def pml_meta_tools(self, services: Any) -> Any:
        def code(given: Any) -> CodeRun:
            return CodeRun(id="c", language="javascript", source=given["source"], intent=given["intent"])

        return [MetaTool(definition={"name": "run_it", "inputSchema": {"type": "object"}}, task=code)]


def world(folder: Path) -> Any:
    used = {
        ("guards", "access"): pml_access.plugin,
        ("hooks", "capabilities"): pml_capabilities.plugin,
        ("hooks", "execution_tools"): pml_execution_tools.plugin,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "tools"): Tools(),
        ("executor", "capabilities"): Capabilities,
        ("executor", "code"): Code,
        ("executor", "dag"): Dag,
        ("store", "sqlite"): SqliteStore,
    }
    tables = {
        "capabilities": {"proven_after": 2, "keep": 2},
        "sqlite": {"path": str(folder / "pml.db")},
        "execution_tools": {"list_search": True},
    }
    return running({"files": ScriptedServer(["read_file", "pay"])}, plugins=used, tables=tables, store="sqlite")


def client_of(made: Any, who: str) -> Client:
    return Client(
        made,
        identity=Identity(principal=who, access_key=f"key of {who}"),
        info={"name": "it", "version": "1"},
        modern=True,
    )


async def do(client: Client, kind: str, words: str) -> None:
    if kind == "fail":
        with contextlib.suppress(RpcError):  # it is in no list, and its server's to answer
            await client.call(f"files__{words.partition(' ')[0]}x", {})
        return
    name, arguments = {
        "call": ("files__read_file", {"path": words}),
        "search": ("search_tools", {"query": words}),
        "history": ("search_executions", {"query": words}),
        "code": ("run_it", {"source": f"return {words!r}", "intent": words}),
    }[kind]
    await client.call(name, arguments)


async def seen(made: Any, client: Client) -> list[str]:
    """All that she can find out, each as text."""

    async def asked(name: str, **arguments: Any) -> str:
        try:
            return json.dumps(await client.call(name, arguments))
        except RpcError as exc:
            return exc.message

    async def pages(name: str, **arguments: Any) -> list[str]:
        found, cursor = [], None
        while not found or cursor:
            more = {} if cursor is None else {"cursor": cursor}
            found.append(await asked(name, **arguments, limit=2, **more))
            cursor = json.loads(found[-1])["structuredContent"].get("next_cursor")
        return found

    services = made.assembly.services("access")
    session = services.session(Identity(principal="mallory", access_key="key of mallory"), client="it")
    planner = Planner(services, pml_suggester.settings.Settings(ask_model=False))
    everything = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    theirs = next((record.id for record in everything.items if record.principal != "mallory"), NOWHERE)
    answers = [
        json.dumps(await client.request("tools/list")),
        json.dumps(await client.request("resources/read", {"uri": "pml://status"})),
    ]
    for words in (*WORDS, *INTENTS, "pa", "read file"):
        answers += await pages("search_executions", query=words)
        answers.append(await asked("search_tools", query=words))
        answers.append(repr(await planner.suggest(words, FakeRun(session=session), limit=3)))
    answers += await pages("list_recent_executions")
    for agent in ("", "client:it"):
        answers.append(await asked("get_agent_activity_summary", **({"agent_name": agent} if agent else {})))
        answers.append(await asked("get_execution_result", agent_name=agent or "it", execution_id=theirs))
    for name in ("count_zebras", "water_garden", "count_zebras-81b637", "count_zebras-4c26d9"):
        answers.append(await asked(f"capability__{name}"))
    return [VARYING.sub(r'"\1"', ID.sub("<id>", answer.replace('\\"', '"'))) for answer in answers]


async def after(does: list[Any]) -> list[str]:
    """What mallory sees once others have done this."""
    with tempfile.TemporaryDirectory() as folder:
        async with world(Path(folder)) as made:
            clients = {who: client_of(made, who) for who in ("mallory", "bob", "carol")}
            publisher, learning = pml_capabilities.plugin._parts_of(made.assembly.services("capabilities"))
            for n in range(len(HERS) + 1):
                for who, kind, words, before in does:
                    if before == n:
                        await do(clients[who], kind, words)
                if n < len(HERS):
                    await do(clients["mallory"], *HERS[n])
                # What she learned is published before she goes on, not soon.
                await learning.settled()
                publisher.changed()
                await publisher.look()
            return await seen(made, clients["mallory"])


ALONE: list[list[str]] = []


@pytest.mark.attack(
    "A key sees its scope", "ask everything there is to ask, before and after others have done something"
)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(does=st.lists(DOES, min_size=1, max_size=12))
@example(does=[("bob", "code", INTENTS[1], 0)] * 3 + [("carol", "code", INTENTS[0], n) for n in range(4)])
@example(does=[("bob", "call", "payroll", n) for n in range(5)])
async def test_nothing_that_she_can_ask_tells_of_others(does: list[Any]) -> None:
    if not ALONE:
        ALONE.append(await after([]))
    with_others = await after(does)
    for one, other in zip(ALONE[0], with_others, strict=True):
        assert one == other
    assert any("water_garden" in answer for answer in with_others), "her own capability is there"
