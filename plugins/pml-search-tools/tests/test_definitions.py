from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from pml_hookspecs import MetaTool, encode
from pml_search_tools import plugin
from pml_testing.fakes import FakeServices

BUDGET = 160
"""The share of these two in the 400 tokens that the listed meta-tools may cost together [tokens]."""
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d{1,3}|_|[^\w\s]+")


def tools() -> list[MetaTool]:
    services: Any = FakeServices()
    return list(plugin.pml_meta_tools(services))


def like_a_tokenizer(text: str) -> int:
    """About what byte-pair encoders count, rounded up: words of up to eight letters, runs of punctuation."""
    return sum(-(-len(piece) // 8) if piece.isalpha() else 1 for piece in PIECE.findall(text))


def test_there_are_two_listed_tools_and_each_answers_or_stands_for_a_task() -> None:
    found, called = tools()
    assert [tool.definition["name"] for tool in (found, called)] == ["search_tools", "call_tool"]
    assert found.listed
    assert called.listed
    assert found.call is not None
    assert found.task is None
    assert called.call is None
    assert called.task is not None


@pytest.mark.seed("EXP-3", "EXP-44")
def test_both_definitions_fit_their_share_of_the_context() -> None:
    texts = [encode(tool.definition) for tool in tools()]
    assert sum(len(text) for text in texts) / 4 <= BUDGET
    assert sum(like_a_tokenizer(text.decode()) for text in texts) <= BUDGET


def test_definitions_are_the_same_bytes_every_time() -> None:
    assert [encode(tool.definition) for tool in tools()] == [encode(tool.definition) for tool in tools()]


def test_importing_the_plugin_is_cheap() -> None:
    code = "import pml_search_tools.plugin, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert not {"pydantic", "mcp", "mcp_types", "rich", "structlog", "difflib"}.intersection(loaded.stdout.split())
