"""README and guides say what is so: examples work, numbers are what is measured, the recording is real."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from pml_clients.configuration.preset_files import offered
from pml_core.cli import main
from pml_kit.system.environment import USUAL_VARIABLES
from pml_settings.secret_sources import COMMAND_VARIABLES
from pml_testing.gateway import Client, ScriptedServer, running

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
TEXTS = [ROOT / "README.md", ROOT / "docs" / "architecture.md", *sorted(GUIDES.glob("*.md"))]
BLOCK = re.compile(r"^```(toml|yaml|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIABLES = {
    name: name.lower() * 4
    for name in ("GITHUB_TOKEN", "TICKETS_TOKEN", "ALICE_TOKEN", "AGENT_TOKEN", "LEAD_TOKEN", "LOGIN_SECRET")
}
META_TOOLS = {"search_tools", "call_tool", "execute_workflow"}
INTENT = "show the log of commits and save notes"
OFF_BY = 0.35
"""How far a number that depends on the ranking of the search may be off before the table has to be measured anew."""


KINDS = {"pml.exposure_mode": "exposure_mode", "pml.executor": "executor", "pml.plugins": "hooks"}
MODES = ("full_proxy", "hybrid", "meta_only", "semantic")
PLUGINS = (*MODES, "dag", "dry_run", "search", "search_tools", "workflow_tool")


def test_the_table_of_what_programs_get_names_every_variable():
    """A row of the guide for each list that the code has."""
    rows = re.findall(
        r"^\| (a server|a command of [^|]*) \|([^|]*)\|([^|]*)\|$", (GUIDES / "security.md").read_text(), re.MULTILINE
    )
    (_, usual, _), (_, _, more) = rows
    assert set(re.findall(r"`([^`]+)`", usual)) == {name.upper() for name in USUAL_VARIABLES}
    assert set(re.findall(r"`([^`]+)`", more)) == set(COMMAND_VARIABLES)


def plugins():
    """Those that the README's examples need."""
    found = [point for group in KINDS for point in entry_points(group=group) if point.name in PLUGINS]
    return {(KINDS[point.group], point.name): point.load() for point in found}


def blocks(kind):
    return [
        pytest.param(text, id=f"{path.name}-{number}")
        for path in TEXTS
        for number, (found, text) in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")), 1)
        if found == kind
    ]


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """What ``pml config check`` says in that folder, when it is not content; in this process, which is soon done."""

    def check():
        for name in [name for name in os.environ if name.startswith("PML_")]:
            monkeypatch.delenv(name)
        for name, value in {**VARIABLES, "PML_HOME": str(tmp_path / "home")}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        status = main(["config", "check"])
        said = capsys.readouterr()
        return "" if status == 0 else said.out + said.err

    return check


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_toml_example_is_a_configuration_that_fits(tmp_path, checked, text):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(text, encoding="utf-8")
    assert checked() == ""


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_yaml_example_is_a_users_configuration_that_fits(tmp_path, checked, text):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(text, encoding="utf-8")
    assert checked() == ""


def shown_by(text):
    """The mode, and the settings of hybrid, of a YAML example."""
    gateway = yaml.safe_load(text)["gateway"]
    return gateway["tools_exposure"], gateway.get("hybrid", {})


def test_the_yaml_of_each_phase_is_its_preset():
    presets = yaml.safe_load((ROOT / "config" / "gateway-presets.yaml").read_text(encoding="utf-8"))
    assert presets == {name: table["values"] for name, table in offered("presets").items()}
    examples = [shown_by(block.values[0]) for block in blocks("yaml")]
    for name in ("full_proxy", "hybrid_permissive", "hybrid_balanced", "meta_only"):
        assert (presets[name]["tools_exposure"], presets[name].get("hybrid", {})) in examples, name


def modes_of_readme():
    """Rows of the README's table of modes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)`(?: \(default\))? \| (.+?) \| (?:some )?([\d,]+)", text, re.MULTILINE)


def servers():
    """Those of the README's plan, with what it needs."""
    schema = {"type": "object"}
    names = {"git": ("git_log", "git_status"), "sqlite": ("write_query", "read_query")}
    return {
        server: ScriptedServer(
            [{"name": tool, "description": tool.replace("_", " "), "inputSchema": schema} for tool in tools]
        )
        for server, tools in names.items()
    }


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES)
async def test_a_mode_lists_what_the_readme_says_and_its_plan_runs_in_it(mode):
    said = {name: shows for name, shows, _ in modes_of_readme()}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (plan,) = [json.loads(text) for kind, text in BLOCK.findall(readme) if kind == "json"]
    made = servers()
    tables = {"hybrid": {"whitelisted_tools": ["git:git_status"]}}
    async with running(made, plugins=plugins(), tables=tables, tools_exposure=mode) as gateway:
        client = Client(gateway)
        listed = {tool["name"] for tool in (await client.request("tools/list", {}))["tools"]}
        hinted = await client.request("tools/list", {"_meta": {"pml/intent": INTENT}})
        with_hint = {tool["name"] for tool in hinted["tools"]}
        rehearsed = await client.request("tools/call", {"name": "execute_workflow", "arguments": plan})
    everything = {f"{server}__{tool['name']}" for server, one in made.items() for tool in one.tools}
    if "every tool of every server, nothing else" in said[mode]:
        assert listed == with_hint == everything
    else:
        whitelist = {"git__git_status"} if "your whitelist" in said[mode] else set()
        assert listed == META_TOOLS | whitelist
        assert (with_hint > listed) == ("the tools that fit" in said[mode])
    assert not rehearsed.get("isError"), rehearsed
    assert rehearsed["structuredContent"]["status"] == "simulated"


