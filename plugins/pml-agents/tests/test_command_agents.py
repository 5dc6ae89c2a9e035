from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading

import pytest
from agents_kit import WORKER, chat, gateway, happens, lives, pids, worker

from pml_agents import processes
from pml_agents.command_agents import arguments
from pml_agents.settings import Agent
from pml_hookspecs import Scope
from pml_kit.processes import tree
from pml_testing.downstream import records

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)


async def test_the_message_comes_on_standard_input_and_the_output_is_the_answer():
    async with gateway({"w": worker("echo")}) as (made, client):
        told, failed = await chat(client, "w", "what is new?", context="it is Monday")
        rows = {record.target: record for record in await records(made)}
    assert not failed
    assert told["response"] == "you said: what is new?\n\nit is Monday"
    assert (told["agent_name"], told["status"], told["error"]) == ("w", "success", None)
    row = rows["agents:w"]
    assert (row.id, row.agent, row.as_agent, row.parent) == (told["execution_id"], "w", True, None)
    assert (row.intent, row.trigger, row.status) == ("what is new?", "mcp", "ok")


async def test_the_message_is_an_argument_where_the_command_says_so():
    agent = worker("args", "--prompt={message}", "{message}", "{context}", "{other}", parser="text")
    async with gateway({"w": agent}) as (_, client):
        told, _ = await chat(client, "w", "--help {context}", context="--version")
    assert json.loads(told["response"]) == ["--prompt=--help {context}", " --help {context}", " --version", "{other}"]


@pytest.mark.parametrize(
    ("part", "message", "context", "argument"),
    [
        ("{message}\n\n{context}", "--danger=yes", "Monday", " --danger=yes\n\nMonday"),
        ("{context}{message}", "-x", "", " -x"),
        ("{message}{context}", "", "-x", " -x"),
        ("{context}", "hello", "-x", " -x"),
        ("{message}", "-", "", " -"),
        ("--prompt={message}", "-x", "", "--prompt=-x"),
        ("-{message}", "x", "", "-x"),
        ("about {message}", "-x", "", "about -x"),
        ("{message}", "{context}", "Monday", "{context}\n\nMonday"),
    ],
)
def test_no_message_and_no_context_becomes_an_option(part, message, context, argument):
    argv, _ = arguments(Agent(command=("ag", part)), message, context)
    assert argv == ["ag", argument]


async def test_a_message_that_no_argument_can_hold_is_refused():
    async with gateway({"w": worker("args", "{message}")}) as (_, client):
        long, failed = await chat(client, "w", "x" * 200_000)
        nul, nul_failed = await chat(client, "w", "a\0b")
    assert failed
    assert "standard input" in long["error"]
    assert nul_failed
    assert "NUL" in nul["error"]


async def test_json_output_is_read():
    async with gateway({"w": worker("json", parser="json")}) as (made, client):
        told, _ = await chat(client, "w")
        row = next(r for r in await records(made) if r.target == "agents:w")
    assert told["response"] == "Found 3 papers."
    assert (told["cost_usd"], told["tokens_in"], told["tokens_out"]) == (0.0125, 105, 20)
    assert told["context_max"] == 200000
    assert (row.cost_usd, row.tokens_in, row.tokens_out, row.context_max) == (0.0125, 105, 20, 200000)


async def test_json_lines_are_read_with_transcript_and_context():
    agent = worker("stream", parser="stream-json", env={"PASSWORD": "secret-of-the-env"})
    async with gateway({"w": agent}) as (made, client):
        told, _ = await chat(client, "w")
        row = await made.store.executions.get(told["execution_id"], EVERYONE, transcript=True)
    assert (told["response"], told["cost_usd"]) == ("Found 3 papers.", 0.0125)
    assert (told["context_used"], told["context_max"]) == (125, 200000)
    assert (row.context_used, row.context_max) == (125, 200000)
    assert [line["type"] for line in row.transcript] == ["system", "assistant", "user", "assistant", "result"]
    assert "secret-of-the-env" not in json.dumps([dict(line) for line in row.transcript])


async def test_json_lines_of_another_dialect_are_read():
    async with gateway({"w": worker("codex", parser="stream-json")}) as (_, client):
        told, _ = await chat(client, "w")
    assert (told["response"], told["tokens_in"], told["tokens_out"]) == ("Done.", 7, 3)
    assert told["remarks"] == ["1 lines of its output are not JSON"]


