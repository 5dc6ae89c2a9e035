from __future__ import annotations

import asyncio
import json

import pytest

from pml_core.cli import main
from pml_core.gateway import Gateway
from pml_kit.errors import OperatorError
from pml_kit.system.logs import Logs
from pml_settings.config import load
from pml_testing.gateway import until

TRANSPORT = """
from pml_hookspecs import TransportError
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
        made = super().connect(endpoint, handler)
        if "walls" in endpoint.options:
            made.isolation = lambda: self.walls(endpoint.options["walls"])
        return made
    def walls(self, walls):
        if not walls:
            raise TransportError("this machine has no walls", retryable=False)
        return walls
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

    def lines(text, *words, file="pml.toml"):
        """Of a project, or of a file that the user names: only that says which store there is."""
        path = place.write(file, text)
        named = [] if file == "pml.toml" else ["--config", str(path)]
        main(["plugins", "doctor", "--json", *named, *words])
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


def test_what_keeps_a_server_from_the_machine_is_said_and_when_that_cannot_be_had(examined):
    lines = examined("[servers.held]\ncommand = 'sh'\nwalls = 'thick'\n[servers.open]\ncommand = 'sh'\nwalls = ''\n")
    assert lines["server held"]["ok"]
    assert lines["server held"]["detail"].endswith("; thick")
    assert (lines["server open"]["ok"], lines["server open"]["detail"]) == (False, "this machine has no walls")
    assert "[servers.open]" in lines["server open"]["remedy"]


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
    lines = examined("[gateway]\nstore = 'nothing'\nexecutors = { code = 'nobody' }", file="own.toml")
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


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("[gateway]\ntools_exposure = 'hybird'", "gateway.tools_exposure", "hybird"),
        ("[gateway]\ntracers = ['log', 'hybird']", "gateway.tracers", "hybird"),
        ("[endpoints.work]\ntools_exposure = 'hybird'", "endpoints.work.tools_exposure", "hybird"),
    ],
)
def test_a_name_that_no_driver_has_is_told_with_its_place_and_the_nearest(
    examined, installation, place, text, path, name
):
    module = {"acme_both": "class Both:\n    def __init__(self, settings, services): ...\n"}
    points = {"pml.exposure_mode": {"hybrid": "acme_both:Both"}, "pml.tracer": {"hybrid": "acme_both:Both"}}
    installation.add("acme-both", points, modules=module)
    (line,) = [line for subject, line in examined(text).items() if subject.endswith(f" {name}")]
    where = f"{path} ({place.project / 'pml.toml'})"
    assert line["detail"] == f"{where}: {name!r} is configured and not installed; did you mean 'hybrid'?"
    assert line["remedy"].endswith(f"or give {path} another name.")


def test_a_plugin_that_uses_what_only_a_running_gateway_has_is_told_which(examined, installation):
    source = (
        "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_checks(services):\n    services.publish('x', [])\n"
        "    return []\n"
    )
    installation.add("checks", {"pml.plugins": {"checks": "acme_checks"}}, modules={"acme_checks": source})
    line = examined("")["hooks checks"]
    assert "the gateway is not running, so there is no publish" in line["detail"]


ILL = """
from contextlib import asynccontextmanager
from pml_hookspecs import hookimpl

async def watch():
    raise ConnectionError("nobody answers")

@hookimpl
def pml_lifespan(services):
    @asynccontextmanager
    async def living():
        services.spawn(watch, name="watch")
        yield
    return [living()]
"""
STORE = """
from pml_core.plugins.nulls import MemoryStore
KEPT = MemoryStore()
class Store(MemoryStore):
    def __init__(self, settings, services):
        vars(self).update(vars(KEPT))
"""


@pytest.fixture
def ran(place, installation):
    """A gateway ran, with a plugin that was not well in it."""
    installation.add("ill", {"pml.plugins": {"ill": "ill_module"}}, modules={"ill_module": ILL})
    installation.add("kept", {"pml.store": {"sqlite": "kept_module:Store"}}, modules={"kept_module": STORE})

    async def run() -> None:
        async with Gateway(load(), Logs("error")) as gateway:
            await gateway.announcement.made.wait()
            await until(lambda: "failed" in gateway.supervisor.health.get("ill", ""))

    asyncio.run(run())


def test_what_went_wrong_when_the_gateway_last_ran_is_told(ran, examined):
    line = examined("")["last run of ill"]
    assert line["ok"] is False
    assert "background task 'watch' failed: ConnectionError('nobody answers')" in line["detail"]


def test_what_has_been_upgraded_since_is_given_another_chance(ran, examined, installation):
    (installation.folder / "ill-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: ill\nVersion: 1.1\nRequires-Dist: pml-hookspecs>=0.2\n"
    )
    assert "last run of ill" not in examined("")


def test_connecting_puts_the_plugins_together_and_begins_nothing_in_the_background(ran, examined, installation):
    source = (
        "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_meta_tools(services):\n    raise ValueError('no')\n"
    )
    installation.add("bad", {"pml.plugins": {"bad": "bad_module"}}, modules={"bad_module": source})
    lines = examined("", "--connect")
    assert lines["start of bad"]["detail"] == "quarantined: ValueError: no"
    assert lines["health of sqlite"]["ok"] is True
    assert "start of ill" not in lines


def test_connecting_tells_of_what_cannot_start_at_all(examined, installation):
    source = (
        "class Store:\n    def __init__(self, *_): ...\n    async def __aenter__(self): raise OSError('disk is full')\n"
    )
    source += "    async def __aexit__(self, *_): ...\n"
    installation.add("full", {"pml.store": {"full": "full_module:Store"}}, modules={"full_module": source})
    line = examined("[gateway]\nstore = 'full'", "--connect", file="own.toml")["start"]
    assert (line["ok"], line["detail"]) == (False, "full: disk is full")


def test_an_incompatible_driver_is_a_quarantine_too(place, installation):
    installation.add("old", {"pml.store": {"old": "old_module:S"}}, requires=["pml-hookspecs>=99"])

    async def health() -> dict[str, str]:
        async with Gateway(load(), Logs("error")) as gateway:
            return dict(gateway.supervisor.health)

    assert "needs pml-hookspecs>=99" in asyncio.run(health())["old"]

    async def strict() -> None:
        async with Gateway(load(overrides=["gateway.strict=true"]), Logs("error")):
            pass

    with pytest.raises(OperatorError, match="needs pml-hookspecs>=99"):
        asyncio.run(strict())
