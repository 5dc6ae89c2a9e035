"""What the documentation takes from the code is what the code says now."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from generate import COMMAND, PAGES, outdated, text_of
from made import distributions, prose

from pml_settings.config import GatewaySettings


def test_the_pages_made_from_the_code_are_current():
    assert outdated() == [], f"run: {COMMAND}"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_tells_where_it_was_made(page, root):
    text = text_of(page)
    assert str(root) not in text
    assert str(Path.home()) not in text
    assert not re.search(r"0x[0-9a-f]{6,}", text)


def test_every_setting_of_every_plugin_is_there():
    text = text_of("reference/settings.md")
    for distribution in distributions():
        for plugin in distribution.plugins:
            settings = getattr(plugin.load(), "settings_type", None)
            for one in fields(settings) if settings is not None else ():
                assert f"| `{one.name}` |" in text, f"{distribution.name}: {one.name}"
    for one in fields(GatewaySettings):
        assert f"| `{one.name}` |" in text


def test_every_distribution_is_in_the_catalogue(root):
    text = text_of("reference/plugins.md")
    folders = [path.parent for path in root.glob("plugins/*/pyproject.toml")]
    assert len(folders) > 30
    for folder in folders:
        assert f"`{folder.name}`" in text or folder.name == "pml-gateway"


def test_a_docstring_becomes_markdown():
    made = prose(
        """Does :meth:`Some.thing` with ``x``.

        Args:
            x: One, which
                goes on.
            y: Two.

        Returns:
            None when
            there is none.

        After that.
        """
    )
    assert made.splitlines() == [
        "Does `thing` with `x`.",
        "",
        "",
        "**Arguments**",
        "",
        "- `x`: One, which goes on.",
        "- `y`: Two.",
        "",
        "",
        "**Returns** None when there is none.",
        "",
        "After that.",
    ]


def test_troubleshooting_names_codes_that_there_are(root):
    known = set(
        re.findall(r"^\| `([a-z_.]+)` \|", (root / "docs/reference/errors.md").read_text("utf-8"), re.MULTILINE)
    )
    text = (root / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z]+\.[a-z_]+)`", text))
    assert len(named) > 8
    assert named - known == set()
