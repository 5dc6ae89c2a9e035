"""What whoever asked has written: values that are named there were not chosen by a server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pml_hookspecs import CapabilityRun, CodeRun, Task, Workflow
from pml_hookspecs.tasks import ONCE
from pml_kit.plain import to_plain

_SHORTEST = 3
"""Of what is taken for named in running text [characters]."""


class CallerWords:
    """The texts of one request: those of a plan, code, and the intent."""

    __slots__ = ("_above", "_prose", "_sources", "_task", "_values")

    def __init__(self, task: Task, intent: str, above: CallerWords | None = None) -> None:
        """``above`` are those of what the task is part of."""
        self._above, self._prose = above, intent
        self._task: Task | None = task
        self._values: set[str | float] = set()
        self._sources: list[str] = []

    def _read(self) -> None:
        """Collect the texts, when they are first asked for: most requests have nothing that is compared with them."""
        if self._task is not None:
            task, self._task = self._task, None
            self._take(task)

    def _take(self, task: Task) -> None:
        if isinstance(task, Workflow):
            if task.intent:
                self._prose = f"{self._prose}\n{task.intent}"
            for each in task.tasks:
                self._take(each)
                if each.step is not ONCE:
                    self._values |= _values_in([each.step.for_each, to_plain(each.step.compensate)])
                self._values.add(each.id)
        elif isinstance(task, (CodeRun, CapabilityRun)):
            self._sources.append(task.source)
            self._values.update(_values_in(task.inputs))
        else:
            self._values.update(_values_in(getattr(task, "arguments", None) or getattr(task, "inputs", {})))

    def has(self, value: Any) -> bool:
        """Whether the value stands there: by itself, between quotation marks in code, or as words of prose.

        What holds a reference that found nothing in a rehearsal does not.
        """
        if isinstance(value, str):
            return not value.strip() or ("{{" not in value and self._has(value))
        return isinstance(value, (int, float)) and self._has(value)

    def _has(self, value: str | float) -> bool:
        self._read()
        if value in self._values or any(_is_literal(value, source) for source in self._sources):
            return True
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) >= _SHORTEST and text in self._prose and _is_word(text, self._prose):
            return True
        return self._above is not None and self._above._has(value)  # noqa: SLF001 - of its own kind

    def mentions(self, tool: str) -> bool:
        """Whether the name of a tool stands anywhere: who calls it by a name that was not written let it be chosen."""
        self._read()
        name = tool.rpartition(":")[2]
        spelt = re.sub(r"\W", "_", name, flags=re.ASCII)
        texts = [*(value for value in self._values if isinstance(value, str)), *self._sources]
        found = any(name in text or spelt in text for text in texts)
        return found or (self._above is not None and self._above.mentions(tool))


def _values_in(value: Any) -> set[str | float]:
    found: set[str | float] = set()
    waiting = [value]
    while waiting:
        at = waiting.pop()
        if isinstance(at, str):
            found.add(at)
        elif isinstance(at, Mapping):
            waiting += at.values()
        elif isinstance(at, (list, tuple)):
            waiting += at
        elif isinstance(at, (int, float)) and not isinstance(at, bool):
            found.add(at)
    return found


def _is_literal(value: str | float, source: str) -> bool:
    """Whether code has the text between quotation marks, or the number where a value stands: no index."""
    if not isinstance(value, str):
        return re.search(rf"[=:(,]\s*{re.escape(json.dumps(value))}\s*(?:[,);}}\n]|$)", source) is not None
    if value not in source and value.isascii() and value.isprintable() and not set(value) & set("\"'\\"):
        return False
    escaped = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return any(f"{mark}{one}{mark}" in source for one in escaped for mark in ('"', "'", "`"))


def _is_word(text: str, prose: str) -> bool:
    """Whether it stands there and not as a part of a longer word, address or number."""
    return re.search(rf"(?<![\w@/.+-]){re.escape(text)}(?![\w@/+-]|\.\w)", prose) is not None
