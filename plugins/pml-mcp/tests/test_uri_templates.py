from __future__ import annotations

import pytest

from pml_mcp.servers.features import matches


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("a://{x}", "a://b", True),
        ("a://{x}", "a://", False),
        ("a://{x}/z", "a://b/y", False),
        ("a.b://{?q}", "aXb://q", False),
        ("fixed", "fixed", True),
    ],
)
def test_templates_match_what_can_come_of_them(template, uri, fits):
    assert matches(template, uri) is fits
