"""An authorization server that is not one, and the plugin's parts that believe it."""

from __future__ import annotations

import pytest
from signer import GATEWAY, ISSUER, Said, Signer

from pml_core.plugins.nulls import MemoryStore
from pml_oauth.identities import TokenIdentities
from pml_oauth.resource import Resource
from pml_oauth.settings import Rights, Settings
from pml_testing.fakes import FakeServices

READ = Rights(allow=("files:read_*",))


@pytest.fixture(scope="session")
def signer():
    return Signer()


@pytest.fixture
def said(signer):
    return Said(signer)


@pytest.fixture
def services():
    return FakeServices("oauth", store=MemoryStore())


@pytest.fixture
def made(services, said):
    """Makes the identities, with these settings besides the usual ones."""

    def made(**more):
        usual = {"issuer": ISSUER, "url": GATEWAY, "rights": {"read": READ}}
        settings = Settings(**{**usual, **more})
        resource = Resource(services, settings)
        identities = TokenIdentities(services, settings, said, resource)
        identities.resource = resource
        return identities

    return made
