"""What was found, as text and as the tables of ``docs/conformance.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from differences import KNOWN

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
ROUTES = {"stdio": "stdio", "http": "HTTP"}
LONGEST_SAID = 700


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """A row for each suite and route."""
    rows = ["| tests | through PML on | run | pass directly | and through PML | explained | unexplained |"]
    rows.append("|---|---|---|---|---|---|---|")
    for one in found:
        for route, got in one["routes"].items():
            counts = (got["tests"], got["direct"], got["through"], len(got["explained"]), len(got["unexplained"]))
            rows.append(f"| {one['suite']} | {ROUTES[route]} | {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


def reasons(found: Sequence[Mapping[str, Any]]) -> str:
    """A paragraph for each reason, with how many tests it explains."""
    counted = Counter(key for one in found for got in one["routes"].values() for key in got["explained"].values())
    return "\n".join(
        f'- **{d.key}**, {counted[d.key]} tests: {d.why} "{d.sentence}" ({d.where})' for d in KNOWN if counted[d.key]
    )


def text(found: Sequence[Mapping[str, Any]]) -> str:
    """All of it, with what the tests said that nothing explains."""
    parts = [table(found), reasons(found)]
    for one in found:
        for route, got in one["routes"].items():
            for test, said in got["unexplained"].items():
                parts.append(f"UNEXPLAINED {one['suite']} {route} {test}\n{said[-LONGEST_SAID:]}")
    return "\n\n".join(part for part in parts if part)


def document(found: Sequence[Mapping[str, Any]]) -> None:
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    for name, content in (("peers", table(found)), ("peer differences", reasons(found))):
        head, _, rest = page.partition(f"<!-- begin {name} -->")
        _, _, tail = rest.partition(f"<!-- end {name} -->")
        page = f"{head}<!-- begin {name} -->\n\n{content}\n\n<!-- end {name} -->{tail}"
    PAGE.write_text(page, encoding="utf-8")
