"""Several series of kills at once, each in a process of its own: they wait for more than they compute."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from pml_testing.postgres import programs

LONGEST_S = 3000.0


@dataclass(frozen=True)
class Series:
    """One that has ended."""

    tally: SimpleNamespace
    """What it printed."""
    told: str
    """What it said meanwhile, and its seed."""


def databases() -> list[str]:
    """Those that are here."""
    return ["sqlite", "postgres"] if programs() is not None else ["sqlite"]


def side_by_side(program: str, option: str, kills: int) -> dict[str, Series]:
    """Run ``program``, a module of this folder, for each database at once.

    Args:
        program: Name of its file.
        option: Which one takes the database.
        kills: How many, for each.

    Raises:
        AssertionError: One of them came to nothing.
    """
    seed = os.environ.get("PML_KILL_SEED") or str(random.SystemRandom().randint(0, 10**6))

    # Where a lane has it set, a program does not find its neighbours.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}

    def run(database: str) -> Series:
        command = [sys.executable, str(Path(__file__).with_name(program)), option, database]
        ran = subprocess.run(
            [*command, "--kills", str(kills), "--seed", seed],
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
            env=env,
        )
        told = f"PML_KILL_SEED={seed}\n{ran.stderr}"
        assert ran.stdout, told
        return Series(SimpleNamespace(**json.loads(ran.stdout)), told)

    chosen = databases()
    with ThreadPoolExecutor(len(chosen)) as threads:
        return dict(zip(chosen, threads.map(run, chosen), strict=True))
