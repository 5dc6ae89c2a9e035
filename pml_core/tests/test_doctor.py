from __future__ import annotations

import json

import pytest

from pml_core.cli import main

TRANSPORT = """
from pml_testing.gateway import ScriptedServer, ScriptedTransport
class Stdio(ScriptedTransport):
    def __init__(self, settings, services):
        bad = ScriptedServer()
        bad.refuse = "it wants a licence"
        super().__init__({"good": ScriptedServer(["a", "b"]), "bad": bad})
    def __call__(self, settings, services):
        raise AssertionError
    def connect(self, endpoint, handler):
        if "understood" in endpoint.options:
            raise ValueError("option understood is not understood")
        return super().connect(endpoint, handler)
"""
HOOKS = """
from pml_hookspecs import hookimpl
@hookimpl
def pml_checks(services):
    assert list(services.catalog) == []
    services.spawn(None, name="nothing")
    return services.store
"""


@pytest.fixture
def examined(place, installation, capsys):
    modules = {"acme_stdio": TRANSPORT}
    points = {"pml.transport": {"scripted": "acme_stdio:Stdio", "stdio": "acme_stdio:Stdio"}}
    installation.add("acme", points, modules=modules)

    def lines(text, *words):
        place.write("pml.toml", text)
        main(["plugins", "doctor", "--json", *words])
        return {line["subject"]: line for line in json.loads(capsys.readouterr().out)}

    return lines


def test_connecting_starts_each_server_and_counts_its_tools(examined):
    servers = "[servers.one]\naddress = 'scripted:good'\n[servers.two]\naddress = 'scripted:bad'\n"
    lines = examined(servers + "[servers.three]\naddress = 'nosuch:x'", "--connect")
    assert (lines["server one"]["ok"], lines["server one"]["detail"]) == (True, "up, 2 tools")
    assert (lines["server two"]["ok"], lines["server two"]["detail"]) == (False, "it wants a licence")
    assert "Correct [servers.two]" in lines["server two"]["remedy"]
    assert lines["server three"]["ok"] is False
    assert "no transport driver named 'nosuch'" in lines["server three"]["detail"]


def test_without_connecting_a_server_is_looked_at_as_far_as_that_goes(examined):
    lines = examined(
        "[servers.fine]\ncommand = 'sh'\n[servers.lost]\ncommand = 'no-such-program'\n"
        "[servers.unset]\ncommand = '${NO_SUCH_VARIABLE}'\n[servers.odd]\ncommand = 'sh'\nunderstood = true\n"
        "[servers.far]\naddress = 'nosuch:x'\n"
    )
    assert lines["server fine"]["ok"] is True
    assert "'no-such-program' is not on PATH" in lines["server lost"]["detail"]
    assert "NO_SUCH_VARIABLE" in lines["server unset"]["detail"]
    assert "option understood is not understood" in lines["server odd"]["detail"]
    assert "no transport driver named 'nosuch'" in lines["server far"]["detail"]
    assert [s for s, line in lines.items() if s.startswith("server ") and line["ok"]] == ["server fine"]


def test_a_driver_that_is_named_and_not_installed_is_a_finding(examined):
    lines = examined("[gateway]\nstore = 'nothing'\nexecutors = { code = 'nobody' }")
    assert "'nothing' is configured and not installed" in lines["store nothing"]["detail"]
    assert lines["executor nobody"]["ok"] is False


def test_a_check_that_asks_for_what_only_a_running_gateway_has_is_told_so(examined, installation):
    installation.add("checks", {"pml.plugins": {"checks": "acme_checks"}}, modules={"acme_checks": HOOKS})
    line = examined("")["hooks checks"]
    assert line["ok"] is False or "not running" in line["detail"]


def test_a_table_that_no_plugin_reads_is_a_finding(examined):
    lines = examined("[plugins.stdo]\nx = 1")
    (line,) = [line for subject, line in lines.items() if subject.startswith("settings")]
    assert "did you mean 'stdio'?" in line["detail"]
