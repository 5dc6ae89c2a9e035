"""The official client scenarios: played by the SDK's client alone, and with a gateway between it and each server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import DOCS, filled
from results import BADNESS, DECIDED, Check, Tools, Verdict, Verdicts

DRIVER = Path(__file__).with_name("client")
ROUTES = {"direct": "directly, with the SDK", "through": "through PML"}
LIMIT_S, PLAY_S = 300.0, 240.0
"""Longest for a scenario, and for the client in it [s]."""
TRIES = {"sse-retry": 3}
"""A scenario that measures how soon something happens is tried again where a busy machine was late."""
SECTION, SENTENCES = "clients", "client differences"
_LISTED = re.compile(r"^  - (\S+) \[(.+)\]$", re.MULTILINE)

_NO_DPOP = (
    "an extension; the SDK has no proof of possession (DPoP), and PML's logins are made with the SDK's. Neither says "
    "that it has one: a token is presented as a bearer's."
)
REASONS: Mapping[str, str] = {
    "auth/dpop": _NO_DPOP,
    "auth/dpop-nonce": _NO_DPOP,
    "auth/wif-jwt-bearer": "an extension; neither the SDK nor PML has a grant for an assertion of a workload's own.",
}
"""A sentence for each scenario that does not pass everywhere, or has other numbers through PML than without."""
EXPECTED_FAILURES: frozenset[str] = frozenset()
"""Scenarios that pass directly, and cannot through PML; ``REASONS`` says why not."""


@dataclass(frozen=True)
class Scenario:
    """One of them, at the newest revision that it is for."""

    name: str
    revision: str
    """``extension`` for one that belongs to none."""


@dataclass(frozen=True)
class Outcome:
    """What came of one scenario on one route."""

    passed: bool
    verdicts: Verdicts
    said: str
    """The end of what the runner printed."""

    @property
    def cell(self) -> str:
        """How many checks passed: ``3``, ``2 of 3``, ``none apply``, or that the client itself failed."""
        decided = [verdict.status for verdict in self.verdicts.values() if verdict.status in DECIDED]
        good = decided.count("SUCCESS")
        if good < len(decided):
            return f"{good} of {len(decided)}"
        if not self.passed:
            return f"{good}, but the client failed"
        return f"{good}" if decided else "none apply"


def listed(tools: Tools) -> list[Scenario]:
    """All client scenarios that the package has."""
    ran = subprocess.run(tools.command("list"), capture_output=True, text=True, timeout=LIMIT_S, check=True)
    section = ran.stdout.partition("Client scenarios")[2].partition("\n\n")[0]
    return [Scenario(name, revisions.split(",")[-1]) for name, revisions in _LISTED.findall(section)]


def played(tools: Tools, scenario: Scenario, route: str, folder: Path) -> Outcome:
    """Run a scenario."""
    for attempt in range(TRIES.get(scenario.name, 1)):
        outcome = _played(tools, scenario, route, folder / scenario.name.replace("/", "-") / route / str(attempt))
        if outcome.passed:
            break
    return outcome


def _played(tools: Tools, scenario: Scenario, route: str, folder: Path) -> Outcome:
    client = f"{sys.executable} {DRIVER} --route {route}"
    words = ["client", "--command", client, "--scenario", scenario.name, "--timeout", f"{PLAY_S * 1000:g}"]
    # The runner takes the revisions of the old back-compatibility scenarios for none at all.
    if scenario.revision not in ("extension", "2025-03-26"):
        words += ["--spec-version", scenario.revision]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    ran = subprocess.run(
        tools.command(*words, "-o", str(folder)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**environment, "NO_COLOR": "1"},
    )
    return Outcome(ran.returncode == 0, _read(scenario.name, folder), f"{ran.stdout[-2000:]}{ran.stderr[-2000:]}")


def _read(scenario: str, folder: Path) -> Verdicts:
    verdicts: dict[Check, Verdict] = {}
    for file in folder.rglob("checks.json"):
        for found in json.loads(file.read_text()):
            check = Check(scenario, found["id"], found["name"])
            verdict = Verdict(found["status"], found.get("errorMessage", ""), found.get("details"))
            known = verdicts.get(check)
            if known is None or BADNESS[verdict.status] > BADNESS[known.status]:
                verdicts[check] = verdict
    return verdicts


@dataclass(frozen=True)
class ClientReport:
    """Outcomes by scenario and route."""

    outcomes: Mapping[Scenario, Mapping[str, Outcome]]

    @classmethod
    def made(cls, tools: Tools, folder: Path, at_once: int, only: str = "") -> ClientReport:
        """Run all scenarios whose names the regular expression ``only`` finds something in, on both routes."""
        chosen = [scenario for scenario in listed(tools) if re.search(only, scenario.name)]
        # Their programs are processes of their own; the threads wait for them.
        with ThreadPoolExecutor(at_once) as threads:
            runs = {s: {r: threads.submit(played, tools, s, r, folder) for r in ROUTES} for s in chosen}
            return cls({s: {route: run.result() for route, run in of.items()} for s, of in runs.items()})

    def worse(self) -> list[str]:
        """Scenarios that pass directly and not through PML, and should."""
        return [
            f"{scenario.name}: {of['through'].said}"
            for scenario, of in self.outcomes.items()
            if of["direct"].passed and not of["through"].passed and scenario.name not in EXPECTED_FAILURES
        ]

    def _notable(self) -> list[str]:
        return [
            scenario.name
            for scenario, of in self.outcomes.items()
            if of["direct"].cell != of["through"].cell or not all(outcome.passed for outcome in of.values())
        ]

    def unexplained(self) -> list[str]:
        """Scenarios that are to have a sentence, and have none."""
        return [name for name in self._notable() if name not in REASONS]

    def stale(self) -> list[str]:
        """Sentences about nothing (any more), and expected failures that are none, of the scenarios that were run."""
        run = {scenario.name: of for scenario, of in self.outcomes.items()}
        told = [name for name in REASONS if name in run and name not in self._notable()]
        return told + [name for name in EXPECTED_FAILURES if name in run and run[name]["through"].passed]

    def table(self) -> list[str]:
        """For people and for the documentation."""
        lines = [f"| scenario | revision | {' | '.join(ROUTES.values())} |", "|---|---|---|---|"]
        for scenario, of in self.outcomes.items():
            cells = [of[route].cell for route in ROUTES]
            lines.append(f"| {scenario.name} | {scenario.revision} | {' | '.join(cells)} |")
        return lines

    def _sections(self) -> dict[str, list[str]]:
        said = [f"- {name}: {REASONS[name]}" for name in self._notable() if name in REASONS]
        return {SECTION: self.table(), SENTENCES: said}

    def documented(self) -> bool:
        """Whether the documentation has these very lines, of the scenarios that were run."""
        written = set(DOCS.read_text(encoding="utf-8").splitlines())
        return all(written.issuperset(lines) for lines in self._sections().values())

    def document(self) -> None:
        """Write the table into the documentation."""
        DOCS.write_text(filled(DOCS.read_text(encoding="utf-8"), self._sections()), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """Everything that decides whether the runs were good."""
        return {
            "worse": self.worse(),
            "unexplained": self.unexplained(),
            "stale": self.stale(),
            "documented": self.documented(),
        }

    def in_words(self) -> str:
        """For people at a terminal."""
        lines = [*self.table(), ""]
        lines += [f"worse through PML: {each}" for each in self.worse()]
        lines += [f"no sentence for it: {each}" for each in self.unexplained()]
        lines += [f"a sentence for nothing: {each}" for each in self.stale()]
        return "\n".join(lines)
