"""``pml serve`` in a process of its own, to be talked to and to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PML = str(Path(sys.executable).with_name("pml"))
COUNTING = str(Path(__file__).with_name("counting_server.py"))
LINE_BYTES = 1 << 24
ENDING_S = 20.0
LAST_WORDS = 2000
CONFIG = """
[gateway]
tools_exposure = "full_proxy"

[servers.counting]
command = {command}
args = {args}

[plugins.dbos]
database = {database}
heartbeat_s = 0.2
"""


class Site:
    """A folder with everything that a gateway needs: configuration, home, log, and the traces of its server."""

    def __init__(self, folder: Path, *, database: str = "", traces: Path | None = None) -> None:
        self.folder, self.traces = folder, traces or folder / "traces"
        self.home, self.config, self.log = folder / "home", folder / "pml.toml", folder / "gateway.log"
        folder.mkdir(parents=True, exist_ok=True)
        quoted = {
            "command": json.dumps(sys.executable),
            "args": json.dumps([COUNTING, str(self.traces)]),
            "database": json.dumps(database),
        }
        self.config.write_text(CONFIG.format(**quoted))

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PML_HOME": str(self.home)}

    @staticmethod
    def counted_in(traces: Path) -> Counter[str]:
        """How often each key was traced."""
        return Counter(traces.read_text().split() if traces.exists() else ())

    async def servers_gone(self) -> None:
        """Wait until no server that belonged to a killed gateway can leave a trace any more."""
        folder = self.traces.with_name(f"{self.traces.name}.pids")
        while any(map(_is_orphan, folder.glob("*"))):  # noqa: ASYNC110 - a process that is no child tells nothing
            await asyncio.sleep(0.01)

    async def pml(self, *words: str) -> tuple[int, str]:
        """Run another ``pml`` command; its exit status and what it printed."""
        process = await asyncio.create_subprocess_exec(
            PML,
            *words,
            "--config",
            str(self.config),
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode() + err.decode()


def _is_orphan(file: Path) -> bool:
    """Whether the server whose id and parent ``file`` tells lives on without its gateway."""
    about = Path("/proc") / file.name
    with contextlib.suppress(OSError):
        if COUNTING in (about / "cmdline").read_text():
            return (about / "stat").read_text().rpartition(")")[2].split()[1] != file.read_text()
    return False


class KilledError(Exception):
    """The gateway was killed, or died by itself, before it answered. The message is the end of its log."""


class GatewayProcess:
    """One life of a gateway, with one client: us."""

    command: Sequence[str] = (PML,)

    def __init__(self, site: Site) -> None:
        self.site = site
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process

    async def start(self) -> GatewayProcess:
        """Start it; it may not be ready yet."""
        with self.site.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                "serve",
                "--config",
                str(self.site.config),
                env=self.site.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES,
            )
        self._reading = asyncio.create_task(self._read())
        return self

    async def hello(self) -> None:
        """Shake hands, and wait for the tools."""
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "killer", "version": "1"}}
        await self.request("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.request("tools/list", {})

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result. Raises KilledError when there will be none."""
        answer = await self.begin(method, params)[1]
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def begin(self, method: str, params: Mapping[str, Any]) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        """Send a request without waiting; its id, and the answer when it comes."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        number = len(self._answers) + 1
        self._answers[number] = future
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number, future

    def cancel(self, number: int) -> None:
        """Take a request back."""
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            future = self._answers.get(message.get("id"))
            if future is not None and "method" not in message and not future.done():
                future.set_result(message)
        for future in self._answers.values():
            if not future.done():
                future.set_exception(KilledError(self._last_words()))
                future.exception()

    def _last_words(self) -> str:
        return self.site.log.read_text(errors="replace")[-LAST_WORDS:]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The ``CallToolResult``."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    def loaded(self) -> str:
        """What the kernel has mapped for it: libraries among others."""
        return Path(f"/proc/{self.process.pid}/maps").read_text()

    async def kill(self) -> None:
        """SIGKILL, and nothing else: its servers find out by themselves."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self._gone()

    async def end(self, *, by: int = signal.SIGTERM) -> int:
        """A signal that it may act upon; the exit status."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(by)
        return await self._gone()

    async def leave(self) -> int:
        """Close its input, as a client that ends does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self._gone()

    async def _gone(self) -> int:
        async with asyncio.timeout(ENDING_S):
            status = await self.process.wait()
            if self._reading is not None:
                await self._reading
        assert self.process.stdin is not None
        self.process.stdin.close()
        return status
