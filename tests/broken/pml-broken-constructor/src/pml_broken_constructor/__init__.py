"""A store that cannot be constructed."""

from __future__ import annotations


class Store:
    """Raises at once."""

    def __init__(self, settings: object, services: object) -> None:
        raise RuntimeError("no licence key")
