"""Attacks on a gateway by whoever speaks to it on standard input, by its servers, and on its end by a signal."""

from __future__ import annotations

import json
import signal
import time

import pytest

from .raw_gateway import PATIENCE_S, Site

APPROVED = """
[plugins.approvals]
require = ["*:pay"]
"""


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


# What was judged is what is sent


@pytest.mark.parametrize("more", ["", APPROVED], ids=["nobody judges", "a human judges"])
@pytest.mark.parametrize(
    "arguments",
    [
        '{"amount":1000000,"amount":5}',
        '{"amount":5,"amount":1000000}',
        '{"amount":5,"\\u0061mount":1000000}',
        '{"deep":[{"amount":1000000,"amount":5}]}',
    ],
)
@pytest.mark.attack("What was judged is what is sent", "say a member twice, one for who judges and one for the server")
def test_a_member_that_stands_twice_is_refused(site, more, arguments):
    with site.serving(more) as client:
        tools = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
        pay = next(name for name in tools if name.endswith("pay"))
        answer = client.raw("tools/call", f'{{"name":"{pay}","arguments":{arguments}}}')
        assert answer["error"]["code"] == -32602
        assert "'amount' stands twice" in answer["error"]["message"]
    assert not site.payments()


@pytest.mark.attack("What was judged is what is sent", "say the arguments twice, for who judges and for the server")
def test_arguments_that_stand_twice_are_refused(site):
    with site.serving() as client:
        client.ask("tools/list")
        answer = client.raw("tools/call", '{"name":"bank:pay","arguments":{"amount":5},"arguments":{"amount":1000000}}')
        assert "'arguments' stands twice" in answer["error"]["message"]
    assert not site.payments()


@pytest.mark.parametrize("number", ["5.0", "1e2", "12345678901234567890123", "0.1000000000000000055"])
def test_a_number_reaches_the_server_as_it_was_written(site, number):
    with site.serving() as client:
        client.ask("tools/list")
        client.raw("tools/call", f'{{"name":"bank:pay","arguments":{{"amount":{number}}}}}')
    assert f'"amount":{number}}}' in site.payments()


# A server cannot flood a client

MANY_QUESTIONS, MANY_NOTES, LONG_NOTE_BYTES = 2000, 20_000, 20_000_000


def refused_of(client):
    read = client.ask("resources/read", uri="pml://status")
    return json.loads(read["result"]["contents"][0]["text"])["servers"][0]["refused"]


@pytest.mark.attack("A server cannot flood a client", "ask a client thousands of questions that nobody asked for")
def test_a_flood_of_questions_is_refused(site):
    with site.serving(capabilities={"elicitation": {}}) as client:
        client.ask("tools/list")
        client.call("bank:flood_questions", many=MANY_QUESTIONS)
        questions = [message for message in client.heard if message.get("method") == "elicitation/create"]
        assert 0 < len(questions) <= 32
        assert refused_of(client) >= MANY_QUESTIONS - 32
        assert client.call("bank:pay", amount=1)["result"]
    assert "a server sends clients too much" in site.log.read_text()


@pytest.mark.attack("A server cannot flood a client", "answer every question at once and be asked thousands more")
def test_who_answers_at_once_is_not_asked_for_ever(site):
    with site.serving(capabilities={"elicitation": {}}) as client:
        client.ask("tools/list")
        client.write(json.dumps({"jsonrpc": "2.0", "id": "flood", "method": "tools/call", "params": {
            "name": "bank:flood_questions", "arguments": {"many": MANY_QUESTIONS}}}))  # fmt: skip
        asked, began_s = 0, time.monotonic()
        while (message := client.next_message()).get("id") != "flood":
            if message.get("method") == "elicitation/create":
                asked += 1
                client.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "decline"}}))
        assert asked <= 200 + 5 * (time.monotonic() - began_s) + 1


@pytest.mark.attack("A server cannot flood a client", "send a client tens of thousands of log messages")
def test_a_flood_of_notifications_is_cut(site):
    with site.serving() as client:
        client.ask("tools/list")
        began_s = time.monotonic()
        client.call("bank:flood_notes", many=MANY_NOTES)
        spent_s = time.monotonic() - began_s
        notes = [message for message in client.heard if message.get("method") == "notifications/message"]
        assert len(notes) <= 1000 + 200 * (spent_s + 1)
        assert refused_of(client) >= MANY_NOTES - len(notes)


@pytest.mark.attack("A server cannot flood a client", "send a client one notification of many megabytes")
def test_an_overlong_notification_is_dropped(site):
    with site.serving() as client:
        client.ask("tools/list")
        client.call("bank:long_note", many=LONG_NOTE_BYTES)
        assert not [message for message in client.heard if message.get("method") == "notifications/message"]
        assert refused_of(client) == 1


# A signal ends it

STUCK = """
import os
import re
import time
from pml_hookspecs import hookimpl

def keep(entry, session):
    if os.path.exists({go!r}):
        open({marker!r}, "w").close()
        {stuck}
    return True

@hookimpl
def pml_filter_tools(services):
    return [keep]
"""


@pytest.mark.parametrize(
    "stuck",
    ["time.sleep(600)", "while True: pass", "re.match(r'(a+)+$', 'a' * 60 + 'b')"],
    ids=["sleep", "loop", "backtracking"],
)
@pytest.mark.attack("Nobody stops the house", "have the gateway stand still, so that SIGTERM does not end it")
def test_sigterm_ends_a_gateway_that_stands_still(site, stuck):
    marker, go = site.folder / "stuck", site.folder / "go"
    (site.folder / "stuck.py").write_text(STUCK.format(marker=str(marker), go=str(go), stuck=stuck))
    with site.serving('local = ["./stuck.py"]') as client:
        go.touch()
        client.write('{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{}}')
        until_s = time.monotonic() + PATIENCE_S
        while not marker.exists():
            assert time.monotonic() < until_s, site.log.read_text()
            time.sleep(0.05)
        client.process.send_signal(signal.SIGTERM)
        client.process.wait(PATIENCE_S)  # less than what it stands still for
        assert client.process.returncode in {128 + signal.SIGTERM, -signal.SIGALRM, 0}
