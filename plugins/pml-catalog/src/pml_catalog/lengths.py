"""How long may be what clients say: names, addresses and words to search with are looked at in the event loop."""

from __future__ import annotations

from typing import Any, TypeVar

from pml_hookspecs import InvalidArguments, RpcError
from pml_kit.mcp.protocol import INVALID_PARAMS

NAME = 1_200
"""Of a tool or a prompt, its server's name before it [characters]."""
TEXT = 10_000
"""Of addresses, words to search with, intents and cursors [characters]."""
ABOUT_CLIENT = 200
"""Of what a client says that it is [characters]."""
SHOWN = 200
"""Of a name that a message repeats [characters]."""
T = TypeVar("T")


def bounded(value: T, what: str, most: int = TEXT) -> T:
    """``value``, if it is no text or short enough.

    Raises:
        RpcError: It has more than ``most`` characters.
    """
    if isinstance(value, str) and len(value) > most:
        raise RpcError(INVALID_PARAMS, _too_long(value, what, most))
    return value


def check_words(words: str, what: str) -> None:
    """See that ``words`` are few enough to search with.

    Raises:
        InvalidArguments: They are not.
    """
    if len(words) > TEXT:
        raise InvalidArguments(_too_long(words, what, TEXT))


def cut(name: Any) -> str:
    """``name`` as messages repeat it."""
    text = str(name)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def _too_long(value: str, what: str, most: int) -> str:
    return f"{what} has {len(value)} characters; at most {most}"
