"""Attacks by a folder: its configuration names commands to start and code to run, and says what is allowed."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from pml_core.cli import build_parser

PATIENCE_S = 120.0
COMMAND_S, AT_ONCE = 20.0, 3
NOT_TRUSTED = "is ignored: it is not trusted yet; read it, then: pml trust"
POLICY = """
from pathlib import Path
from pml_hookspecs import hookimpl
Path({marker!r}).touch()
@hookimpl
def pml_meta_tools(services):
    return []
"""
SERVER = """
import json, pathlib, sys
pathlib.Path(sys.argv[1]).touch()
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "theirs", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
                            for name in ("read", "wipe")]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "done"}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
PLACES = {"FILE", "PATH", "FOLDER", "NAME", "ID", "TOOL", "CLIENT"}


class Folder:
    """A folder that was cloned, and a user who has a configuration of their own."""

    def __init__(self, root):
        self.project, self.home = root / "cloned", root / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.ran, self.asked, self.started = root / "policy-ran", root / "command-ran", root / "server-started"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self.environment = {**kept, "PML_HOME": str(self.home), "HOME": str(root), "COLUMNS": "300"}
        (self.home / "config.toml").write_text('[plugins.hybrid]\nblacklisted_tools = ["*:wipe"]\n')
        (self.project / "server.py").write_text(SERVER)
        self.policy = self.project / "policy.py"
        self.policy.write_text(POLICY.format(marker=str(self.ran)))
        self.policy.chmod(0o644)
        self.file = self.project / "pml.toml"
        self.write()

    def write(self, more=""):
        arguments = json.dumps([str(self.project / "server.py"), str(self.started)])
        (self.project / "token").write_text("tok-of-the-file")
        asked = json.dumps(f"${{command:sh -c 'touch {self.asked}; echo tok'}}${{file:token}}")
        self.file.write_text(
            f'[gateway]\nlocal = ["./policy.py"]\n{more}\n'
            f"[servers.theirs]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n"
            f"env = {{ TOKEN = {asked} }}\n[plugins.hybrid]\nblacklisted_tools = []\n"
        )

    def pml(self, *words, cwd=None, patience_s=PATIENCE_S):
        return subprocess.run(
            [sys.executable, "-P", "-m", "pml_core", *words],
            capture_output=True, check=False, cwd=cwd or self.project, encoding="utf-8", env=self.environment,
            stdin=subprocess.DEVNULL, timeout=patience_s,
        )  # fmt: skip

    def trust(self):
        done = self.pml("trust", "--yes")
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def touched(self):
        return [path.name for path in (self.ran, self.asked, self.started) if path.exists()]

    @contextmanager
    def served(self, *words, cwd=None):
        """A gateway on stdio; give it requests, get answers."""
        with (self.home.parent / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pml_core", "serve", *words], cwd=cwd or self.project,
                env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        try:
            yield Asker(process)
        finally:
            process.stdin.close()
            process.wait(PATIENCE_S)
            process.stdout.close()

    @property
    def log(self):
        return (self.home.parent / "log").read_text()


class Asker:
    def __init__(self, process):
        self._process, self._asked = process, 0
        self.ask("initialize", **HELLO)

    def ask(self, method, **params):
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if (answer := json.loads(line)).get("id") == self._asked and "method" not in answer:
                return answer
        raise AssertionError("the gateway has ended")

    def call(self, name):
        """Whether the tool ran."""
        return "done" in json.dumps(self.ask("tools/call", name=name, arguments={}))


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def commands(parser, words=()):
    """Every command and verb that takes a configuration, with something for what it must be given."""
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in verbs:
        for name, below in action.choices.items():
            yield from commands(below, (*words, name))
    if any("--config" in action.option_strings for action in parser._actions) and words and words[0] != "serve":
        needed = [
            action
            for action in parser._actions
            if action.required or (not action.option_strings and action.nargs in (None, "+"))
        ]
        given = [
            word
            for action in needed
            if action not in verbs
            for word in [*action.option_strings[:1], *([next(iter(action.choices))] if action.choices else ["1"])]
        ]
        yield (*words, *given)


ALL = sorted(set(commands(build_parser([]))))


def test_every_command_that_reads_a_configuration_is_tried():
    heads = {words[:2] for words in ALL} | {words[:1] for words in ALL}
    assert {("config", "check"), ("tokens",), ("plugins", "doctor"), ("executions", "list")} <= heads


@pytest.mark.attack("A folder is a stranger", "run code and start a server by any command that is given in the folder")
def test_no_command_runs_what_a_folder_names(folder):
    def tried(words):
        with suppress(subprocess.TimeoutExpired):  # some follow what happens until they are stopped
            folder.pml(*words, patience_s=COMMAND_S)
        return words, folder.touched

    with ThreadPoolExecutor(AT_ONCE) as several:
        assert [words for words, touched in several.map(tried, ALL) if touched] == []


@pytest.mark.attack("A folder is a stranger", "run code, start a server and lift the blacklist under a client")
def test_an_untrusted_folder_says_nothing_to_a_gateway(folder):
    with folder.served() as gateway:
        listed = json.dumps(gateway.ask("tools/list"))
        assert not gateway.call("theirs__read")
    assert "theirs" not in listed
    assert folder.touched == []
    assert folder.log.count(NOT_TRUSTED) == 1


def test_the_line_names_the_file_and_not_its_mistakes(folder):
    folder.file.write_text("[gateway\nthis is = none of anybodys business")
    done = folder.pml("config", "check")
    assert done.returncode == 0
    assert done.stderr == f"pml: {folder.file} {NOT_TRUSTED} {folder.file}\n"


def test_what_is_trusted_takes_effect_and_lifts_nothing(folder):
    shown = folder.trust()
    assert "server theirs:" in shown
    assert str(folder.policy) in shown
    assert f"takes a secret from command:sh -c 'touch {folder.asked}; echo tok'" in shown
    assert "takes a secret from file:token" in shown
    with folder.served("--mode", "full_proxy") as gateway:
        assert gateway.call("theirs__read")
        assert not gateway.call("theirs__wipe")
    assert folder.touched == ["policy-ran", "command-ran", "server-started"]
    assert str(folder.file) in folder.log


@pytest.mark.attack("A folder is a stranger", "change one byte of the configuration after it was trusted")
def test_a_change_asks_anew(folder):
    folder.trust()
    folder.file.write_text(folder.file.read_text() + " ")
    done = folder.pml("plugins", "doctor")
    assert "has changed since it was trusted" in done.stderr
    with folder.served():
        pass
    assert folder.touched == []


@pytest.mark.attack("A folder is a stranger", "change the code that the trusted configuration names")
def test_a_change_of_the_code_asks_anew(folder):
    folder.trust()
    folder.policy.write_text(folder.policy.read_text() + "\n")
    done = folder.pml("plugins", "doctor")
    assert f"names {folder.policy}, which has changed" in done.stderr
    assert folder.touched == []


@pytest.mark.attack("A folder is a stranger", "put another folder in the place of the trusted one, by a link")
def test_trust_is_of_the_folder_and_not_of_a_link_to_it(folder, tmp_path):
    folder.trust()
    link, other = tmp_path / "link", tmp_path / "other"
    other.mkdir()
    (other / "pml.toml").symlink_to(folder.file)
    marker = tmp_path / "other-ran"
    (other / "policy.py").write_text(POLICY.format(marker=str(marker)))
    link.symlink_to(folder.project)
    assert folder.pml("config", "check", cwd=link).stderr == ""
    link.unlink()
    link.symlink_to(other)
    done = folder.pml("plugins", "doctor", cwd=link)
    assert "is not trusted yet" in done.stderr
    assert not marker.exists()


@pytest.mark.attack("A folder is a stranger", "have a connected client started with what the folder says by now")
def test_a_client_that_was_connected_in_a_trusted_folder_asks_anew(folder, tmp_path):
    folder.trust()
    client = tmp_path / "mcp.json"
    assert folder.pml("connect", "cursor", "--file", str(client), "--yes").returncode == 0
    arguments = json.loads(client.read_text())["mcpServers"]["pml"]["args"]
    assert arguments[-2:] == ["--config", str(folder.file)]
    folder.write('intent = "x"')
    done = folder.pml("serve", *arguments[-2:], cwd=tmp_path)
    assert done.returncode == 2
    assert "has changed since it was trusted" in done.stderr
    assert folder.touched == []


def test_connecting_names_the_users_configuration_where_the_folders_does_not_count(folder, tmp_path):
    client = tmp_path / "mcp.json"
    assert folder.pml("connect", "cursor", "--file", str(client), "--yes").returncode == 0
    arguments = json.loads(client.read_text())["mcpServers"]["pml"]["args"]
    assert arguments[-2:] == ["--config", str(folder.home / "config.toml")]


def test_trust_is_taken_back_listed_and_asked_for(folder):
    assert folder.pml("trust").returncode == 1
    folder.trust()
    kept = folder.home / "trusted.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(folder.pml("trust", "--list", "--json").stdout) == [
        {"file": str(folder.file), "state": "trusted"}
    ]
    assert folder.pml("untrust").returncode == 0
    assert "is not trusted any more" in folder.pml("config", "check").stderr
    done = folder.pml("config", "check", "--config", str(folder.file))
    assert done.returncode == 1
    assert "is not trusted any more" in done.stdout
    kept.chmod(0o666)
    assert "others can write it" in folder.pml("config", "check").stdout


@pytest.mark.attack("A folder is a stranger", "name modules in the folder as the gateway's own are named")
def test_a_connected_gateway_takes_no_modules_from_the_folder(folder, tmp_path):
    (folder.project / "pml_core").mkdir()
    (folder.project / "pml_core" / "__init__.py").write_text(f"open({str(folder.ran)!r}, 'w')")
    with folder.served() as gateway:
        gateway.ask("tools/list")
    assert folder.touched == []
