"""What came of all runs: in words, as JSON, and as the tables of ``docs/conformance.md``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accepted import ACCEPTED, Accepted
from results import Difference, Tools, Verdicts, differences, scenarios, summary
from routes import DIRECT, THROUGH

DOCS = Path(__file__).parents[2] / "docs" / "conformance.md"
UNSCORED = " †"


@dataclass(frozen=True)
class Report:
    """Verdicts by revision and route; every revision has the route :data:`DIRECT`."""

    tools: Tools
    verdicts: Mapping[str, Mapping[str, Verdicts]]

    def unmet(self, revision: str) -> list[str]:
        """Checks of required scenarios that the reference server itself does not pass."""
        required = self.tools.required(revision)
        direct = self.verdicts[revision][DIRECT]
        missing = [name for name in required if all(check.scenario != name for check in direct)]
        wrong = [
            f"{check.scenario} / {check.name}: {verdict.status}: {verdict.message}"
            for check, verdict in direct.items()
            if check.scenario in required and verdict.status in ("FAILURE", "WARNING")
        ]
        return [*(f"{name}: was not run" for name in missing), *wrong]

    def _split(self, revision: str, route: str) -> tuple[list[Difference], set[Accepted]]:
        routes = self.verdicts[revision]
        left, used = [], set()
        for found in differences(routes[DIRECT], routes[route]):
            reasons = [
                each
                for each in ACCEPTED
                if (each.revision, each.scenario) == (revision, found.scenario)
                and each.check in ("", found.check)
                and route in each.routes
            ]
            used.update(reasons)
            if not reasons:
                left.append(found)
        return left, used

    def differences(self, revision: str, route: str) -> list[Difference]:
        """Where the gateway makes something worse, and should not."""
        return self._split(revision, route)[0]

    def stale(self) -> list[str]:
        """Accepted differences that are none (any more), of the routes that were run."""
        found = []
        for revision, routes in self.verdicts.items():
            for route in routes.keys() & THROUGH.keys():
                used = self._split(revision, route)[1]
                due = [each for each in ACCEPTED if each.revision == revision and route in each.routes]
                found += [f"{revision}, {route}: {each.scenario} / {each.check}" for each in due if each not in used]
        return sorted(found)

    def to_json(self) -> dict[str, Any]:
        """Everything that decides whether the runs were good."""
        return {
            "unmet": {revision: self.unmet(revision) for revision in self.verdicts},
            "differences": {
                revision: {route: [d.to_json() for d in self.differences(revision, route)] for route in routes}
                for revision, routes in self.verdicts.items()
            },
            "stale": self.stale(),
            "documented": self.documented(),
        }

    def in_words(self) -> str:
        """For people at a terminal."""
        lines = []
        for revision, routes in self.verdicts.items():
            lines += ["", f"{revision}", "", *self._table(revision), ""]
            lines += [f"not met directly: {each}" for each in self.unmet(revision)]
            for route in routes.keys() & THROUGH.keys():
                lines += [f"{THROUGH[route]}: {each}" for each in self.differences(revision, route)]
        lines += [f"accepted, but no difference: {each}" for each in self.stale()]
        return "\n".join(lines)

    def _table(self, revision: str) -> list[str]:
        routes, required = self.verdicts[revision], self.tools.required(revision)
        others = [name for name in scenarios(routes.values()) if name not in required]
        titles = ["scenario", "directly", *(THROUGH[route] for route in THROUGH if route in routes)]
        lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
        for name in [*required, *others]:
            cells = [summary(routes[route], name) for route in (DIRECT, *THROUGH) if route in routes]
            mark = "" if name in required else UNSCORED
            lines.append(f"| {name}{mark} | {' | '.join(cells)} |")
        return lines

    def _sections(self) -> dict[str, list[str]]:
        """The parts of the documentation that are written by the run."""
        versions = [
            f"- `@modelcontextprotocol/conformance` {self.tools.version}",
            f"- the reference server on `mcp` {version('mcp')}",
        ]
        return {
            "versions": versions,
            **{revision: self._table(revision) for revision in self.verdicts},
            "accepted": [
                f"- {each.revision}, {each.scenario}{f' / {each.check}' if each.check else ''},"
                f" {' and '.join(THROUGH[route] for route in each.routes)}: {each.reason}"
                for each in ACCEPTED
            ]
            or ["None."],
        }

    def documented(self) -> bool:
        """Whether the documentation has these very tables; which versions it names does not matter."""
        written = DOCS.read_text(encoding="utf-8")
        return filled(written, {k: v for k, v in self._sections().items() if k != "versions"}) == written

    def document(self) -> None:
        """Write the tables into the documentation."""
        DOCS.write_text(filled(DOCS.read_text(encoding="utf-8"), self._sections()), encoding="utf-8")


def filled(text: str, sections: Mapping[str, list[str]]) -> str:
    """A document with what stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` replaced."""
    for name, lines in sections.items():
        place = re.compile(rf"(<!-- begin {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)", re.DOTALL)
        body = "\n".join(lines).replace("\\", r"\\")
        text, count = place.subn(rf"\1\n{body}\n\n\2", text)
        if count != 1:
            raise LookupError(f"{DOCS.name} has {count} places for {name}, not one")
    return text
