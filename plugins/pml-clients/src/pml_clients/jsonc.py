"""JSON as editors write it: with comments, trailing commas and a byte order mark."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*+"|,(?=\s*[}\]])')
_NOT_NEWLINE = re.compile(r"[^\n]")


class JsonSyntaxError(Exception):
    """The text is not JSON, not even with comments. ``line`` and ``column`` count from 1; 0 when not known."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def loads(text: str) -> Any:
    """The value that ``text`` stands for. Of a key that occurs twice the last one counts, as in JavaScript.

    Raises:
        JsonSyntaxError: The text is empty, is not JSON, or is nested too deeply. The message repeats nothing of it:
            the text may hold secrets.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise JsonSyntaxError("there is nothing in it")
    try:
        return _strict(text)
    except JsonSyntaxError:
        return _strict(_TRAILING_COMMA.sub(_blank_unless_string, _TOKEN.sub(_blank_unless_string, text)))


def _blank_unless_string(found: re.Match[str]) -> str:
    """Spaces keep the line and column of what follows."""
    token = found[0]
    return token if token.startswith('"') else _NOT_NEWLINE.sub(" ", token)


def _strict(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        raise JsonSyntaxError(exc.msg[:1].lower() + exc.msg[1:], exc.lineno, exc.colno) from None
    except RecursionError:
        raise JsonSyntaxError("it is nested too deeply") from None
    except ValueError as exc:
        raise JsonSyntaxError(str(exc)) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
