"""What this plugin raises."""

from __future__ import annotations


class EmbeddingError(Exception):
    """Texts cannot be embedded now. The message says why and what to do; it holds no secrets."""


class RefusedError(EmbeddingError):
    """The endpoint is there and refuses: asking again does not help."""
