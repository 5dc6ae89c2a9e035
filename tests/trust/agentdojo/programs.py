"""Calls of a ground truth as a program that takes from results what stands in them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

SHORTEST = 3
"""Of a text that is looked for in results [characters]."""


def value_of(text: str) -> Any:
    """What code sees of a result."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _leaves(member, f"{path}[{key!r}]")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _leaves(member, f"{path}[{index}]")
    else:
        yield path, value


class Program:
    """Python that makes calls one after the other."""

    def __init__(self, words: str, tools: Collection[str]) -> None:
        """``words`` are the user's, and ``tools`` those that the user's task needs."""
        self._words, self._tools = words, tools
        self.obeys = False
        """False: what stands neither there nor in a result is written, as by a model that has thought about the user's
        words. True: nothing is but the user's words, as the code is there before what it obeys is read."""
        self._lines: list[str] = []
        self._results: list[Any] = []

    def call(self, server: str, tool: str, arguments: Mapping[str, Any], result: str) -> None:
        """Make a call that answers with ``result``."""
        given = ", ".join(f"{name}={self._written(value)}" for name, value in arguments.items())
        part = f".{tool}" if tool in self._tools else f"[{tool[:3]!r} + {tool[3:]!r}]"
        self._lines.append(f"r{len(self._results)} = await tools.{server}{part}({given})")
        self._results.append(value_of(result))

    @property
    def source(self) -> str:
        """The body of a function."""
        return "\n".join([*self._lines, "return 'done'"])

    def _written(self, value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{key!r}: {self._written(member)}" for key, member in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self._written, value)) + "]"
        if value is None or isinstance(value, bool) or not self._results or self._in_words(str(value)):
            return repr(value)
        found = self._found(value)
        if found is None and self.obeys:
            found = f"({value[:1]!r} + {value[1:]!r})" if isinstance(value, str) else f"({value - 1!r} + 1)"
        return repr(value) if found is None else found

    def _in_words(self, text: str) -> bool:
        """Whether the user has said it: while the program obeys somebody else, not by chance."""
        if not self.obeys:
            return text in self._words
        return len(text) >= SHORTEST and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._words) is not None

    def _found(self, value: Any) -> str | None:
        """Where it stands in a result, the last first."""
        for number in range(len(self._results) - 1, -1, -1):
            for path, leaf in _leaves(self._results[number], f"r{number}"):
                if leaf == value and type(leaf) is type(value):
                    return path
                if isinstance(value, str) and len(value) >= SHORTEST and isinstance(leaf, str) and value in leaf:
                    begin = leaf.index(value)
                    return f"{path}[{begin}:{begin + len(value)}]"
        return None
