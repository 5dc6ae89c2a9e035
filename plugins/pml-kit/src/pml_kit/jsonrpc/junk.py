"""What peers say that is no message: its end is kept for error messages, on one line that a terminal can show."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

SHOWN = 200
"""How much of a message goes into logs and errors [bytes]."""
WORDS = 400
"""How much of what a server said last goes into messages [characters]."""
LINES_KEPT = 20
COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def shown(data: bytes) -> str:
    """The head of what a peer said, for people."""
    text = data[:SHOWN].decode(errors="replace").strip()
    return f"{text}…" if len(data) > SHOWN else text


def one_line(text: str) -> str:
    """``text`` with single spaces for all white space and for what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in COLOURS.sub("", text)).split())


def last_words(said: bytes) -> str:
    """The end of what was said; ``""`` if that is nothing."""
    words = one_line(said.decode(errors="replace"))
    return words if len(words) <= WORDS else f"…{words[-WORDS:]}"


class NonProtocolLines:
    """What a peer said that is no JSON-RPC."""

    def __init__(self, peer: str, log: Any, told: set[str] | None = None) -> None:
        """``told`` are the peers that were warned of; this one is added to them."""
        self._peer, self._log, self._told = peer, log, set() if told is None else told
        self._lines = 0
        self._first = ""
        self._last: deque[bytes] = deque(maxlen=LINES_KEPT)

    def heard(self, line: bytes) -> None:
        """Take a line."""
        self._lines += 1
        self._last.append(line[: 2 * SHOWN])
        self._first = self._first or one_line(shown(line))
        # The first one tells the user that something is wrong with the server; the others would drown the log.
        log = self._log.debug if self._peer in self._told else self._log.warning
        self._told.add(self._peer)
        log("jsonrpc.junk", peer=self._peer, bytes=len(line), head=shown(line))

    def last_words(self) -> str:
        """The end of it."""
        return last_words(b"\n".join(self._last))

    def __str__(self) -> str:
        """For an error message; ``""`` when there was none."""
        if not self._lines:
            return ""
        lines = "1 line" if self._lines == 1 else f"{self._lines} lines"
        return f"what it wrote to its standard output is no JSON-RPC: {lines}, the first: {self._first!r}"
