"""The commands of the guide do what it says."""

from __future__ import annotations

import http.client
import os
import re
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "keys.md"
STEP = re.compile(r"^<!-- shell -->\n+```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"<([a-z_]+)>")
CURL = """#!{python}
import sys, re, urllib.error, urllib.request
words = sys.argv[1:]
given = sys.stdin.read() if "-K" in words else ""
headers = dict(line.split(": ") for line in re.findall('header = "(.*)"', given))
try:
    answer = urllib.request.urlopen(urllib.request.Request(words[-1], headers=headers), timeout=20)
except urllib.error.HTTPError as refused:
    answer = refused
with answer:
    print(answer.read().decode())
"""
PML = """#!{python}
import sys
from pml_core.cli import main
sys.exit(main())
"""
START_S = 120.0


@pytest.fixture
def place(tmp_path):
    """A folder of the user's, and its environment."""
    (tmp_path / "bin").mkdir()
    for name, text in (("curl", CURL), ("pml", PML)):
        program = tmp_path / "bin" / name
        program.write_text(text.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[plugins.access]\nrequired = true\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    path = f"{tmp_path / 'bin'}{os.pathsep}{kept['PATH']}"
    return tmp_path, {**kept, "PATH": path, "PML_HOME": str(tmp_path / "home"), "COLUMNS": "200"}


@pytest.fixture
def address(place):
    """Where the gateway of the guide serves."""
    folder, environment = place
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "pml_core", "serve", "--http", f"127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log)
        try:
            until_s = time.monotonic() + START_S
            while not answers(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until_s
                time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(START_S)


def answers(port):
    with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as asking:
        asking.request("GET", "/healthz")
        return asking.getresponse().status == 200
    return False


class Shell:
    """One shell for all commands, as a reader has it."""

    def __init__(self, folder, environment):
        self._process = subprocess.Popen(
            ["sh"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(START_S)

    def run(self, command):
        """What it prints."""
        self._process.stdin.write(f"{command}\necho; echo @@done\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) != "@@done\n":
            assert line, "".join(lines)
            lines.append(line)
        return "".join(lines)


def pattern_of(text, known):
    """What is to be printed: ``…`` is anything, and ``<name>`` what came there first."""
    made = ""
    for piece in re.split(r"(…|<[a-z_]+>)", text):
        name = NAME.fullmatch(piece)
        if piece == "…":
            made += ".*?"
        elif name is None:
            made += re.escape(piece)
        elif name[1] in known:
            made += re.escape(known[name[1]])
        elif f"(?P<{name[1]}>" in made:
            made += f"(?P={name[1]})"
        else:
            made += rf"(?P<{name[1]}>\S+?)"
    return made


def test_the_commands_of_the_guide_print_what_it_says(place, address):
    known = {}
    steps = [
        (found[0], found[1]) for block in STEP.findall(GUIDE.read_text(encoding="utf-8"))
        for found in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]  # fmt: skip
    assert len(steps) > 12
    with Shell(*place) as shell:
        for command, expected in steps:
            filled = NAME.sub(lambda found: known[found[1]], command.replace("127.0.0.1:8808", address))
            printed = shell.run(filled).strip()
            found = re.fullmatch(pattern_of(expected.strip(), known), printed, re.DOTALL)
            assert found, f"$ {command}\n{printed}\n--- instead of\n{expected}"
            known.update(found.groupdict())


def test_the_guide_puts_no_key_where_servers_inherit_it():
    exported = re.findall(r"export (\w+)=", GUIDE.read_text(encoding="utf-8"))
    assert exported
    assert [name for name in exported if not name.startswith("PML_")] == []
