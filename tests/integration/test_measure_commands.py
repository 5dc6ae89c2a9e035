"""``pml tokens``, ``eval``, ``advise`` and ``metrics`` as users run them: with a server, its catalog, and a history."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

SERVER = """
import json, sys
TOOLS = [{"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in (
    ("send_message", "Deliver some text to a person."), ("read_file", "Give the text of one document."))]
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    answers = {"initialize": lambda: {"protocolVersion": said["params"]["protocolVersion"],
                                      "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
               "tools/list": lambda: {"tools": TOOLS}, "ping": dict}
    if said["method"] in answers:
        reply = {"result": answers[said["method"]]()}
    else:
        reply = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], **reply}), flush=True)
"""


@pytest.fixture
def pml(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PML_")} | {"PML_HOME": str(tmp_path / "home")}

    def start(*words):
        command = [sys.executable, "-m", "pml_core", *words, "--config", "mcp.json"]
        # What runs in the background of a shell has it ignored, and passes that on.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=tmp_path, encoding="utf-8", env=env)
        finally:
            signal.signal(signal.SIGINT, before)

    def run(*words):
        with start(*words) as process:
            out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    run.start = start
    return run


def test_each_command_answers_with_one_document_and_remembers_the_catalog(pml):
    first = pml("tokens", "--json", "--connect")
    assert first.returncode == 0, first.stderr
    modes = {mode["name"]: mode["tokens"] for mode in json.loads(first.stdout)["modes"]}
    assert {"as configured", "hybrid_balanced", "full_proxy", "semantic"} <= modes.keys()
    for words in (["tokens"], ["eval", "--floor", "recall@10=0.5"], ["advise"], ["metrics"]):
        done = pml(*words, "--json")
        assert done.returncode == 0, done.stderr
        assert isinstance(json.loads(done.stdout), dict)
        assert "Traceback" not in done.stderr


def test_without_a_known_catalog_it_is_said_what_to_do(pml):
    done = pml("tokens")
    assert (done.returncode, done.stdout) == (2, "")
    assert "run this once with --connect" in done.stderr


def test_the_evaluation_counts_the_answers_of_search_and_leaves_no_trace_in_the_metrics(pml):
    done = pml("eval", "--json", "--connect")
    assert done.returncode == 0, done.stderr
    search, *modes = json.loads(done.stdout)["rows"]
    assert search["answer_tokens"] > 20
    assert {mode["answer_tokens"] for mode in modes} == {None}
    told = json.loads(pml("metrics", "--json").stdout)
    assert (told["total"]["search"], told["agents"]) == (0, {})


def test_metrics_are_watched_until_interrupted(pml):
    with pml.start("metrics", "--watch", "--json", "--interval", "0.2", "--connect") as process:
        first, second = json.loads(process.stdout.readline()), json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert first["at"] < second["at"]
    assert first["now"][0]["mode"] == "meta_only"
    assert first["now"][0]["list_tokens"] > 0
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_watch_without_a_terminal_is_refused_with_what_to_do(pml):
    done = pml("metrics", "--watch")
    assert done.returncode == 2
    assert "add --json" in done.stderr
