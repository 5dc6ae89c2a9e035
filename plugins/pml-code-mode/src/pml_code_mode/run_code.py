"""``run_code``: arguments to a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import CodeRun, InvalidArguments, Task
from pml_kit.references import with_stored

_KNOWN = ("code", "language", "inputs", "intent")
_KINDS = {"code": (str, "a string"), "language": (str, "a string"), "intent": (str, "a string")}


def mistakes_in(arguments: Mapping[str, Any], known: tuple[str, ...]) -> list[str]:
    """Members of ``arguments`` that nobody knows, as sentences."""
    return [f"{name}: no such argument; there are {', '.join(known)}" for name in arguments if name not in known]


class RunCode:
    """Makes the task that ``run_code`` stands for."""

    def __init__(self, language: str) -> None:
        """Take the language of code that does not say."""
        self._language = language

    def __call__(self, arguments: Mapping[str, Any]) -> Task:
        """The task that ``arguments`` ask for; with stored results in its inputs, the plan that puts them in.

        Raises:
            InvalidArguments: Says everything that is wrong with them.
        """
        mistakes = mistakes_in(arguments, _KNOWN)
        for name, (kind, called) in _KINDS.items():
            if name in arguments and not isinstance(arguments[name], kind):
                mistakes.append(f"{name}: must be {called}")
        if not isinstance(arguments.get("inputs", {}), Mapping):
            mistakes.append("inputs: must be an object, whose members become variables of the code")
        if not arguments.get("code"):
            mistakes.append('code: is missing; give the body of a function, such as "return 1"')
        if mistakes:
            raise InvalidArguments("run_code cannot run this: " + "; ".join(mistakes))
        code = CodeRun(
            id="run_code",
            language=arguments.get("language") or self._language,
            source=arguments["code"],
            inputs=arguments.get("inputs", {}),
            intent=arguments.get("intent", ""),
        )
        return with_stored(code)
