"""A person at a terminal who is asked about what has changed, and several who take something at once."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import httpx2
import pytest
from gate import PATIENCE_S
from rug import HARMLESS, OTHER, PULLED, Rug, wait_for

with_console = pytest.mark.skipif(find_spec("pml_console") is None, reason="pml-console has the page and the routes")


@pytest.fixture
def rug(tmp_path):
    return Rug(tmp_path, None)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, rug, *words):
        self._end, other = pty.openpty()
        command = [sys.executable, "-m", "pml_core", *words, "--config", str(rug.config)]
        self._process = subprocess.Popen(
            command, cwd=rug.folder, env=rug.environment, stdin=other, stdout=other, stderr=other, close_fds=True
        )
        os.close(other)
        self.text = ""

    def until(self, words):
        until_s = time.monotonic() + PATIENCE_S
        while words not in self.text:
            assert time.monotonic() < until_s, self.text
            self.text += os.read(self._end, 65536).decode()

    def say(self, words):
        os.write(self._end, f"{words}\n".encode())

    def end(self):
        try:
            while more := os.read(self._end, 65536):
                self.text += more.decode()
        except OSError:  # what Linux says when the other side is closed
            pass
        os.close(self._end)
        return self._process.wait(PATIENCE_S)


def locked(rug):
    return json.loads((rug.folder / "pml.lock").read_text("utf-8"))["servers"]["ops"]["tools"]


# At a terminal


@pytest.mark.attack("What changed is said", "have a tool taken into the lock that the human at the terminal refused")
def test_somebody_at_a_terminal_is_shown_each_change_and_asked(rug):
    rug.run("lock")
    before = locked(rug)
    rug.say(PULLED, {**PULLED, "name": "ping", "description": "\x1b[2J\u202eNot\u200bhing."})
    terminal = Terminal(rug, "lock", "review")
    terminal.until("Take ops:backup as it is now? [y/N]")
    assert '+  "ssh_key"' in terminal.text
    terminal.say("n")
    terminal.until("Take ops:ping as it is now? [y/N]")
    terminal.say("y")
    assert terminal.end() == 1
    assert not set("\u202e\u200b") & set(terminal.text)
    assert "\x1b[2J" not in terminal.text
    assert locked(rug)["backup"] == before["backup"]
    assert locked(rug)["ping"]["digest"] != before["ping"]["digest"]
    rows = [row for row in json.loads(rug.pml("audit", "list", "--json")) if row["kind"].startswith("definitions.")]
    refused, accepted = rows[0], rows[1]
    assert (refused["kind"], accepted["kind"]) == ("definitions.refused", "definitions.accepted")
    assert re.fullmatch("sha256:[0-9a-f]{64}", refused["tools"]["backup"])
    assert accepted["tools"] == {"ping": locked(rug)["ping"]["digest"]}
    assert refused["by"] == accepted["by"]


def test_who_ends_the_input_takes_nothing(rug):
    rug.run("lock")
    rug.say(PULLED, OTHER)
    terminal = Terminal(rug, "lock", "review")
    terminal.until("[y/N]")
    terminal.say("\x04")
    terminal.end()
    assert "Traceback" not in terminal.text
    assert locked(rug)["backup"]["description"] == [HARMLESS["description"]]


# Over HTTP


def held(caller):
    status, answer = caller.get("/api/definitions")
    assert status == 200
    return {one["tool"]: one for one in answer["held"]}


@with_console
@pytest.mark.attack(
    "What changed is said", "take a held tool without the right to, as it was before, or from another site"
)
def test_over_rest_an_operator_takes_what_was_shown_and_nobody_else(rug):
    operator, other = rug.key("--user", "oz", "--scope", "operate"), rug.key("--user", "bob")
    rug.run("lock")
    rug.say(PULLED, OTHER)
    with rug.serving(), rug.caller(operator) as oz, rug.caller(other) as bob, rug.caller("pml_none") as stranger:
        one = wait_for(lambda: held(oz).get("ops:backup"))
        assert any('+  "ssh_key"' in line for line in one["difference"])
        assert one["reasons"]
        assert held(bob) == {}
        assert stranger.get("/api/definitions")[0] == 401
        asked = {"tool": "ops:backup", "digest": one["digest"]}
        assert stranger.post("/api/definitions", json=asked)[0] == 401
        status, answer = bob.post("/api/definitions", json=asked)
        assert (status, answer["error"]["code"]) == (403, "access.denied")
        assert oz.post("/api/definitions", json={**asked, "digest": "sha256:0"})[0] == 409
        assert oz.post("/api/definitions", json={**asked, "tool": "ops:none"})[0] == 409
        plain = {"content-type": "text/plain"}
        assert oz.post("/api/definitions", content=json.dumps(asked), headers=plain)[0] == 422
        for body in ("[]", "{", '{"tool": 1, "digest": 2}', "x" * 20_000):
            assert oz.post("/api/definitions", content=body, headers={"content-type": "application/json"})[0] == 422
        rug.say({**PULLED, "description": "Another one."}, OTHER)
        wait_for(lambda: held(oz)["ops:backup"]["digest"] != one["digest"])
        assert oz.post("/api/definitions", json=asked)[0] == 409  # not what was shown
        assert locked(rug)["backup"]["description"] == [HARMLESS["description"]]
        asked["digest"] = held(oz)["ops:backup"]["digest"]
        assert oz.post("/api/definitions", json=asked) == (200, {"accepted": "ops:backup", "digest": asked["digest"]})
        assert locked(rug)["backup"]["digest"] == asked["digest"]
        wait_for(lambda: not held(oz))
    rows = json.loads(rug.pml("audit", "list", "--json"))
    (accepted,) = [row for row in rows if row["kind"] == "definitions.accepted" and row.get("principal") == "oz"]
    assert (accepted["tools"], accepted["lock"], accepted["by"]) == ({"backup": asked["digest"]}, True, "oz")
    assert [row["principal"] for row in rows if row.get("code") == "access.denied"] == ["bob"]


@with_console
def test_in_the_console_an_operator_sees_the_difference_and_takes_it(rug):
    rug.config.write_text(f"{rug.config.read_text()}\n[plugins.access]\nrequired = true\n")
    operator = rug.key("--user", "oz", "--scope", "operate")
    rug.run("lock")
    rug.say({**PULLED, "description": "<b>Bold</b> \u202e\u200b\x1b[2J"}, {**OTHER, "name": "pong"})
    with rug.serving(), rug.caller(operator) as oz, httpx2.Client(base_url=rug.url, follow_redirects=True) as browser:
        wait_for(lambda: held(oz).get("ops:backup"))
        assert browser.post("/console/login", data={"token": operator}).status_code == 200
        page = browser.get("/console/tools").text
        assert "Take ops:backup as it is now" in page
        assert "+  &#34;ssh_key&#34;" in page
        assert "Not called until somebody has looked at it: " in page
        assert [part for part in ("<b>Bold", "\u202e", "\u200b", "\x1b") if part in page] == []
        assert "is not called: " in browser.get("/console/tools/ops:backup").text
        form = {"how": "accept", "digest": held(oz)["ops:backup"]["digest"]}
        assert browser.post("/console/tools/ops:backup", data=form).status_code == 403
        token = re.search('name="form_token" value="([^"]+)"', page)[1]
        stale = {**form, "form_token": token, "digest": "sha256:0"}
        assert "look at it again" in browser.post("/console/tools/ops:backup", data=stale).text
        assert locked(rug)["backup"]["description"] == [HARMLESS["description"]]
        taken = browser.post("/console/tools/ops:backup", data={**form, "form_token": token})
        assert "ops:backup is taken as it is now" in taken.text
        assert locked(rug)["backup"]["digest"] == form["digest"]


COUNT = 12


@with_console
def test_two_gateways_that_take_tools_at_once_lose_none_and_both_have_them(tmp_path):
    rug, other = Rug(tmp_path, None), Rug(tmp_path, None)
    names = [f"tool_{number}" for number in range(COUNT)]
    before = [{**HARMLESS, "name": name} for name in names]
    rug.config.write_text(other.config.read_text())
    rug.say(*before)
    assert rug.run("lock").returncode == 0
    rug.say(*[{**PULLED, "name": name} for name in names])
    other.log = tmp_path / "other.log"
    key = rug.key("--user", "oz", "--scope", "operate")
    with rug.serving(), other.serving(), rug.caller(key) as first, other.caller(key) as second:
        found = [wait_for(lambda one=one: len(waits := held(one)) == COUNT and waits) for one in (first, second)]

        def take(caller, waiting, names):
            asked = [{name: waiting[f"ops:{tool}"][name] for name in ("tool", "digest")} for tool in names]
            return [caller.post("/api/definitions", json=one) for one in asked]

        with ThreadPoolExecutor(2) as pool:
            halves = pool.submit(take, first, found[0], names[::2]), pool.submit(take, second, found[1], names[1::2])
            answers = [answer for half in halves for answer in half.result()]
        assert {status for status, _ in answers} == {200}
        assert all(locked(rug)[name]["annotations"] == PULLED["annotations"] for name in names)
        wait_for(lambda: not held(first) and not held(second))
        for caller in (first, second):
            assert caller.text(f"ops__{names[0]}", ssh_key="x") == "done"
    assert not list(tmp_path.glob(".pml.lock*"))
