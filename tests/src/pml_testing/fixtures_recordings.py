"""What the fixture ``recorded`` gives: a server whose answers are kept in a file, so that tests can do without it.

Reading the file is the business of the transport ``replay`` (pml-replay). Here is what writes it, as version 1 of the
format that ``pml recordings export`` writes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Endpoint, RawObject, RpcError, encode

if TYPE_CHECKING:
    from pml_hookspecs import Handler, Link, Transport

MISSING = (
    "the fixture 'recorded' replays with pml-replay, which is not installed: pip install 'pml-testing[replay]' "
    "(to record the session anew from the real server, run pytest with --pml-record)"
)


@dataclass(slots=True)
class ServerRecording:
    """A server of a test: the real one while recording, else what is kept in the file."""

    path: Path
    source: str
    """Address of the real server; ``""`` when it was not given."""
    recording: bool
    lines: list[Mapping[str, Any]] = field(default_factory=list)
    definitions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By tool id."""

    @property
    def address(self) -> str:
        """Of the server to use."""
        return self.source if self.recording else f"replay:{self.path}"

    def write(self) -> None:
        """Keep what was recorded, instead of what the file had."""
        told: list[Mapping[str, Any]] = [{"pml_recordings": 1}]
        told += [{"definition": made, "tool": tool} for tool, made in sorted(self.definitions.items())]
        told += [{"recording": line} for line in self.lines]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"".join(encode(line) + b"\n" for line in told))


def recorded_at(path: Path, source: str, *, recording: bool) -> ServerRecording:
    """The server whose answers ``path`` has, or is to have.

    Raises:
        ValueError: There is nothing to replay, or nothing to record from; the message says what to do.
        LookupError: What replays is not installed.
    """
    from pml_core.plugins.registry import discover

    if recording and not source:
        raise ValueError(f"{path.name} cannot be recorded: recorded({path.name!r}, ADDRESS) needs the server's address")
    if not recording:
        if not any(r.group == "pml.transport" and r.name == "replay" for r in discover()):
            raise LookupError(MISSING)
        if not path.exists():
            raise ValueError(f"{path} does not exist; run pytest with --pml-record once to record it")
    return ServerRecording(path, source, recording)


class RecordingTransport:
    """Reaches servers by another transport, and notes which tools they have and what they answer."""

    def __init__(self, real: Transport, recorded: Mapping[str, ServerRecording], services: Any) -> None:
        """``recorded`` are the servers to record, by name."""
        self._real, self._recorded, self._services = real, recorded, services

    @asynccontextmanager
    async def connect(self, endpoint: Endpoint, handler: Handler) -> AsyncIterator[Link]:
        async with self._real.connect(endpoint, handler) as link:
            mine = self._recorded.get(endpoint.name)
            yield link if mine is None else RecordingLink(endpoint.name, link, mine, self._services)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class RecordingLink:
    """A link that keeps what tools answer."""

    def __init__(self, server: str, link: Link, recorded: ServerRecording, services: Any) -> None:
        self._server, self._link, self._recorded, self._services = server, link, recorded, services

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self._link.notify(method, params)

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        try:
            answer = await self._link.request(method, params, timeout_s=timeout_s)
        except RpcError as error:
            if method == "tools/call":
                self._keep(params, "refusal", error.to_wire())
            raise
        if method == "tools/list":
            for tool in answer["tools"]:
                self._recorded.definitions[f"{self._server}:{tool['name']}"] = tool
        elif method == "tools/call" and answer.get("resultType", "complete") == "complete":
            told = {name: value for name, value in answer.items() if name != "resultType"}
            self._keep(params, "error" if told.get("isError") else "result", told)
        return answer

    def _keep(self, params: Mapping[str, Any], kind: str, answer: Mapping[str, Any]) -> None:
        tool, arguments = f"{self._server}:{params['name']}", dict(params.get("arguments") or {})
        line = {"tool": tool, "arguments": arguments, "kind": kind, "answer": dict(answer)}
        # Secrets of the configuration do not get into a file that is committed.
        self._recorded.lines.append({**line, **self._services.redact({"arguments": arguments, "answer": dict(answer)})})


def over(driver: Any, recorded: Mapping[str, ServerRecording]) -> Any:
    """A transport's driver class that notes what the servers in ``recorded`` answer."""

    def make(settings: Any, services: Any) -> Any:
        return RecordingTransport(driver(settings, services), recorded, services)

    make.settings_type = getattr(driver, "settings_type", None)  # type: ignore[attr-defined] # as a class has it
    if make.settings_type is None:  # type: ignore[attr-defined]
        del make.settings_type  # type: ignore[attr-defined]
    return make
