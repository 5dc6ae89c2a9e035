"""When two pieces of code are the same, what a capability is called, and whole milliseconds."""

from __future__ import annotations

import hashlib
import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Mapping
from typing import Any

ID_DIGITS, OWNER_DIGITS = 20, 6
LOCAL = "local"
LONGEST_INTENT = 300
"""Characters."""
LONGEST_NAME = 40
"""Characters; with the server's name in front it must stay below what clients take."""
_WORD = re.compile(r"[a-z0-9]+")
_STOP = frozenset({"a", "an", "the", "of", "in", "on", "to", "for", "and", "with", "from", "by", "my", "all"})


def identity(language: str, source: str, *, program: bool = False, owner: str = "") -> str:
    """The id of what ``source`` teaches ``owner``: the same for code that differs in layout and literals only.

    ``owner`` is ``""`` where what one taught is everybody's.
    """
    from .generalization import skeleton

    lines = source.replace("\r\n", "\n").replace("\r", "\n")
    same = normal(language, skeleton(language, lines, program=program))
    text = f"{language}\0{int(program)}\0{same}{owner and f'{chr(0)}{owner}'}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]


def digest(inputs: Mapping[str, Any]) -> str:
    """What inputs are told by, without being kept."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:ID_DIGITS]


def normal(language: str, source: str) -> str:
    """``source`` without what makes no difference to what it does. Different code never becomes the same."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n")
    if language == "python":
        return _normal_python(lines)
    # Without a parser, text that spans lines cannot be told from code; white space in it counts.
    if "`" in lines or "\\\n" in lines:
        return lines.strip("\n")
    kept = [line.rstrip() for line in textwrap.dedent(lines).split("\n")]
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("//"))


def _normal_python(source: str) -> str:
    import ast

    # The source may be the body of a function, with `return` and `await` in it.
    wrapped = "async def body():\n" + textwrap.indent(source, " ", lambda _line: True)
    for text in (source, wrapped):
        try:
            return ast.unparse(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return source


def slug(intent: str, fallback: str) -> str:
    """A tool's name made of ``intent``: lower case words of ASCII joined by ``_``; ``fallback`` if none are left."""
    plain = unicodedata.normalize("NFKD", intent).encode("ascii", "ignore").decode().lower()
    words = [word for word in _WORD.findall(plain) if word not in _STOP] or _WORD.findall(plain)
    name = ""
    for word in words:
        longer = f"{name}_{word}" if name else word[:LONGEST_NAME]
        if len(longer) > LONGEST_NAME:
            break
        name = longer
    return name or fallback


def owned(name: str, owner: str) -> str:
    """``name`` as ``owner``'s own: nobody's depends on what others called theirs, and no intent gives this spelling.

    That of :data:`LOCAL`, who is everybody where there are no keys, and of ``""`` stays as it is.
    """
    if owner in ("", LOCAL):
        return name
    return f"{name}-{hashlib.sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:OWNER_DIGITS]}"


def whole_ms(duration_ms: float) -> int:
    """Whole milliseconds, halves up."""
    return math.floor(duration_ms + 0.5)


def one_line(text: str, longest: int) -> str:
    """``text`` on one line, cut to ``longest`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
