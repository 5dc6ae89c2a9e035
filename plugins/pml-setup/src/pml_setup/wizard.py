"""``pml config --wizard``: some questions, and the configuration that the answers come to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients.configuration import changes, presets
from pml_clients.configuration.files import read_file
from pml_clients.configuration.preset_files import offered
from pml_clients.trees import KeyPath
from pml_kit.errors import OperatorError

from . import config_change

if TYPE_CHECKING:
    from pml_clients.configuration.view import ConfigurationFiles

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


FALLBACK_USE = "production"
"""The default answer to the first question, where a plugin offers it."""
INTENT = "What do your clients do, in a few words? Tools are chosen by it; empty: clients say so themselves."
WHERE = {"user": "all of mine", "project": "this folder's; it comes before the user's"}


class Form:
    """The questions, as plugins that are installed have them asked."""

    def __init__(self) -> None:
        """Raises :class:`OperatorError` where no plugin offers anything."""
        self._uses, asked = offered("uses"), offered("questions")
        if not self._uses:
            raise OperatorError("--wizard: no plugin that is installed has modes to choose from", "Install one.")
        uses = {name: str(use["about"]) for name, use in self._uses.items()}
        self.settings: Mapping[str, KeyPath] = {name: tuple(one["setting"].split(".")) for name, one in asked.items()}
        """By question, the setting that gets the names in its answer."""
        self.questions = (
            Question("use", "What is PML for?", uses, FALLBACK_USE if FALLBACK_USE in uses else next(iter(uses))),
            Question("intent", INTENT, {}, asked=lambda answers: bool(self._uses[answers["use"]].get("intent"))),
            *(
                Question(name, one["text"], {}, asked=partial(_is_asked, one.get("uses", list(uses))))
                for name, one in asked.items()
            ),
            Question("where", "For which work does this hold?", WHERE, "user"),
        )
        self.names = ", ".join(
            f"{one.id} ({'|'.join(one.choices)})" if one.choices else one.id for one in self.questions
        )

    def preset(self, answers: Mapping[str, str]) -> str:
        """The name of the preset that answers come to, or for lack of one the mode."""
        use = self._uses[answers["use"]]
        return str(use.get("preset") or use["mode"])


def _is_asked(uses: Collection[str], answers: Mapping[str, str]) -> bool:
    return answers["use"] in uses


def run(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Ask, or take the answers given, and write; the exit status.

    Raises:
        OperatorError: Nobody can be asked, or an answer makes no sense.
    """
    form = Form()
    given = _given(arguments, form)
    try:
        answers = dict(_answered(given, form)) if given else dict(_asked(form))
    except (EOFError, KeyboardInterrupt):
        print("\nNothing is written.", file=sys.stderr)
        return 130
    if arguments.to is None and arguments.config is None and not arguments.project and not arguments.user:
        setattr(arguments, answers["where"], True)
    change = changes.make(config_change.target(arguments), values_of(answers, form), files)
    return config_change.apply(change, arguments, {"answers": answers, "preset": form.preset(answers)}, files)


def values_of(answers: Mapping[str, str], form: Form) -> dict[KeyPath, Any]:
    """The values that complete answers come to."""
    name = form.preset(answers)
    preset = presets.known(Path.cwd()).get(name)
    values: dict[KeyPath, Any] = dict(preset.values) if preset else {("gateway", "tools_exposure"): name}
    if answers.get("intent"):
        values["gateway", "intent"] = answers["intent"]
    for question, setting in form.settings.items():
        if names := [name.strip() for name in answers.get(question, "").split(",") if name.strip()]:
            values[setting] = names
    return values


def _given(arguments: argparse.Namespace, form: Form) -> dict[str, str]:
    """Answers from the command line; they come before those of the file."""
    answers: dict[str, str] = {}
    if arguments.answers is not None:
        tree, _ = read_file(arguments.answers)
        answers = {name: _text(value) for name, value in tree.items()}
    for pair in arguments.answer:
        name, equals, value = pair.partition("=")
        if not equals:
            raise OperatorError(f"--answer {pair}: expected QUESTION=ANSWER", f"Questions: {form.names}.")
        answers[name.strip()] = value
    return answers


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _answered(given: Mapping[str, str], form: Form) -> Iterator[tuple[str, str]]:
    """Every question that is to be asked with the answer given, or its default."""
    if unknown := [name for name in given if name not in {question.id for question in form.questions}]:
        raise OperatorError(f"--answers: there is no question {', '.join(unknown)}", f"Questions: {form.names}.")
    answers: dict[str, str] = {}
    for question in form.questions:
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


def _asked(form: Form) -> Iterator[tuple[str, str]]:
    if not (sys.stdin and sys.stdin.isatty()):
        remedy = "Give the answers: --answer use=everyday --answer where=project, or --answers FILE."
        raise OperatorError("--wizard: there is no terminal to ask at", f"{remedy} Questions: {form.names}.")
    answers: dict[str, str] = {}
    for question in form.questions:
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
