"""``pml servers``: the user's own file is changed, with its comments, and never a project's unless it is given."""

from __future__ import annotations

from pml_core.cli import main


def test_nothing_configured_says_what_to_do(place, capsys):
    assert main(["servers", "list"]) == 0
    assert "pml servers add NAME" in capsys.readouterr().out
