"""Why tools are listed or not, who may have them, and what scores are made of: in the words of those who decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_kit.offers import IDENTITIES, REVIEW, SEARCH, VIEWS, KnownKeys, Listing, ScoreExplainer, required

if TYPE_CHECKING:
    from pml_console.visit import Visit
    from pml_hookspecs import Services, ToolId
    from pml_kit.offers import HeldDefinition, View

MOST_KEYS = 200


@dataclass(frozen=True, slots=True)
class KeyReason:
    """What one key may do with a tool."""

    key: str
    """Its id."""
    principal: str
    refusal: str
    """Why it may not have the tool; ``""`` where it may."""


def held_of(visit: Visit) -> Sequence[HeldDefinition]:
    """Tools that wait for somebody to look at them; none for a reader who may not take any."""
    return required(visit.site.services, REVIEW).held(visit.session)


async def listings_of(services: Services, tool: ToolId) -> Sequence[tuple[View, Listing]]:
    """For each endpoint, whether a local client of it is shown the tool, and why."""
    views = required(services, VIEWS)
    found = []
    for view in views.endpoints():
        try:
            listing = await views.explained(tool, view)
        except LookupError as exc:
            listing = Listing(listed=False, why=str(exc))
        found.append((view, listing))
    return found


async def keys_of(visit: Visit, tool: ToolId) -> Sequence[KeyReason] | None:
    """For each key whether it may have the tool; None for a reader who is no operator, and where nobody keeps keys."""
    services = visit.site.services
    sources = [known for _, known in services.find_all(IDENTITIES) if isinstance(known, KnownKeys)]
    if not visit.sees_everything or not sources:
        return None
    views = required(services, VIEWS)
    identities = [identity for source in sources for identity in await source.keys()]
    return [
        KeyReason(one.access_key, one.principal, views.refusal(tool, services.session(one)))
        for one in identities[:MOST_KEYS]
    ]


async def scores_of(visit: Visit, query: str, limit: int) -> Mapping[ToolId, Sequence[str]]:
    """What the score of each match is made of; empty where the index does not say."""
    services = visit.site.services
    index = services.find(SEARCH)
    if not isinstance(index, ScoreExplainer):
        return {}
    among = services.catalog.visible(visit.session)
    return await index.explain(query, limit=limit, among=among, session=visit.session)
