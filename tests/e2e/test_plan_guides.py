"""The examples of the guides on plans, code and approvals do what the guides say, in the order they stand in.

What a guide marks is run through the official SDK's client, on a gateway and servers of their own processes::

    <!-- call: TOOL -->       the next block has the arguments
    <!-- answer -->           what the last call answered has, at least
    <!-- text -->             what the text of the answer spells, as JSON
    <!-- error -->            the text of the failure
    <!-- shell -->            commands after ``$``, each with what it prints, at least

``…`` stands for anything; ``<name>`` for what comes there first, and for the same from then on.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
OFFICE = Path(__file__).parent / "servers" / "office.py"
GUIDES = ("workflows", "code", "approvals")
STEP = re.compile(
    r"^<!-- (call|answer|text|error|shell)(?:: (\w+))?(, three times)? -->\n+```\w+\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NAME = re.compile(r"<([a-z_]+)>")
PATIENCE_S = 120.0
"""How long a command is tried again: what it shows may still be on its way to the store."""


@dataclass
class Reader:
    """Somebody who follows a guide."""

    known: dict[str, str] = field(default_factory=dict)
    """What stands for each ``<name>``."""
    answer: object = None

    def filled(self, text):
        """``text`` with what is known; a name that no answer has brought is a mistake of the guide."""
        return NAME.sub(lambda found: self.known[found[1]], text)

    def check(self, wanted, got, where="answer"):
        """Whether ``got`` has everything that the guide shows."""
        if wanted == "…":
            return
        if isinstance(wanted, dict):
            assert isinstance(got, dict), f"{where}: {got!r}"
            for key, value in wanted.items():
                assert key in got, f"{where}: no {key} in {got}"
                self.check(value, got[key], f"{where}.{key}")
        elif isinstance(wanted, list):
            assert isinstance(got, list), f"{where}: {got!r}"
            assert len(wanted) == len(got), f"{where}: {got}"
            for number, (one, other) in enumerate(zip(wanted, got, strict=True)):
                self.check(one, other, f"{where}[{number}]")
        elif isinstance(wanted, str) and NAME.fullmatch(wanted):
            assert self.known.setdefault(wanted[1:-1], got) == got, where
        else:
            assert wanted == got, where

    def shown(self, line, output):
        """Whether ``output`` has ``line``, but for spaces; keeps what its names stand for."""
        parts = re.split(r"(<[a-z_]+>|…)", " ".join(line.split()))
        pattern = "".join(self._part(part) for part in parts)
        for one in output.splitlines():
            if found := re.fullmatch(pattern, " ".join(one.split())):
                self.known |= found.groupdict()
                return True
        return False

    def _part(self, text):
        if text == "…":
            return ".*"
        name = NAME.fullmatch(text)
        if name is None:
            return re.escape(text)
        return re.escape(self.known[name[1]]) if name[1] in self.known else rf"(?P<{name[1]}>\S+)"


def steps(guide):
    """What the guide has a reader do, in order."""
    text = (ROOT / "docs" / "guides" / f"{guide}.md").read_text(encoding="utf-8")
    found = [(kind, name, 3 if often else 1, block) for kind, name, often, block in STEP.findall(text)]
    assert len(found) == text.count("<!-- "), "a mark without its block"
    return found


async def called(client, reader, name, times, block):
    arguments = json.loads(reader.filled(block))
    for _ in range(times):
        reader.answer = await client.call_tool(name, arguments)


async def typed(site, reader, block):
    """Run commands as somebody at a terminal would."""
    for part in re.split(r"^\$ pml ", block, flags=re.MULTILINE)[1:]:
        words, _, wanted = part.partition("\n")
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            ran = await asyncio.to_thread(site.pml, *shlex.split(reader.filled(words)))
            missing = [line for line in wanted.splitlines() if line and not reader.shown(line, ran.stdout)]
            if not missing and ran.returncode == 0:
                break
            assert asyncio.get_running_loop().time() < deadline, f"{missing}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("guide", GUIDES)
async def test_the_examples_of_a_guide_do_what_it_says(site, guide):
    servers = {name: [sys.executable, str(OFFICE), name, str(site.folder)] for name in ("tracker", "people", "mail")}
    site.configure(feeds=[sys.executable, str(OFFICE), "feeds", str(site.folder)], **servers)
    reader = Reader()
    async with site.connect() as client:
        for kind, name, times, block in steps(guide):
            if kind == "call":
                await called(client, reader, name, times, block)
            elif kind == "answer":
                reader.check(json.loads(block), site.value_of(reader.answer))
            elif kind == "text":
                reader.check(json.loads(block), json.loads(site.text_of(reader.answer)))
            elif kind == "error":
                assert reader.answer.is_error
                assert site.text_of(reader.answer).strip() == block.strip()
            else:
                await typed(site, reader, block)


async def test_the_guides_name_everything_that_a_plan_and_its_tasks_can_say(site):
    wrong = [
        {"id": f"t{kind}", "type": kind, "zzz": 1} for kind in ("tool", "code_execution", "capability", "workflow")
    ]
    async with site.connect() as client:
        answer = await client.call_tool("execute_workflow", {"workflow": {"zzz": 1, "tasks": wrong}})
    lists = re.findall(r"zzz: unknown; known here: (.+)", site.text_of(answer))
    assert len(lists) == 5
    known = {word for one in lists for word in one.split(", ")}
    text = "".join((ROOT / "docs" / "guides" / f"{guide}.md").read_text(encoding="utf-8") for guide in GUIDES)
    assert {word for word in known if f"`{word}`" not in text and f'"{word}"' not in text} == set()
