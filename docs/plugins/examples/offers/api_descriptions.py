"""What a plugin's route under ``/api/`` answers: programs find it in the gateway's OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import API_DESCRIPTIONS, ApiDescription

RELEASES = {
    "operationId": "listReleases",
    "summary": "Releases of this team, newest first",
    "responses": {
        "200": {"description": "Their names", "content": {"application/json": {"schema": {"type": "array"}}}}
    },
}


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    return [Offer(API_DESCRIPTIONS, described)]


def described() -> ApiDescription:
    return ApiDescription(paths={"/api/releases": {"get": RELEASES}})
