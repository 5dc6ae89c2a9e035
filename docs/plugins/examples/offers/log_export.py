"""A place for records that programs can read, a file: the audit writes there what it would send to a collector."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_hookspecs import Offer, Services, hookimpl, setting
from pml_kit.offers import LOG_EXPORT, LogRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    file: str = setting("records.jsonl", "Where they are added.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    path = Path(services.settings.file)

    def export(records: Sequence[LogRecord]) -> str:
        lines = [json.dumps({"event": one.event, "body": one.body, **one.attributes}) for one in records]
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError as exc:
            return str(exc)
        return ""

    return [Offer(LOG_EXPORT, export)]
