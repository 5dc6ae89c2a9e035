"""What is shipped for those who run several gateways: files are checked by the tools of those who read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pml_testing.postgres import HOW, Cluster, cluster, programs

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"


@pytest.fixture(scope="session")
def deploy() -> Path:
    """The folder with all of it."""
    return DEPLOY


@pytest.fixture(scope="session")
def missing() -> Callable[[str], None]:
    """Skip what needs a program or package that is not there; in the lane that is to have it, fail."""

    def say(what: str) -> None:
        if os.environ.get("PML_DEPLOY_NEEDED"):
            pytest.fail(f"{what} is missing")
        pytest.skip(f"{what} is missing")

    return say


@pytest.fixture(scope="module")
def database(missing: Callable[[str], None]) -> Iterator[Cluster]:
    """PostgreSQL of one's own."""
    if programs() is None:
        missing(HOW)
    with cluster() as running:
        yield running
