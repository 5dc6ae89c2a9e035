"""What goes wrong, in words for the operator."""

from __future__ import annotations


class StoreError(Exception):
    """The file cannot be used. The message names the file, says what is wrong with it and what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        """``problem`` names the file; ``remedy`` is an imperative clause."""
        super().__init__(f"store driver 'sqlite': {problem}; {remedy}")
