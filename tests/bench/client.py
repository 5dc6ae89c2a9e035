"""An MCP client on a child's pipes that does as little as it can, so that its own cost does not hide the gateway's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

REVISION = "2025-11-25"
"""Of MCP; every subject speaks it."""
READ_BYTES = 1 << 20
"""Size of one read; asyncio's own is a quarter of it."""
GRACE_S = 5.0
METHOD_NOT_FOUND = -32601
SHOWN = 300
LAST_WORDS_BYTES = 1000
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BenchError(Exception):
    """What is to be measured does not do what it should, so there is nothing to measure."""


class WrongAnswerError(BenchError):
    """An answer came, and it is not the one it has to be."""


class GoneError(BenchError):
    """The process has ended or closed its output."""


class Answer(NamedTuple):
    """One answer, and when it was there."""

    message: dict[str, Any]
    at: float
    """When its last byte had been read and nothing of it decoded, on the clock of ``time.perf_counter`` [s]."""

    def result(self) -> dict[str, Any]:
        """What a good answer holds.

        Raises:
            WrongAnswerError: It is an error.
        """
        result = self.message.get("result")
        if not isinstance(result, dict):
            raise WrongAnswerError(f"no result but {encode(self.message)[:SHOWN]}")
        return result

    def text(self) -> str:
        """The one text that the result of a tool is here.

        Raises:
            WrongAnswerError: It is not one text, or it is an error.
        """
        result = self.result()
        content = result.get("content")
        if result.get("isError") or not isinstance(content, list) or len(content) != 1 or "text" not in content[0]:
            raise WrongAnswerError(f"no text but {encode(result)[:SHOWN]}")
        text: str = content[0]["text"]
        return text

    def check(self, expected: str) -> None:
        """Make sure that the text is this one.

        Raises:
            WrongAnswerError: It is not.
        """
        if self.text() != expected:
            raise WrongAnswerError(f"expected {expected[:SHOWN]!r}, got {self.text()[:SHOWN]!r}")


OnAnswer = Callable[[Answer | None], None]
"""Gets the answer, or None when there will be none because the child is gone. Must not raise."""


class Connection(asyncio.Protocol):
    """A child that speaks MCP, and what is waited for from it."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        """Nothing starts yet.

        Args:
            command: Program and arguments.
            folder: Working directory; what the child says on stderr goes into ``stderr.txt`` there.
            env: All of its environment.
        """
        self._command, self._folder, self._env = command, folder, env
        self._waiting: dict[int, OnAnswer] = {}
        self._last_id = 0
        self._parts: list[bytes] = []
        self._gone = False
        self._fault: BenchError | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the child, which must have been started."""
        assert self._child is not None
        return self._child.pid

    async def start(self) -> None:
        """Start the child and shake hands."""
        loop = asyncio.get_running_loop()
        self._child = child = self._spawn()
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, child.stdin)
        self._output, _ = await loop.connect_read_pipe(lambda: self, child.stdout)
        self._output.max_size = READ_BYTES  # type: ignore[attr-defined] # not in the types, like the pipe transports
        about = {"name": "gateway-benchmark", "version": "1"}
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about}
        (await self.request("initialize", hello)).result()
        self._write({"method": "notifications/initialized"})

    def _spawn(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        with (self._folder / "stderr.txt").open("ab") as log:
            return subprocess.Popen(
                self._command, bufsize=0, stdin=pipe, stdout=pipe, stderr=log, cwd=self._folder, env=self._env
            )

    async def close(self) -> None:
        """End the child: close its input, which is how MCP asks it to stop, and insist when that is not enough."""
        child = self._child
        if child is None:
            return
        self._input.close()
        for insist in (None, child.terminate, child.kill):
            if insist is not None:
                insist()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(child.wait, GRACE_S)
                break
        self._output.close()

    def send(self, method: str, params: Mapping[str, Any], on_answer: OnAnswer) -> None:
        """Send a request."""
        if self._gone:
            asyncio.get_running_loop().call_soon(on_answer, None)
            return
        self._last_id = key = self._last_id + 1
        self._waiting[key] = on_answer
        self._write({"id": key, "method": method, "params": params})

    async def request(self, method: str, params: Mapping[str, Any]) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            BenchError: There will be none.
        """
        waiting: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.send(method, params, lambda answer: None if waiting.done() else waiting.set_result(answer))
        answer = await waiting
        if answer is None:
            raise self.gone()
        return answer

    async def tools(self) -> tuple[list[dict[str, Any]], float]:
        """Every page of ``tools/list``, and when the last of them was there."""
        listed: list[dict[str, Any]] = []
        params: dict[str, str] = {}
        while True:
            answer = await self.request("tools/list", params)
            result = answer.result()
            listed += result["tools"]
            if not (cursor := result.get("nextCursor")):
                return listed, answer.at
            params = {"cursor": cursor}

    def gone(self) -> BenchError:
        """Why there will be no answer, with the last that the child said."""
        if self._fault is not None:
            return self._fault
        said = (self._folder / "stderr.txt").read_bytes()[-LAST_WORDS_BYTES:].decode(errors="replace").strip()
        return GoneError("it closed its output" + (f"; the end of its stderr:\n{said}" if said else ""))

    def _write(self, message: dict[str, Any]) -> None:
        self._input.write(encode({"jsonrpc": "2.0", **message}).encode() + b"\n")

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        first, *others = data.split(b"\n")
        self._parts.append(first)
        if not others:
            return
        lines = [b"".join(self._parts), *others]
        self._parts = [lines.pop()]
        for line in lines:
            self._received(line, at)

    def _received(self, line: bytes, at: float) -> None:
        try:
            message = json.loads(line)
            on_answer = None if "method" in message else self._waiting.pop(message["id"])
        except (ValueError, LookupError, TypeError):
            self._fault = WrongAnswerError(f"not the answer to any request: {line[:SHOWN]!r}")
            self.connection_lost(None)
            return
        if on_answer is not None:
            on_answer(Answer(message, at))
        elif "id" in message:
            refusal = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {message['method']}"}
            self._write({"id": message["id"], "error": refusal})

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        waiting, self._waiting = self._waiting, {}
        for on_answer in waiting.values():
            on_answer(None)
