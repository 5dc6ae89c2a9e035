"""``reference/cli.md``: every command, read off the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from made import cell, distributions

from pml_core.cli import CORE_COMMANDS, add_commands
from pml_core.plugins.registry import provide

INTRODUCTION = """\
# Command line

`pml COMMAND --help` says the same. A mistake is a message on standard error: what, where and what to do. Exit status 0
is success, 1 is something that was found to be wrong, 2 a command that cannot be run as it was given.
"""
HIDDEN = (None, False, [], argparse.SUPPRESS)


def cli() -> str:
    """The page."""
    parts = [INTRODUCTION]
    commands = _commands()
    parts += ["| command | does | from |", "|---|---|---|"]
    for name in sorted(commands):
        parser, owner, text = commands[name]
        parts.append(f"| [`pml {name}`](#pml-{name}) | {cell(text)} | `{owner}` |")
    for name in sorted(commands):
        parser, _, text = commands[name]
        parts += ["", f"## `pml {name}` {{ #pml-{name} }}", "", *_command(parser, f"pml {name}", text)]
    return "\n".join(parts)


def _commands() -> dict[str, tuple[argparse.ArgumentParser, str, str]]:
    """Parser, distribution and one line about each command of the core and of the plugins of this repository."""
    subcommands: Any = argparse.ArgumentParser(prog="pml").add_subparsers()
    for module in CORE_COMMANDS.values():
        import_module(f"pml_core.cli.{module}").add(subcommands)
    owners = dict.fromkeys(subcommands.choices, "pml-core")
    found = [
        (distribution.name, provide("pml.plugins", plugin.name, plugin.load()))
        for distribution in distributions()
        for plugin in distribution.plugins
        if plugin.group == "pml.plugins"
    ]
    named = {record.name: name for name, record in found}
    added = add_commands(subcommands, [record for _, record in found])
    owners |= {command: named[plugin] for command, plugin in added.items()}
    told = {choice.dest: choice.help or "" for choice in subcommands._choices_actions}
    return {name: (subcommands.choices[name], owner, told[name]) for name, owner in owners.items()}


def _command(parser: argparse.ArgumentParser, path: str, text: str) -> Iterator[str]:
    description = parser.description or f"{text[:1].upper()}{text[1:]}."
    yield from (_escaped(" ".join(description.split())), "")
    positional = [action for action in parser._actions if _is_word(action)]
    options = [action for action in parser._actions if action.option_strings and not _is_help(action)]
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    words = " ".join(_placeholder(action) for action in positional)
    usage = " ".join(filter(None, (path, words, "[options]" if options else "", "VERB …" if verbs else "")))
    if positional or options:
        yield from ("```text", usage, "```", "", "| argument | meaning |", "|---|---|")
        for action in (*positional, *options):
            yield f"| {_shown(action)} | {_meaning(parser, action)} |"
        yield ""
    for verb in verbs:
        told = {choice.dest: choice.help or "" for choice in verb._choices_actions}
        for name, below in verb.choices.items():
            yield from (f"**`{path} {name}`**", "", *_command(below, f"{path} {name}", told.get(name, "")))


def _is_word(action: argparse.Action) -> bool:
    return not action.option_strings and not isinstance(action, argparse._SubParsersAction)


def _is_help(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS


def _placeholder(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    name = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    word = name if isinstance(name, str) else " ".join(name)
    forms = {"*": f"[{word} …]", "+": f"{word} …", "?": f"[{word}]"}
    return forms.get(str(action.nargs), word)


def _shown(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_placeholder(action)}`".replace("|", "\\|")
    takes = "" if action.nargs == 0 else f" {_placeholder(action)}"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings).replace("|", "\\|")


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    default = action.default
    shown = not any(default is hidden or default == hidden for hidden in HIDDEN) and isinstance(default, str | int)
    more = f" (default: `{default}`)" if shown and "default" not in text and str(default) else ""
    return _escaped(cell(text)) + more


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
