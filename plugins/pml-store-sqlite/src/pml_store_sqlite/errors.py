"""What goes wrong, in words for the operator."""

from __future__ import annotations

from pml_stores import errors


class StoreError(errors.StoreError):
    """The file cannot be used. The message names the file, says what is wrong with it and what to do."""

    driver = "sqlite"


def closed(path: str) -> StoreError:
    """For those who come before the store is entered, or after it is left."""
    return StoreError(f"{path} is closed", "use the store only between entering and leaving it")