async def test_fields_say_where_things_stand():
    fields = {"response": "subtype", "cost_usd": "usage.output_tokens", "model": "type"}
    async with gateway({"w": worker("json", parser="json", fields=fields)}) as (_, client):
        told, _ = await chat(client, "w")
        whole = await client.call("agents__w", {"message": "hello"})
    assert (told["response"], told["cost_usd"], told["tokens_in"]) == ("success", 20.0, 105)
    assert whole["structuredContent"]["model"] == "result"


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        ("bad", {"parser": "json"}, ["not JSON"]),
        ("deaf", {"parser": "stream-json"}, ["no line of JSON"]),
        ("json", {"parser": "json", "fields": {"response": "nowhere"}}, ["no response", "fields.response"]),
        ("fail", {}, ["exited with code 3", "no such file"]),
        ("error", {"parser": "json"}, ["the limit of turns was reached"]),
        ("kill", {}, ["SIGKILL"]),
        ("big", {"parser": "json", "max_output_bytes": 1024}, ["max_output_bytes"]),
    ],
)
async def test_what_goes_wrong_is_said(mode, options, words):
    async with gateway({"w": worker(mode, 5000, **options)}) as (made, client):
        told, failed = await chat(client, "w")
        row = next(r for r in await records(made) if r.target == "agents:w")
    assert failed
    assert told["status"] == "failed"
    for word in words:
        assert word in told["error"]
    assert row.status == "error"
    assert told["error"] == row.failure.message


async def test_a_failed_run_costs_what_it_cost():
    async with gateway({"w": worker("error", parser="json")}) as (made, client):
        told, _ = await chat(client, "w")
        row = next(r for r in await records(made) if r.target == "agents:w")
    assert told["cost_usd"] == row.cost_usd == 0.5


