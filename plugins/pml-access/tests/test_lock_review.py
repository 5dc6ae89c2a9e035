"""A person at a terminal who is asked about what has changed, and several who take something at once."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time

import pytest
from gate import PATIENCE_S
from rug import HARMLESS, OTHER, PULLED, Rug


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
