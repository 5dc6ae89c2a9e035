"""Runs the scenarios, reads what they found, and compares two routes check by check."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

REVISIONS = ("2025-11-25", "2026-07-28")
RUN_S = 600.0
BADNESS = {"SUCCESS": 0, "INFO": 1, "SKIPPED": 1, "WARNING": 2, "FAILURE": 3}
DECIDED = ("SUCCESS", "WARNING", "FAILURE")
ABSENT = "ABSENT"
"""Status of a check that the scenario did not get to."""
_FOLDER = re.compile(r"server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")


class MissingToolsError(Exception):
    """The scenarios or the Node that they run on are not there. The message says how to get them."""


class Check(NamedTuple):
    """One thing that a scenario looks at."""

    scenario: str
    id: str
    name: str


@dataclass(frozen=True)
class Verdict:
    """What a scenario says of a check; of one made several times, the worst."""

    status: str
    message: str = ""
    details: object = None


Verdicts = Mapping[Check, Verdict]


@dataclass(frozen=True)
class Difference:
    """A check that is worse through the gateway than it is directly."""

    scenario: str
    check: str
    direct: str
    through: str
    message: str
    details: object = None

    def to_json(self) -> dict[str, object]:
        """As a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.scenario} / {self.check}: {self.direct} directly, {self.through} here: {self.message}"


@dataclass(frozen=True)
class Tools:
    """Node, and the package of the scenarios."""

    folder: Path

    @classmethod
    def installed(cls, folder: str | None) -> Tools:
        """What is in a folder that ``tests/e2e/install_node_tools.sh`` has filled.

        Raises:
            MissingToolsError: It is not there.
        """
        how = "Run tests/e2e/install_node_tools.sh DIR and set PML_E2E_NODE_DIR=DIR"
        if not folder:
            raise MissingToolsError(f"The conformance scenarios run on Node, and PML_E2E_NODE_DIR is not set. {how}")
        tools = cls(Path(folder).absolute())
        for needed in (tools.node, tools._program):
            if not needed.exists():
                raise MissingToolsError(f"The conformance scenarios need {needed}, which does not exist. {how}")
        return tools

    @property
    def node(self) -> Path:
        """The program."""
        return self.folder / "node"

    @property
    def _package(self) -> Path:
        return self.folder / "node_modules" / "@modelcontextprotocol" / "conformance"

    @property
    def _program(self) -> Path:
        return self._package / "dist" / "index.js"

    def command(self, *words: str) -> list[str]:
        """The command line of the package's program."""
        return [str(self.node), str(self._program), *words]

    @cached_property
    def version(self) -> str:
        """Of the scenarios."""
        return str(json.loads((self._package / "package.json").read_text())["version"])

    def required(self, revision: str) -> list[str]:
        """Server scenarios that a revision requires, in their order; what else is run for it counts for nothing."""
        text = (self._package / "requirements" / f"{revision}.yaml").read_text()
        section = re.search(r"^server:\n((?:  - .*\n)+)", text, re.MULTILINE)
        if section is None:
            raise MissingToolsError(f"{self._package}: requirements/{revision}.yaml has no list of server scenarios")
        return [line.removeprefix("  - ") for line in section[1].splitlines()]

    def run(self, url: str, revision: str, folder: Path) -> Verdicts:
        """Run all scenarios of a revision against a server.

        Raises:
            MissingToolsError: They left no results.
        """
        command = self.command("server", "--url", url, "--requirements", revision)
        environment = {**os.environ, "NO_COLOR": "1"}
        ran = subprocess.run(
            [*command, "-o", str(folder)],
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
            env=environment,
        )
        verdicts = read(folder)
        if not verdicts:
            raise MissingToolsError(f"{' '.join(command)} left no results:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        return verdicts


def read(folder: Path) -> Verdicts:
    """What a run has written."""
    verdicts: dict[Check, Verdict] = {}
    for file in sorted(folder.glob("*/checks.json")):
        scenario = _FOLDER.fullmatch(file.parent.name)
        if scenario is None:
            continue
        for found in json.loads(file.read_text()):
            check = Check(scenario[1], found["id"], found["name"])
            verdict = Verdict(found["status"], found.get("errorMessage", ""), found.get("details"))
            known = verdicts.get(check)
            if known is None or BADNESS[verdict.status] > BADNESS[known.status]:
                verdicts[check] = verdict
    return verdicts


def differences(direct: Verdicts, through: Verdicts) -> list[Difference]:
    """Where a route is worse: a check that passed directly and does not, or that is worse than it was.

    What a scenario merely notes while it runs (status ``INFO`` directly) is none. A check that the scenario does not
    get to is one, except where it only ever appears when something is wrong.
    """
    found = []
    for check in [*direct, *(check for check in through if check not in direct)]:
        before = direct.get(check, Verdict(ABSENT))
        after = through.get(check, Verdict(ABSENT, "the scenario did not get to it"))
        if _worse(before.status, after.status):
            what = (check.name, before.status, after.status, after.message, after.details)
            found.append(Difference(check.scenario, *what))
    return found


def _worse(before: str, after: str) -> bool:
    if after == ABSENT:
        return before == "SUCCESS"
    floor = BADNESS["INFO"] if before == ABSENT else BADNESS[before]
    return BADNESS[after] > floor


def summary(verdicts: Verdicts, scenario: str) -> str:
    """How many of a scenario's checks passed: ``3``, ``2 of 3``, ``none apply`` or ``-`` when it was not run."""
    statuses = [v.status for check, v in verdicts.items() if check.scenario == scenario]
    decided = [status for status in statuses if status in DECIDED]
    passed = decided.count("SUCCESS")
    if not decided:
        return "none apply" if statuses else "-"
    return f"{passed}" if passed == len(decided) else f"{passed} of {len(decided)}"


def scenarios(all_verdicts: Iterable[Verdicts]) -> list[str]:
    """Every scenario that was run, by name."""
    return sorted({check.scenario for verdicts in all_verdicts for check in verdicts})
