from __future__ import annotations

import pytest

from pml_catalog.addresses import alias, template_alias, unaliased


@pytest.mark.parametrize("uri", ["demo://x/ä?b=c#d", "r:1", "", "a/b%2Fc", "ui://x/y", "pml://resource/b/x"])
def test_an_alias_says_what_it_stands_for(uri):
    if uri:
        assert unaliased(alias("b", uri)) == ("b", uri)
        assert unaliased(template_alias("b", uri)) == ("b", uri)
    for other in ("pml://status", "pml://guide/x", "pml://resource/b", "pml://resource/b/", "x://resource/b/c"):
        assert unaliased(other) is None


def test_an_address_that_is_no_unicode_has_an_alias_that_leads_back():
    assert unaliased(alias("two", "ui://\ud800")) == ("two", "ui://\ud800")
