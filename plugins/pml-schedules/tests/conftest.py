"""One store and clock for the gateways of a test, and a server for those who share a database."""

from __future__ import annotations

import pytest
from schedules_kit import Gateway, SetClock, Store, settings

from pml_testing.postgres import postgres

__all__ = ["clock", "gateway", "postgres", "store"]


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def gateway(store, clock):
    """Makes one on the shared store and clock."""

    def make(**schedules):
        return Gateway(store, clock, settings(**schedules))

    return make
