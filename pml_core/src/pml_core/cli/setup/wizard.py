"""``pml config --wizard``: some questions, and the configuration that the answers come to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_clients.trees import KeyPath
from pml_core.errors import OperatorError
from pml_core.settings.config_files import read_file

from . import config_change, presets

TRIES = 3
"""Answers that make no sense before the wizard gives up."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    id: str
    """Its name in ``--answers`` and ``--answer``."""
    text: str
    choices: Mapping[str, str]
    """What may be answered, with what it means; empty for free text."""
    default: str = ""
    asked: Callable[[Mapping[str, str]], bool] = lambda _answers: True
    """Whether the answers so far leave anything to ask."""


USES: Mapping[str, tuple[str, str]] = {
    "migration": ("full_proxy", "I come from direct connections; every call must work as before"),
    "development": ("hybrid_permissive", "I develop and debug, and want many tools at hand"),
    "everyday": ("hybrid_balanced", "I work with it every day, with and without workflows"),
    "purpose": ("semantic", "my agents do one kind of thing, which I can describe"),
    "production": ("meta_only", "my agents search and plan; the smallest context counts"),
}
"""Answers to the first question: the preset, or for lack of one the mode, and how it reads."""
QUESTIONS = (
    Question("use", "What is PML for?", {use: about for use, (_, about) in USES.items()}, "production"),
    Question(
        "intent",
        "What do your clients do, in a few words? Tools are chosen by it; empty: clients say so themselves.",
        {},
        asked=lambda answers: _preset(answers) in ("semantic", "hybrid_balanced", "hybrid_permissive"),
    ),
    Question(
        "always",
        "Which tools are to be listed in any case (server:tool, separated by commas)?",
        {},
        asked=lambda answers: _preset(answers).startswith("hybrid"),
    ),
    Question("never", "Which tools may nobody see or call, in any mode (server:tool or server:*, commas)?", {}),
    Question(
        "where",
        "For which work does this hold?",
        {"user": "all of mine", "project": "this folder's; it comes before the user's"},
        "user",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Ask, or take the answers given, and write; the exit status.

    Raises:
        OperatorError: Nobody can be asked, or an answer makes no sense.
    """
    given = _given(arguments)
    try:
        answers = dict(_answered(given)) if given else dict(_asked())
    except (EOFError, KeyboardInterrupt):
        print("\nNothing is written.", file=sys.stderr)
        return 130
    if arguments.to is None and arguments.config is None and not arguments.project and not arguments.user:
        setattr(arguments, answers["where"], True)
    change = config_change.make(config_change.target(arguments), values_of(answers))
    return config_change.apply(change, arguments, {"answers": answers, "preset": _preset(answers)})


def values_of(answers: Mapping[str, str]) -> dict[KeyPath, Any]:
    """The values that complete answers come to."""
    preset = presets.known(Path.cwd()).get(_preset(answers))
    mode = ("gateway", "tools_exposure")
    values: dict[KeyPath, Any] = dict(preset.values) if preset else {mode: _preset(answers)}
    if answers.get("intent"):
        values["gateway", "intent"] = answers["intent"]
    for question, key in (("always", "whitelisted_tools"), ("never", "blacklisted_tools")):
        if names := [name.strip() for name in answers.get(question, "").split(",") if name.strip()]:
            values["plugins", "hybrid", key] = names
    return values


def _preset(answers: Mapping[str, str]) -> str:
    return USES[answers.get("use", QUESTIONS[0].default)][0]


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    """Answers from the command line; they come before those of the file."""
    answers: dict[str, str] = {}
    if arguments.answers is not None:
        tree, _ = read_file(arguments.answers)
        answers = {name: _text(value) for name, value in tree.items()}
    for pair in arguments.answer:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OperatorError(f"--answer {pair}: expected QUESTION=ANSWER", f"Questions: {_names()}.")
        answers[name.strip()] = value
    return answers


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _answered(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every question that is to be asked with the answer given, or its default."""
    if unknown := [name for name in given if name not in {question.id for question in QUESTIONS}]:
        raise OperatorError(f"--answers: there is no question {', '.join(unknown)}", f"Questions: {_names()}.")
    answers: dict[str, str] = {}
    for question in QUESTIONS:
        if not question.asked(answers):
            if given.get(question.id):
                raise OperatorError(
                    f"--answers: {question.id} means nothing with use={answers['use']}", "Leave it out."
                )
            continue
        answer = given.get(question.id, question.default).strip()
        if question.choices and answer not in question.choices:
            known = ", ".join(question.choices)
            raise OperatorError(f"--answers: {question.id} cannot be {answer!r}", f"Answer one of: {known}.")
        answers[question.id] = answer
        yield question.id, answer


def _asked() -> Iterator[tuple[str, str]]:
    if not (sys.stdin and sys.stdin.isatty()):
        remedy = "Give the answers: --answer use=everyday --answer where=project, or --answers FILE."
        raise OperatorError("--wizard: there is no terminal to ask at", f"{remedy} Questions: {_names()}.")
    answers: dict[str, str] = {}
    for question in QUESTIONS:
        if question.asked(answers):
            answers[question.id] = _ask(question)
            yield question.id, answers[question.id]


def _ask(question: Question) -> str:
    """The answer of somebody at the terminal: a number or a name, or nothing for the default."""
    print(f"\n{question.text}", file=sys.stderr)
    choices = list(question.choices)
    for number, choice in enumerate(choices, 1):
        mark = " (default)" if choice == question.default else ""
        print(f"  {number}  {choice}: {question.choices[choice]}{mark}", file=sys.stderr)
    for _ in range(TRIES):
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        answer = _chosen(line.strip(), choices, question.default)
        if answer is not None:
            return answer
        print(f"  Answer a number from 1 to {len(choices)}, or a name.", file=sys.stderr)
    raise OperatorError(f"--wizard: {question.id} has no answer that makes sense", "Start again.")


def _chosen(answer: str, choices: list[str], default: str) -> str | None:
    """What was meant; None for nothing that there is."""
    if not choices or not answer:
        return answer or default
    if answer.isdecimal() and 0 < int(answer) <= len(choices):
        return choices[int(answer) - 1]
    return answer if answer in choices else None


def _names() -> str:
    return ", ".join(_described(QUESTIONS))


def _described(questions: Iterable[Question]) -> Iterator[str]:
    for question in questions:
        yield f"{question.id} ({'|'.join(question.choices)})" if question.choices else question.id
