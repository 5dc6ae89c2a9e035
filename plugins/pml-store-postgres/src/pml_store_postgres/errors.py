"""What goes wrong, in words for the operator."""

from __future__ import annotations

from pml_stores import errors


class StoreError(errors.StoreError):
    """The database cannot be used. The message says which, what is wrong with it and what to do; never a password."""

    driver = "postgres"


def closed(place: str) -> StoreError:
    """For those who come before the store is entered, or after it is left."""
    return StoreError(f"{place} is closed", "use the store only between entering and leaving it")
