"""What may go wrong in words for the person who runs the demo."""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on. The message says what, why and what to do, in one or more lines."""
