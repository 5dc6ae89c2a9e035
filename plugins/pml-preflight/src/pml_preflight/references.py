"""Values with the references in them, as they stand in a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pml_kit.references import Path, Slot, find


@dataclass(frozen=True, slots=True)
class ValueScan:
    """A value, and where references stand in it."""

    value: Any
    """With escapes undone, and references as they are."""
    slots: Sequence[Slot]


def scan(value: Any, slots: Sequence[Slot] | None = None) -> ValueScan:
    """``value`` with its slots; found here where they are not given."""
    slots = find(value).slots if slots is None else slots
    texts = {slot.path: slot.text for slot in slots}

    def plain(at: Any, path: Path) -> Any:
        if isinstance(at, str):
            return texts.get(path, at)
        if isinstance(at, Mapping):
            return {str(name): plain(member, (*path, name)) for name, member in at.items()}
        if isinstance(at, (list, tuple)):
            return [plain(item, (*path, i)) for i, item in enumerate(at)]
        return at

    return ValueScan(plain(value, ()), slots)
