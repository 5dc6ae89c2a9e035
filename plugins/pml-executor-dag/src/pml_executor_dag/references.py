r"""References to earlier results inside arguments.

A string that is exactly ``{{task_id.path}}`` is replaced by the value it points at, with its type. Inside a longer
string the value is put in as text: strings as they are, everything else as JSON. Names of members are never replaced,
and what a reference brings in is not looked at again. How they are spelt: :mod:`pml_kit.references`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Protocol

from pml_hookspecs import Failure, encode
from pml_kit.references import Path, Reference, Slot, path_text, references_in

MOST_KEYS = 20
"""Names of members that a message lists."""
MOST_CHARACTERS = 80
"""Characters of a value that a message shows."""
MOST_LITERAL = 200_000
"""Longest text that is read as a Python literal [characters]."""


class MissingError(Exception):
    """A reference found nothing. The message names the reference and says what is there instead."""

    @property
    def failure(self) -> Failure:
        """What the task ends with."""
        return Failure("reference.missing", str(self))


class TooLargeError(MissingError):
    """What a reference finds is too much where it is to stand."""

    @property
    def failure(self) -> Failure:
        """What the task ends with."""
        return Failure("reference.too_large", str(self))


class ExpansionListener(Protocol):
    """Is told of every value that a reference puts into the arguments of one task."""

    def __call__(self, reference: Reference, value: Any, *, whole: bool) -> None:
        """Count ``value``; ``whole`` says that it is put in as it is, not written into a text.

        Raises:
            TooLargeError: It is too much.
        """
        ...


def in_code(source: str, tasks: Container[str]) -> Reference | None:
    """The first reference to one of ``tasks`` that stands in code, where none is filled in."""
    return next((reference for reference in references_in(source) if reference.task in tasks), None)


def fill(
    arguments: Mapping[str, Any],
    slots: Sequence[Slot],
    value_of: Callable[[Reference], Any],
    expanded: ExpansionListener,
) -> dict[str, Any]:
    """``arguments`` with every slot replaced; what is not on the way to a slot is shared, not copied.

    Raises:
        MissingError: From ``value_of``, or from ``expanded``, which hears of every value.
    """
    filled = dict(arguments)
    copies: dict[Path, Any] = {}
    for slot in slots:
        holder: Any = filled
        for depth, key in enumerate(slot.path[:-1], start=1):
            here = slot.path[:depth]
            if here not in copies:
                inner = holder[key]
                copies[here] = holder[key] = dict(inner) if isinstance(inner, Mapping) else list(inner)
            holder = copies[here]
        holder[slot.path[-1]] = _render(slot.parts, value_of, expanded)
    return filled


def _render(
    parts: tuple[str | Reference, ...], value_of: Callable[[Reference], Any], expanded: ExpansionListener
) -> Any:
    whole = len(parts) == 1

    def found(reference: Reference) -> Any:
        value = value_of(reference)
        expanded(reference, value, whole=whole)
        return value

    if whole and isinstance(parts[0], Reference):
        return found(parts[0])
    texts = (part if isinstance(part, str) else found(part) for part in parts)
    return "".join(text if isinstance(text, str) else encode(text).decode() for text in texts)


def look_up(reference: Reference, result: Any) -> Any:
    """What ``reference`` points at in ``result``.

    Raises:
        MissingError: There is nothing.
    """
    value = result
    for depth, key in enumerate(reference.path):
        if isinstance(value, str):
            value = opened(value)
        try:
            value = _member(value, key)
        except (LookupError, TypeError, ValueError):  # of the last, a position of more digits than Python reads
            missing = path_text(reference.path[depth : depth + 1])
            there = f"{reference.task}{path_text(reference.path[:depth])}"
            message = f"{reference.text} finds nothing: no {missing} in {there}, which is {_described(value)}."
            if depth == 0 and key == "result":
                rest = path_text(reference.path[1:])
                message += f" {{{{{reference.task}}}}} is the result itself; write {{{{{reference.task}{rest}}}}}."
            elif isinstance(value, str):
                message += f" To take a text apart, use a task of code; it has the text as {reference.task}."
            raise MissingError(message) from None
    return value


def opened(text: str) -> Any:
    """What ``text`` spells as a list or dict of Python, as some servers write their results; else ``text`` itself."""
    if text[:1] not in ("[", "{", "(") or len(text) > MOST_LITERAL:
        return text
    from ast import literal_eval

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return json.loads(encode(literal_eval(text)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _member(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value[str(key)]
    if isinstance(value, (list, tuple)):
        if isinstance(key, str) and not key.isdecimal():
            raise LookupError(key)
        return value[int(key)]
    raise TypeError


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        names = [str(name) for name in value]
        more = f" and {len(names) - MOST_KEYS} more" if len(names) > MOST_KEYS else ""
        return f"an object with the keys {', '.join(names[:MOST_KEYS])}{more}" if names else "an empty object"
    if isinstance(value, (list, tuple)):
        return f"an array with items [0] to [{len(value) - 1}]" if value else "an empty array"
    text = encode(value).decode()
    shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return f"{'the text' if isinstance(value, str) else 'the value'} {shown}"


def pointer(path: Path) -> str:
    """``path`` as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)
