from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from pml_hookspecs import MetaTool, Session, encode
from pml_kit.mcp.effects import ORDER, effects_of_tool
from pml_kit.offers import INDIRECT_CALLS
from pml_search_tools import plugin
from pml_testing.fakes import FakeServices

BUDGET = 160
"""The share of these two in the 400 tokens that the listed meta-tools may cost together [tokens]."""
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d{1,3}|_|[^\w\s]+")


def tools(**settings: Any) -> list[MetaTool]:
    services: Any = FakeServices(settings=plugin.Settings(**settings))
    return list(plugin.pml_meta_tools(services))


def listed(client: str, **settings: Any) -> list[MetaTool]:
    """What is listed to a client of that name."""
    session = Session(key="test", client=client)
    return [tool for tool in tools(**settings) if (tool.listed(session) if callable(tool.listed) else tool.listed)]


def like_a_tokenizer(text: str) -> int:
    """About what byte-pair encoders count, rounded up: words of up to eight letters, runs of punctuation."""
    return sum(-(-len(piece) // 8) if piece.isalpha() else 1 for piece in PIECE.findall(text))


@pytest.mark.parametrize("choice", ["auto", "always", "never"])
@pytest.mark.parametrize("client", ["claude-code/2", "test/1"])
@pytest.mark.parametrize("effects", ORDER)
def test_the_tool_by_which_others_are_called_is_one_that_the_client_is_shown(client, choice, effects) -> None:
    services: Any = FakeServices(settings=plugin.Settings(permission_classes=choice))
    (calling,) = (offer.service for offer in plugin.pml_offers(services) if offer.key == INDIRECT_CALLS)
    shown = {one.definition["name"]: one.definition for one in listed(client, permission_classes=choice)}
    named = shown[calling(Session(key="test", client=client), effects)]
    assert {"name", "arguments"} <= named["inputSchema"]["properties"].keys()
    assert effects_of_tool(named) == (effects if len(shown) > 2 else "destroy")


def test_most_clients_are_shown_two_tools_and_each_answers_or_stands_for_a_task() -> None:
    found, called = listed("test/1")
    assert [tool.definition["name"] for tool in (found, called)] == ["search_tools", "call_tool"]
    assert found.call is not None
    assert found.task is None
    assert called.call is None
    assert called.task is not None


def test_clients_that_ask_by_annotations_are_shown_true_ones() -> None:
    found, *calls = listed("claude-code/2.1")
    assert found.definition["name"] == "search_tools"
    hints = {tool.definition["name"]: effects_of_tool(tool.definition) for tool in calls}
    assert hints == {"call_tool_read": "read", "call_tool_write": "write", "call_tool_destroy": "destroy"}
    assert all(tool.task is not None for tool in calls)


@pytest.mark.parametrize(
    "client",
    ["claude-code/2.1", "claude-ai/0.1 (via mcp-remote)", "Visual Studio Code/1.1", "Visual Studio Code - Insiders/1",
     "cursor-vscode/1", "codex-mcp-client/0.5", "gemini-cli-mcp-client/1", "openai-mcp/1"],
)  # fmt: skip
def test_clients_known_to_ask(client: str) -> None:
    assert len(listed(client)) == 4


@pytest.mark.parametrize("client", ["", "inspector-client/1", "mcp/0.1", "my-claude-code/1"])
def test_other_clients_are_shown_one_tool_for_all_calls(client: str) -> None:
    assert len(listed(client)) == 2


def test_a_setting_says_who_is_shown_them() -> None:
    assert len(listed("test/1", permission_classes="always")) == 4
    assert [tool.definition["name"] for tool in tools(permission_classes="never")] == ["search_tools", "call_tool"]
    assert len(listed("claude-code/2", permission_classes="never")) == 2


def test_both_definitions_fit_their_share_of_the_context() -> None:
    texts = [encode(tool.definition) for tool in listed("test/1")]
    assert sum(len(text) for text in texts) / 4 <= BUDGET
    assert sum(like_a_tokenizer(text.decode()) for text in texts) <= BUDGET


def test_definitions_are_the_same_bytes_every_time() -> None:
    assert [encode(tool.definition) for tool in tools()] == [encode(tool.definition) for tool in tools()]


def test_importing_the_plugin_is_cheap() -> None:
    code = "import pml_search_tools.plugin, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert not {"pydantic", "mcp", "mcp_types", "rich", "structlog", "difflib"}.intersection(loaded.stdout.split())
