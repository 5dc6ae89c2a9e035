"""What goes wrong, in words for the operator."""

from __future__ import annotations


class StoreError(Exception):
    """The data cannot be used. The message says where they are, what is wrong and what to do; never a password."""

    def __init__(self, driver: str, problem: str, remedy: str, said: str = "") -> None:
        """Say what is wrong.

        Args:
            driver: As the settings call it.
            problem: Names the file or the database.
            remedy: An imperative clause.
            said: What the database itself said; ``problem`` if empty.
        """
        self.driver, self.problem, self.remedy, self.said = driver, problem, remedy, said or problem
        super().__init__(f"store driver '{driver}': {problem}; {remedy}")

    def again(self) -> StoreError:
        """Another one that says the same: each task that is told raises its own."""
        return StoreError(self.driver, self.problem, self.remedy, self.said)
