"""Measures answers of 1 kB to 50 MB of servers that people use: directly, passed on, and stored with a preview.

    .venv/bin/python -m tests.bench.large_answers --node DIR [--rounds N] [--data DIR] [--servers NAMES] [--write-docs]

DIR of ``--node`` is that of tests/e2e/install_node_tools.sh, that of ``--data`` where servers of PyPI are put. Times
are from sending a call to having the last byte of its answer; memory is the gateway's alone, as Linux tells it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.bench.client import Answer, Connection, encode
from tests.e2e.conftest import FETCH
from tests.e2e.large_answers import ALL, SIZES, LargeAnswer, LargeAnswers, pages
from tests.e2e.visit import Server, configuration, serve

from pml_demo import environments
from pml_demo.servers import PYTHON, PYTHON_MCP_1, python_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "results.md"
ROWS, OF_ROWS = ROOT / "tests" / "e2e" / "servers" / "rows.py", 200_000
"""A server of ours, and the number of rows that are 56 MB."""
HEADER = (
    "server", "answer", "direct [ms]", "passed on [ms]", "of direct", "memory", "stored [ms]", "of direct", "memory",
)  # fmt: skip
PLUGINS = {"approvals": {"effects": "none"}, "results": {"declared": "refuse"}}
MB = 1e6


@dataclass
class AnswerFigures:
    """One call, made in three ways: milliseconds of each round, and the gateway's memory above what it had before."""

    server: str
    size_bytes: int = 0
    """Of the answer on the wire, directly."""
    times_ms: dict[str, list[float]] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)

    def row(self) -> list[str]:
        """Its row of the table."""
        median = {way: statistics.median(times) for way, times in self.times_ms.items()}
        cells = [self.server, _size(self.size_bytes), f"{median['direct']:,.1f}"]
        for way in ("passed", "stored"):
            cells += [f"{median[way]:,.1f}", f"{median[way] / median['direct']:.2f}", self._memory(way)]
        return cells

    def _memory(self, way: str) -> str:
        """Times the answer; of small ones it says nothing."""
        return f"{self.memory_bytes[way] / self.size_bytes:.1f} x" if self.size_bytes >= MB else ""


def _size(size_bytes: int) -> str:
    return f"{size_bytes / MB:,.1f} MB" if size_bytes >= MB / 2 else f"{size_bytes / 1000:,.1f} kB"


