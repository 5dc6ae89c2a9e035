"""What servers say of themselves, as it may be handed on: bounded, and with nothing in it that nobody would see.

It is text of others. Models read it and terminals show it, so what a terminal would obey or a reader would not see is
taken out, and whoever shows it says whose words they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pml_hookspecs import encode
from pml_kit.mcp.tokens import estimate

LONGEST_INSTRUCTIONS = 16_000
"""More of a server's instructions is handed to nobody [characters]."""
ABOUT_BYTES = 16_384
"""Of who somebody is; of more, the name, the title and the version are left [bytes]."""
MAPS = ("extensions", "experimental", "tasks")
"""Members of the capabilities by which servers and clients tell of what the gateway need not understand."""
MAPS_BYTES = 65_536
"""Of all of them; more is forgotten when the server is not up [bytes]."""
SHORT = 200
"""Of each of those [characters]."""
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co"})
"""Categories of characters that are taken out: controls, formats such as those of no width, halves of pairs."""
SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?=\n)")
"""What terminals obey, and the first half of a line's end."""
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class SelfDescription:
    """Who a server says that it is, and what it says of its use and of what it can do."""

    about: Mapping[str, Any] = field(default_factory=dict)
    """MCP ``serverInfo``; empty where it said nothing that clients would take."""
    instructions: str = ""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """Of its capabilities, :data:`MAPS`; empty where there are none."""

    @classmethod
    def of(cls, about: Any, instructions: Any, capabilities: Any) -> SelfDescription:
        """The words of a server, of whatever it sent."""
        text = clean(instructions if isinstance(instructions, str) else "")
        return cls(seen(identity(about)), text, _maps(capabilities))


def identity(about: Any) -> dict[str, Any]:
    """Who somebody says to be, as MCP wants it; empty when that cannot be told, cut to the name where it is long."""
    if not isinstance(about, Mapping) or not isinstance(about.get("name"), str):
        return {}
    known = {**about, "version": about["version"] if isinstance(about.get("version"), str) else ""}
    if len(encode(known)) <= ABOUT_BYTES:
        return known
    return {name: known[name][:SHORT] for name in ("name", "title", "version") if isinstance(known.get(name), str)}


def _maps(capabilities: Any) -> dict[str, Any]:
    able = capabilities if isinstance(capabilities, Mapping) else {}
    found = {name: able[name] for name in MAPS if isinstance(able.get(name), Mapping)}
    return found if len(encode(found)) <= MAPS_BYTES else {}


def seen(value: Any) -> Any:
    """``value`` with :func:`clean` texts."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(name)): seen(member) for name, member in value.items()}
    return [seen(member) for member in value] if isinstance(value, list) else value


def clean(text: str) -> str:
    """``text`` without what nobody would see; line feeds and tabs stay."""
    text = text[: 2 * LONGEST_INSTRUCTIONS]
    if not text.isascii() or not text.isprintable():
        kept = (_kept(char) for char in SEQUENCE.sub("", text))
        text = "".join(kept)
    if len(text) <= LONGEST_INSTRUCTIONS:
        return text
    cut = text[: LONGEST_INSTRUCTIONS - 2]
    end = max(cut.rfind(end) for end in (". ", "! ", "? ", "\n"))
    return f"{cut[: end + 1] if end > len(cut) // 2 else cut} …"


def _kept(char: str) -> str:
    if char in "\n\t" or " " <= char <= "~":
        return char
    category = unicodedata.category(char)
    if category[0] == "Z":
        return " " if category == "Zs" else "\n"
    return "" if category in UNSEEN else char


def sentences(text: str, most: int, count: int | None = None) -> str:
    """The first ``count`` sentences of ``text`` in one line, as far as they are ``most`` tokens; ``…`` where cut.

    A first sentence that is longer is cut between words.
    """
    every = [" ".join(one.split()) for one in SENTENCE.split(text) if one.strip()]
    shown = ""
    for sentence in every[:count]:
        longer = f"{shown} {sentence}" if shown else sentence
        if estimate(longer) > most:
            return f"{shown} …" if shown else _words(sentence, most)
        shown = longer
    return shown


def _words(sentence: str, most: int) -> str:
    shown = ""
    for word in sentence[: 10 * most].split(" "):
        longer = f"{shown} {word}" if shown else word
        if estimate(longer) > most:
            break
        shown = longer
    return f"{shown or sentence[:most]}…"
