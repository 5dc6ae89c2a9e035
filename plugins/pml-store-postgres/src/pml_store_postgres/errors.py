"""What goes wrong, in words for the operator."""

from __future__ import annotations


class StoreError(Exception):
    """The database cannot be used. The message says which, what is wrong with it and what to do; never a password."""

    def __init__(self, problem: str, remedy: str) -> None:
        """``problem`` names the database; ``remedy`` is an imperative clause."""
        self.problem, self.remedy = problem, remedy
        super().__init__(f"store driver 'postgres': {problem}; {remedy}")
