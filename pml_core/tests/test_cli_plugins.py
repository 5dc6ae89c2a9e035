from __future__ import annotations

import sys

from pml_core.cli import main

# plugins


# What each command imports


def test_serving_without_a_transport_for_clients_is_a_message(place, installation, capsys):
    assert main(["serve"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "stdio" in err


def test_serving_by_hand_says_what_it_is_for(place, monkeypatch, capsys):
    class Terminal:
        def isatty(self):
            return True

    async def served(_config, _address, **_options):
        return 0

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("pml_core.cli.serve._serve", served)
    assert main(["serve"]) == 0
    assert "your MCP client starts it" in capsys.readouterr().err
