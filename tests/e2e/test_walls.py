"""Attacks on a gateway in a process of its own, by whoever speaks to it on standard input, and by its servers."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("servers") / "walls.py"
PATIENCE_S = 60.0
LEGACY = "2025-11-25"
APPROVED = """
[plugins.approvals]
require = ["*:pay"]
"""


class Client:
    """Writes lines to a gateway and reads what comes back; nothing is checked on the way."""

    def __init__(self, process):
        self.process, self._number = process, 0
        self.heard, self.lines = [], queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def next_message(self, within_s=PATIENCE_S):
        line = self.lines.get(timeout=within_s)
        assert line, "the gateway has ended"
        return json.loads(line)

    def raw(self, method, params):
        """The answer to a request whose params are written as given; what else came is in ``heard``."""
        self._number += 1
        self.write(f'{{"jsonrpc":"2.0","id":{self._number},"method":"{method}","params":{params}}}')
        while (message := self.next_message()).get("id") != self._number or "method" in message:
            self.heard.append(message)
        return message

    def ask(self, method, **params):
        return self.raw(method, json.dumps(params))

    def call(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)


class Site:
    """A folder with a configuration, and the gateway that serves it."""

    def __init__(self, folder):
        self.folder, self.paid = folder, folder / "paid.txt"
        self.log = folder / "log.txt"

    def payments(self):
        return self.paid.read_text() if self.paid.exists() else ""

    @contextmanager
    def serving(self, more="", capabilities=None, *words):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        arguments = json.dumps([str(SERVER), str(self.paid)])
        server = f"[servers.bank]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}"
        config = self.folder / "site.toml"
        config.write_text(f'[gateway]\ntools_exposure = "full_proxy"\nlog_format = "json"\n{more}\n{server}\n')
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pml_core", "serve", "--config", str(config), *words],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8", cwd=self.folder,
                env={**kept, "PML_HOME": str(self.folder / "home")},
            )  # fmt: skip
        client = Client(process)
        try:
            about = {"name": "attacker", "version": "1"}
            client.ask("initialize", protocolVersion=LEGACY, capabilities=capabilities or {}, clientInfo=about)
            client.write('{"jsonrpc":"2.0","method":"notifications/initialized"}')
            yield client
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            client.reader.join(PATIENCE_S)
            process.stdout.close()
            with suppress(BrokenPipeError):
                process.stdin.close()


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
import re
import time
from pml_hookspecs import hookimpl

def keep(entry, session):
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
    marker = site.folder / "stuck"
    (site.folder / "stuck.py").write_text(STUCK.format(marker=str(marker), stuck=stuck))
    with site.serving('local = ["./stuck.py"]') as client:
        client.write('{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{}}')
        until_s = time.monotonic() + PATIENCE_S
        while not marker.exists():
            assert time.monotonic() < until_s, site.log.read_text()
            time.sleep(0.05)
        client.process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        client.process.wait(PATIENCE_S)
        assert time.monotonic() - began_s < 20
        assert client.process.returncode in {128 + signal.SIGTERM, -signal.SIGALRM, 0}
