"""TypeScript and JavaScript, read as far as one can without a parser: strings, comments and brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r"[A-Za-z_$][\w$]*")
_BEFORE_PATTERN = re.compile(
    r"(?:^|[(,=:\[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|await|yield|void))\s*$"
)
_CALL = re.compile(r"\btools\s*\.\s*([A-Za-z_$][\w$]*)\s*\.\s*([A-Za-z_$][\w$]*)\s*\(")
_BY_ID = re.compile(r"""\btools\s*\[\s*["'`]([^"'`\n]+)["'`]\s*\]\s*\(""")
STRING, NOTHING = ('"', '"'), (" ", " ")
CLOSING = {"(": ")", "[": "]", "{": "}"}


class ScriptError(Exception):
    """It cannot be right. The message says why, with the line."""


def stripped(source: str) -> str:
    """``source`` with the insides of strings, comments and patterns made blank; lines stay where they are.

    Raises:
        ScriptError: A bracket, string, template, comment or pattern is not closed, or closed by something else.
    """
    return _Scanner(source).run()


class _Scanner:
    def __init__(self, source: str) -> None:
        self._source, self._at = source, 0
        self._made: list[str] = []
        self._open: list[tuple[str, int]] = []
        """Brackets, and ``${`` of templates, with the place of each."""

    def run(self) -> str:
        source = self._source
        if source.startswith("#!"):
            self._blank(self._line_end(), NOTHING)
        while self._at < len(source):
            two, one = source[self._at : self._at + 2], source[self._at]
            if two == "//":
                self._blank(self._line_end(), NOTHING)
            elif two == "/*":
                self._blank(self._comment_end(), NOTHING)
            elif one in "'\"":
                self._blank(self._string_end(one), STRING)
            elif one == "`":
                self._template(self._at + 1)
            elif one == "/" and _BEFORE_PATTERN.search("".join(self._made[-40:])):
                self._blank(self._pattern_end(), STRING)
            else:
                self._bracket(one)
        if self._open:
            bracket, at = self._open[-1]
            raise ScriptError(f"{bracket!r} is never closed ({self._line(at)})")
        return "".join(self._made)

    def _line(self, at: int) -> str:
        return f"line {self._source.count(chr(10), 0, at) + 1}"

    def _blank(self, end: int, edges: tuple[str, str]) -> None:
        # A string leaves its quotes, and a template brackets, so that a value is seen to stand there.
        text = self._source[self._at : end]
        inside = "".join("\n" if char == "\n" else " " for char in text[1:-1])
        self._made += (edges[0], *inside, edges[1]) if len(text) > 1 else (edges[0],)
        self._at = end

    def _line_end(self) -> int:
        end = self._source.find("\n", self._at)
        return len(self._source) if end < 0 else end

    def _comment_end(self) -> int:
        end = self._source.find("*/", self._at + 2)
        if end < 0:
            raise ScriptError(f"the comment is never closed ({self._line(self._at)})")
        return end + 2

    def _string_end(self, quote: str) -> int:
        at = self._at + 1
        while at < len(self._source) and self._source[at] != "\n":
            if self._source[at] == quote:
                return at + 1
            at += 2 if self._source[at] == "\\" else 1
        raise ScriptError(f"the string is never closed ({self._line(self._at)})")

    def _pattern_end(self) -> int:
        at, inside = self._at + 1, False
        while at < len(self._source) and self._source[at] != "\n":
            char = self._source[at]
            if char == "/" and not inside:
                at += 1
                while self._source[at : at + 1].isalpha():
                    at += 1
                return at
            inside = char == "[" or (inside and char != "]")
            at += 2 if char == "\\" else 1
        raise ScriptError(f"the regular expression is never closed ({self._line(self._at)})")

    def _template(self, begin: int) -> None:
        """A template, or what follows a ``${…}`` in it, up to its end or the next one."""
        at, first = begin, "(" if self._source[self._at] == "`" else ")"
        while at < len(self._source):
            if self._source[at] == "`":
                self._blank(at + 1, (first, ")" if first == "(" else " "))
                return
            if self._source[at : at + 2] == "${":
                # "(   (" would not be closed in pairs, and need not be.
                self._blank(at + 2, (first, "("))
                self._open.append(("${", at))
                return
            at += 2 if self._source[at] == "\\" else 1
        raise ScriptError(f"the template is never closed ({self._line(self._at)})")

    def _bracket(self, char: str) -> None:
        if char in CLOSING:
            self._open.append((char, self._at))
        elif char in CLOSING.values():
            opened = self._open.pop() if self._open else ("", 0)
            if opened[0] == "${" and char == "}":
                self._template(self._at + 1)
                return
            if CLOSING.get(opened[0]) != char:
                why = f"{opened[0]!r} ({self._line(opened[1])}) is closed by" if opened[0] else "nothing is open at"
                raise ScriptError(f"{why} {char!r} ({self._line(self._at)})")
        self._made.append(char)
        self._at += 1


def named_tools(source: str, plain: str) -> Iterator[tuple[str, str, int]]:
    """``(server, tool, line)`` of tools that are called by name; the server is ``""`` where the tool is a whole id."""
    for found in _CALL.finditer(plain):
        yield found[1], found[2], plain.count("\n", 0, found.start()) + 1
    for found in _BY_ID.finditer(source):
        # In comments and strings there is nothing left of it.
        if plain[found.start() : found.start() + len("tools")] == "tools":
            yield "", found[1], source.count("\n", 0, found.start()) + 1
