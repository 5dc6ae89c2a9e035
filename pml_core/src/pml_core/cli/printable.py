"""Words of others on a terminal."""

from __future__ import annotations


def plain(text: str, *, lines: bool = False) -> str:
    """``text`` with escapes for what a terminal would obey or nobody would see; with ``lines``, line feeds stay."""
    return "".join(c if c.isprintable() or (lines and c == "\n") else repr(c)[1:-1] for c in text)
