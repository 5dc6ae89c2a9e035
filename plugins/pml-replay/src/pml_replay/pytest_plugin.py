"""pytest plugin: the fixture ``pml_replay``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .session import Session


class ReplaySession:
    """A recorded session, for one test."""

    def __init__(self, path: Path, session: Session) -> None:
        self.path, self.session = path, session

    @property
    def command(self) -> list[str]:
        """The command that serves it over stdio, for an agent in a process of its own."""
        return [sys.executable, "-m", "pml_core", "replay", str(self.path)]

    @property
    def config(self) -> dict[str, Any]:
        """As MCP clients are configured: ``{"mcpServers": {"replay": …}}``."""
        command, *args = self.command
        return {"mcpServers": {"replay": {"command": command, "args": args}}}

    def tools(self, server: str | None = None) -> list[Mapping[str, Any]]:
        """Definitions of the recorded tools, of one server or of all."""
        servers = self.session.servers if server is None else [server]
        return [tool for name in servers for tool in self.session.tools(name)]

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What ``server:tool`` answered: its ``CallToolResult``. May be handed to an agent as the way to its tools.

        Raises:
            RpcError: As it was recorded.
            UnmatchedError: It was not recorded; the test fails at its end even if this is caught.
        """
        from pml_hookspecs import RpcError

        recorded = self.session.answer(tool, arguments or {})
        if recorded.kind == "refusal":
            error = recorded.answer
            raise RpcError(error["code"], str(error["message"]), error.get("data"))
        return dict(recorded.answer)


@pytest.fixture
def pml_replay(request: pytest.FixtureRequest) -> Iterator[Callable[[str | Path], ReplaySession]]:
    """``pml_replay("session.jsonl")`` is the recorded session in that file, looked for beside the test.

    A call that is not recorded fails the test, with the nearest recording.
    """
    opened: list[ReplaySession] = []

    def open_(file: str | Path) -> ReplaySession:
        from .session import load

        path = request.path.parent / file
        opened.append(ReplaySession(path, load(path)))
        return opened[-1]

    yield open_
    unmatched = [message for replayed in opened for message in replayed.session.unmatched]
    if unmatched:
        pytest.fail("\n".join(unmatched), pytrace=False)
