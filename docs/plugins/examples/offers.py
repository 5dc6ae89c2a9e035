"""Something for other plugins: the holidays of a country. Whoever has the key, from a library that both depend on,
finds it by `services.find(CALENDAR)`, and gets a `Calendar | None`. An object that is no `Calendar` is given to
nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Protocol

from pml_hookspecs import Key, Offer, Services, hookimpl


class Calendar(Protocol):
    """Knows holidays."""

    def holiday(self, day: date) -> str:
        """What is celebrated; ``""`` for nothing."""
        ...


CALENDAR: Key[Calendar] = Key("calendar", Calendar)


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(CALENDAR, Holidays({"12-25": "Christmas Day"}))]


class Holidays:
    def __init__(self, days: Mapping[str, str]) -> None:
        self._days = days

    def holiday(self, day: date) -> str:
        return self._days.get(f"{day:%m-%d}", "")