@pytest.mark.parametrize(
    ("command", "cwd", "words"),
    [
        (["no-such-program-there"], "", "is not there; install it"),
        (["/"], "", "not executable"),
        ([sys.executable], "/no/such/folder", "not a folder"),
    ],
)
async def test_a_program_that_cannot_be_started_is_a_message(command, cwd, words):
    async with gateway({"w": {"command": command, "cwd": cwd}}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert words in told["error"]


async def test_long_output_is_cut_in_the_middle_and_says_so():
    async with gateway({"w": worker("big", 100_000, max_output_bytes=2048)}) as (_, client):
        told, _ = await chat(client, "w")
    assert told["response"].startswith("beginx")
    assert told["response"].endswith("xend")
    assert "bytes left out" in told["response"]
    assert len(told["response"]) < 2200
    assert told["remarks"]


@pytest.mark.parametrize("mode", ["flood", "flood_stderr"])
async def test_an_agent_that_writes_without_end_is_ended(mode):
    async with gateway({"w": worker(mode, max_output_bytes=4096)}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert "wrote without end" in told["error"]


async def test_an_agent_that_never_reads_gets_long_messages_all_the_same(tmp_path):
    async with gateway({"w": worker("deaf"), "never": worker("deaf_forever", tmp_path / "p", timeout_s=3)}) as (
        _,
        client,
    ):
        told, _ = await chat(client, "w", "x" * 1_000_000)
        late, failed = await chat(client, "never", "x" * 1_000_000)
    assert told["response"] == "I do not listen."
    assert failed
    assert "timeout_s" in late["error"]
    assert not lives(pids(tmp_path / "p")["worker"])


async def test_the_environment_is_what_was_given_and_little_else(monkeypatch, tmp_path):
    monkeypatch.setenv("GATEWAYS_OWN", "not for agents")
    monkeypatch.setenv("HARMLESS", "inherited")
    agent = worker("env", parser="json", env={"API_KEY": "hunter2hunter2"}, inherit=["HARMLESS"], cwd=str(tmp_path))
    async with gateway({"w": agent}) as (made, client):
        told, _ = await chat(client, "w")
        row = next(r for r in await records(made) if r.target == "agents:w")
    seen = json.loads(told["response"])
    assert seen["API_KEY"] == "hunter2hunter2"
    assert seen["HARMLESS"] == "inherited"
    assert seen["cwd"] == str(tmp_path)
    usual = {"PATH", "HOME", "LANG", "LC_CTYPE", "PWD", "SHLVL", "_", "_PML_STARTED_BY", "_PML_AGENT_TURN"}
    assert set(seen) - usual == {"API_KEY", "HARMLESS", "cwd"}
    assert "hunter2hunter2" not in str(row.response.value)


# Nothing is left behind


async def test_after_the_time_limit_nothing_of_it_is_left(tmp_path):
    place = tmp_path / "pids"
    async with gateway({"w": worker("stubborn", place, timeout_s=3)}) as (_, client):
        told, failed = await chat(client, "w")
        assert not [name for name, pid in pids(place).items() if lives(pid)]
    assert failed
    assert "took longer than 3 s" in told["error"]


async def test_a_cancelled_call_ends_soon_and_leaves_nothing(tmp_path):
    place = tmp_path / "pids"
    async with gateway({"w": worker("stubborn", place)}) as (made, client):
        asked = asyncio.create_task(chat(client, "w"))
        found = await happens(lambda: pids(place))
        asked.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([asked])
        assert asked.cancelled()
        assert not [name for name, pid in found.items() if lives(pid)]
        row = next(r for r in await records(made) if r.target == "agents:w")
    assert row.status == "cancelled"


async def test_what_takes_a_while_to_die_is_waited_for(tmp_path, monkeypatch):
    killed, looks = [], []

    def send(self, number):
        killed.append(number)
        real_send(self, number)

    def marked(mark):
        looks.extend(killed[1:])
        return real_marked(mark) or ([999_999_001] if 0 < len(looks) < 20 else [])

    real_send, real_marked = tree.ProcessTree.send, tree.marked
    monkeypatch.setattr(tree.ProcessTree, "send", send)
    monkeypatch.setattr(tree, "marked", marked)
    monkeypatch.setattr(tree, "MARKED_POLL_S", 0.001)
    monkeypatch.setattr(processes, "KILL_S", 120.0)
    async with gateway({"w": worker("stubborn", tmp_path / "pids", timeout_s=1)}) as (_, client):
        await chat(client, "w")
    assert killed == [signal.SIGTERM, signal.SIGKILL]
    assert len(looks) == 20


async def test_what_an_agent_leaves_running_is_ended_with_it(tmp_path):
    place = tmp_path / "pids"
    async with gateway({"w": worker("leaves", place)}) as (_, client):
        told, _ = await chat(client, "w")
        assert told["response"] == "gone"
        assert not [name for name, pid in pids(place).items() if lives(pid)]


async def test_when_the_gateway_stops_its_agents_end(tmp_path):
    place = tmp_path / "pids"
    async with gateway({"w": worker("stubborn", place)}) as (_, client):
        told, _ = await chat(client, "w", **{"async": True})
        found = await happens(lambda: pids(place))
        assert told["status"] == "pending"
    assert not [name for name, pid in found.items() if lives(pid)]


async def test_processes_are_looked_for_beside_the_event_loop(tmp_path, monkeypatch):
    threads = []

    def noting(real):
        def noted(*args):
            threads.append(threading.get_ident())
            return real(*args)

        return noted

    monkeypatch.setattr(tree, "marked", noting(tree.marked))
    monkeypatch.setattr(tree.ProcessTree, "send", noting(tree.ProcessTree.send))
    place = tmp_path / "pids"
    async with gateway({"w": worker("leaves", place)}) as (_, client):
        await chat(client, "w")
        assert not [name for name, pid in pids(place).items() if lives(pid)]
    assert len(threads) > 2
    assert threading.get_ident() not in threads


async def test_where_no_thread_can_be_had_nothing_is_left_all_the_same(tmp_path, monkeypatch):
    async def none(*args):
        raise RuntimeError("can't start new thread")

    place = tmp_path / "pids"
    async with gateway({"w": worker("leaves", place)}) as (_, client):
        monkeypatch.setattr(tree.asyncio, "to_thread", none)
        await chat(client, "w")
        monkeypatch.undo()
        await happens(lambda: not any(lives(pid) for pid in pids(place).values()))


GATEWAY = """
import asyncio, sys
from pml_agents.processes import run_program
async def main():
    await run_program(sys.argv[1:], env={}, cwd=None, given=None, limit_bytes=1000, take=print)
asyncio.run(main())
"""


async def test_when_the_gateway_is_killed_its_agents_end(tmp_path):
    place = tmp_path / "pids"
    command = [sys.executable, "-c", GATEWAY, sys.executable, WORKER, "stubborn", str(place)]
    gateway = await asyncio.create_subprocess_exec(*command)
    found = await happens(lambda: pids(place))
    assert all(lives(pid) for pid in found.values())
    gateway.kill()
    await gateway.wait()
    await happens(lambda: not any(lives(pid) for pid in found.values()))


async def test_an_agent_that_is_killed_from_outside_is_a_failure(tmp_path):
    place = tmp_path / "pids"
    async with gateway({"w": worker("deaf_forever", place)}) as (_, client):
        asked = asyncio.create_task(chat(client, "w"))
        found = await happens(lambda: pids(place))
        os.kill(found["worker"], 9)
        told, failed = await asked
    assert failed
    assert "SIGKILL" in told["error"]
