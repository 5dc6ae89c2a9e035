"""What is left of a request is let go of without a search for garbage, which comes seldom."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

from pml_mcp.clients.exchange import ModernExchange


class Link:
    pass


def test_a_stateless_request_lets_go_of_its_connection():
    link = Link()
    left = weakref.ref(link)
    conversation = SimpleNamespace(peer=SimpleNamespace(stateless=True), session=None)
    gc.disable()
    try:
        exchange = ModernExchange(conversation, link, {}, capabilities={}, askable=True)
        others = ModernExchange(conversation, link, {}, capabilities={}, askable=True)
        assert exchange.person != others.person
        del exchange, others, link
        assert left() is None
    finally:
        gc.enable()