@pytest.fixture(scope="module")
def recording():
    """The script that made the recording, as a module."""
    spec = importlib.util.spec_from_file_location("record_migration", GUIDES / "record_migration.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def measured(recording, tmp_path_factory):
    site = recording.Site(tmp_path_factory.mktemp("site"))
    site.make()
    return recording.costs(site)


def cells(text):
    """Rows of numbers by the name in backticks."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "`" in line]
    return {
        re.search(r"`(\w+)`", " ".join(row))[1]: [
            float(cell.rstrip(" %").replace(",", "")) for cell in row if re.fullmatch(r"[\d,.]+( %)?", cell)
        ]
        for row in rows
    }


@pytest.mark.parametrize(("file", "name"), [("modes.md", "modes"), ("migration.md", "phases")])
def test_the_tables_are_what_pml_tokens_measures(recording, measured, file, name):
    text = (GUIDES / file).read_text(encoding="utf-8")
    written = text.partition(f"<!-- measured: {name} -->")[2].partition("<!-- end -->")[0]
    now = recording.tables(measured)[name]
    assert cells(written).keys() == cells(now).keys() != set()
    for mode, numbers in cells(written).items():
        assert numbers == pytest.approx(cells(now)[mode], rel=OFF_BY, abs=0.5), f"{mode}: measure it anew"


def test_the_readme_gives_the_measured_tokens(recording, measured):
    rows = {"hybrid": "hybrid_balanced"}
    for mode, _, tokens in modes_of_readme():
        _, wanted = recording.typical(measured[rows.get(mode, mode)])
        assert float(tokens.replace(",", "")) == pytest.approx(wanted, rel=OFF_BY), mode


def test_each_phase_of_the_migration_needs_as_little_as_the_guide_says(recording, measured):
    names = ("full_proxy", "hybrid_permissive", "hybrid_balanced", "meta_only")
    first, second, third, fourth = (recording.typical(measured[name])[1] for name in names)
    assert second <= first / 2
    assert third < 10_000
    assert fourth < 5_000
    assert first > second >= third >= fourth


def typed(cast):
    """Lines that were typed in a recording."""
    _, *events = [json.loads(line) for line in cast.read_text(encoding="utf-8").splitlines()]
    assert all(kind == "o" for _, kind, _ in events)
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    screen = "".join(text for _, _, text in events).replace("\r\n", "\n")
    return [line[2:] for line in screen.splitlines() if line.startswith("$ pml ")], screen


def test_the_recording_is_one_of_commands_that_work(recording, tmp_path):
    kept, screen = typed(GUIDES / "migration.cast")
    header = json.loads((GUIDES / "migration.cast").read_text(encoding="utf-8").partition("\n")[0])
    assert (header["version"], header["width"], header["height"]) == (2, recording.WIDTH, recording.HEIGHT)
    assert [f"pml config --preset {preset}" for _, preset, _ in recording.PHASES] == [
        line for line in kept if "--preset" in line
    ]
    assert "full_proxy → hybrid" in screen
    assert "hybrid → meta_only" in screen
    assert str(Path.home()) not in screen.replace("~", "")
    # A long path would be broken over two lines of the terminal, and be found in neither.
    with tempfile.TemporaryDirectory(prefix="pml-") as folder:
        site, cast = recording.Site(Path(folder) / "site"), recording.Cast("again")
        site.folder.mkdir()
        site.make()
        recording.record(site, cast)
    cast.write(tmp_path / "again.cast")
    assert typed(tmp_path / "again.cast")[0] == kept
    assert folder not in (tmp_path / "again.cast").read_text(encoding="utf-8")


def test_links_in_the_guides_lead_somewhere():
    for path in TEXTS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert target.startswith("http") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_guides_and_the_architecture_speak_of_every_mode():
    installed = {point.name for point in entry_points(group="pml.exposure_mode")} & set(MODES)
    assert installed == set(MODES)
    for path in (ROOT / "docs" / "architecture.md", GUIDES / "modes.md"):
        assert {mode for mode in MODES if f"`{mode}`" in path.read_text(encoding="utf-8")} == installed, path.name
    questions = (GUIDES / "modes.md").read_text(encoding="utf-8").partition("## Decide")[2].partition("![")[0]
    ends = set(re.findall(r"take\s+`(\w+)`", questions))
    presets = yaml.safe_load((ROOT / "config" / "gateway-presets.yaml").read_text(encoding="utf-8"))
    drawn = set(re.findall(r">(\w+)</text>", (ROOT / "docs" / "pictures" / "modes.svg").read_text(encoding="utf-8")))
    assert ends == presets.keys() <= drawn


def test_the_first_page_has_measured_numbers_only():
    said = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition('<div class="case"')[2]
    numbers = set(re.findall(r"\d[\d.,]*\d", said.partition("</div>\n</div>")[0]))
    known = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("results.md", "guides/modes.md"))
    assert len(numbers) > 4
    assert {number for number in numbers if not re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d])", known)} == set()


def test_the_bars_of_the_phases_are_the_table():
    text = (GUIDES / "migration.md").read_text(encoding="utf-8")
    table = cells(text.partition("<!-- measured: phases -->")[2].partition("<!-- end -->")[0])
    drawn = (ROOT / "docs" / "pictures" / "phases.svg").read_text(encoding="utf-8")
    rows = re.findall(r'>(\w+)</text>\n<rect [^>]*width="([\d.]+)"[^>]*/>\n<text [^>]*>([\d,]+)<', drawn)
    assert {name: float(number.replace(",", "")) for name, _, number in rows} == {n: row[2] for n, row in table.items()}
    longest, most = max((float(width), float(number.replace(",", ""))) for _, width, number in rows)
    for _, width, number in rows:
        assert float(width) == pytest.approx(max(3, longest * float(number.replace(",", "")) / most), abs=0.2)
