"""What somebody can mend who runs the gateway or one of its commands."""

from __future__ import annotations


class OperatorError(Exception):
    """Something the operator can mend. Shown without a traceback.

    Args:
        message: What is wrong and where, one or more lines.
        remedy: What to do, as an imperative sentence; ``""`` when the message says it all.
        exit_status: Status of the process when the error ends it.
    """

    def __init__(self, message: str, remedy: str = "", *, exit_status: int = 2) -> None:
        super().__init__(message)
        self.message, self.remedy, self.exit_status = message, remedy, exit_status

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


def is_missing(error: ModuleNotFoundError, package: str) -> bool:
    """Whether an import failed because ``package`` is not installed, and for no other reason."""
    return error.name is not None and error.name.partition(".")[0] == package