@contextlib.contextmanager
def peak_of(pid: int, measured: dict[str, int], way: str) -> Iterator[None]:
    """Note the most memory that a process has meanwhile, above what it has now, if that is more than before."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    before = _status(pid, "VmRSS")
    yield
    measured[way] = max(measured.get(way, 0), _status(pid, "VmHWM") - before)


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


class Ways:
    """Connections to one server: its own, one through a gateway that passes answers on, and one that stores them."""

    def __init__(self, server: Server, folder: Path) -> None:
        environment = {**os.environ, "PML_HOME": str(folder / "home")}
        self._name, self._connections = server.name, {}
        modes = {"passed": "full_proxy", "stored": "meta_only"}
        commands = {"direct": (server.command, {**os.environ, **server.env})} | {
            way: (
                serve(configuration(server, tools_exposure=mode) | {"plugins": PLUGINS}, _made(folder, way)),
                environment,
            )
            for way, mode in modes.items()
        }
        for way, (command, env) in commands.items():
            self._connections[way] = Connection(command, _made(folder, way), env)

    async def __aenter__(self) -> Self:
        for connection in self._connections.values():
            await connection.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def measure(self, call: LargeAnswer, rounds: int) -> AnswerFigures:
        """Each way once a round, after one that does not count."""
        found = AnswerFigures(self._name)
        for number in range(rounds + 1):
            for way in self._connections:
                answer, took_ms = await self._one(way, call, found.memory_bytes if number else {})
                if way == "direct":
                    found.size_bytes = len(encode(answer.message).encode())
                if number:
                    found.times_ms.setdefault(way, []).append(took_ms)
        return found

    async def _one(self, way: str, call: LargeAnswer, memory: dict[str, int]) -> tuple[Answer, float]:
        connection, name, given = self._connections[way], call.tool, dict(call.arguments)
        if way == "passed":
            name = f"{self._name}__{name}"
        elif way == "stored":
            name, given = "call_tool", {"name": f"{self._name}:{name}", "arguments": given}
        with peak_of(connection.pid, memory, way):
            began = time.perf_counter()
            answer = await connection.request("tools/call", {"name": name, "arguments": given})
        if answer.result().get("isError") and not (way == "stored" and call.declared):
            raise SystemExit(f"{self._name}, {way}: {answer.message}")
        return answer, (answer.at - began) * 1000


def _made(folder: Path, way: str) -> Path:
    (folder / way).mkdir(exist_ok=True)
    return folder / way


def rows(folder: Path) -> LargeAnswers:
    """Ours, with the answer that the limit of memory is about."""
    del folder
    server = Server(name="rows", command=[sys.executable, str(ROWS)])
    return LargeAnswers(server, lambda _size: LargeAnswer("rows", {"n": OF_ROWS}))


async def interpreters() -> dict[str, str]:
    """By server, the Python that has it."""
    folders = {one: await environments.install(one) for one in (PYTHON, PYTHON_MCP_1, FETCH)}
    return {server: python_of(folder) for one, folder in folders.items() for server in one.servers}


async def all_of(node: Path, data: Path, rounds: int, servers: Sequence[str]) -> list[AnswerFigures]:
    """Each of ``servers`` with every size."""
    os.environ["PML_HOME"] = str(data)
    pythons, found = await interpreters(), []
    with pages() as site, tempfile.TemporaryDirectory(prefix="pml-bench-") as place:
        for name in servers:
            folder = _made(Path(place), name)
            made = ALL[name](node, pythons, folder, site) if name in ALL else rows(folder)
            sizes = SIZES.values() if name in ALL else (0,)
            calls = [call for size in sizes if (call := made.of_size(size)) is not None]
            async with Ways(made.server, folder) as ways:
                for call in calls:
                    found.append(await ways.measure(call, rounds))
                    print(" | ".join(found[-1].row()), file=sys.stderr)
    return found


def table(found: list[AnswerFigures]) -> str:
    """In Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "| --- | ---: | " + "---: | " * (len(HEADER) - 2)]
    return "\n".join([line.rstrip() for line in lines] + ["| " + " | ".join(one.row()) + " |" for one in found])


def write(text: str) -> None:
    """Renew the table of the page."""
    page = DOCS.read_text(encoding="utf-8")
    marks = re.compile(r"(<!-- large answers -->\n).*?(\n<!-- /large answers -->)", re.DOTALL)
    DOCS.write_text(marks.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page), encoding="utf-8")


def main() -> None:
    """Measure, show and write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.large_answers", description=__doc__.partition("\n")[0])
    parser.add_argument("--node", type=Path, required=True, help="folder with Node and its servers")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "large_answers", help="where servers go")
    parser.add_argument("--rounds", type=int, default=5, help="times that each call is made in each way")
    parser.add_argument("--write-docs", action="store_true", help="renew the table in docs/results.md")
    parser.add_argument("--servers", default=",".join((*ALL, "rows")), help="which to ask: %(default)s")
    given = parser.parse_args()
    servers = given.servers.split(",")
    if unknown := {*servers} - {*ALL, "rows"}:
        parser.error(f"--servers: no such server: {', '.join(sorted(unknown))}")
    text = table(asyncio.run(all_of(given.node.absolute(), given.data.absolute(), given.rounds, servers)))
    print(text)
    if given.write_docs:
        write(text)


if __name__ == "__main__":
    main()
