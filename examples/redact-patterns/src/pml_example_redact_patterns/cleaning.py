"""Taking out of JSON what fits patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any


class Cleaner:
    """Puts ``[name]`` where the pattern of that name fits."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        """Raises ValueError for what is no regular expression."""
        self._patterns = []
        for name, pattern in patterns.items():
            try:
                self._patterns.append((re.compile(pattern), f"[{name}]".replace("\\", r"\\")))
            except re.error as exc:
                raise ValueError(f"[plugins.redact_patterns] patterns.{name} is no regular expression: {exc}") from exc

    def clean(self, value: Any, *, names: bool = True) -> Any:
        """``value`` without matches in any of its texts, and in ``names`` of members; itself when there are none."""
        made: Any = value
        if isinstance(value, str):
            for pattern, mark in self._patterns:
                made = pattern.sub(mark, made)
            return value if made == value else made
        if isinstance(value, Mapping):
            new = list(self._names(value)) if names else list(value)
            made = {name: self.clean(member, names=names) for name, member in zip(new, value.values(), strict=True)}
            same = all(name is old and made[name] is value[old] for name, old in zip(new, value, strict=True))
            return value if same else made
        if isinstance(value, list):
            made = [self.clean(member, names=names) for member in value]
            return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
        return value

    def _names(self, value: Mapping[str, Any]) -> Iterator[str]:
        """Of its members. Where several would be the same they are numbered, so that none of them is lost."""
        used, times = set(value), Counter[str]()
        for name in value:
            new = cleaned = self.clean(name)
            while new is not name and new in used:
                times[cleaned] += 1
                new = f"{cleaned} {times[cleaned] + 1}"
            used.add(new)
            yield new
