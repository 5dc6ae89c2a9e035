"""What the tests of fleets need of the machine: the programs of PostgreSQL and HAProxy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from balanced import HAPROXY, Fleet

from pml_testing.postgres import Cluster, postgres

__all__ = ["postgres"]


@pytest.fixture
def fleet(tmp_path: Path, postgres: Cluster) -> Callable[..., Fleet]:
    """Makes a fleet of so many gateways on a database of its own."""
    if not Path(HAPROXY).exists():
        pytest.skip("HAProxy is not installed: apt-get install haproxy")

    def made(many: int, **more: Any) -> Fleet:
        return Fleet(tmp_path, postgres.database(), many, **more)

    return made
