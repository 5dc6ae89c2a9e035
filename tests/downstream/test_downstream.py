"""What integrators do: plugins of their own against the packages as they are published, without this checkout."""

from __future__ import annotations

import json
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Built, Distribution, Environment

CONTRACTED = {
    "pml-example-by-role": "by_role",
    "pml-example-jsonl-store": "jsonl",
    "pml-example-prometheus-textfile": "prometheus_textfile",
    "pml-example-redact-patterns": "redact_patterns",
}
"""Examples whose contract can be run without more than their name."""
CONFIG = """
[gateway]
tools_exposure = "by_role"
store = "jsonl"
tracers = ["prometheus_textfile"]

[servers.pets]
address = "openapi:{address}/pets.json"
base_url = "http://127.0.0.1:9"
"""
PETS = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {"/pets": {"get": {"operationId": "list_pets", "summary": "All pets"}}},
}


class Quiet(SimpleHTTPRequestHandler):
    """Serves the documents of the service, and says nothing about it."""

    def log_message(self, *said: object) -> None:
        """Nobody reads it."""


def alone(built: Built, environment: Any, example: Distribution) -> Environment:
    """An example and what its tests need, and nothing else."""
    wanted = built.named(example.name, *example.ours_to_test)
    made: Environment = environment([built.wheel(one) for one in wanted])
    return made


def copied(example: Distribution, made: Environment) -> Path:
    """The tests and their configuration, as an integrator copies them."""
    folder = made.work / example.folder.name
    shutil.copytree(example.folder / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(example.folder / "pyproject.toml", folder)
    return folder


def test_an_example_keeps_its_tests_and_its_contract_without_the_checkout(
    built: Built, environment: Any, example: Distribution
) -> None:
    made = alone(built, environment, example)
    assert made.strays() == []
    done = made.run("pytest", "-q", "-p", "no:cacheprovider", cwd=copied(example, made))
    assert done.status == 0, done.said
    if name := CONTRACTED.get(example.name):
        done = made.run("pytest", "-q", "-p", "no:cacheprovider", f"--pml-contract={name}")
        assert done.status == 0, done.said
        assert " passed" in done.out


def test_each_contract_is_of_an_example(examples: list[Distribution]) -> None:
    assert CONTRACTED.keys() <= {one.name for one in examples}


@pytest.fixture(scope="module")
def together(
    built: Built, environment: Any, examples: list[Distribution], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    """All examples with the standard set, configured."""
    wanted = built.named("pml-gateway", *(one.name for one in examples))
    made: Environment = environment([built.wheel(one) for one in wanted])
    documents = tmp_path_factory.mktemp("documents")
    (documents / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=documents)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        (made.work / "pml.toml").write_text(CONFIG.replace("{address}", address), encoding="utf-8")
        yield made
        server.shutdown()


def test_all_examples_are_well_together(together: Environment) -> None:
    doctor = together.run("pml", "plugins", "doctor")
    assert doctor.status == 0, doctor.said


def test_the_command_of_an_example_is_a_command_of_the_gateway(together: Environment) -> None:
    done = together.run("pml", "feedback", "--config", "pml.toml")
    assert (done.status, done.out) == (0, "No reports.\n"), done.said
    head = (together.work / "home" / "pml.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert head == '{"pml_jsonl":1}'


def test_a_gateway_serves_with_all_of_them(together: Environment) -> None:
    """One client over standard input and output: what it lists, and that its report is kept."""
    script = together.work / "client.py"
    script.write_text(CLIENT, encoding="utf-8")
    done = together.run("python", str(script))
    assert done.status == 0, done.said
    assert "report_tool_problem" in done.out
    reports = together.run("pml", "feedback", "--config", "pml.toml", "--json")
    assert [report["problem"] for report in json.loads(reports.out)] == ["nobody listens"], reports.said
    assert 'tool="pml:report_tool_problem"' in (together.work / "home" / "metrics" / "pml.prom").read_text()


CLIENT = """
import json, subprocess, sys, time

gateway = subprocess.Popen(
    ["pml", "serve", "--config", "pml.toml"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
)
number = 0


def send(method, params, id=None):
    told = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    gateway.stdin.write(json.dumps(told) + "\\n")
    gateway.stdin.flush()


def ask(method, params):
    global number
    number += 1
    send(method, params, number)
    for line in gateway.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer["result"]
    sys.exit("the gateway went away")


about = {"name": "downstream", "version": "1"}
ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about})
send("notifications/initialized", {})
print(*(tool["name"] for tool in ask("tools/list", {})["tools"]))
report = {"tool": "pets:list_pets", "problem": "nobody listens"}
for _ in range(60):  # its server may still be starting
    answer = ask("tools/call", {"name": "report_tool_problem", "arguments": report})
    if not answer.get("isError"):
        break
    time.sleep(1)
print(answer)
gateway.stdin.close()
sys.exit(gateway.wait(30) or bool(answer.get("isError")))
"""
