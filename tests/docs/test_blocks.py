"""Configurations that the pages show fit, and the commands that they name exist."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from made_cli import _commands

from pml_settings.config import load

DOCS = Path(__file__).parents[2] / "docs"
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^\$ (pml .*)$", re.MULTILINE)
INLINE = re.compile(r"(?<!`)`(pml [a-z][^`\n]*)`(?!`)")
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if "design" not in path.parts and path.parent.name != "reference" and "Made by" not in path.read_text("utf-8")[:20]
)


def blocks():
    for path in PAGES:
        for number, text in enumerate(TOML.findall(path.read_text(encoding="utf-8")), 1):
            if "project" not in tomllib.loads(text) and not text.startswith("dependencies"):
                yield pytest.param(text, id=f"{path.relative_to(DOCS)}-{number}")


@pytest.mark.parametrize("text", list(blocks()))
def test_every_configuration_fits(text, tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    (tmp_path / "pml.toml").write_text(text, encoding="utf-8")
    load(tmp_path / "pml.toml")


def verbs_of(parser):
    """The parsers of a command's verbs, by name; empty without any."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def test_every_command_exists_with_its_options():
    commands = {name: parser for name, (parser, _, _) in _commands().items()}
    wrong, seen = [], 0
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        found = [line for block in CONSOLE.findall(text) for line in LINE.findall(block)] + INLINE.findall(text)
        for line in found:
            words = shlex.split(re.split(r"\s[|#>&]|;|…|\.\.\.|2>", line)[0], comments=True)[1:]
            if not words or words[0].startswith("-") or words[0].isupper():
                continue
            seen += 1
            words = words[: words.index("--")] if "--" in words else words  # a program to start has its own
            parser = commands.get(words[0])
            verb = next((word for word in words[1:2] if parser is not None and word in verbs_of(parser)), None)
            parser = verbs_of(parser)[verb] if verb else parser
            known = set() if parser is None else set(parser._option_string_actions)
            unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
            if parser is None or unknown:
                wrong.append(f"{path.relative_to(DOCS)}: {line}")
    assert wrong == []
    assert seen > 60
