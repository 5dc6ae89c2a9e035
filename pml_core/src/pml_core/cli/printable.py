"""A server's words on a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """A server's words without what a terminal would obey or nobody would see."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
