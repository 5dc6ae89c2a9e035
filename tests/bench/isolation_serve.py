"""A gateway in a process of its own, and one client that calls while the code of another attempts to get out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from isolation_client import HttpClient
from isolation_measured import Measured, Round

from pml_testing.isolation import Attempt, World

HERE = Path(__file__).parent
PML = Path(sys.executable).with_name("pml")
SERVING = "serving MCP at "
SOON_S = 40.0
ROUNDS = 5
ALONE_S, DURING_S = 0.15, 0.2
"""Of each round [s]."""
MOST_RUN_S = 1.0
"""Longest time of code: attempts cannot say it themselves here [s]."""


def configuration(name: str, small: Mapping[str, Any]) -> str:
    """As anybody would have it, but for the limits of code."""
    language = "python" if name in ("monty", "cpython") else "typescript"
    limits = "\n".join(f"{key} = {value}" for key, value in {**small, "timeout_s": MOST_RUN_S}.items())
    python = json.dumps(sys.executable)
    server, attempted = (json.dumps(str(HERE / file)) for file in ("server.py", "isolation_server.py"))
    return f"""
[gateway]
tools_exposure = "full_proxy"
log_level = "error"
[gateway.executors]
"code.{language}" = "{name}"
[plugins.{name}]
{limits}
[servers.fs]
command = {python}
args = ["-I", "-S", {server}, "fs", "4"]
[servers.open]
command = {python}
args = ["-I", "-S", {attempted}]
"""


@contextmanager
def gateway(name: str, small: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Its process and port."""
    with tempfile.TemporaryDirectory(prefix="pml-bench-") as home:
        config, log = Path(home, "gateway.toml"), Path(home, "log.txt")
        config.write_text(configuration(name, small))
        environment = {**os.environ, "HOME": home, "PML_HOME": str(Path(home, ".pml"))}
        command = [PML, "serve", "--http", "127.0.0.1:0", "--config", config]
        with log.open("w") as said, subprocess.Popen(command, stderr=said, env=environment, cwd=home) as process:
            try:
                end = time.monotonic() + SOON_S
                while SERVING not in log.read_text():
                    if process.poll() is not None or time.monotonic() > end:
                        raise RuntimeError(f"the gateway does not serve: {log.read_text()}")
                    time.sleep(0.05)
                yield process.pid, int(log.read_text().split(SERVING)[1].split()[0].split(":")[2].split("/")[0])
            finally:
                process.terminate()


class Caller:
    """The process that calls."""

    def __init__(self, port: int) -> None:
        words = [sys.executable, "-I", "-S", str(HERE / "isolation_client.py"), str(port), "fs__echo"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    @contextmanager
    def calling(self, into: list[float]) -> Iterator[None]:
        """Calls until the block ends; what they took goes into the list [ms]."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        try:
            yield
        finally:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
            into += json.loads(self._process.stdout.readline())


class Attacker:
    """The client whose code attempts to get out, again and again."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._stop = threading.Event()
        self.said: list[str] = []
        self.made = 0

    def _attack(self, attempt: Attempt, code: str) -> None:
        while not self._stop.is_set():
            answer = self._client.call("run_code", {"code": code, "language": attempt.language})
            self.made += 1
            text = json.dumps(answer)
            if text not in self.said:
                self.said.append(text)

    @contextmanager
    def attacking(self, attempt: Attempt, code: str) -> Iterator[None]:
        """As long as the block lasts; its end waits for the last attempt's."""
        self._stop.clear()
        thread = threading.Thread(target=self._attack, args=(attempt, code))
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def measure_serving(name: str, attempts: Sequence[Attempt], only: str, small: Mapping[str, Any]) -> dict[str, Measured]:
    """Each attempt, by its id. What needs a folder is made without one."""
    found: dict[str, Measured] = {}
    with World() as world, gateway(name, small) as (process, port), Caller(port) as caller:
        attacker = Attacker(HttpClient(port))
        with caller.calling([]), attacker.attacking(attempts[0], "return 1"):
            time.sleep(1)
        for attempt in attempts:
            if only not in attempt.id:
                continue
            world.reset()
            attacker.said, attacker.made = [], 0
            code = world.fill(attempt.code.replace("@GATEWAY@", str(process)))
            measured = found[attempt.id] = Measured()
            for _ in range(ROUNDS):
                measured.rounds.append(calls := Round())
                with caller.calling(calls.alone):
                    time.sleep(ALONE_S)
                with caller.calling(calls.during), attacker.attacking(attempt, code):
                    time.sleep(DURING_S)
            measured.attempts = attacker.made
            measured.escaped += [f"{attempt.id}: {what}" for what in world.escapes("\n".join(attacker.said))]
    return found
