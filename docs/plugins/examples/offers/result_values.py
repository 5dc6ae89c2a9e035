"""Results that are kept in memory, and that plans put into arguments as ``{{result:ID.path}}``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pml_hookspecs import InvalidArguments, Json, Offer, Session, hookimpl
from pml_kit.offers import RESULT_VALUES
from pml_kit.references import Reference


class Kept:
    """Whose they are, by id."""

    def __init__(self) -> None:
        self.results: dict[str, tuple[str, Json]] = {}

    async def value(self, reference: Reference, session: Session) -> Json:
        owner, value = self.results.get(reference.stored, ("", None))
        # One word for what is not there and for what is somebody else's: nobody learns of others' results.
        if owner != session.principal:
            raise InvalidArguments(f"there is no result {reference.stored!r}")
        try:
            for key in reference.path:
                value = value[key]  # type: ignore[index]
        except (LookupError, TypeError):
            raise InvalidArguments(f"{key!r} is not in result {reference.stored!r}") from None
        return value


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    return [Offer(RESULT_VALUES, Kept())]
