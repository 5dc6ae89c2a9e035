"""What goes wrong, in words for the operator."""

from __future__ import annotations

from typing import ClassVar, Self


class StoreError(Exception):
    """The data cannot be used. The message says where they are, what is wrong and what to do; never a password.

    A store has a subclass of its own that names its driver.
    """

    driver: ClassVar[str] = ""

    def __init__(self, problem: str, remedy: str, said: str = "") -> None:
        """Say what is wrong.

        Args:
            problem: Names the file or the database.
            remedy: An imperative clause.
            said: What the database itself said; ``problem`` if empty.
        """
        self.problem, self.remedy, self.said = problem, remedy, said or problem
        super().__init__(f"store driver '{self.driver}': {problem}; {remedy}")

    def again(self) -> Self:
        """Another one that says the same: each task that is told raises its own."""
        return type(self)(self.problem, self.remedy, self.said)
