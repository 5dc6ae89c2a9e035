"""What a capability's tools say of it: whether it still holds, and how careful one must be with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import split_tool_id
from pml_kit.schema.members import properties

from .inputs import defaults

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry

    from .capability import Capability

LONGEST_VALUE = 40


def staleness(capability: Capability, catalog: Catalog) -> str:
    """Why ``capability`` does not hold any more; ``""`` when nothing speaks against it.

    A tool of a server that is not up, or not configured here, may come back as it was: nothing is said of it.
    """
    up = {status.name for status in catalog.servers() if status.state == "up"}
    for tool, digest in sorted(capability.tools.items()):
        entry = catalog.get(tool)
        if entry is not None and entry.digest != digest:
            return f"the definition of {tool} has changed since the code last used it"
        if entry is None and split_tool_id(tool)[0] in up:
            return f"the tool {tool} is gone"
    return ""


def usable(capability: Capability, catalog: Catalog) -> bool:
    """Whether every tool is there as it was."""
    found = ((catalog.get(tool), digest) for tool, digest in capability.tools.items())
    return not (capability.retired or capability.disabled) and all(
        entry is not None and entry.digest == digest for entry, digest in found
    )


def takes(capability: Capability) -> str:
    """The names of its inputs, in words; what may be left out with what is taken then."""
    usual = defaults(capability.inputs)
    told = [f"{name} (else {_short(usual[name])})" if name in usual else name for name in properties(capability.inputs)]
    return ", ".join(told) or "nothing"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def floor(entries: Iterable[CatalogEntry | None]) -> dict[str, bool]:
    """Hints for what uses ``entries``, none better than that of any of them; what is unknown counts as the worst.

    Code that uses no tools only computes: it has no effects.
    """
    hints = [_hints(entry) for entry in entries]
    destructive = any(
        h.get("destructiveHint") is True or not (_reads(h) or h.get("destructiveHint") is False) for h in hints
    )
    return {
        "readOnlyHint": not destructive and all(_reads(h) for h in hints),
        "destructiveHint": destructive,
        "idempotentHint": all(_reads(h) or h.get("idempotentHint") is True for h in hints),
        "openWorldHint": any(h.get("openWorldHint") is not False for h in hints),
    }


def _reads(hints: Mapping[str, Any]) -> bool:
    return hints.get("readOnlyHint") is True


def _hints(entry: CatalogEntry | None) -> Mapping[str, Any]:
    found = None if entry is None else entry.definition.get("annotations")
    return found if isinstance(found, Mapping) else {}
