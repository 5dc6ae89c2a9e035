"""Load balancers leave a gateway out whose folder for reports is away: it is a share of another machine's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_hookspecs import Offer, Services, hookimpl, setting
from pml_kit.offers import READINESS_CHECKS, ReadinessPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    folder: str = setting("/srv/reports", "Where reports are written to.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    folder = Path(services.settings.folder)

    async def check() -> Sequence[ReadinessPart]:
        there = await asyncio.to_thread(folder.is_dir)
        return [ReadinessPart("reports", there, "" if there else f"{folder} is away")]

    return [Offer(READINESS_CHECKS, check)]
