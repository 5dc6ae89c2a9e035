"""Other people's tests with PML in the middle: the official SDK's and FastMCP's. ``--help`` says how; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from differences import KNOWN, Difference, explained
from report import document, text

HERE = Path(__file__).parent
CAREFUL = ("nice", "-n", "19")
LIMIT_S = 3600


@dataclass(frozen=True)
class Suite:
    """Somebody's tests."""

    name: str
    folder: str
    options: Sequence[str]
    arms: Mapping[str, str]
    """What the names of the tests contain that are for a route."""


SUITES = {
    "sdk": Suite(
        "SDK",
        "tests/interaction",
        ("-p", "no:asyncio", "-o", "log_cli=false"),
        {"stdio": "[in-memory-", "http": "[streamable-http-2"},
    ),
    # A test that reaches a child process or the network has no gateway in the middle.
    "fastmcp": Suite("FastMCP", "tests/client", ("-o", "timeout=60"), {"stdio": "", "http": ""}),
}


@dataclass
class Ran:
    """What became of a suite's tests on one route."""

    outcomes: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    led: set[str] = field(default_factory=set)

    def read(self, lines: Iterable[str]) -> Ran:
        """Take what the plugin wrote; the worst outcome of a test's phases counts."""
        for line in map(json.loads, lines):
            test = line["test"]
            if self.outcomes.get(test) != "failed":
                self.outcomes[test] = line["outcome"]
                self.said[test] = line["said"]
            if line["led"]:
                self.led.add(test)
        return self

    def again(self, later: Ran) -> None:
        """Take what became of some of the tests when they were run once more."""
        self.outcomes |= later.outcomes
        self.said |= later.said

    @property
    def passed(self) -> set[str]:
        """Tests that passed and whose connections lead, or could lead, through a gateway."""
        return {test for test in self.led if self.outcomes[test] == "passed"}


def run(suite: Suite, root: Path, route: str, only: Sequence[str], log: Path, more: Sequence[str]) -> Ran:
    """Run a suite on one route; ``only`` are the tests to run, all when empty."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes, names = Path(folder, "outcomes"), Path(folder, "only")
        outcomes.touch()
        environment = {
            **os.environ,
            "PYTHONPATH": str(HERE),
            "PML_PEERS_ROUTE": route,
            "PML_PEERS_OUTCOMES": str(outcomes),
        }
        if only:
            names.write_text("\n".join(only), encoding="utf-8")
            environment["PML_PEERS_ONLY"] = str(names)
        command = [*CAREFUL, sys.executable, "-m", "pytest", suite.folder, "-p", "through", *suite.options]
        command += ["-q", "-p", "no:cacheprovider", "--tb=short", "--color=no", "-vvv", *more]
        with log.open("wb") as file:
            subprocess.run(command, cwd=root, env=environment, stdout=file, stderr=file, timeout=LIMIT_S, check=False)
        return Ran().read(outcomes.read_text(encoding="utf-8").splitlines())


def compare(name: str, root: Path, routes: Sequence[str], logs: Path, more: Sequence[str]) -> dict[str, object]:
    """Run a suite directly and on each route, and say what differs and why."""
    suite = SUITES[name]
    direct = run(suite, root, "direct", (), logs / f"{name}-direct.log", more)
    found: dict[str, object] = {"suite": suite.name, "routes": {}}
    for route in routes:
        tests = sorted(test for test in direct.led if suite.arms[route] in test)
        passed = direct.passed.intersection(tests)
        through = run(suite, root, route, tests, logs / f"{name}-{route}.log", more)
        doubtful = [test for test in sorted(passed - through.passed) if explained(name, route, test, KNOWN) is None]
        if doubtful:  # a machine that has other things to do is no reason
            through.again(run(suite, root, route, doubtful, logs / f"{name}-{route}-again.log", more))
        differ = sorted(passed - through.passed)
        reasons: dict[str, Difference | None] = {test: explained(name, route, test, KNOWN) for test in differ}
        found["routes"][route] = {  # type: ignore[index]
            "tests": len(tests),
            "direct": len(passed),
            "through": len(passed & through.passed),
            "explained": {test: one.key for test, one in reasons.items() if one is not None},
            "unexplained": {test: through.said.get(test, "") for test, one in reasons.items() if one is None},
        }
    return found


def main() -> int:
    """Run what is asked for; 1 when something differs that no sentence of the specification allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sdk", type=Path, help="folder of the SDK's sdist or checkout")
    parser.add_argument("--fastmcp", type=Path, help="folder of FastMCP's sdist or checkout")
    parser.add_argument("--route", choices=("stdio", "http"), action="append", help="one route only")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--logs", type=Path, help="folder to keep pytest's output in")
    parser.add_argument("--write-docs", action="store_true", help="write the tables into docs/conformance.md")
    parser.add_argument("pytest", nargs="*", help="further options for pytest, after --")
    arguments = parser.parse_args()
    roots = {"sdk": arguments.sdk, "fastmcp": arguments.fastmcp}
    if not any(roots.values()):
        parser.error("give the folder of at least one suite: --sdk FOLDER or --fastmcp FOLDER")
    for name, root in roots.items():
        if root is not None and not (root / SUITES[name].folder).is_dir():
            parser.error(f"--{name} {root}: there is no {SUITES[name].folder} in it")
    with tempfile.TemporaryDirectory() as folder:
        logs = arguments.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        routes = arguments.route or ["stdio", "http"]
        found = [compare(n, r, routes, logs, arguments.pytest) for n, r in roots.items() if r is not None]
    sys.stdout.write((json.dumps(found, indent=1) if arguments.json else text(found)) + "\n")
    if arguments.write_docs:
        document(found)
    return int(any(route["unexplained"] for one in found for route in one["routes"].values()))


if __name__ == "__main__":
    sys.exit(main())
