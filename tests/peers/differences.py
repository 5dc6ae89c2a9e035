"""What may differ through PML, and the sentence of the specification that allows it: read from ``differences.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Difference:
    """One reason for tests to end otherwise than directly."""

    key: str
    """Names it in reports."""
    suite: str
    tests: tuple[str, ...]
    """Beginnings of the tests' names, from their folder's on; with the brackets where only some cells are meant."""
    why: str
    sentence: str
    """Of the specification, word by word."""
    where: str
    """Revision and page of it."""
    routes: tuple[str, ...] = ("stdio", "http")


def _known() -> list[Difference]:
    tables = tomllib.loads((Path(__file__).parent / "differences.toml").read_text(encoding="utf-8"))
    return [
        Difference(key=key, **{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})
        for key, table in tables.items()
    ]


KNOWN = _known()


def explained(suite: str, route: str, test: str, known: Sequence[Difference]) -> Difference | None:
    """The reason for a difference; None when there is none.

    Args:
        suite: ``sdk`` or ``fastmcp``.
        route: ``stdio`` or ``http``.
        test: The test's name as pytest writes it.
        known: All reasons.
    """
    for difference in known:
        if difference.suite in (suite, "both") and route in difference.routes:
            for beginning in difference.tests:
                at = test.find(beginning)
                ends = test[at + len(beginning) :]
                if at >= 0 and (not ends or ends[0] in "[:" or beginning.endswith(("]", "-", ":"))):
                    return difference
    return None
