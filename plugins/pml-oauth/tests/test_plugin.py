"""What the plugin brings, and what it does not start without."""

from __future__ import annotations

import pytest
from signer import GATEWAY, ISSUER

from pml_kit.offers import IDENTITIES, PROTECTED_RESOURCE
from pml_oauth import plugin
from pml_oauth.settings import Settings


def test_without_an_issuer_nothing_is_on(services):
    for settings in (None, Settings()):
        services.settings = settings
        assert not [*plugin.pml_offers(services), *plugin.pml_lifespan(services), *plugin.pml_filter_tools(services)]


def test_with_one_it_knows_tokens_and_says_where_they_come_from(services):
    services.settings = Settings(issuer=ISSUER, url=GATEWAY)
    offers = plugin.pml_offers(services)
    assert [offer.key for offer in offers] == [IDENTITIES, PROTECTED_RESOURCE]
    assert [offer.service for offer in offers] == [offer.service for offer in plugin.pml_offers(services)]


def test_it_does_not_start_where_nobody_holds_callers_to_their_rights(services):
    services.settings = Settings(issuer=ISSUER, url=GATEWAY)
    with pytest.raises(ValueError, match="needs pml-access"):
        plugin.pml_filter_tools(services)
    services.offer(IDENTITIES, object(), "access")
    assert plugin.pml_filter_tools(services) == []
