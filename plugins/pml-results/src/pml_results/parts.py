"""Parts of a stored value: by JMESPath, by path, by lines, by words, by page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from pml_hookspecs import InvalidArguments
from pml_kit import references
from pml_kit.expressions import Expression, ExpressionError

from .levels import Raw, level, size_of, whole

MOST_WORK = 1_000_000_000
"""Of one expression, as :mod:`pml_kit.expressions` counts it: some seconds, beside the event loop."""
MOST_SELECT_BYTES = 64 * 2**20
"""Of a value that is decoded whole, into two to five times as much memory."""
SHOWN = 80
"""Characters of an expression that a message shows."""
MOST_HITS = 50
"""Lines that a search shows."""
HIT_LINE = 300
"""Characters of each of them."""
PATH = re.compile(rf"(?:{references.STEP})*")
LINES = re.compile(r"\s*(\d{1,9})?\s*(?:(-|:|\.\.)\s*(\d{1,9})?)?\s*")


def select_in(raw: Raw, expression: str) -> Any:
    """What a JMESPath expression finds in JSON text; None where it finds nothing.

    Raises:
        InvalidArguments: It is no expression, does not fit the value, or the value is too large to be decoded whole.
    """
    try:
        return Expression(expression).find(decoded(raw), most_work=MOST_WORK)
    except ExpressionError as exc:
        raise InvalidArguments(f"select: {expression[:SHOWN]!r} {exc}") from exc


def decoded(raw: Raw) -> Any:
    """The whole value that ``raw`` says.

    Raises:
        InvalidArguments: It is too large for that.
    """
    if size_of(raw) > MOST_SELECT_BYTES:
        most = MOST_SELECT_BYTES // 2**20
        raise InvalidArguments(f"what is there has over {most} MiB, and would be read as a whole; use a longer path")
    return whole(raw)


def at_path(raw: Raw, path: str) -> Raw:
    """The JSON text at ``path``, spelt as ``rows[0].name`` or ``["any name"]``; only what is on the way is decoded.

    Raises:
        InvalidArguments: It cannot be read, or leads nowhere; says how far it led and what is there.
    """
    steps = path if path[:1] in (".", "[") or not path else f".{path}"
    if not PATH.fullmatch(steps):
        raise InvalidArguments(f'path {path[:80]!r} cannot be read; write it as rows[0].name or ["any name"]')
    return at_keys(raw, references.path_of(steps))


def at_keys(raw: Raw, path: references.Path) -> Raw:
    """As :func:`at_path`, of a path that has been read.

    Raises:
        InvalidArguments: It leads nowhere; says how far it led and what is there.
    """
    done = ""
    for key in path:
        value = level(raw)
        if isinstance(value, Mapping) and key in value:
            raw = value[str(key)]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            raw = value[key]
        else:
            raise InvalidArguments(f"the path leads nowhere at {_spelt(key)!r}: {done or 'the value'} is {_is(value)}")
        done += _spelt(key)
    return raw


def lines_of(text: str, asked: str) -> tuple[str, int, int, int]:
    """Lines ``asked`` as ``120-180``, ``120-``, ``-40`` (the last 40) or ``7``, counted from 1.

    Returns:
        They, the first and the last of their numbers, and how many lines there are.

    Raises:
        InvalidArguments: It cannot be read, or there are fewer lines.
    """
    found = LINES.fullmatch(asked)
    if found is None or not (found[1] or found[3]):
        raise InvalidArguments(
            f"lines {asked[:40]!r} cannot be read; write '120-180', '120-', '-40' for the last 40, or '7'"
        )
    lines = text.splitlines()
    if found[1] is None:
        first, last = max(1, len(lines) - int(found[3]) + 1), len(lines)
    else:
        first = int(found[1])
        last = int(found[3]) if found[3] else len(lines) if found[2] else first
    if not 1 <= first <= len(lines):
        raise InvalidArguments(f"lines {asked!r}: there are {len(lines):,} lines")
    if last < first:
        raise InvalidArguments(f"lines {asked!r}: the last comes before the first")
    last = min(last, len(lines))
    return "\n".join(lines[first - 1 : last]), first, last, len(lines)


def searched(text: str, words: str) -> tuple[list[tuple[int, str]], int]:
    """The lines that have each of ``words``, in any order and case, with their numbers from 1; and how many there are.

    Raises:
        InvalidArguments: There are no words.
    """
    wanted = [word.casefold() for word in words.split()]
    if not wanted:
        raise InvalidArguments("search needs a word")
    hits = (
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if all(word in line.casefold() for word in wanted)
    )
    shown = [(number, _around(line, wanted[0])) for number, line in islice(hits, MOST_HITS)]
    return shown, len(shown) + sum(1 for _ in hits)


def page_of(text: str, number: int, size: int) -> tuple[str, int]:
    """The ``number``-th page, from 1, of ``size`` characters each, and how many there are.

    Raises:
        InvalidArguments: There are fewer.
    """
    pages = max(1, -(-len(text) // size))
    if not 1 <= number <= pages:
        raise InvalidArguments(f"page {number}: there {'is 1 page' if pages == 1 else f'are {pages:,} pages'}")
    return text[(number - 1) * size : number * size], pages


def _around(line: str, word: str) -> str:
    if len(line) <= HIT_LINE:
        return line
    at = max(0, line.casefold().find(word) - HIT_LINE // 3)
    return f"{'...' if at else ''}{line[at : at + HIT_LINE]}{'...' if at + HIT_LINE < len(line) else ''}"


def _spelt(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if re.fullmatch(r'[^\s.\[\]{}"]+', key) else f'["{key}"]'


def _is(value: Any) -> str:
    if isinstance(value, Mapping):
        names = ", ".join(list(value)[:8])
        return f"an object with {names or 'no members'}{', ...' if len(value) > 8 else ''}"  # noqa: PLR2004
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"an array of {len(value):,}"
    return "null" if value is None else f"a {type(value).__name__}"
