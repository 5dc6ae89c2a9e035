"""A value of an untrusted server that would decide something, and how people are told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import PluginTask, ToolCall, replace
from pml_kit.outcomes import denied
from pml_kit.references import Path, path_text

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Task

    from .scopes import Origins

META = "pml/flows"
"""What a rehearsal says beside a result."""
CODE = "flows.untrusted"
"""Of the failure of what is refused."""
LONGEST = 200
"""Characters of a value that are shown."""
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Flow:
    """One of them."""

    tool: str
    """What it decides about."""
    place: Path | None
    """Of the argument; None where it decides whether the task runs."""
    value: Any
    origins: Origins

    @property
    def argument(self) -> str:
        """As people write it, such as ``to[0].email``."""
        return "" if self.place is None else path_text(self.place).removeprefix(".")

    @property
    def rule(self) -> str:
        """What would allow it."""
        server = min(origin.server for origin in self.origins)
        name = next((key for key in self.place or () if isinstance(key, str)), "")
        return f"{server} -> {self.tool}.{name}" if name else f"{server} -> {self.tool}"

    def line(self) -> str:
        """For people. Characters that are not plain ASCII stand as escapes: the value is nobody's markup."""
        sources = ", ".join(sorted(origin.source for origin in self.origins))
        if self.place is None:
            return f"{sources} decides whether it runs"
        text = json.dumps(self.value, default=str)
        shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
        return f"{self.argument or 'an argument'} = {shown} comes from {sources}"

    def plain(self) -> dict[str, Any]:
        """For programs."""
        sources = [{"server": origin.server, "source": origin.source} for origin in sorted(self.origins)]
        if self.place is None:
            return {"decides": "whether it runs", "from": sources}
        return {"argument": self.argument, "value": self.value, "from": sources}


def lines(flows: Sequence[Flow]) -> list[str]:
    """Of each, and of how many more there are."""
    told = [flow.line() for flow in flows[:MOST_SHOWN]]
    return told if len(flows) <= MOST_SHOWN else [*told, f"and {len(flows) - MOST_SHOWN} more values"]


def message(tool: str, flows: Sequence[Flow]) -> str:
    """Why ``tool`` is not called, and what to do."""
    rules = list(dict.fromkeys(flow.rule for flow in flows))
    return (
        f"{tool} was not called: {'; '.join(lines(flows))}. Results of untrusted servers may not decide where others "
        "send, write or delete. Write the value into the plan or the code yourself if it is what was asked for, or "
        f"have the operator allow the flow: [plugins.flows] allow = {json.dumps(rules)}."
    )


def refused(task: Task, flows: Sequence[Flow]) -> Outcome:
    """Why the task does not run."""
    what = task.tool if isinstance(task, ToolCall) else task.type if isinstance(task, PluginTask) else task.id
    return denied(task, message(what, flows), code=CODE, flows=[flow.plain() for flow in flows[:MOST_SHOWN]])


def told(outcome: Outcome, flows: Sequence[Flow]) -> Outcome:
    """What a rehearsal came to, with what a human would be asked before it ran for real."""
    label = {META: {"would": "wait for a human", "because": lines(flows)}}
    if isinstance(outcome.output, Mapping) and "content" in outcome.output:
        known = outcome.output.get("_meta")
        meta = {**known, **label} if isinstance(known, Mapping) else label
        return replace(outcome, output={**outcome.output, "_meta": meta})
    return replace(outcome, meta={**(outcome.meta or {}), **label})
