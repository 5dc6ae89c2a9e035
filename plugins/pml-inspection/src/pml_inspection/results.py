"""Results that may have suspicious text, and what is said in place of those that are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, ToolCall, replace, split_tool_id
from pml_kit.json_members import with_meta
from pml_kit.outcomes import denied
from pml_kit.text.inspection import findings
from pml_kit.text.phrases import MOST_SEARCHED

from .definitions import APART, MOST_TOLD, Occurrence, marked, stripped, texts

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, ServerRequest, Services, Task
    from pml_kit.text.phrases import Phrases

    from .settings import Settings

CODE = "policy.quarantined"
MOST_TEXTS = 2_000
"""Texts of one result that are read."""
LARGE_BYTES = 1 << 20
"""A larger result is not parsed to be marked: both ends of its JSON text are searched."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")


class ResultInspector:
    """Finds, marks and strips."""

    def __init__(self, services: Services, settings: Settings, phrases: Phrases) -> None:
        self._log, self._settings, self._phrases = services.log, settings, phrases
        self._told: set[tuple[str, str]] = set()

    def of_call(self, task: ToolCall | ServerRequest, outcome: Outcome) -> Outcome:
        """The outcome of a call, or of a prompt or a resource, with what was found in its result, or as it is."""
        result = RawObject.of(outcome.output)  # type: ignore[arg-type]
        level = self._settings.of_results(split_tool_id(task.tool)[0] if isinstance(task, ToolCall) else task.server)
        if level == "off":
            return outcome
        if len(result.raw) > LARGE_BYTES and level == "mark":
            read: Any = {"ends": _ends(result.raw)}
        else:
            read = {name: member for name, member in result.value.items() if name not in APART}
        if not (found := self._found(read)):
            return outcome
        self._tell(task.tool if isinstance(task, ToolCall) else task.name, found, level)
        if level == "strip":
            result = RawObject.of(stripped(result.value))
        return replace(outcome, output=with_meta(result, marked(found, level)))

    def meta_of(self, task: Task, output: Any) -> dict[str, Any]:
        """What is said of the output of a plan or of code, which is made of results; empty where nothing was found."""
        if self._settings.results == "off" or not (found := self._found(output)):
            return {}
        self._tell(task.id, found, "mark")
        return marked(found, "mark")

    def _found(self, read: Any) -> list[Occurrence]:
        """What is suspicious about the texts of a value, each rule once."""
        found: dict[str, Occurrence] = {}
        left = MOST_SEARCHED
        for number, (where, text) in enumerate(texts(read)):
            if number >= MOST_TEXTS or left <= 0:
                break
            searched = text if len(text) <= left else f"{text[: left // 2]}\n{text[-(left // 2) - 1 :]}"
            left -= len(searched)
            for finding in findings(searched, self._phrases):
                found.setdefault(finding.rule, Occurrence(where, finding))
        return list(found.values())

    def _tell(self, whose: str, found: list[Occurrence], level: str) -> None:
        """Say once of a tool and a rule that its results have that."""
        new = [one for one in found if (whose, one.finding.rule) not in self._told]
        if not new:
            return
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told.update((whose, one.finding.rule) for one in new)
        told = [f"{one.where}: {one.finding.reason}" for one in new]
        self._log.warning("a result has suspicious text", of=whose, action=level, findings=told)


def _ends(raw: bytes) -> str:
    """Both ends of a JSON text, with what stands in it for other characters as these."""
    half = MOST_SEARCHED // 2
    text = b"\n".join((raw[:half], raw[-half:])).decode("utf-8", "ignore")
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\n", text)


async def refused(task: ToolCall | ServerRequest, found: tuple[Occurrence, ...]) -> Outcome:
    """Why what is in quarantine is not called or read."""
    name = task.tool if isinstance(task, ToolCall) else task.name
    why = "; ".join(dict.fromkeys(f"of its {one.where}, {one.finding.reason}" for one in found[:3]))
    message = (
        f"Not run: {name} is in quarantine, since its definition has suspicious text ({why}). The operator may "
        f'read it (pml inspect) and take it: [plugins.inspection] accepted = ["{name}"].'
    )
    return denied(task, message, code=CODE, rules=sorted({one.finding.rule for one in found}))
